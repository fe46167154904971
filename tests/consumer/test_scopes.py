"""A narrow circuit stops what is in its scope, and nothing else."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar, get_args

import pytest
from confluent_kafka import KafkaError

from linear_retry import ExhaustedError, Strategy, events
from linear_retry.kafka import Message
from linear_retry.retry.circuits import CircuitView
from linear_retry.scope import Partition, Scope
from linear_retry.testing import AttemptFinished, AttemptStarted, Entry, EventEmitted, Place
from tests.consumer.group import GROUP, TOPIC, FakeGroup, Member, OutageError, Protocol, consumer_on
from tests.fake.cluster import FakeKafka

Narrow: TypeAlias = Literal["topic", "partition"]
_E = TypeVar("_E", bound=events.Event)

each_protocol = pytest.mark.parametrize("protocol", get_args(Protocol))
each_scope = pytest.mark.parametrize("scope", get_args(Narrow))


@dataclass(frozen=True, slots=True)
class _Scene:
    """A group with four partitions, each in a scope of its own."""

    group: FakeGroup
    kind: Narrow

    @property
    def partitions(self) -> list[Partition]:
        return self.group.partitions

    def scope(self, number: int) -> Scope:
        return Scope.of(self.kind, self.partitions[number])

    def fill(self, numbers: Iterable[int], count: int) -> None:
        for number in numbers:
            self.group.produce(self.partitions[number], count)

    def fails(self, *numbers: int, asks_s: Iterable[float] = ()) -> None:
        """From now on the dependency is down for these, and only for these."""
        dependency = self.group.dependency
        dependency.down_for = {self.partitions[number] for number in numbers}
        asked = zip(numbers, asks_s, strict=False)
        dependency.asks_s = {self.partitions[number]: wait_s for number, wait_s in asked}

    def joined(self) -> Member:
        """A member that has all partitions."""
        member = self.group.join()
        self.group.share([0, 0, 0, 0])
        return member

    def until_open(self, *numbers: int) -> None:
        wanted = {self.scope(number) for number in numbers}
        for _ in range(1000):
            if wanted <= {scope for one in self.group.members for scope, _ in one.circuits}:
                return
            self.group.turn()
        pytest.fail(f"never open at once: {wanted}")

    def until_s(self, at_s: float) -> None:
        while self.group.fake.clock.now_s() < at_s:
            self.group.turn()

    def for_s(self, seconds: float) -> None:
        self.until_s(self.group.fake.clock.now_s() + seconds)

    def attempts(self, number: int | None = None) -> list[Place]:
        wanted = None if number is None else self.partitions[number]
        return [place for _, place in self.timed() if wanted in (None, place[:2])]

    def timed(self) -> list[tuple[float, Place]]:
        begun = [entry for entry in self.group.witness.entries if isinstance(entry, AttemptStarted)]
        return [(entry.at_s, entry.place) for entry in begun]

    def finished(self) -> None:
        """The outage is over: everything is done in the end, and every guarantee held."""
        self.fails()
        self.group.finish()
        assert [] == self.group.violations()


def _scene(
    scope: Narrow,
    protocol: Protocol = "eager",
    *,
    strategy: Iterable[Any] = (1, 2, 5),
    remember_failures: bool = True,
) -> _Scene:
    topics = ["a", "b", "c", "d"] if scope == "topic" else [TOPIC]
    partitions = 4 // len(topics)
    group = FakeGroup(
        protocol=protocol,
        scope=scope,
        topics=topics,
        partitions=partitions,
        strategy=strategy,
        remember_failures=remember_failures,
    )
    return _Scene(group, scope)


def _emitted(member: Member, kind: type[_E]) -> list[_E]:
    return [event for event in member.events if isinstance(event, kind)]


@each_protocol
@each_scope
def test_three_are_open_at_once(scope: Narrow, protocol: Protocol) -> None:
    """Each has its own held message and `retry_at`, whatever the order they opened in; the fourth
    partition is read all the while, each message at once."""
    scene = _scene(scope, protocol, strategy=[0.1, 0.1])
    scene.fails(0, 1, 2, asks_s=[5.0, 1.0, 3.0])
    scene.fill(range(4), 3)
    member = scene.joined()
    scene.until_open(0, 1, 2)
    opened_s = scene.group.fake.clock.now_s()
    views = member.circuits.views
    scene.fails()
    for second in range(1, 5):
        scene.until_s(opened_s + second - 0.5)
        scene.fill([3], 1)
        scene.group.turn(2)
        assert 3 + second == len(scene.attempts(3))
    scene.until_s(opened_s + 6)
    probes = [(at_s - opened_s, place) for at_s, place in scene.timed() if at_s > opened_s]
    begun = [(at_s, scene.partitions.index(place[:2])) for at_s, place in probes if place[2] == 0]
    assert [1, 2, 0] == [number for _, number in begun]
    assert [1.0, 3.0, 5.0] == pytest.approx([at_s for at_s, _ in begun], abs=0.02)
    assert {Scope(), *map(scene.scope, range(3))} == set(views)
    assert CircuitView("closed") == views[Scope()]
    for number in range(3):
        view = views[scene.scope(number)]
        assert ("open", *scene.partitions[number], 0, 1) == (
            view.state,
            view.topic,
            view.partition,
            view.offset,
            view.failures,
        )
    scene.finished()


@each_protocol
@each_scope
def test_what_is_always_due_starves_nobody(scope: Narrow, protocol: Protocol) -> None:
    """With delay 0 three circuits are due all the time: between their probes the others go on."""
    scene = _scene(scope, protocol, strategy=[0] * 100)
    scene.group.dependency.takes_s = 0.1
    scene.fails(0, 1, 2)
    scene.fill(range(3), 1)
    scene.fill([3], 20)
    scene.joined()
    scene.until_open(0, 1, 2)
    before = [len(scene.attempts(number)) for number in range(4)]
    while len(scene.attempts(3)) < 20:
        scene.group.turn()
    begun = [len(scene.attempts(number)) - before[number] for number in range(4)]
    assert max(begun) - min(begun) <= 1
    scene.finished()


@each_protocol
def test_many_slow_probes_due_at_once(protocol: Protocol) -> None:
    """Their calls add up to more than `max.poll.interval.ms`: between two of them is a poll.

    All of them were called without one, and the group gave the partitions to others; the third
    time in a row that ended the consumer, though no call was slow.
    """
    config = {"max.poll.interval.ms": 90_000}
    group = FakeGroup(
        protocol=protocol, scope="partition", partitions=12, strategy=[1] * 8, config=config
    )
    for number in range(12):
        group.produce(number, 2)
    group.dependency.down = True
    member = group.join()
    group.share([0] * 12)
    while len(list(member.circuits)) < 12:
        group.turn()
    group.dependency.takes_s = 10.0
    group.turn(5)
    group.dependency.down = False
    group.finish(within_s=3600)
    assert [] == _emitted(member, events.HandlerTooSlow)
    assert [] == _emitted(member, events.Lost)
    assert [] == group.violations()


@each_protocol
def test_a_slow_probe_and_a_slow_message_behind_it(protocol: Protocol) -> None:
    """Between a probe and what is handed over in the same turn is a poll, where the probe was slow.

    The bug: together they took longer than `max.poll.interval.ms`, and the group gave all
    partitions to others, though neither call was slow.
    """
    scene = _scene("partition", protocol, strategy=[30])
    scene.fails(0)
    scene.fill([0], 1)
    member = scene.joined()
    scene.until_open(0)
    retry_at_s = scene.group.fake.clock.now_s() + 30
    scene.until_s(retry_at_s - 5)
    scene.fill([1], 100)
    scene.group.turn(4)  # a batch that is not handled within a second
    scene.group.dependency.takes_s = 1.5
    scene.until_s(retry_at_s)
    scene.fails()
    scene.group.dependency.takes_s = 200.0
    before = len(scene.attempts())
    scene.group.turn()
    assert scene.partitions[:2] == [place[:2] for place in scene.attempts()[before:]]
    assert [] == _emitted(member, events.HandlerTooSlow)
    assert [] == _emitted(member, events.Lost)
    scene.group.dependency.takes_s = 0.0
    scene.finished()


@each_protocol
@each_scope
def test_one_of_two_held_messages_goes(scope: Narrow, protocol: Protocol) -> None:
    """The one that stays keeps its count; the other's new owner counts again, if it is told to, and
    the circuit that has lost its partition ends at `retry_at`."""
    scene = _scene(scope, protocol, strategy=[10, 10], remember_failures=False)
    scene.fails(0, 1)
    scene.fill(range(4), 3)
    first = scene.joined()
    scene.until_open(0, 1)
    second = scene.group.join()
    scene.group.share([0, 1, 0, 0])
    scene.for_s(1)
    views = first.circuits.views
    assert ("open", None) == (views[scene.scope(1)].state, views[scene.scope(1)].offset)
    assert [1] == [event.failures for event in _emitted(second, events.CircuitOpened)]
    stays_here = protocol != "eager"
    assert (1 if stays_here else None) == views[scene.scope(0)].failures
    scene.for_s(12)
    closed = [(event.scope, event.outcome) for event in _emitted(first, events.CircuitClosed)]
    assert [(scene.scope(1), "dropped")] == closed
    failures = [event.failures for event in _emitted(first, events.ProbeFailed)]
    assert [2 if stays_here else 1] == failures
    scene.finished()


def _topic_scene(protocol: Protocol) -> FakeGroup:
    """Two topics of two partitions; the first topic's circuit is open, for partition 0."""
    group = FakeGroup(
        protocol=protocol, scope="topic", topics=["a", "b"], partitions=2, strategy=[10, 10]
    )
    for partition in group.partitions:
        group.produce(partition, 3)
    group.dependency.down_for = {("a", 0), ("a", 1)}
    group.join()
    group.share([0, 0, 0, 0])
    while not list(group.members[0].circuits):
        group.turn()
    return group


