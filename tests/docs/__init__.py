"""Tests of the README and the pages in `docs/`."""
