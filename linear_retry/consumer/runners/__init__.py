"""The ways to run a consumer: `run`, a loop of your own, `run_async`; and their signals."""
