"""The fake messages: sound ones, ones with spoilt headers, and errors about a partition."""

import ctypes
from typing import Any

from confluent_kafka import KafkaError, Message

from linear_retry.scope import Partition
from tests.fake.topic import Record

_SPOILT_NAME = b"spoilt\xff"
_SPOILT_VALUE = b"value"


def message(partition: Partition, record: Record, *, spoilt: bool = False) -> Message:
    """As a poll returns it; `spoilt`: with a header whose name is not UTF-8."""
    headers: list[Any] = list(record.headers or ())
    if spoilt:
        headers.append(_half_a_pair(_SPOILT_VALUE))
    return (_SpoiltMessage if spoilt else Message)(
        topic=partition[0],
        partition=partition[1],
        offset=record.offset,
        key=record.key,
        value=record.value,
        # librdkafka has none where the list is empty (measured).
        headers=headers or None,
        timestamp=(record.timestamp_type, record.timestamp_ms),
        leader_epoch=record.leader_epoch,
    )


def error_message(partition: Partition, code: int, text: str, offset: int | None) -> Message:
    """An error where a message would be."""
    # Without the argument `offset()` is None: so librdkafka says that nothing is committed.
    place: dict[str, Any] = {} if offset is None else {"offset": offset}
    return Message(
        topic=partition[0],
        partition=partition[1],
        value=text.encode(),
        error=KafkaError(code, text),
        **place,
    )


class _SpoiltMessage(Message):
    """The first `headers()` raises; later ones give a list with a null pointer in it."""

    _raised = False

    def headers(self) -> Any:
        if self._raised:
            return super().headers()
        self._raised = True
        cause = UnicodeDecodeError("utf-8", _SPOILT_NAME, 6, 7, "invalid start byte")
        raise SystemError("returned a result with an exception set") from cause


def _half_a_pair(value: bytes) -> tuple[Any, ...]:
    """A pair whose first half is a null pointer, as confluent-kafka leaves it behind.

    Printing, comparing or indexing it ends the process.
    """
    pair = ctypes.py_object(value)
    ctypes.pythonapi.Py_IncRef(pair)  # PyTuple_SetItem takes one
    _set_item(address := _new_tuple(2), 1, pair)
    found: tuple[Any, ...] = ctypes.cast(address, ctypes.py_object).value
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(found))  # `value` has taken one of its own
    return found


_new_tuple = ctypes.pythonapi.PyTuple_New
_new_tuple.restype = ctypes.c_void_p
_new_tuple.argtypes = [ctypes.c_ssize_t]
_set_item = ctypes.pythonapi.PyTuple_SetItem
_set_item.restype = ctypes.c_int
_set_item.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.py_object]
