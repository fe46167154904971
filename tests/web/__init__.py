"""Tests of `linear_retry/web/`."""
