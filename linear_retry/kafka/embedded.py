"""Where does a demo or a test get a broker from, without installing one?"""

from __future__ import annotations

import ctypes
from types import TracebackType
from typing import Any

from confluent_kafka import KafkaError, cimpl

from linear_retry.errors import BrokerError, ConfigurationError, UsageError

_PRODUCER = 0  # rd_kafka_type_t
_ERROR_TEXT_BYTES = 512

_POINTER = ctypes.c_void_p
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "rd_kafka_conf_new": (_POINTER, []),
    "rd_kafka_conf_set": (
        ctypes.c_int,
        [_POINTER, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t],
    ),
    "rd_kafka_new": (_POINTER, [ctypes.c_int, _POINTER, ctypes.c_char_p, ctypes.c_size_t]),
    "rd_kafka_destroy": (None, [_POINTER]),
    "rd_kafka_handle_mock_cluster": (_POINTER, [_POINTER]),
    "rd_kafka_mock_cluster_bootstraps": (ctypes.c_char_p, [_POINTER]),
    "rd_kafka_mock_set_controller_id": (ctypes.c_int, [_POINTER, ctypes.c_int32]),
    "rd_kafka_mock_group_initial_rebalance_delay_ms": (None, [_POINTER, ctypes.c_int32]),
    "rd_kafka_mock_topic_create": (
        ctypes.c_int,
        [_POINTER, ctypes.c_char_p, ctypes.c_int, ctypes.c_int],
    ),
}


class EmbeddedKafka:
    """librdkafka's mock cluster, in this process, from entering the `with` to leaving it.

    Clients of any process of this machine reach it at `bootstrap`. It keeps messages in memory,
    about 5 MB of each partition, and the oldest go first. A topic that a producer or an admin
    client asks for comes into being with four partitions.

    What it cannot do, and a real broker can: fence a producer, abort a transaction (everything is
    visible to everyone), compact, delete by retention, answer admin calls (create topics, describe
    configurations: refused at once as unsupported).

    Raises `BrokerError` where the cluster cannot be made, `ConfigurationError` where this build of
    confluent-kafka hides librdkafka's functions (on Windows).
    """

    def __init__(self, *, brokers: int = 1) -> None:
        self._brokers = brokers
        self._library: ctypes.CDLL | None = None
        self._handle: int | None = None

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, for `bootstrap.servers`."""
        addresses: bytes = self._lib.rd_kafka_mock_cluster_bootstraps(self._cluster)
        return addresses.decode()

    def create_topic(self, name: str, partitions: int) -> None:
        """Make a topic; raises `BrokerError` where there is one of this name."""
        code = self._lib.rd_kafka_mock_topic_create(self._cluster, name.encode(), partitions, 1)
        if code:
            reason = KafkaError(code).str()
            raise BrokerError(f"embedded broker: cannot create topic {name!r}: {reason}")

    def __enter__(self) -> EmbeddedKafka:
        if self._handle is not None:
            raise UsageError("embedded broker: it runs already")
        self._library = _librdkafka()
        self._handle = _new_handle(self._library, self._brokers)
        # Without a controller admin calls wait for one until they time out.
        self._library.rd_kafka_mock_set_controller_id(self._cluster, 1)
        # A new group would otherwise wait 3 s for more members.
        self._library.rd_kafka_mock_group_initial_rebalance_delay_ms(self._cluster, 0)
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        library, handle = self._lib, self._handle
        self._library = self._handle = None
        library.rd_kafka_destroy(handle)  # takes the cluster and its threads along

    @property
    def _lib(self) -> ctypes.CDLL:
        # A pointer to a cluster that is gone would crash the process: hence an error of Python's.
        if self._library is None:
            raise UsageError("embedded broker: it runs only inside its `with` block")
        return self._library

    @property
    def _cluster(self) -> int:
        cluster: int = self._lib.rd_kafka_handle_mock_cluster(self._handle)
        return cluster


def _librdkafka() -> ctypes.CDLL:
    """The librdkafka that confluent-kafka is linked with, its functions given their types.

    A Producer of confluent-kafka can start a mock cluster, but does not hand out the pointer that
    creating a topic needs. Looking the functions up in the extension module finds those of the
    very library that it has loaded, wherever that lies.
    """
    library = ctypes.CDLL(cimpl.__file__)
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name, None)
        if function is None:
            raise ConfigurationError(
                f"embedded broker: this build of confluent-kafka does not show {name}; "
                "use a real broker (`--bootstrap HOST:PORT`)"
            )
        function.restype, function.argtypes = result, arguments
    return library


def _new_handle(library: ctypes.CDLL, brokers: int) -> int:
    settings = library.rd_kafka_conf_new()
    # log_level 3 (errors): a notice on stderr at each start would stand in the demo's picture.
    for key, value in (("test.mock.num.brokers", str(brokers)), ("log_level", "3")):
        text = ctypes.create_string_buffer(_ERROR_TEXT_BYTES)
        if library.rd_kafka_conf_set(settings, key.encode(), value.encode(), text, len(text)):
            raise BrokerError(f"embedded broker: {text.value.decode()}")
    text = ctypes.create_string_buffer(_ERROR_TEXT_BYTES)
    handle: int | None = library.rd_kafka_new(_PRODUCER, settings, text, len(text))
    if handle is None:
        raise BrokerError(f"embedded broker: {text.value.decode()}")
    return handle
