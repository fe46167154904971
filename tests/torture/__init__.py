"""How much does it take to break a guarantee? `python -m tests.torture --help`."""
