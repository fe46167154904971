"""The commands of `linear-retry strategy`."""
