"""Is nobody else adding the rows of this topic?

Two ingests of one topic would write one batch over each other's: one that is published half would
be the harm. On a disk of this machine the system locks a file: that ends with the JVM, however it
ends. Where it cannot, in HDFS and object stores, the lock is a file that is written anew all the
time: one that was not for long is that of a process that was killed, and is taken over.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol
from uuid import uuid4

from linear_retry.spark.errors import JavaError

LEASE_S = 120.0
_RENEW_S = 20.0


class TakenError(Exception):
    """Somebody else has it."""


class Lock(Protocol):
    """What is held from its making on."""

    def renew(self) -> None:
        """To be called every second or so. Raises `TakenError` where it was lost."""

    def release(self) -> None:
        """Let it go."""


def lock(jvm: Any, files: Any, path: Any) -> Lock:
    """The lock at `path` in the Hadoop file system `files`. Raises `TakenError`, Py4J's errors."""
    if files.getScheme() == "file":
        return SystemLock(jvm, files.pathToFile(path))
    return Lease(files, path)


class SystemLock:
    """The system's lock on a local file. The file stays; held or not is not to be seen in it."""

    def __init__(self, jvm: Any, file: Any) -> None:
        # The JVM's, and not Python's: it is the JVM that writes, and may live a moment longer.
        self._file = jvm.java.io.RandomAccessFile(file, "rw")
        if not self._is_got():
            self._file.close()
            raise TakenError

    def renew(self) -> None:
        return

    def release(self) -> None:
        self._file.close()

    def _is_got(self) -> bool:
        try:
            return self._file.getChannel().tryLock() is not None
        except JavaError as error:
            if "OverlappingFileLockException" not in str(error):
                raise
            return False  # it is another ingest of this JVM that has it


class Lease:
    """A file with the owner's token in it, written anew every 20 seconds.

    Its age is told by the file system's clock. Where two take an old one over at once, the later
    has it, and the other is told by its next `renew`.
    """

    def __init__(self, files: Any, path: Any, now_s: Callable[[], float] = time.monotonic) -> None:
        self._files, self._path, self._now_s = files, path, now_s
        self._token = str(uuid4())
        if not self._is_made():
            if self._age_s() < LEASE_S:
                raise TakenError
            files.delete(path, False)
            if not self._is_made():
                raise TakenError
        self._renewed_s = now_s()

    def renew(self) -> None:
        if self._now_s() - self._renewed_s >= _RENEW_S:
            if not self._is_ours():
                raise TakenError
            self._write(self._path, True)
            self._renewed_s = self._now_s()

    def release(self) -> None:
        if self._is_ours():
            self._files.delete(self._path, False)

    def _is_made(self) -> bool:
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
        if not self._files.exists(self._path):
            return False
        content = self._files.open(self._path)
        try:
            return bytes(content.readAllBytes()) == self._token.encode()
        finally:
            content.close()

    def _write(self, path: Any, overwrite: bool) -> None:
        content = self._files.create(path, overwrite)
        try:
            content.write(self._token.encode())
        finally:
            content.close()
