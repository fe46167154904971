"""Calls librdkafka's mock brokers, which confluent-kafka does not expose, through ctypes."""

import ctypes
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

from confluent_kafka import KafkaError, __version__, cimpl

from linear_retry.errors import BrokerError, ConfigurationError

RequestKind: TypeAlias = Literal[
    "Produce",
    "Fetch",
    "ListOffsets",
    "Metadata",
    "OffsetCommit",
    "OffsetFetch",
    "FindCoordinator",
    "JoinGroup",
    "Heartbeat",
    "LeaveGroup",
    "SyncGroup",
    "ApiVersions",
    "InitProducerId",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "EndTxn",
    "TxnOffsetCommit",
    "ConsumerGroupHeartbeat",
]
"""The names, as in Kafka's protocol, of the requests that the mock brokers answer."""

_NUMBERS = (0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 18, 22, 24, 25, 26, 28, 68)
API_KEYS: dict[str, int] = dict(zip(get_args(RequestKind), _NUMBERS, strict=True))
"""The API key of each kind in Kafka's protocol."""

_PRODUCER = 0  # rd_kafka_type_t
_ERROR_TEXT_BYTES = 512

_POINTER = ctypes.c_void_p
_TEXT = ctypes.c_char_p
_INT16, _INT32, _INT64 = ctypes.c_int16, ctypes.c_int32, ctypes.c_int64
_CODE = ctypes.c_int  # rd_kafka_resp_err_t

_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "rd_kafka_conf_new": (_POINTER, []),
    "rd_kafka_conf_set": (ctypes.c_int, [_POINTER, _TEXT, _TEXT, _TEXT, ctypes.c_size_t]),
    "rd_kafka_new": (_POINTER, [ctypes.c_int, _POINTER, _TEXT, ctypes.c_size_t]),
    "rd_kafka_destroy": (None, [_POINTER]),
    "rd_kafka_handle_mock_cluster": (_POINTER, [_POINTER]),
    "rd_kafka_mock_cluster_bootstraps": (_TEXT, [_POINTER]),
    "rd_kafka_mock_topic_create": (_CODE, [_POINTER, _TEXT, ctypes.c_int, ctypes.c_int]),
    "rd_kafka_mock_partition_delete_records": (_CODE, [_POINTER, _TEXT, _INT32, _INT64]),
    "rd_kafka_mock_partition_set_leader": (_CODE, [_POINTER, _TEXT, _INT32, _INT32]),
    "rd_kafka_mock_coordinator_set": (_CODE, [_POINTER, _TEXT, _TEXT, _INT32]),
    "rd_kafka_mock_set_controller_id": (None, [_POINTER, _INT32]),
    "rd_kafka_mock_broker_set_down": (_CODE, [_POINTER, _INT32]),
    "rd_kafka_mock_broker_set_up": (_CODE, [_POINTER, _INT32]),
    "rd_kafka_mock_broker_set_rtt": (_CODE, [_POINTER, _INT32, ctypes.c_int]),
    "rd_kafka_mock_push_request_errors_array": (
        None,
        [_POINTER, _INT16, ctypes.c_size_t, _POINTER],
    ),
    "rd_kafka_mock_clear_request_errors": (None, [_POINTER, _INT16]),
    "rd_kafka_mock_set_apiversion": (_CODE, [_POINTER, _INT16, _INT16, _INT16]),
    "rd_kafka_mock_group_initial_rebalance_delay_ms": (None, [_POINTER, _INT32]),
    "rd_kafka_mock_set_group_consumer_session_timeout_ms": (None, [_POINTER, ctypes.c_int]),
    "rd_kafka_mock_set_group_consumer_heartbeat_interval_ms": (None, [_POINTER, ctypes.c_int]),
    "rd_kafka_mock_start_request_tracking": (None, [_POINTER]),
    "rd_kafka_mock_stop_request_tracking": (None, [_POINTER]),
    "rd_kafka_mock_clear_requests": (None, [_POINTER]),
    "rd_kafka_mock_get_requests": (
        ctypes.POINTER(_POINTER),
        [_POINTER, ctypes.POINTER(ctypes.c_size_t)],
    ),
    "rd_kafka_mock_request_id": (_INT32, [_POINTER]),
    "rd_kafka_mock_request_api_key": (_INT16, [_POINTER]),
    "rd_kafka_mock_request_destroy_array": (None, [ctypes.POINTER(_POINTER), ctypes.c_size_t]),
}


