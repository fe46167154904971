"""Tests of `linear_retry/console/live/`."""