def _attempts(group: FakeGroup, *partitions: Partition) -> list[Place]:
    begun = [entry.place for entry in group.witness.entries if isinstance(entry, AttemptStarted)]
    return [place for place in begun if place[:2] in partitions]


def _until_probed(group: FakeGroup) -> None:
    while not _emitted(group.members[0], events.ProbeFailed):
        group.turn()


@each_protocol
def test_a_topic_that_goes_and_comes_back_in_part(protocol: Protocol) -> None:
    """It loses all of its partitions, and gets one back before `retry_at`: that stands still until
    then, and has one probe. The other topic goes on."""
    group = _topic_scene(protocol)
    member, scope = group.members[0], Scope("a")
    failed = _attempts(group, ("a", 0), ("a", 1))
    group.fake.assign(member.consumer, [("b", 0), ("b", 1)])
    group.turn(5)
    group.fake.assign(member.consumer, [("a", 1), ("b", 0), ("b", 1)])
    group.turn(5)
    assert ("open", None) == (
        member.circuits.views[scope].state,
        member.circuits.views[scope].offset,
    )
    assert failed == _attempts(group, ("a", 0), ("a", 1))
    assert 6 == len(_attempts(group, ("b", 0), ("b", 1)))
    _until_probed(group)
    assert [*failed, ("a", 1, 0)] == _attempts(group, ("a", 0), ("a", 1))
    assert [1] == [event.failures for event in _emitted(member, events.ProbeFailed)]
    group.dependency.down_for = set()
    group.share([0, 0, 0, 0])
    group.finish()
    assert [] == group.violations()


