"""Each thing that happens is counted once."""

from datetime import UTC, datetime

from linear_retry import Counts, Event, Scope, events
from linear_retry.consumer.operations.monitor import HANDLED_WITHIN_S, Happened, Monitor
from linear_retry.kafka import Message
from linear_retry.scope import Partition
from tests.consumer.group import FakeGroup, OutageError, PoisonError, consumer_on
from tests.fake.cluster import FakeKafka

_PLACE = ("orders", 1, 42)
_P1: Partition = ("orders", 1)
_FIRST = Message(topic="orders", partition=1, offset=42)


def _at(second: int) -> datetime:
    return datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)


def _opened(second: int = 5) -> Event:
    return events.CircuitOpened(Scope(), *_PLACE, "down", 1, 5.0, _at(second))


def _heard(*received: Event) -> Counts:
    monitor = Monitor((), int)
    for event in received:
        monitor.emit(event)
    return monitor.counts()


def test_a_wait_is_counted_as_it_begins() -> None:
    """Each failure of a message is a wait of its own."""
    again = events.ProbeFailed(Scope(), *_PLACE, "down", 2, 10.0, _at(15))
    counts = _heard(_opened(), again)
    assert ({_P1: 2}, {_P1: 15.0}) == (counts.waits, counts.waited_s)


def test_a_letter_that_fails_is_one_wait() -> None:
    """It opens the circuit, and both events tell of the same wait; the next sending is another."""
    failed = events.DeadLetterFailed(Scope(), *_PLACE, "dlq", "no answer", 1, 5.0, _at(5))
    again = events.DeadLetterFailed(Scope(), *_PLACE, "dlq", "no answer", 2, 2.0, _at(9))
    counts = _heard(_opened(), failed, again)
    assert ({_P1: 2}, {_P1: 7.0}) == (counts.waits, counts.waited_s)


def test_events_are_counted_by_place_and_reason() -> None:
    """Never by offset, and never by a text with an error in it: what is kept stays small."""
    texts = [events.Lost((_P1,), f"a seek failed: {number}") for number in range(9)]
    letter = events.DeadLettered(*_PLACE, "dlq", "id", 1, "exhausted", "down", 3, ())
    closed = events.CircuitClosed(Scope(), "recovered", 5.0)
    leaks = [events.LeakDropped("orders", 1, offset) for offset in range(7)]
    expected = {
        Happened("Lost"): 9,
        Happened("DeadLettered", "orders", 1, "exhausted"): 1,
        Happened("CircuitClosed", reason="recovered"): 1,
        Happened("LeakDropped", "orders", 1): 7,
        Happened("SentToRetry", "orders", 1, "orders.retry.5m"): 1,
    }
    left = events.SentToRetry(*_PLACE, "orders.retry.5m", "id", 1, 4, _at(5), "down", 3)
    assert expected == _heard(*texts, letter, closed, *leaks, left).events


def test_a_batch_falls_between_two_times() -> None:
    """In the first that it was within; and the seconds of all are added up."""
    monitor = Monitor((), int)
    for took_s in (0.0, 0.001, 0.002, 400.0):
        monitor.end_batch(took_s)
    counts = monitor.counts()
    within = dict(zip(HANDLED_WITHIN_S, counts.handled_within, strict=True))
    assert (2, 1, 1) == (within[0.001], within[0.01], within[float("inf")])
    assert (4, 400.003) == (sum(within.values()), round(counts.handling_s, 6))


def test_a_snapshot_stays_as_it_is() -> None:
    """Whoever has it may look at it in peace."""
    monitor = Monitor((), int)
    monitor.emit(_opened())
    before = monitor.counts()
    monitor.emit(_opened(6))
    assert {Happened("CircuitOpened", "orders", 1): 1} == before.events


def test_attempts_are_counted_by_outcome(fake: FakeKafka) -> None:
    """Successes of batches and of held messages, failures of both: each once."""
    errors: list[Exception] = [OutageError(), OutageError(), PoisonError()]
    calls: list[Message] = []
    with consumer_on(fake) as consumer:

        def handle(message: Message) -> None:
            calls.append(message)
            if len(calls) == 8:
                consumer.stop()
            if errors:
                raise errors.pop(0)

        consumer.run(handle)
        counts = consumer.counts
    # The first of six fails three times, and is a dead letter then.
    assert (3, 5) == (counts.failed, counts.succeeded)
    assert 1 == sum(n for key, n in counts.events.items() if key.event == "DeadLettered")


def test_all_messages_of_a_group_are_counted() -> None:
    """What the members have counted together is what was handled."""
    group = FakeGroup(scope="partition", strategy=[1])
    group.join()
    group.join()
    group.share([0, 1, 0])
    for number in range(3):
        group.produce(number, 20)
    group.dependency.down_for = {group.partitions[1]}
    group.turn(10)
    group.dependency.down_for = set()
    group.finish()
    counts = [member.monitor.counts() for member in group.members]
    letters = sum(isinstance(e, events.DeadLettered) for m in group.members for e in m.events)
    assert 60 == sum(one.succeeded for one in counts) + letters
    assert [] == group.violations()
