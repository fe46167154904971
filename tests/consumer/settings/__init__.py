"""Tests of `linear_retry/consumer/settings/`."""
