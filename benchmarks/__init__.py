"""Every number that the README gives, measured beside the bare thing."""
