"""Locks a topic's rows against a second ingest.

Two ingests of one topic would write one batch over each other's, and might publish half of one. On
a local disk the system locks a file: that ends with the JVM, however it ends. In HDFS and object
stores the lock is a file that is written again and again: one that is old is that of a process that
was killed, and is taken over.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from linear_retry.spark.errors import JavaError

LEASE_S = 120.0
_RENEW_S = 20.0


class LockedError(Exception):
    """Another process holds the lock."""


def lock(jvm: Any, files: Any, path: Any) -> SystemLock | Lease:
    """Locks `path` in the Hadoop file system `files`. Raises `LockedError` and Py4J's errors."""
    if files.getScheme() == "file":
        return SystemLock(jvm, files.pathToFile(path))
    return Lease(files, path)


class SystemLock:
    """The system's lock on a local file, which stays there afterwards."""

    def __init__(self, jvm: Any, file: Any) -> None:
        # The JVM's lock, not Python's: the JVM writes, and may live a moment longer.
        self._file = jvm.java.io.RandomAccessFile(file, "rw")
        if not self._is_acquired():
            self._file.close()
            raise LockedError

    def renew(self) -> None:
        return

    def release(self) -> None:
        self._file.close()

    def _is_acquired(self) -> bool:
        try:
            return self._file.getChannel().tryLock() is not None
        except JavaError as error:
            if "OverlappingFileLockException" not in str(error):
                raise
            return False  # another ingest in this JVM has it


class Lease:
    """A file with the owner's token in it, written again every 20 seconds.

    Its age is by the file system's clock. If two take an old one over at once, the later has it,
    and the next `renew` of the other raises.
    """

    def __init__(self, files: Any, path: Any, now_s: Callable[[], float] = time.monotonic) -> None:
        self._files, self._path, self._now_s = files, path, now_s
        self._token = str(uuid4())
        if not self._is_created():
            if self._age_s() < LEASE_S:
                raise LockedError
            files.delete(path, False)
            if not self._is_created():
                raise LockedError
        self._renewed_s = now_s()

    def renew(self) -> None:
        """Renews it; call it every second or so. Raises `LockedError` if another took it over."""
        if self._now_s() - self._renewed_s >= _RENEW_S:
            if not self._is_ours():
                raise LockedError
            self._write(self._path, True)
            self._renewed_s = self._now_s()

    def release(self) -> None:
        if self._is_ours():
            self._files.delete(self._path, False)

    def _is_created(self) -> bool:
        try:
            self._write(self._path, False)
        except JavaError as error:
            if "AlreadyExists" not in str(error):
                raise
            return False
        return True

    def _age_s(self) -> float:
        now = self._path.suffix(f".{self._token}")
        self._write(now, True)
        try:
            at_ms, now_ms = (
                self._files.getFileStatus(each).getModificationTime() for each in (self._path, now)
            )
        finally:
            self._files.delete(now, False)
        return float(now_ms - at_ms) / 1000

    def _is_ours(self) -> bool:
        return self._files.exists(self._path) and read_text(self._files, self._path) == self._token

    def _write(self, path: Any, overwrite: bool) -> None:
        write_text(self._files, path, self._token, overwrite=overwrite)


def read_text(files: Any, path: Any) -> str:
    """The text of a file in a Hadoop file system."""
    content = files.open(path)
    try:
        return bytes(content.readAllBytes()).decode()
    finally:
        content.close()


def write_text(files: Any, path: Any, text: str, *, overwrite: bool = True) -> None:
    """Writes a file in a Hadoop file system; it must not be there unless `overwrite`."""
    content = files.create(path, overwrite)
    try:
        content.write(text.encode())
    finally:
        content.close()
