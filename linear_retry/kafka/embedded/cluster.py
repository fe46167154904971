"""A Kafka cluster in this process, for demos and tests, with faults on request."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from linear_retry.errors import BrokerError, UsageError
from linear_retry.kafka.consumer.committed import Committed
from linear_retry.kafka.embedded.mock_cluster import API_KEYS, MockCluster, RequestKind
from linear_retry.kafka.producers.acknowledged import write_all
from linear_retry.kafka.quiet import QUIET
from linear_retry.kafka.topics.reader import TopicReader
from linear_retry.records.record import OutgoingRecord
from linear_retry.scope import Partition

_ANSWER_S, _ONE_ANSWER_S = 20.0, 3.0
_ALL = -1
_MANY_ERRORS = 10_000
_OFFSET_FOR_LEADER_EPOCH, _NO_VERSION = 23, -1
_OFFSET_COMMIT, _LAST_WITHOUT_EPOCH = 8, 5
_NAMES = {number: name for name, number in API_KEYS.items()}


class EmbeddedKafka:
    """librdkafka's mock cluster, in this process, from entering the `with` to leaving it.

    Clients in any process of this machine reach it at `bootstrap`. A topic that a producer or an
    admin client asks for is created with four partitions. Brokers are numbered from 1.

    Its faults are methods. A lasting one is a context manager (`with kafka.down(2):`), an instant
    one a plain call (`kafka.move_leader("orders", 0, 2)`). Errors are codes of
    `confluent_kafka.KafkaError`. All methods are for any thread.

    Unlike a real broker, it cannot

    - fence a producer: the older of two with one `transactional.id` continues and commits;
    - abort a transaction: its messages are visible to everyone, at once and for ever;
    - compact, or keep more than about 5 MB of a partition: the oldest messages go first;
    - leave a partition without a leader, or detect that its log was truncated;
    - answer most admin calls (create topics, add partitions, describe configurations or groups):
      they fail at once as unsupported.

    Its groups differ too, with the classic protocols: a group that gets or loses a member is
    blocked for `session.timeout.ms` less a second (44 s at the default: set it to 2000 or so), and
    again if a member syncs after its leader; a synchronous commit in `on_revoke` is refused
    (`REBALANCE_IN_PROGRESS`); members with different assignors in one group end this process.

    Raises `BrokerError` if the cluster cannot be created, `ConfigurationError` if this build of
    confluent-kafka does not expose librdkafka's functions (on Windows, or before 2.16).
    """

    def __init__(
        self,
        *,
        brokers: int = 1,
        session_timeout_ms: int = 30_000,
        heartbeat_interval_ms: int = 3_000,
    ) -> None:
        """The times are for members with `group.protocol=consumer`; others configure their own."""
        self._brokers = brokers
        self._session_timeout_ms = session_timeout_ms
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._running: MockCluster | None = None
        self._first: dict[Partition, int] = {}
        self._down: Counter[int] = Counter()
        self._changing = Lock()

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, for `bootstrap.servers`."""
        addresses: bytes = self._cluster.ask("cluster_bootstraps")
        return addresses.decode()

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Creates a topic; raises `BrokerError` if it exists."""
        self._cluster.do(f"create topic {name!r}", "topic_create", name.encode(), partitions, 1)

    def produce(self, topic: str, values: Iterable[bytes | str | None], partition: int = 0) -> None:
        """Writes messages; returns once all are acknowledged. Raises `BrokerError` if one fails."""
        # Not idempotent: each new idempotent producer waits half a second for its id. Still in
        # order, with one request at a time.
        keys = {**self._keys(), "linger.ms": 0, "max.in.flight": 1}
        contents = (each.encode() if isinstance(each, str) else each for each in values)
        write_all(
            keys,
            (OutgoingRecord(topic, None, each, partition=partition) for each in contents),
            _ANSWER_S,
        )

    def offsets(self, topic: str) -> dict[Partition, list[int]]:
        """The offsets that a reader finds now in each partition. Raises `BrokerError`."""
        reader = TopicReader(self._keys(), _ANSWER_S)
        found: dict[Partition, list[int]] = {(topic, n): [] for n in reader.partitions(topic)}
        for record in reader.read_all(topic):
            found[topic, record.partition].append(record.offset)
        return found

    def committed(self, group_id: str, topic: str) -> dict[Partition, int]:
        """The group's committed offsets, of the partitions that have one. Raises `BrokerError`."""
        numbers = TopicReader(self._keys(), _ANSWER_S).partitions(topic)
        committed = Committed(self._keys(), group_id)
        until_s = time.monotonic() + _ANSWER_S
        try:
            # A coordinator that has just moved may leave a request unanswered.
            while time.monotonic() < until_s:
                found = committed.ask([(topic, number) for number in numbers], _ONE_ANSWER_S)
                if found is not None:
                    return found
        finally:
            committed.close()
        raise BrokerError(f"embedded broker: cannot read the committed offsets of group {group_id}")

    @contextmanager
    def down(self, broker: int | None = None) -> Iterator[None]:
        """Makes one broker, or all, unreachable. Leaders and coordinators stay where they are.

        These may be nested: a broker is up again when the last one that it is down for has ended.
        """
        number = self._number(broker)
        with self._changing:
            self._down[number] += 1
            self._cluster.do("stop a broker", "broker_set_down", number)
        try:
            yield
        finally:
            with self._changing:
                self._down[number] -= 1
                self._bring_up([number] if broker else range(1, self._brokers + 1))

    @contextmanager
    def slow(self, rtt_ms: int, broker: int | None = None) -> Iterator[None]:
        """Delays every answer of one broker, or of all, by so much."""
        number = self._number(broker)
        self._cluster.do("slow a broker down", "broker_set_rtt", number, rtt_ms)
        try:
            yield
        finally:
            self._cluster.do("speed a broker up", "broker_set_rtt", number, 0)

    @contextmanager
    def failing(self, kind: RequestKind, error: int) -> Iterator[None]:
        """Answers every request of this kind with this error (`KafkaError.NOT_COORDINATOR`).

        `KafkaError._TRANSPORT` closes the connection instead. When it ends, errors of `fail` that
        no request has met are dropped too.
        """
        self._cluster.push_errors(kind, (error,) * _MANY_ERRORS)
        try:
            yield
        finally:
            self.clear_errors(kind)

    def fail(self, kind: RequestKind, *errors: int) -> None:
        """Answers the next requests of this kind with one of these errors each."""
        self._cluster.push_errors(kind, errors)

    def clear_errors(self, kind: RequestKind | None = None) -> None:
        """Drops the errors of `fail` that no request has met: of one kind, or all."""
        for name in API_KEYS if kind is None else (kind,):
            self._cluster.ask("clear_request_errors", API_KEYS[name])

    def move_leader(self, topic: str, partition: int, broker: int) -> None:
        """Makes this broker the partition's leader; clients find out when they are refused.

        A partition always has one: without it librdkafka's mock would crash at the next request.
        """
        self._cluster.do(
            f"move {topic}[{partition}] to broker {broker}",
            "partition_set_leader",
            topic.encode(),
            partition,
            self._number(broker),
        )

    def move_group_coordinator(self, group_id: str, broker: int) -> None:
        """Makes this broker the group's coordinator. Its members and offsets move along."""
        self._cluster.do(
            f"move the coordinator of {group_id!r}",
            "coordinator_set",
            b"group",
            group_id.encode(),
            self._number(broker),
        )

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None:
        """Removes everything before this offset, at once and for good, as retention does."""
        # Given a lower offset than before, the mock brokers would restore what they had deleted.
        before = max(before_offset, self._first.get((topic, partition), before_offset))
        self._cluster.do(
            f"delete {topic}[{partition}] before {before_offset}",
            "partition_delete_records",
            topic.encode(),
            partition,
            before,
        )
        self._first[topic, partition] = before

    @contextmanager
    def counting(self) -> Iterator[Callable[[], Counter[tuple[int, str]]]]:
        """Yields a function that counts the requests inside the `with`, by broker and kind."""
        self._cluster.ask("start_request_tracking")
        total: list[Counter[tuple[int, str]]] = []
        try:
            yield lambda: total[0] if total else self._requests()
        finally:
            total.append(self._requests())
            self._cluster.ask("stop_request_tracking")
            self._cluster.ask("clear_requests")

    def __enter__(self) -> EmbeddedKafka:
        if self._running is not None:
            raise UsageError("embedded broker: it is already running")
        cluster = self._running = MockCluster(self._brokers)
        self._first.clear()
        # Without a controller, admin calls wait for one until they time out.
        cluster.ask("set_controller_id", 1)
        # Otherwise a new group would wait 3 s for more members.
        cluster.ask("group_initial_rebalance_delay_ms", 0)
        # Asked where a leader's epoch ended, they report an empty log if it wrote nothing, and
        # the client restarts, as after a truncation: no client must ask.
        versions = _OFFSET_FOR_LEADER_EPOCH, _NO_VERSION, _NO_VERSION
        cluster.do("switch a request off", "set_apiversion", *versions)
        # They refuse commits with an earlier leader's epoch, which a real broker takes (Kafka
        # 4.1.1, each protocol).
        versions = _OFFSET_COMMIT, 0, _LAST_WITHOUT_EPOCH
        cluster.do("limit the version of commits", "set_apiversion", *versions)
        cluster.ask("set_group_consumer_session_timeout_ms", self._session_timeout_ms)
        cluster.ask("set_group_consumer_heartbeat_interval_ms", self._heartbeat_interval_ms)
        return self

    def __exit__(self, *_: object) -> None:
        cluster, self._running = self._cluster, None
        cluster.close()

    @property
    def _cluster(self) -> MockCluster:
        # A pointer to a closed cluster would crash the process, so raise a Python error.
        if self._running is None:
            raise UsageError("embedded broker: it runs only inside its `with` block")
        return self._running

    def _keys(self) -> dict[str, Any]:
        back = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200}
        return {**QUIET, "bootstrap.servers": self.bootstrap, **back}

    def _bring_up(self, brokers: Iterable[int]) -> None:
        """Brings up the brokers that no other `down` still covers."""
        for number in brokers:
            if not self._down[number] and not self._down[_ALL]:
                self._cluster.do("start a broker", "broker_set_up", number)

    def _number(self, broker: int | None) -> int:
        if broker is not None and not 1 <= broker <= self._brokers:
            raise UsageError(f"embedded broker: no broker {broker}; write 1 to {self._brokers}")
        return _ALL if broker is None else broker

    def _requests(self) -> Counter[tuple[int, str]]:
        return Counter(
            (broker, _NAMES.get(number, str(number))) for broker, number in self._cluster.requests()
        )
