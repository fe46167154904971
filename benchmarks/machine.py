"""Describes the machine that the benchmarks run on, and the memory of a process there."""

import os
import platform
import re
from pathlib import Path

import confluent_kafka

from tests.kafka_jars import KAFKA_VERSION


def machine() -> dict[str, str]:
    """What a figure depends on besides the code."""
    return {
        "processor": f"{os.cpu_count()} × {_processor()}",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "librdkafka": str(confluent_kafka.libversion()[0]),
        "broker": f"Apache Kafka {KAFKA_VERSION}, one node on the same machine",
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def peak_memory_mib() -> float:
    """The most that this process has had resident so far."""
    # Not getrusage: what it says begins with the size of the process that this one came from.
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024
