"""Tests of `linear_retry/journal/`."""
