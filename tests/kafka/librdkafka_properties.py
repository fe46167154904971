"""Reads the table of properties (CONFIGURATION.md) out of the librdkafka that is in use."""

import ctypes
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from confluent_kafka import cimpl


@dataclass(frozen=True, slots=True)
class Property:
    """One key. `clients`: those of consumers (C), of producers (P), or of both (*)."""

    name: str
    clients: str
    of: Literal["client", "topic"]


def properties(directory: Path) -> list[Property]:
    """All of them, with those that only a program in C can set. Writes a file there."""
    table = directory / "CONFIGURATION.md"
    _show(table)
    client, topic = table.read_text().split("## Topic configuration properties")
    return [*_rows(client, "client"), *_rows(topic, "topic")]


def _rows(text: str, of: Literal["client", "topic"]) -> list[Property]:
    cells = [[cell.strip() for cell in line.split("|")] for line in text.splitlines()]
    return [Property(row[0], row[1], of) for row in cells if len(row) > 4 and row[1] in "CP*"]


def _show(table: Path) -> None:
    # Through the extension module: it finds the librdkafka that it is linked with, wherever it is.
    librdkafka, libc = ctypes.CDLL(cimpl.__file__), ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    libc.fclose.argtypes = [ctypes.c_void_p]
    librdkafka.rd_kafka_conf_properties_show.argtypes = [ctypes.c_void_p]
    file = libc.fopen(str(table).encode(), b"w")
    librdkafka.rd_kafka_conf_properties_show(file)
    libc.fclose(file)
