"""The fixture of tests of jobs: scenes on the session's broker."""

from tests.dlq.conftest import scene

__all__ = ["scene"]