class MockCluster:
    """librdkafka's mock brokers, until `close`. Any use after that crashes the process."""

    def __init__(self, brokers: int) -> None:
        """Starts the brokers. Raises the same as `EmbeddedKafka`."""
        self._library = _librdkafka()
        self._handle = _new_handle(self._library, brokers)
        self._cluster = self._library.rd_kafka_handle_mock_cluster(self._handle)

    def close(self) -> None:
        """Ends the brokers and their threads."""
        self._library.rd_kafka_destroy(self._handle)

    def ask(self, name: str, *arguments: Any) -> Any:
        """Returns the result of `rd_kafka_mock_<name>`."""
        return getattr(self._library, f"rd_kafka_mock_{name}")(self._cluster, *arguments)

    def do(self, what: str, name: str, *arguments: Any) -> None:
        """Calls `rd_kafka_mock_<name>`; raises `BrokerError`, about `what`, for an error code."""
        code = self.ask(name, *arguments)
        if code:
            raise BrokerError(f"embedded broker: cannot {what}: {KafkaError(code).str()}")

    def push_errors(self, kind: RequestKind, codes: Sequence[int]) -> None:
        """Answers the next requests of this kind, at any broker, with one of these errors each."""
        array = (_CODE * len(codes))(*codes)
        self.ask("push_request_errors_array", API_KEYS[kind], len(codes), array)

    def requests(self) -> list[tuple[int, int]]:
        """Returns broker and API key of every request since tracking began, oldest first."""
        count = ctypes.c_size_t()
        found = self.ask("get_requests", ctypes.byref(count))
        broker_of = self._library.rd_kafka_mock_request_id
        key_of = self._library.rd_kafka_mock_request_api_key
        seen = [(broker_of(found[i]), key_of(found[i])) for i in range(count.value)]
        self._library.rd_kafka_mock_request_destroy_array(found, count)
        return seen


def _librdkafka() -> ctypes.CDLL:
    """Returns the librdkafka that confluent-kafka is linked with, with typed functions.

    A confluent-kafka Producer can start a mock cluster, but does not expose the pointer that all
    else needs. Looking up the functions in the extension module finds those of the library that it
    has loaded, wherever that is.
    """
    library = ctypes.CDLL(cimpl.__file__)
    missing = [name for name in _SIGNATURES if not hasattr(library, name)]
    if missing:
        raise ConfigurationError(
            f"embedded broker: confluent-kafka {__version__} does not expose "
            f"librdkafka's {', '.join(missing)}; wheels of 2.16 and later for Linux and macOS do: "
            "upgrade it, or use a real broker"
        )
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _new_handle(library: ctypes.CDLL, brokers: int) -> int:
    settings = library.rd_kafka_conf_new()
    # log_level 2 (critical): else each start writes a notice to stderr, which would show in the
    # pictures, and this client, which also connects, an error for each broker made unreachable.
    text = ctypes.create_string_buffer(_ERROR_TEXT_BYTES)
    for key, value in ((b"test.mock.num.brokers", b"%d" % brokers), (b"log_level", b"2")):
        if library.rd_kafka_conf_set(settings, key, value, text, len(text)):
            raise BrokerError(f"embedded broker: {text.value.decode()}")
    handle: int | None = library.rd_kafka_new(_PRODUCER, settings, text, len(text))
    if handle is None:
        raise BrokerError(f"embedded broker: {text.value.decode()}")
    return handle
