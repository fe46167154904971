"""The scheduler's API stands for all that is served."""

from tests.scheduler.http.conftest import ann, anyone, server, vic

__all__ = ["ann", "anyone", "server", "vic"]
