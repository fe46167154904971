"""Tests of `linear_retry/scheduler/http/security/`."""
