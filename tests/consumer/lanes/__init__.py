"""Tests of `linear_retry/consumer/lanes/`."""
