"""Tests of `linear_retry/cli/scheduler/`."""
