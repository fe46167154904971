"""Tests of `linear_retry/files/`."""
