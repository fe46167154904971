"""Does it hold, and stay as small as it is, for hours? `python -m tests.soak --help`."""
