"""The fake Kafka behaves as the real one: both pass the same laws."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Protocol

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec  # type: ignore[attr-defined]  # exported by import only

from linear_retry.scope import Partition
from tests.fake.cluster import FakeKafka
from tests.fake.topic import Headers
from tests.kafka_operations import KafkaOperations, wait_until
from tests.patience import PATIENCE_S

QUIET_S = 0.7
_LONG_AGO_MS = 1_500_000_000_000

_numbers = itertools.count(1)


class World(Protocol):
    """One cluster, fake or real, and how time passes there."""

    def now_s(self) -> float: ...

    def client(self, config: dict[str, Any]) -> Any: ...

    def producer(self, config: dict[str, Any]) -> Any: ...

    def admin(self) -> Any: ...

    def create_topic(
        self, name: str, partitions: int, config: dict[str, str] | None = None
    ) -> object: ...

    def append(self, topic: str, partition: int, values: list[bytes | None]) -> None: ...

    def delete_records(self, topic: str, partition: int, before: int) -> None: ...


class FakeWorld:
    def __init__(self) -> None:
        self._fake = FakeKafka(balanced=True)
        self.now_s = self._fake.clock.now_s
        self.client = self._fake.consumer
        self.producer = self._fake.producer
        self.create_topic = self._fake.create_topic
        self.delete_records = self._fake.delete_records

    def admin(self) -> Any:
        return self._fake.admin({})

    def append(self, topic: str, partition: int, values: list[bytes | None]) -> None:
        for value in values:
            self._fake.append(topic, partition, value)


class RealWorld:
    def __init__(self, kafka: KafkaOperations) -> None:
        self._kafka = kafka
        self.now_s = time.monotonic
        self.create_topic = kafka.create_topic
        self.delete_records = kafka.delete_records

    def client(self, config: dict[str, Any]) -> Any:
        return Consumer(self._kafka.client_settings(**config))

    def producer(self, config: dict[str, Any]) -> Any:
        return Producer(self._kafka.client_settings(**config))

    def admin(self) -> Any:
        return AdminClient(self._kafka.client_settings())

    def append(self, topic: str, partition: int, values: list[bytes | None]) -> None:
        self._kafka.produce(topic, [(partition, None, value, []) for value in values])


class Member:
    """A consumer and what it was told: every message, end of partition, error and callback."""

    def __init__(self, world: World, topic: str, group: str, config: dict[str, Any]) -> None:
        self._world = world
        self._topic = topic
        self.offsets: dict[Partition, list[int]] = {}
        self.ends: list[tuple[int, int]] = []
        self.errors: list[tuple[str, int | None]] = []
        self.calls: list[tuple[str, list[int]]] = []
        self.commits: list[tuple[str | None, list[tuple[int, int]]]] = []
        # In KIP-848 groups it is the broker's, and refused.
        classic = {"heartbeat.interval.ms": 200} if "group.protocol" not in config else {}
        self.client = world.client(
            {
                "group.id": group,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                **classic,
                "allow.auto.create.topics": False,
                "fetch.wait.max.ms": 50,
                "on_commit": self._committed,
                **config,
            }
        )

    def subscribe(self, **callbacks: Callable[..., object]) -> Member:
        noted = {name: self._noted(name) for name in ("on_assign", "on_revoke", "on_lost")}
        self.client.subscribe([self._topic], **{**noted, **callbacks})
        return self

    def until(self, done: Callable[[], object], *others: Member) -> None:
        """Poll, and let the others poll, until `done()`."""
        until_s = self._world.now_s() + PATIENCE_S
        while not done():
            assert self._world.now_s() < until_s, (self.calls, self.offsets, self.ends, self.errors)
            for member in (self, *others):
                member.note(member.client.poll(0.05))

    def joined(self) -> Member:
        self.until(self.client.assignment)
        return self

    def quiet(self, for_s: float = QUIET_S) -> Member:
        """Poll for a while; what comes, if anything, is noted."""
        until_s = self._world.now_s() + for_s
        while self._world.now_s() < until_s:
            self.note(self.client.poll(0.1))
        return self

    def consumed(self, count: int, wait_s: float = 1.0) -> list[Any]:
        """One call of `consume`; what came is noted."""
        messages: list[Any] = self.client.consume(count, wait_s)
        for message in messages:
            self.note(message)
        return messages

    def note(self, message: Any) -> None:
        if message is None:
            return
        error = message.error()
        if error is None:
            key = message.topic(), message.partition()
            self.offsets.setdefault(key, []).append(message.offset())
        elif error.code() == KafkaError._PARTITION_EOF:
            self.ends.append((message.partition(), message.offset()))
        else:
            self.errors.append((error.name(), message.offset()))

    def read(self, partition: int = 0) -> list[int]:
        return self.offsets.get((self._topic, partition), [])

    def read_until(self, offset: int, partition: int = 0) -> Member:
        self.until(lambda: offset in self.read(partition))
        return self

    def at_end(self, count: int = 1) -> Member:
        self.until(lambda: len(self.ends) >= count)
        return self

    def place(self, offset: int = OFFSET_INVALID, partition: int = 0) -> TopicPartition:
        return TopicPartition(self._topic, partition, offset)

    def position(self) -> int:
        (item,) = self.client.position([self.place()])
        return int(item.offset)

    def owned(self) -> list[int]:
        return sorted(item.partition for item in self.client.assignment())

    def _noted(self, name: str) -> Callable[[Any, list[TopicPartition]], None]:
        def note(_: Any, partitions: list[TopicPartition]) -> None:
            self.calls.append((name, sorted(item.partition for item in partitions)))

        return note

    def _committed(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        places = [(item.partition, item.offset) for item in partitions]
        self.commits.append((error.name() if error else None, places))


def code_of(call: Callable[[], object]) -> str:
    """The name of the code with which librdkafka refuses."""
    with pytest.raises(KafkaException) as caught:
        call()
    return str(caught.value.args[0].name())


class Laws:
    """What each law begins with."""

    @pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.broker)])
    def world(self, request: pytest.FixtureRequest) -> World:
        if request.param == "fake":
            return FakeWorld()
        return RealWorld(request.getfixturevalue("kafka"))

    @pytest.fixture
    def topic(self, world: World) -> str:
        name = f"contract-{next(_numbers)}"
        world.create_topic(name, 2)
        world.append(name, 0, [b"0", b"1", b"2", b"3", b"4"])
        return name

    @pytest.fixture
    def member(self, world: World, topic: str) -> Iterator[Callable[..., Member]]:
        """Members of one group, which are closed in the end."""
        made: list[Member] = []

        def make(**config: Any) -> Member:
            keys = {key.replace("_", "."): value for key, value in config.items()}
            made.append(Member(world, topic, f"group-of-{topic}", keys))
            return made[-1]

        yield make
        for one in made:
            with suppress(RuntimeError, ValueError):  # closed, or its callback raises
                one.client.close()


class TestContract(Laws):
    """The laws."""

    def test_offset_order(self, member: Callable[..., Member]) -> None:
        """The messages of a partition come in the order of their offsets, each once."""
        one = member().subscribe().at_end(2)
        assert [0, 1, 2, 3, 4] == one.read()

    def test_starts_at_committed(self, member: Callable[..., Member]) -> None:
        """An assigned partition starts at the group's committed offset."""
        one = member().subscribe().joined()
        one.client.commit(offsets=[one.place(3)], asynchronous=False)
        one.client.close()
        two = member().subscribe().at_end(2)
        assert [3, 4] == two.read()

    def test_end_of_partition(self, member: Callable[..., Member]) -> None:
        """The end is reported once, and again after a resume or a seek, but not in between."""
        one = member().subscribe().at_end(2)
        assert [(0, 5), (1, 0)] == sorted(one.ends)
        assert [(0, 5), (1, 0)] == sorted(one.quiet().ends)
        one.client.pause([one.place()])
        one.client.resume([one.place()])
        one.at_end(3)
        one.client.seek(one.place(4))
        one.at_end(4)
        assert [(0, 5), (0, 5)] == one.ends[2:]

    def test_end_counts_on(self, world: World, topic: str, member: Callable[..., Member]) -> None:
        """A message after the end is delivered, and then the end is told again."""
        one = member().subscribe().at_end(2)
        world.append(topic, 0, [b"5"])
        one.at_end(3)
        assert (5, (0, 6)) == (one.read()[-1], one.ends[-1])

    def test_pause_and_resume(
        self, world: World, topic: str, member: Callable[..., Member]
    ) -> None:
        """Nothing comes from a paused partition; after the resume it goes on where it was."""
        one = member().subscribe().at_end(2)
        one.client.pause([one.place()])
        world.append(topic, 0, [b"5", b"6"])
        assert [0, 1, 2, 3, 4] == one.quiet().read()
        one.client.resume([one.place()])
        assert [0, 1, 2, 3, 4, 5, 6] == one.read_until(6).read()

    def test_resume_skips_what_was_consumed(self, member: Callable[..., Member]) -> None:
        """What `consume` returned does not come again on resume: the position is behind it."""
        one = member().subscribe().joined()
        one.until(lambda: one.consumed(2) and one.read())
        consumed = list(one.read())
        one.client.pause([one.place()])
        one.client.resume([one.place()])
        one.read_until(4)
        assert [0, 1, 2, 3, 4] == one.read()
        assert consumed == list(range(len(consumed)))

    def test_seek_on_paused(self, member: Callable[..., Member]) -> None:
        """A paused partition that is sought delivers nothing, and on resume from there."""
        one = member().subscribe().at_end(2)
        one.client.pause([one.place()])
        one.client.seek(one.place(2))
        assert OFFSET_INVALID == one.position()
        assert [0, 1, 2, 3, 4] == one.quiet().read()
        one.client.resume([one.place()])
        one.at_end(3)
        assert [2, 3, 4] == one.read()[5:]

    def test_seek_after_resume(self, member: Callable[..., Member]) -> None:
        """Resumed first and sought then, it delivers from the sought offset too."""
        one = member().subscribe().at_end(2)
        one.client.pause([one.place()])
        one.client.resume([one.place()])
        one.client.seek(one.place(3))
        one.until(lambda: len(one.read()) >= 7)
        assert [3, 4] == one.read()[5:]

    def test_position(self, member: Callable[..., Member]) -> None:
        """The position follows the last message delivered, and is invalid before the first."""
        one = member()
        assert OFFSET_INVALID == one.position()
        one.client.assign([one.place(0)])
        assert OFFSET_INVALID == one.position()
        one.at_end(1)
        assert 5 == one.position()

    def test_pause_flag_survives(self, member: Callable[..., Member]) -> None:
        """A partition that was paused is still paused after it is unassigned and assigned again."""
        one = member()
        one.client.assign([one.place(0)])
        one.at_end(1)
        one.client.pause([one.place()])
        one.client.unassign()
        one.client.assign([one.place(0)])
        assert [0, 1, 2, 3, 4] == one.quiet().read()
        one.client.resume([one.place()])
        assert [0, 1, 2, 3, 4] == one.at_end(2).read()[5:]

    def test_pause_before_assign(self, member: Callable[..., Member]) -> None:
        """A pause of what was never assigned is accepted, and does nothing."""
        one = member()
        one.client.pause([one.place()])
        one.client.assign([one.place(0)])
        assert [0, 1, 2, 3, 4] == one.read_until(4).read()

    def test_seek_of_unassigned(self, member: Callable[..., Member]) -> None:
        """Seeking is refused: never assigned, and no longer assigned, have codes of their own."""
        one = member()
        never = code_of(lambda: one.client.seek(one.place(1)))
        one.client.assign([one.place(0)])
        one.read_until(0)
        one.client.unassign()
        gone = code_of(lambda: one.client.seek(one.place(1)))
        assert ("_UNKNOWN_PARTITION", "_STATE") == (never, gone)

    def test_assignment_refusals(self, member: Callable[..., Member]) -> None:
        """Assigning twice, and unassigning what is not assigned, is refused."""
        one = member()
        empty = code_of(lambda: one.client.incremental_unassign([one.place()]))
        one.client.incremental_assign([one.place(0)])
        twice = code_of(lambda: one.client.incremental_assign([one.place(0)]))
        other = code_of(lambda: one.client.incremental_unassign([one.place(partition=1)]))
        assert ("_INVALID_ARG", "_CONFLICT", "_INVALID_ARG") == (empty, twice, other)
        assert [0] == one.owned()

    @pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
    def test_other_protocols_calls(self, member: Callable[..., Member], strategy: str) -> None:
        """A group member may change its assignment by its own protocol's calls only."""
        one = member(partition_assignment_strategy=strategy).subscribe().joined()
        client = one.client
        if strategy == "range":
            codes = [
                code_of(lambda: client.incremental_assign([one.place(0)])),
                code_of(lambda: client.incremental_unassign([one.place()])),
            ]
        else:
            codes = [code_of(lambda: client.assign([one.place(0)])), code_of(client.unassign)]
        assert ["_STATE", "_STATE"] == codes
        assert [0, 1] == one.owned()

    def test_eager_join(self, member: Callable[..., Member]) -> None:
        """Eager: when another member joins, everything is revoked before anything is assigned."""
        one = member(partition_assignment_strategy="range").subscribe().joined()
        two = member(partition_assignment_strategy="range").subscribe()
        one.until(lambda: len(one.owned()) == len(two.owned()) == 1, two)
        first, revoke, *_ = one.calls
        assert [("on_assign", [0, 1]), ("on_revoke", [0, 1])] == [first, revoke]
        assert ("on_assign", one.owned()) == one.calls[-1]

    def test_incremental_join(self, member: Callable[..., Member]) -> None:
        """Cooperative: only what moves is revoked, and what stays is never assigned again."""
        strategy = {"partition_assignment_strategy": "cooperative-sticky"}
        one = member(**strategy).subscribe().joined()
        two = member(**strategy).subscribe()
        one.until(lambda: len(one.owned()) == len(two.owned()) == 1, two)
        reported = [call for call in one.calls if call[1]]
        assert [("on_assign", [0, 1]), ("on_revoke", two.owned())] == reported

    @pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
    def test_max_poll_interval(
        self, world: World, topic: str, member: Callable[..., Member], strategy: str
    ) -> None:
        """Who polls too late gets an error first, is then told of the loss, and joins again."""
        limit_ms = 1500
        late = member(
            partition_assignment_strategy=strategy,
            session_timeout_ms=limit_ms,
            max_poll_interval_ms=limit_ms,
        )
        late.subscribe().at_end(2)
        # Time passes while somebody else polls.
        bystander = Member(world, topic, f"bystanders-of-{topic}", {}).quiet(2 * limit_ms / 1000)
        late.note(late.client.poll(1.0))
        assert [("_MAX_POLL_EXCEEDED", None)] == late.errors
        assert [("on_assign", [0, 1])] == late.calls
        late.until(lambda: len(late.calls) == 3)
        assert [("on_lost", [0, 1]), ("on_assign", [0, 1])] == late.calls[1:]
        late.client.close()
        bystander.client.close()

    @pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
    def test_revoke_inside_consume(
        self, world: World, topic: str, member: Callable[..., Member], strategy: str
    ) -> None:
        """A `consume` returns nothing of what it took from a partition before its revocation."""
        world.append(topic, 1, [b"0", b"1", b"2", b"3", b"4"])
        keys = {"partition_assignment_strategy": strategy, "enable_partition_eof": False}
        one = member(**keys).subscribe().joined()
        two = member(**keys).subscribe()
        two.note(two.client.poll(0.3))
        one.offsets.clear()
        one.consumed(1000, wait_s=2.0)
        (kept,) = one.owned()
        assert list(range(one.read(kept)[0], 5)) == one.read(kept)
        assert [] == one.read(1 - kept)

    def test_close_revokes(self, member: Callable[..., Member]) -> None:
        """`close` calls on_revoke with everything assigned, once; a second close does nothing."""
        one = member().subscribe().joined()
        one.client.close()
        one.client.close()
        assert [("on_assign", [0, 1]), ("on_revoke", [0, 1])] == one.calls

    def test_calls_after_close(self, member: Callable[..., Member]) -> None:
        """Every call after `close` raises RuntimeError."""
        one = member().subscribe().joined()
        one.client.close()
        place = one.place(1)
        for call in (
            lambda: one.client.poll(0),
            lambda: one.client.consume(1, 0),
            lambda: one.client.seek(place),
            lambda: one.client.pause([place]),
            lambda: one.client.resume([place]),
            lambda: one.client.commit(offsets=[place]),
            one.client.assignment,
            one.client.unassign,
            one.client.memberid,
            one.client.list_topics,
        ):
            with pytest.raises(RuntimeError, match="closed"):
                call()

    def test_who_unsubscribes_has_left(self, member: Callable[..., Member]) -> None:
        """Soon the client has no member id, and nothing is assigned."""
        one = member().subscribe().joined()
        one.client.unsubscribe()
        wait_until(lambda: [one.client.poll(0.05), not one.client.memberid()][1], "it left")
        assert [] == one.client.assignment()

    def test_consume_counts(self, member: Callable[..., Member]) -> None:
        """`consume(0)` is empty, a negative number or more than a million is a ValueError."""
        one = member()
        assert [] == one.client.consume(0, 0)
        for count in (-1, 1_000_001):
            with pytest.raises(ValueError, match="num_messages"):
                one.client.consume(count, 0)

    @pytest.mark.parametrize("call", ["poll", "consume"])
    def test_raising_callback(self, member: Callable[..., Member], call: str) -> None:
        """What on_assign raises comes out as it is, the partitions are assigned all the same, and
        the messages that the call had taken are gone.
        """
        error = ValueError("raised by on_assign")

        def raising(*_: object) -> None:
            raise error

        one = member(enable_partition_eof=False).subscribe(on_assign=raising)
        reads = {"poll": lambda: one.client.poll(5.0), "consume": lambda: one.client.consume(3, 5)}
        with pytest.raises(ValueError, match="raised by on_assign") as caught:
            one.until(reads[call])
        assert error is caught.value
        assert [0, 1] == one.owned()
        one.read_until(4)
        assert ([1, 2, 3, 4] if call == "poll" else [3, 4]) == one.read()

    def test_raising_revoke_in_close(self, member: Callable[..., Member]) -> None:
        """What on_revoke raises comes out of `close`, which has closed nevertheless."""

        def raising(*_: object) -> None:
            raise ValueError("raised by on_revoke")

        one = member().subscribe(on_revoke=raising).joined()
        with pytest.raises(ValueError, match="raised by on_revoke"):
            one.client.close()
        with pytest.raises(RuntimeError, match="closed"):
            one.client.poll(0)

    def test_commit_callback(self, member: Callable[..., Member]) -> None:
        """An asynchronous commit is answered inside a later poll; a synchronous one returns."""
        one = member().subscribe().at_end(2)
        one.client.commit(offsets=[one.place(2)])
        assert [] == one.commits
        one.until(lambda: one.commits)
        assert [(None, [(0, 2)])] == one.commits
        (item,) = one.client.commit(offsets=[one.place(3)], asynchronous=False)
        assert (3, None) == (item.offset, item.error)
        (stored,) = one.client.committed([one.place()], timeout=PATIENCE_S)
        assert 3 == stored.offset

    def test_nothing_to_commit(self, member: Callable[..., Member]) -> None:
        """A commit of no offset is refused with _NO_OFFSET, asynchronously through the callback."""
        one = member().subscribe().at_end(2)
        assert "_NO_OFFSET" == code_of(lambda: one.client.commit(offsets=[], asynchronous=False))
        one.client.commit(offsets=[])
        one.until(lambda: one.commits)
        assert [("_NO_OFFSET", [])] == one.commits

    def test_leader_epoch_of_a_commit(self, member: Callable[..., Member]) -> None:
        """It is kept beside the offset, until a commit has none; messages have one."""
        one = member().subscribe().read_until(4)
        place = one.place(2)
        for leader_epoch, kept in ((0, 0), (-1, None)):
            item = TopicPartition(
                place.topic, place.partition, place.offset, leader_epoch=leader_epoch
            )
            one.client.commit(offsets=[item], asynchronous=False)
            (stored,) = one.client.committed([place], timeout=PATIENCE_S)
            assert (2, kept) == (stored.offset, stored.leader_epoch)

    def test_nothing_committed(self, member: Callable[..., Member]) -> None:
        """Where nothing is committed, `committed` says OFFSET_INVALID."""
        one = member().subscribe().joined()
        (item,) = one.client.committed([one.place()], timeout=PATIENCE_S)
        assert (OFFSET_INVALID, None) == (item.offset, item.error)

    def test_commit_of_unowned(self, member: Callable[..., Member]) -> None:
        """A member may commit what it does not own: there is no fence per partition."""
        one = member().subscribe().joined()
        two = member().subscribe()
        one.until(lambda: len(one.owned()) == len(two.owned()) == 1, two)
        other = TopicPartition(one.place().topic, two.owned()[0], 1)
        one.until(lambda: _accepted(one, other), two)
        (item,) = two.client.committed([other], timeout=PATIENCE_S)
        assert 1 == item.offset

    def test_pending_commit_at_close(self, member: Callable[..., Member]) -> None:
        """A commit that is not answered yet is answered inside `close`."""
        one = member().subscribe().at_end(2)
        one.client.commit(offsets=[one.place(2)])
        one.client.close()
        assert [(None, [(0, 2)])] == one.commits

    def test_reset_error_without_commit(self, member: Callable[..., Member]) -> None:
        """`auto.offset.reset=error`, nothing committed: an error without offset, and then nothing
        until the partition is assigned again; seeking is refused.
        """
        one = member(auto_offset_reset="error")
        one.client.assign([one.place()])
        one.until(lambda: one.errors)
        assert [("_AUTO_OFFSET_RESET", None)] == one.errors
        assert "_STATE" == code_of(lambda: one.client.seek(one.place(1)))
        one.client.assign([one.place(OFFSET_BEGINNING)])
        assert [0, 1, 2, 3, 4] == one.read_until(4).read()

    def test_reset_error_out_of_range(
        self, world: World, topic: str, member: Callable[..., Member]
    ) -> None:
        """`auto.offset.reset=error`, retention ran past us: an error with the offset wanted."""
        world.delete_records(topic, 0, 3)
        one = member(auto_offset_reset="error")
        one.client.assign([one.place(1)])
        one.until(lambda: one.errors)
        assert [("_AUTO_OFFSET_RESET", 1)] == one.errors
        one.client.incremental_unassign([one.place()])
        one.client.incremental_assign([one.place(3)])
        assert [3, 4] == one.read_until(4).read()

    def test_reset_earliest_out_of_range(
        self, world: World, topic: str, member: Callable[..., Member]
    ) -> None:
        """With `earliest` a seek to what is gone, or is not there yet, starts at what is left."""
        world.delete_records(topic, 0, 3)
        one = member()
        one.client.assign([one.place(1)])
        one.at_end(1)
        one.client.seek(one.place(77))
        one.at_end(2)
        assert [3, 4, 3, 4] == one.read()

    def test_topic_metadata(self, member: Callable[..., Member], topic: str) -> None:
        """A missing topic is listed with an error, a present one with its partitions."""
        one = member()
        missing = one.client.list_topics("not-there", timeout=PATIENCE_S).topics["not-there"]
        assert KafkaError.UNKNOWN_TOPIC_OR_PART == missing.error.code()
        present = one.client.list_topics(topic, timeout=PATIENCE_S).topics[topic]
        assert ([0, 1], None) == (sorted(present.partitions), present.error)

    def test_edges(self, world: World, topic: str, member: Callable[..., Member]) -> None:
        """The first offset that is left, and the one after the last."""
        world.delete_records(topic, 0, 3)
        one = member()
        edges = [TopicPartition(topic, 0, edge) for edge in (OFFSET_BEGINNING, OFFSET_END)]
        found = [
            one.client.offsets_for_times([edge], timeout=PATIENCE_S)[0].offset for edge in edges
        ]
        assert [3, 5] == found

    def test_round_trip(self, world: World, topic: str, member: Callable[..., Member]) -> None:
        """Tombstone, empty key, headers with duplicates and None come as they were sent."""
        headers: Headers = [("a", b"1"), ("a", None), ("b", b"")]
        producer = world.producer({})
        producer.produce(topic, None, b"", partition=1, headers=headers)
        assert 0 == producer.flush(PATIENCE_S)
        one = member()
        one.client.assign([one.place(0, partition=1)])
        message = None
        while message is None:
            message = one.client.poll(PATIENCE_S)
        assert (None, b"", headers) == (message.value(), message.key(), message.headers())

    def test_headers_refused(self, world: World, topic: str) -> None:
        """A value is None, bytes or text, a pair a tuple; of a name only what precedes a NUL comes,
        and of one that is no text its `repr`.
        """
        producer = world.producer({})
        odd: list[Any] = [
            [("a", 1)],
            [("a", 1.5)],
            [("a", bytearray(b"1"))],
            [("a", True)],
            ["a"],
            [()],
            [["a", b"1"]],
        ]
        for headers in odd:
            with pytest.raises(TypeError, match="expected"):
                producer.produce(topic, b"v", partition=1, headers=headers)
        sent = [(b"a", b"1"), ("b\0c", b"2"), ("d", "3"), (4, None)]
        producer.produce(topic, b"v", partition=1, headers=sent)
        assert 0 == producer.flush(PATIENCE_S)
        one = Member(world, topic, f"reader-of-{topic}", {})
        one.client.assign([one.place(0, partition=1)])
        message = None
        while message is None:
            message = one.client.poll(PATIENCE_S)
        assert [("b'a'", b"1"), ("b", b"2"), ("d", b"3"), ("4", None)] == message.headers()
        one.client.close()

    def test_delivery_report(self, world: World, topic: str) -> None:
        """The report comes inside `poll`, with where the record is, and without its headers."""
        reports: list[Any] = []
        producer = world.producer({"linger.ms": 0})
        producer.produce(
            topic,
            b"v",
            b"k",
            partition=0,
            headers=[("a", b"1")],
            on_delivery=lambda *report: reports.append(report),
        )
        assert [] == reports
        assert 1 == producer.poll(PATIENCE_S)
        ((error, message),) = reports
        assert (None, 0, 5) == (error, message.partition(), message.offset())
        assert 1 == message.timestamp()[0]
        assert (b"v", None) == (message.value(), message.headers())

    def test_failed_report(self, world: World) -> None:
        """A topic that is not there is told in the report only, which has no place then."""
        reports: list[Any] = []
        producer = world.producer(
            {"message.timeout.ms": 1000, "allow.auto.create.topics": False, "linger.ms": 0}
        )
        producer.produce("not-there", b"v", on_delivery=lambda *report: reports.append(report))
        assert 0 == producer.flush(PATIENCE_S)
        ((error, message),) = reports
        assert KafkaError._MSG_TIMED_OUT == error.code()
        assert (None, None) == (message.partition(), message.offset())

    def test_producer_refusals(self, world: World, topic: str) -> None:
        """Too large, a full queue and an unknown partition are refused by `produce` itself."""
        producer = world.producer({"message.max.bytes": 2000, "queue.buffering.max.messages": 1})
        too_large = code_of(lambda: producer.produce(topic, b"v" * 2001))
        producer.produce(topic, b"v", partition=0)
        with pytest.raises(BufferError):
            producer.produce(topic, b"v", partition=0)
        assert 0 == producer.flush(PATIENCE_S)
        unknown = code_of(lambda: producer.produce(topic, b"v", partition=9))
        assert ("MSG_SIZE_TOO_LARGE", "_UNKNOWN_PARTITION") == (too_large, unknown)

    def test_raising_report(self, world: World, topic: str) -> None:
        """What a delivery callback raises comes out of the producer's `poll`."""

        def raising(*_: object) -> None:
            raise ValueError("raised by on_delivery")

        producer = world.producer({"linger.ms": 0})
        producer.produce(topic, b"v", on_delivery=raising)
        with pytest.raises(ValueError, match="raised by on_delivery"):
            producer.poll(PATIENCE_S)

    def test_admin_end_offsets(self, world: World, topic: str) -> None:
        """`list_offsets` answers with the end, and with an error for what is not there."""
        here, nowhere = TopicPartition(topic, 0), TopicPartition("not-there", 0)
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # the client has no types for it
        admin = world.admin()
        futures = admin.list_offsets({here: latest, nowhere: latest}, request_timeout=10)
        assert 5 == futures[here].result(PATIENCE_S).offset
        assert "UNKNOWN_TOPIC_OR_PART" == code_of(lambda: futures[nowhere].result(PATIENCE_S))

    def test_admin_configs(self, world: World, topic: str) -> None:
        """`describe_configs` answers with texts, and with an error for a missing topic."""
        here = ConfigResource(ConfigResource.Type.TOPIC, topic)
        nowhere = ConfigResource(ConfigResource.Type.TOPIC, "not-there")
        admin = world.admin()
        futures = admin.describe_configs([here, nowhere], request_timeout=10)
        assert "604800000" == futures[here].result(PATIENCE_S)["retention.ms"].value
        assert "UNKNOWN_TOPIC_OR_PART" == code_of(lambda: futures[nowhere].result(PATIENCE_S))

    @pytest.mark.parametrize("by_broker", [True, False], ids=["LogAppendTime", "CreateTime"])
    def test_whose_clock_stamps(self, world: World, *, by_broker: bool) -> None:
        """The broker's, where the topic says so, whatever the writer says; else the writer's."""
        name = f"contract-{next(_numbers)}"
        kind = "LogAppendTime" if by_broker else "CreateTime"
        # Kept for ever: a writer's old time would have retention remove the record at once.
        world.create_topic(name, 1, {"message.timestamp.type": kind, "retention.ms": "-1"})
        producer = world.producer({})
        producer.produce(name, b"old", timestamp=_LONG_AGO_MS)
        producer.flush(PATIENCE_S)
        reader = world.client({"group.id": name, "enable.auto.commit": False})
        reader.assign([TopicPartition(name, 0, OFFSET_BEGINNING)])
        message = next(found for _ in range(30) if (found := reader.poll(1.0)))
        reader.close()
        found_type, at_ms = message.timestamp()
        expected = TIMESTAMP_LOG_APPEND_TIME if by_broker else TIMESTAMP_CREATE_TIME
        assert (expected, by_broker) == (found_type, at_ms > _LONG_AGO_MS)
        resource = ConfigResource(ConfigResource.Type.TOPIC, name)
        admin = world.admin()
        (described,) = admin.describe_configs([resource], request_timeout=10).values()
        assert kind == described.result(PATIENCE_S)["message.timestamp.type"].value

    def test_admin_topics(self, world: World, topic: str) -> None:
        """`describe_topics` answers with partitions, and with an error for a missing topic."""
        admin = world.admin()
        asked = TopicCollection([topic, "not-there"])
        futures = admin.describe_topics(
            asked, include_authorized_operations=True, request_timeout=10
        )
        assert 0 < len(futures[topic].result(PATIENCE_S).partitions)
        assert "UNKNOWN_TOPIC_OR_PART" == code_of(lambda: futures["not-there"].result(PATIENCE_S))

    def test_a_producer_sees_topics(self, world: World, topic: str) -> None:
        """`list_topics` of a producer that may create none says that a missing one is missing."""
        producer = world.producer({"allow.auto.create.topics": False})
        for _ in range(2):
            missing = producer.list_topics("nowhere", timeout=PATIENCE_S).topics["nowhere"]
            assert KafkaError.UNKNOWN_TOPIC_OR_PART == missing.error.code()
        assert producer.list_topics(topic, timeout=PATIENCE_S).topics[topic].error is None


def _accepted(member: Member, place: TopicPartition) -> bool:
    """Whether the commit goes through: right after a rebalance the group may ask for patience."""
    try:
        member.client.commit(offsets=[place], asynchronous=False)
    except KafkaException as refused:
        if refused.args[0].code() in _ASK_FOR_PATIENCE:
            return False
        raise
    return True


_ASK_FOR_PATIENCE = (KafkaError.REBALANCE_IN_PROGRESS, KafkaError.ILLEGAL_GENERATION)
