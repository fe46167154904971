"""Shows keys and values, which may be any bytes, as texts."""
