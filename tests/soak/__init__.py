"""Members run for hours, keep the guarantees and stay small: `python -m tests.soak --help`."""
