"""Tests of `linear_retry/spark/episodes.py`."""
