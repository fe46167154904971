"""Tests of `linear_retry/store/sender/`."""
