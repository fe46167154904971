"""Tests of `linear_retry/consumer/control/`."""
