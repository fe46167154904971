"""The ways to run a consumer: `run`, your own loop, `run_async`, and both lines together."""
