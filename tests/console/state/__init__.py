"""Tests of `linear_retry/console/state/`."""
