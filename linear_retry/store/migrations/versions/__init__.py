"""The steps from one version of the store to the next; what was released never changes."""
