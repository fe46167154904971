"""The commands `linear-retry circuits`."""