@each_protocol
def test_a_topic_with_nothing_held_has_one_probe(protocol: Protocol) -> None:
    """The held message goes for good; at `retry_at` the first message of the topic is the probe,
    wherever it comes from, and the rest of the topic stands still again."""
    group = _topic_scene(protocol)
    member = group.members[0]
    held = next(circuit.held for _, circuit in member.circuits)
    assert held is not None
    stays = ("a", 1 - held.partition[1])
    group.fake.add_partitions("a", 1)
    group.visible["a", 2] = []
    group.fake.assign(member.consumer, [stays, ("a", 2), ("b", 0), ("b", 1)])
    group.produce(("a", 2), 3)
    group.dependency.down_for |= {("a", 2)}
    before = len(_attempts(group, stays, ("a", 2)))
    _until_probed(group)
    group.turn(5)
    assert before + 1 == len(_attempts(group, stays, ("a", 2)))
    assert [] == _emitted(member, events.LeakDropped)
    assert 6 == len(_attempts(group, ("b", 0), ("b", 1)))
    group.dependency.down_for = set()
    group.fake.assign(member.consumer, group.partitions)
    group.finish()
    assert [] == group.violations()


@each_protocol
@each_scope
def test_half_open_with_nothing_to_read(scope: Narrow, protocol: Protocol) -> None:
    """What was held has been done elsewhere, and nothing more has come: the circuit is half-open,
    stops nothing, and the next message, whenever it comes, is the probe."""
    scene = _scene(scope, protocol, strategy=[5, 5], remember_failures=False)
    scene.fails(0)
    scene.fill([0, 1], 1)
    first = scene.joined()
    scene.until_open(0)
    second = scene.group.join()
    scene.fails()
    scene.group.share([1, 0, 0, 0])
    scene.for_s(2)
    scene.group.leave(second)
    scene.group.share([0, 0, 0, 0])
    scene.for_s(30)
    assert "half-open" == first.circuits.views[scene.scope(0)].state
    scene.fails(0)
    scene.fill([0, 1], 2)
    scene.for_s(2)
    assert 1 == len(_emitted(first, events.ProbeFailed))
    assert 3 == len(scene.attempts(1))
    scene.finished()


