"""Sends a message through a broker and reads it back, whatever its headers are."""

import ctypes
from collections.abc import Sequence
from uuid import uuid4

from confluent_kafka import Consumer, Message, Producer, cimpl

from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from tests.patience import PATIENCE_S

_TOPIC, _HEADERS, _END = 1, 10, 0  # rd_kafka_vtype_t
_PRODUCER = 0  # rd_kafka_type_t
_QUIET = {"log_level": 0}


class Pipe:
    """A producer and a consumer of one topic with one partition."""

    def __init__(self, broker: EmbeddedKafka) -> None:
        self.topic, bootstrap = f"t{uuid4().hex}", broker.bootstrap
        broker.create_topic(self.topic, 1)
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, **_QUIET})
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": self.topic,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 5,
                **_QUIET,
            }
        )
        self._consumer.subscribe([self.topic])

    def through(self, headers: list[tuple[str, bytes | None]]) -> Message:
        """What comes of a message with these."""
        self._producer.produce(self.topic, b"book", key=b"ann", headers=headers)  # type: ignore[arg-type]  # a list of less is one to read
        self._producer.flush(PATIENCE_S)
        return self.received()

    def received(self) -> Message:
        """The next one."""
        message = self._consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.error() is None
        return message

    def close(self) -> None:
        self._consumer.close()


class RawProducer:
    """librdkafka without confluent-kafka, which cannot send a name that is not UTF-8."""

    def __init__(self, bootstrap: str) -> None:
        self._lib = ctypes.CDLL(cimpl.__file__)
        pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
        for name, result, arguments in (
            ("rd_kafka_conf_new", pointer, []),
            ("rd_kafka_conf_set", ctypes.c_int, [pointer, text, text, text, size]),
            ("rd_kafka_new", pointer, [ctypes.c_int, pointer, text, size]),
            ("rd_kafka_headers_new", pointer, [size]),
            ("rd_kafka_header_add", ctypes.c_int, [pointer, text, size, text, size]),
            ("rd_kafka_flush", ctypes.c_int, [pointer, ctypes.c_int]),
            ("rd_kafka_destroy", None, [pointer]),
        ):
            function = getattr(self._lib, name)
            function.restype, function.argtypes = result, arguments
        config = self._lib.rd_kafka_conf_new()
        keys = {b"bootstrap.servers": bootstrap.encode(), b"linger.ms": b"0", b"log_level": b"0"}
        for key, value in keys.items():
            assert 0 == self._lib.rd_kafka_conf_set(config, key, value, None, 0)
        self._handle = self._lib.rd_kafka_new(_PRODUCER, config, None, 0)

    def send(self, topic: str, headers: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Returns once it is acknowledged."""
        raw = self._lib.rd_kafka_headers_new(len(headers))
        for name, value in headers:
            self._lib.rd_kafka_header_add(raw, name, len(name), value, len(value or b""))
        code = self._lib.rd_kafka_producev(
            ctypes.c_void_p(self._handle),
            ctypes.c_int(_TOPIC),
            ctypes.c_char_p(topic.encode()),
            ctypes.c_int(_HEADERS),
            ctypes.c_void_p(raw),
            ctypes.c_int(_END),
        )
        assert code == 0
        assert 0 == self._lib.rd_kafka_flush(self._handle, 10_000)

    def close(self) -> None:
        self._lib.rd_kafka_destroy(self._handle)
