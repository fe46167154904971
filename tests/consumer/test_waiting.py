"""From a failure to the attempt that follows it."""

from itertools import pairwise

import pytest

from linear_retry import HandlerTooSlowError, Strategy, events
from linear_retry.consumer.runners.own_loop import Attempt
from linear_retry.scope import Scope
from linear_retry.testing import AttemptFinished, AttemptStarted
from tests.consumer.group import GROUP, LETTERS, TOPIC, FakeGroup, OutageError, PoisonError
from tests.consumer.misbehaviours.misbehaving import P0, P1, emitted, open_circuit, until
from tests.consumer.runners.own_life import OwnLife, raising
from tests.fake.cluster import FakeKafka
from tests.fake.topic import Headers

_REPLAYED: Headers = [
    ("retry-replay-id", b"r"),
    ("retry-group-id", b"shipping"),
    ("retry-destination", TOPIC.encode()),
]


def _begun(group: FakeGroup, *partitions: tuple[str, int]) -> list[tuple[float, int]]:
    entries = [entry for entry in group.witness.entries if isinstance(entry, AttemptStarted)]
    return [(entry.at_s, entry.place[2]) for entry in entries if entry.place[:2] in partitions]


@pytest.mark.parametrize("wait_s", [0.25, 1.5, 2.75])
def test_at_retry_at_and_not_at_the_next_poll(wait_s: float) -> None:
    """A poll lasts a second at most, and less where a held message is to be attempted before."""
    group = FakeGroup(partitions=1, strategy=[wait_s] * 3)
    group.dependency.down = True
    group.produce(0)
    group.join()
    group.share([0])
    until(group, lambda: len(_begun(group, P0)) == 4)
    begun_s = [at_s for at_s, _ in _begun(group, P0)]
    waited_s = [later - earlier for earlier, later in pairwise(begun_s)]
    assert [wait_s] * 3 == pytest.approx(waited_s, abs=0.002)


def test_between_two_messages_and_not_at_the_next_poll() -> None:
    """A batch of another partition is in hand, and no poll is due yet: the probe waits for the
    handler call in progress, and for nothing else."""
    group = FakeGroup(partitions=2, scope="partition", strategy=[1.5])
    group.dependency.down_for = {P0}
    group.produce(0)
    (member,) = [group.join()]
    group.share([0, 0])
    until(group, lambda: list(member.circuits))
    opened_s = group.fake.clock.now_s()
    group.produce(1, 1000)
    group.turn(4)
    group.dependency.takes_s = 0.3
    until(group, lambda: len(_begun(group, P0)) == 2)
    probed_s = _begun(group, P0)[1][0]
    assert opened_s + 1.5 <= probed_s <= opened_s + 1.8 + 0.01


def test_a_probe_that_is_for_another_group() -> None:
    """The first message after a revoke was replayed for another group: it is passed over, tells
    nothing about the dependency, and the next one is the probe."""
    group = open_circuit("eager", strategy=[5, 5])
    (member,) = group.members
    group.fake.revoke(member.consumer)
    group.turn()
    for number in (0, 1):
        group.fake.append(TOPIC, number, headers=_REPLAYED)
        group.fake.group(GROUP)[TOPIC, number] = 10
        group.produce(number, 2)
    before = len(_begun(group, P0, P1))
    group.dependency.down = True
    group.share([0, 0])
    until(group, lambda: emitted(member, events.ProbeFailed))
    assert [11] == [offset for _, offset in _begun(group, P0, P1)[before:]]
    assert emitted(member, events.PassedOver)


def test_max_elapsed_begins_again_where_failures_are_forgotten() -> None:
    """Its time goes with the count of failures, and with nothing else: other partitions that come
    and go, and the circuit that stays open, do not keep it."""
    strategy = Strategy([{"every": 1, "times": 50}], max_elapsed="5.5s")
    group = FakeGroup(partitions=2, strategy=strategy, remember_failures=False)
    group.dependency.down_for = {P0}
    group.produce(0)
    (member,) = [group.join()]
    group.share([0, 0])
    until(group, lambda: len(_begun(group, P0)) == 4)
    group.fake.revoke(member.consumer)
    group.turn()
    group.share([0, 0])
    until(group, lambda: emitted(member, events.DeadLettered))
    begun_s = [at_s for at_s, _ in _begun(group, P0)][4:]
    assert [0, 1, 2, 3, 4, 5] == [round(at_s - begun_s[0]) for at_s in begun_s]
    (letter,) = emitted(member, events.DeadLettered)
    assert ("exhausted", 6) == (letter.reason, letter.failures)
    assert group.fake.clock.now_s() - begun_s[-1] < 0.1
    group.finish()
    assert [] == group.violations()