def test_a_first_message_that_arrives_while_a_letter_is_awaited() -> None:
    """It is due at once, so the batch in hand waits after the message in progress: it used to wait
    for the whole batch."""
    scene = _scene("partition", strategy=[5, 5], remember_failures=False)
    group = scene.group
    scene.fails(0)
    scene.fill([0, 1], 1)
    first = scene.joined()
    scene.until_open(0)
    second = group.join()
    scene.fails()
    group.share([1, 0, 0, 0])
    scene.for_s(2)
    group.leave(second)
    group.share([0, 0, 0, 0])
    scene.for_s(10)
    group.dependency.refuses = {(1, 1)}
    group.fake.faults.fail_delivery(KafkaError._MSG_TIMED_OUT)
    scene.fill([1], 1)
    while not _emitted(first, events.DeadLetterFailed):
        group.turn()
    group.fake.faults.delivery_s = 4.5
    group.dependency.takes_s = 0.2
    group.fake.clock.at(2.0, lambda: scene.fill([0, 2, 3], 3))
    while (*scene.partitions[0], 1) not in scene.attempts():
        group.turn()
    log = group.witness.entries
    letter = next(n for n, one in enumerate(log) if _is_letter(one))
    begun = [entry.place for entry in log[letter:] if isinstance(entry, AttemptStarted)]
    assert 1 >= begun.index(Place(*scene.partitions[0], 1))
    group.fake.faults.delivery_s = 0.0
    scene.finished()


@each_protocol
@each_scope
def test_a_leak_in_one_scope(scope: Narrow, protocol: Protocol) -> None:
    """What a paused partition delivers is dropped and said; other scopes are not touched."""
    scene = _scene(scope, protocol, strategy=[10])
    scene.fails(0, 1)
    scene.fill(range(4), 5)
    member = scene.joined()
    scene.until_open(0, 1)
    scene.group.fake.faults.leak(scene.partitions[0], 3)
    scene.for_s(5)
    leaked = [(event.topic, event.partition) for event in _emitted(member, events.LeakDropped)]
    assert [scene.partitions[0]] * 3 == leaked
    assert [1, 1, 5, 5] == [len(scene.attempts(number)) for number in range(4)]
    scene.finished()


@each_protocol
@each_scope
def test_a_pause_without_effect_is_repeated(scope: Narrow, protocol: Protocol) -> None:
    """In one scope: what it delivers is dropped until then, and then nothing more comes."""
    scene = _scene(scope, protocol, strategy=[10])
    scene.fails(0)
    scene.fill([1], 5)
    member = scene.joined()
    scene.group.turn(10)
    scene.group.fake.faults.ignore_pause()
    scene.fill([0], 50)
    scene.until_open(0)
    scene.for_s(5)
    assert 0 < len(_emitted(member, events.LeakDropped)) < 10
    assert 1 == len(scene.attempts(0))
    scene.finished()


@each_protocol
@each_scope
def test_a_dead_partition_is_revived_while_others_are_open(
    scope: Narrow, protocol: Protocol
) -> None:
    """An eager assignment begins again as a whole: the held messages stay held, with their counts,
    and what is open stays paused."""
    scene = _scene(scope, protocol, strategy=[1, 1])
    scene.fails(0, 1, 3, asks_s=[40.0, 40.0])
    scene.fill(range(4), 3)
    member = scene.joined()
    scene.until_open(0, 1, 3)
    opened_s = scene.group.fake.clock.now_s()
    scene.fails(0, 1, asks_s=[40.0, 40.0])
    scene.group.fake.faults.kill(scene.partitions[3])
    scene.until_s(opened_s + 35)
    revived = [
        (event.topic, event.partition) for event in _emitted(member, events.PartitionRevived)
    ]
    assert [scene.partitions[3]] == revived
    assert [1, 1, 3, 4] == [len(scene.attempts(number)) for number in range(4)]
    assert [] == _emitted(member, events.LeakDropped)
    scene.until_s(opened_s + 45)
    assert [2, 2] == [event.failures for event in _emitted(member, events.ProbeFailed)]
    scene.finished()


