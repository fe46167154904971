"""Smaller forms of a dead letter that is too large for its topic."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace

from linear_retry.records.dead_letter import DeadLetter
from linear_retry.records.record import Record

REFERENCE = "reference"
"""What `retry-oversized` says where the value is an envelope."""

SAMPLE_BYTES = 1024


def smaller_forms(letter: DeadLetter, record: Record, *, references: bool) -> Iterator[DeadLetter]:
    """`letter` of `record`, then ever smaller forms of it: send the first that is not too large.

    First goes the exception's stack, then its message: `record`'s own parts are whole in all of
    these. With `references` come envelopes in the value's stead (`reference`): with key and
    original headers, without these headers, and with neither them nor key nor exception texts.
    """
    yield letter
    shorter = letter
    if shorter.error is not None and shorter.error.stack is not None:
        shorter = replace(shorter, error=replace(shorter.error, stack=None))
        yield shorter
    if shorter.error is not None and shorter.error.message is not None:
        shorter = replace(shorter, error=replace(shorter.error, message=None))
        yield shorter
    if references:
        yield reference(letter, record)
        # Headers and key count towards a record's size as the value does, and have no limit either.
        yield reference(letter, record, keep_headers=False)
        yield reference(shorter, record, keep_headers=False, keep_key=False)


def reference(
    letter: DeadLetter, record: Record, *, keep_headers: bool = True, keep_key: bool = True
) -> DeadLetter:
    """`letter` with an envelope in JSON as its value: where the message is, and what it was.

    The envelope names the topic, partition and offset that `record` was read from: for a replayed
    message another place than that of its first death, and the only one where the value still is
    for certain, as long as that topic retains it. docs/dead-letters.md describes each field.
    """
    size_bytes = sum(len(name.encode()) + len(value or b"") for name, value in record.headers)
    envelope = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "value": _described(record.value),
        "key": _described(record.key),
        "key_kept": keep_key,
        "headers": {"count": len(record.headers), "bytes": size_bytes},
        "headers_kept": keep_headers,
    }
    return replace(
        letter,
        key=letter.key if keep_key else None,
        value=json.dumps(envelope).encode(),
        original_headers=letter.original_headers if keep_headers else (),
        escaped_headers=letter.escaped_headers if keep_headers else (),
        oversized=REFERENCE,
    )


def _described(content: bytes | None) -> dict[str, int | str] | None:
    if content is None:
        return None
    return {
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "start_base64": base64.b64encode(content[:SAMPLE_BYTES]).decode(),
    }
