"""Tests of `linear_retry/console/pages/`."""
