"""The commands `linear-retry topics`."""