@each_protocol
@each_scope
def test_a_letter_that_cannot_be_sent_stops_its_scope(scope: Narrow, protocol: Protocol) -> None:
    """The sending is tried again in one scope; another goes on, and a third waits for its own."""
    scene = _scene(scope, protocol, strategy=[2])
    scene.fill(range(3), 3)
    scene.fails(0, 1)
    member = scene.joined()
    scene.group.fake.faults.fail_delivery(KafkaError._MSG_TIMED_OUT, 3)
    while not _emitted(member, events.DeadLetterFailed):
        scene.group.turn()
    scene.fails(1)
    scene.fill([2, 3], 5)
    scene.for_s(0.5)
    assert [2, 8, 5] == [len(scene.attempts(number)) for number in (0, 2, 3)]
    while not any(
        event.partition == scene.partitions[0][1] for event in _emitted(member, events.DeadLettered)
    ):
        scene.group.turn()
    scene.finished()
    assert 2 == scene.attempts().count(Place(*scene.partitions[0], 0))


def _is_letter(entry: Entry) -> bool:
    return isinstance(entry, EventEmitted) and isinstance(entry.event, events.DeadLettered)


@each_scope
def test_the_wait_for_a_letter_stops_everything(scope: Narrow) -> None:
    """One thread does it all: while the broker has not answered, no handler is called, in no scope;
    a probe that falls due meanwhile comes right after."""
    scene = _scene(scope, strategy=[2])
    scene.fill(range(1, 4), 3)
    scene.fails(1)
    member = scene.joined()
    scene.until_open(1)
    scene.group.fake.faults.delivery_s = 4.0
    scene.group.dependency.refuses = {(0, 4)}
    scene.fill([0], 5)
    scene.fill([2, 3], 1)
    while not _emitted(member, events.DeadLettered):
        scene.group.turn()
    log = scene.group.witness.entries
    letter = next(n for n, one in enumerate(log) if _is_letter(one))
    before = log[letter - 1]
    assert before == AttemptFinished(
        before.at_s, member.name, Place(*scene.partitions[0], 4), "failed"
    )
    assert 4.0 == log[letter].at_s - before.at_s
    scene.group.turn(2)
    after = next(one for one in log[letter:] if isinstance(one, AttemptStarted))
    assert (*scene.partitions[1], 0) == after.place
    scene.group.fake.faults.delivery_s = 0.0
    scene.finished()


@each_protocol
def test_stop_in_a_narrow_scope(protocol: Protocol, fake: FakeKafka) -> None:
    """`on_exhausted="stop"` ends the run for all scopes: what others have done is committed, and
    nothing past the message that failed; the next run begins with it."""
    fails = [True]
    seen: list[tuple[int | None, int | None]] = []

    def handler(message: Message) -> None:
        seen.append((message.partition(), message.offset()))
        if message.partition() == 0 and fails:
            raise OutageError

    options: dict[str, Any] = {
        "scope": "partition",
        "strategy": Strategy([1]),
        "dead_letters": None,
    }
    with consumer_on(fake, on_exhausted="stop", on_permanent="stop", **options) as consumer:
        with pytest.raises(ExhaustedError) as ended:
            consumer.run(handler)
        fails.clear()
        fake.clock.at(10, consumer.stop)
        consumer.run(handler)
    assert (TOPIC, 0, 0, 2) == (
        ended.value.topic,
        ended.value.partition,
        ended.value.offset,
        ended.value.failures,
    )
    assert [0, 0, 0, 1, 2] == [offset for number, offset in seen if number == 0]
    assert [0, 1, 2] == [offset for number, offset in seen if number == 1]
    assert {(TOPIC, 0): 3, (TOPIC, 1): 3} == fake.group(GROUP)


def test_a_failing_probe_commits_nothing() -> None:
    """What others do meanwhile is committed once a second, and not at each probe that fails."""
    group = FakeGroup(scope="partition", partitions=2, strategy=[0.01] * 1000)
    group.dependency.takes_s = 0.001
    group.dependency.down_for = {(TOPIC, 0)}
    group.produce(0, 1)
    group.produce(1, 3000)
    group.join()
    group.share([0, 0])
    begun_s = group.fake.clock.now_s()
    while group.fake.clock.now_s() < begun_s + 3:
        group.turn()
    commits = [entry for entry in group.fake.log if entry[2] == "commit"]
    assert len(_attempts(group, (TOPIC, 0))) > 100
    assert len(_attempts(group, (TOPIC, 1))) > 1000
    assert len(commits) < 10
    group.dependency.down_for = set()
    group.finish()
    assert [] == group.violations()
