"""The command `linear-retry watch`."""