def test_what_was_replayed_for_another_group() -> None:
    """In the midst of a batch, at its head and at its end: passed over and said, and what is behind
    it is handled and committed, it included."""
    group = FakeGroup(partitions=1)
    for replayed in (False, False, True, True, False, True):
        if replayed:
            group.fake.append(TOPIC, 0, headers=_REPLAYED)
        else:
            group.produce(0)
    member = group.join()
    group.share([0])
    group.turn(20)
    assert [0, 1, 4] == [offset for _, offset in _begun(group, P0)]
    assert [2, 3, 5] == [event.offset for event in emitted(member, events.PassedOver)]
    assert 6 == group.fake.group(GROUP)[P0]
    assert [] == group.violations()


def test_nothing_is_left_to_probe() -> None:
    """Half-open, and nothing had come to probe it: the circuit ends as its partitions go. Kept, it
    would be there for ever, and its next message, years later, would be alone."""
    group = FakeGroup(partitions=1, scope="partition", strategy=[5])
    group.dependency.down = True
    group.produce(0)
    member = group.join()
    group.share([0])
    until(group, lambda: list(member.circuits))
    group.fake.revoke(member.consumer)
    group.turn()
    group.fake.group(GROUP)[P0] = 1  # handled elsewhere
    group.share([0])
    until(group, lambda: "half-open" == member.circuits.views[Scope(TOPIC, 0)].state)
    group.fake.revoke(member.consumer)
    group.turn()
    assert [] == list(member.circuits)
    assert ["dropped"] == [event.outcome for event in emitted(member, events.CircuitClosed)]


def test_a_probe_that_takes_too_long() -> None:
    """Longer than `max.poll.interval.ms`: its partition may be another's, so what the handler made
    of it counts for nothing, and no letter is sent."""
    group = open_circuit("eager")
    (member,) = group.members
    group.dependency.down_for = set()
    group.dependency.refuses = {(0, 1)}
    group.dependency.takes_s = 301.0
    until(group, lambda: emitted(member, events.HandlerTooSlow))
    slow = emitted(member, events.HandlerTooSlow)
    assert [(TOPIC, 0, 1)] == [(one.topic, one.partition, one.offset) for one in slow]
    assert [0, 0] == [log.end for log in group.fake.topics[LETTERS].partitions]
    assert [] == emitted(member, events.DeadLettered)


def test_always_too_slow() -> None:
    """The third time in a row that one message takes too long is raised: lost, assigned, attempted
    and lost once more, it would go round for ever."""
    group = FakeGroup(partitions=1)
    group.produce(0)
    group.join()
    group.share([0])
    group.dependency.takes_s = 301.0
    with pytest.raises(HandlerTooSlowError, match="third"):
        group.turn(50)
    assert 3 == len(_begun(group, P0))


def _left_after(life: OwnLife, attempts: int, errors: dict[int, BaseException]) -> list[Attempt]:
    """The loop is left, by `break`, behind the `with` of its n-th attempt."""
    made = []
    for attempt in life.consumer:
        made.append(attempt)
        with attempt as message:
            life.handle(message, raising(errors, life))
        if len(made) == attempts:
            break
    return made


def test_a_probe_that_a_break_follows(fake: FakeKafka) -> None:
    """Its message is done: it is committed at close, and comes to nobody again."""
    life = OwnLife(fake)
    with life.consumer:
        made = _left_after(life, 2, {1: OutageError()})
    assert [1, 2] == [attempt.number for attempt in made]
    assert (1, 1, ["recovered"]) == (
        life.done,
        life.committed,
        [event.outcome for event in life.emitted(events.CircuitClosed)],
    )
    assert [] == life.violations()


def test_a_failed_probe_that_a_break_follows(fake: FakeKafka) -> None:
    """Its failure counts, and is decided on, before the consumer is closed."""
    life = OwnLife(fake)
    with life.consumer:
        _left_after(life, 2, {1: OutageError(), 2: PoisonError()})
    assert (1, 1) == (life.letters, life.committed)
    assert ["failed", "failed"] == [
        one.outcome for one in life.witness.entries if isinstance(one, AttemptFinished)
    ]
    assert [] == life.violations()
