"""Tests of what is published: the wheel, the sdist, and the page on PyPI."""
