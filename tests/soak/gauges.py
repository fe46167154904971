"""Measures what a process takes of the machine: on Linux, from /proc."""

import os
from dataclasses import dataclass
from pathlib import Path

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Gauge:
    """What was seen of one process at one moment."""

    at_s: float
    resident_bytes: int
    open_files: int
    threads: int


def gauge(pid: int, now_s: float) -> Gauge | None:
    """None where the process is gone."""
    process = Path(f"/proc/{pid}")
    try:
        resident_pages = int((process / "statm").read_text().split()[1])
        files, threads = len(os.listdir(process / "fd")), len(os.listdir(process / "task"))
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    return Gauge(now_s, resident_pages * _PAGE_BYTES, files, threads)
