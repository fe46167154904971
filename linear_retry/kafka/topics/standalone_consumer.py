"""A consumer without a group, and its errors."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from linear_retry.errors import BrokerError, UnknownTopicError
from linear_retry.kafka.consumer.settings import servers_of
from linear_retry.kafka.quiet import QUIET, make_client

_Answer = TypeVar("_Answer")

ANSWER_TIMEOUT_S = 10.0
_SLICE_S = 0.5  # Ctrl-C takes effect between two calls into librdkafka, not inside one
_WAIT_S = 0.1

MISSING = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)
NO_PERMISSION = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
)
_NO_LOGIN = (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED)
NO_ANSWER = (
    KafkaError._TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._NOENT,  # "No leaders found": the brokers that would answer are away
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
)
_OURS: dict[str, Any] = {
    # Never subscribes and never commits, so no group's offsets are touched.
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    # Retention may remove the head during the read: continue with what is left.
    "auto.offset.reset": "earliest",
    "allow.auto.create.topics": False,
    "fetch.queue.backoff.ms": 5,
}
_DEFAULTS: dict[str, Any] = {
    "group.id": "linear-retry-dlq",
    # An empty partition must not delay the others, nor the end.
    "fetch.wait.max.ms": 20,
    # These bound the memory, whatever is in the topic. The second does not count headers, which
    # are most of a dead letter: with librdkafka's default of 100,000 messages they were 250 MiB.
    "queued.min.messages": 1_000,
    "queued.max.messages.kbytes": 16 * 1024,
}


class StandaloneConsumer:
    """One confluent_kafka `Consumer` without a group."""

    def __init__(self, config: Mapping[str, Any], timeout_s: float) -> None:
        self.where = servers_of(config)
        self.timeout_s = timeout_s
        self._last_error: KafkaError | None = None
        self._tell: Callable[[KafkaError], object] = config.get("error_cb", QUIET["error_cb"])
        keys = _DEFAULTS | QUIET | dict(config) | _OURS | {"error_cb": self._on_error}
        self.consumer = make_client(Consumer, keys)

    def close(self) -> None:
        """Closes the client, for good."""
        self.consumer.close()
        # It holds our callback, and so us: with it here, it would keep one of the 1,024 keys that
        # a process has for clients until the garbage collector comes.
        del self.consumer

    def topics(self) -> frozenset[str]:
        """Returns all topics of the cluster that we may see."""
        return self._answer(
            "its topics", lambda: frozenset(self.consumer.list_topics(timeout=_SLICE_S).topics)
        )

    def cluster_id(self) -> str:
        """Returns the id that the cluster gave itself."""
        return self._answer(
            "the cluster", lambda: str(self.consumer.list_topics(timeout=_SLICE_S).cluster_id)
        )

    def partitions(self, topic: str) -> tuple[int, ...]:
        return self._answer(f"topic {topic!r}", lambda: self.partitions_now(topic))

    def partitions_now(self, topic: str) -> tuple[int, ...]:
        """Returns the partitions. Raises `KafkaException` without an immediate answer."""
        described = self.consumer.list_topics(topic, timeout=_SLICE_S).topics[topic]
        if described.error is not None:
            raise KafkaException(described.error)
        return tuple(sorted(described.partitions))

    def bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        numbers = self.partitions(topic)
        first = self.offsets(topic, numbers, OFFSET_BEGINNING)
        ends = self.offsets(topic, numbers, OFFSET_END)
        return {number: (first[number], ends[number]) for number in numbers}

    def refused(self, what: str, error: KafkaError) -> BrokerError:
        """Returns the error to raise if retrying does not help."""
        return refusal(self.where, what, error)

    def timed_out(self, what: str, error: KafkaError | None = None) -> BrokerError:
        """Returns the error to raise without an answer in time."""
        why = self._last_error or error
        return BrokerError(
            f"{self.where}: no answer about {what} within {self.timeout_s:g} s"
            f"{'' if why is None else f' ({why.str()})'}; check the address, the security "
            "settings, and that it is reachable from here"
        )

    def offsets(self, topic: str, numbers: Iterable[int], at: int) -> dict[int, int]:
        """Returns each partition's offset at its beginning, its end, or the first since a time.

        -1: no message is that young; librdkafka's mock brokers always answer that.
        """
        left = set(numbers)
        found: dict[int, int] = {}

        def ask() -> dict[int, int]:
            asked = [TopicPartition(topic, number, at) for number in left]
            for place in self.consumer.offsets_for_times(asked, timeout=_SLICE_S) if asked else ():
                if place.error is not None:
                    raise KafkaException(place.error)
                found[place.partition] = place.offset
                left.discard(place.partition)
            return found

        return self._answer(f"topic {topic!r}", ask)

    def _answer(self, what: str, ask: Callable[[], _Answer]) -> _Answer:
        deadline_s = time.monotonic() + self.timeout_s
        while True:
            try:
                return ask()
            except KafkaException as problem:
                error: KafkaError = problem.args[0]
                self.consumer.poll(0)  # calls `_on_error`
                if is_lasting(error):
                    raise self.refused(what, error) from problem
                if self._last_error is not None and self._last_error.code() in _NO_LOGIN:
                    raise BrokerError(
                        f"{self.where}: the login is refused ({self._last_error.str()}); check "
                        "the sasl.* keys"
                    ) from problem
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    raise self.timed_out(what, error) from problem
                # Do not spin on an immediate answer, such as "no leader yet".
                self.consumer.poll(min(_WAIT_S, left_s))

    def _on_error(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN or self._last_error is None:
            self._last_error = error
        self._tell(error)


def refusal(
    where: str, what: str, error: KafkaError, rights: str = "READ and DESCRIBE"
) -> BrokerError:
    """Returns the error to raise if no broker answers about `what`, or one refuses it.

    It needs `rights`.
    """
    if error.code() in MISSING:
        return UnknownTopicError(f"{where}: {what} does not exist; check its name")
    if error.code() in NO_PERMISSION:
        return BrokerError(
            f"{where}: no permission for {what} ({error.str()}); ask for {rights} on it"
        )
    if error.code() in NO_ANSWER:
        return BrokerError(
            f"{where}: no answer about {what} ({error.str()}); check the address, the security "
            "settings, and that it is reachable from here"
        )
    return BrokerError(f"{where}: {what} is refused: {error.str()}")


def is_lasting(error: KafkaError) -> bool:
    return error.code() in (*MISSING, *NO_PERMISSION, KafkaError.TOPIC_EXCEPTION) or error.fatal()
