"""Tests of `linear_retry/web/security/`."""
