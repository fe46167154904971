"""A handler of lists: each is of one partition and in order, and what fails holds it whole."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from linear_retry import (
    BatchError,
    ConfigurationError,
    ExhaustedError,
    LinearConsumer,
    PermanentError,
    Recovery,
    UsageError,
    events,
)
from linear_retry.kafka import Message
from tests.consumer.group import GROUP, LETTERS, TOPIC, OutageError, PoisonError, consumer_on
from tests.fake.cluster import FakeKafka

_COUNT = 12


@dataclass
class _Run:
    """What the handler was given, batch by batch, as offsets; and the events."""

    fake: FakeKafka
    given: list[list[int]] = field(default_factory=list)
    done: list[int] = field(default_factory=list)
    happened: list[events.Event] = field(default_factory=list)

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.happened if isinstance(event, kind)]

    @property
    def letters(self) -> list[bytes | None]:
        log = self.fake.log_of((LETTERS, 0))
        return [] if log is None else [record.value for record in log.records]

    def go(
        self,
        handle: Callable[[list[int]], object],
        limits: dict[str, int] | None = None,
        **options: Any,
    ) -> None:
        """Runs until all `_COUNT` are done or given up; `handle` raises what is to fail."""
        with consumer_on(self.fake, listeners=[self.happened.append], **options) as consumer:
            consumer.run_batches(self._handler(consumer, handle), **limits or {})

    def _handler(
        self, consumer: LinearConsumer, handle: Callable[[list[int]], object]
    ) -> Callable[[list[Message]], None]:
        def handler(messages: list[Message]) -> None:
            offsets = [int(message.offset() or 0) for message in messages]
            self.given.append(offsets)
            messages.clear()  # the list is the handler's
            try:
                handle(offsets)
            except BatchError as failed:
                self.done += offsets[: int(failed.index or 0)]
                raise
            self.done += offsets
            if _COUNT in offsets:
                consumer.stop()

        return handler


@pytest.fixture
def running() -> _Run:
    """One partition with twelve messages, and one more, at which the run stops."""
    fake = FakeKafka(balanced=True)
    fake.create_topic(TOPIC, 1)
    fake.create_topic(LETTERS, 1)
    for number in range(_COUNT + 1):
        fake.append(TOPIC, 0, b"%d" % number, b"key")
    return _Run(fake)


def _raising(error: Exception, *offsets: int) -> Callable[[list[int]], None]:
    """Any batch with one of these fails."""

    def handle(found: list[int]) -> None:
        if set(found) & set(offsets):
            raise error

    return handle


def _once(error: Exception, offset: int) -> Callable[[list[int]], None]:
    """The first batch with this one fails."""
    left = [error]

    def handle(found: list[int]) -> None:
        if offset in found and left:
            raise left.pop()

    return handle


def test_all_come_in_order(running: _Run) -> None:
    """Every message comes once, in order, and in lists that grow to `max_messages`."""
    running.go(lambda _: None, {"max_messages": 3})
    assert list(range(_COUNT + 1)) == [offset for batch in running.given for offset in batch]
    assert {1, 3} == {len(batch) for batch in running.given}
    assert {(TOPIC, 0): _COUNT + 1} == running.fake.group(GROUP)


def test_a_batch_is_of_one_partition(fake: FakeKafka) -> None:
    """Messages that arrive mixed are handed over partition by partition."""
    for number in range(100):
        fake.append(TOPIC, number % 2, b"more")
    given: list[list[Message]] = []

    def handler(messages: list[Message]) -> None:
        given.append(messages)
        if sum(map(len, given)) == 106:
            consumer.stop()

    with consumer_on(fake) as consumer:
        consumer.run_batches(handler)
    assert all(len({message.partition() for message in batch}) == 1 for batch in given)
    offsets = {
        number: [m.offset() for batch in given for m in batch if m.partition() == number]
        for number in (0, 1)
    }
    assert {0: list(range(53)), 1: list(range(53))} == offsets
    assert max(map(len, given)) > 10


def test_max_bytes(running: _Run) -> None:
    """A batch has at most `max_bytes` of keys, values and headers, and a message at least."""
    each = len(b"key") + 1
    running.go(lambda _: None, {"max_bytes": 2 * each})
    assert {1, 2} == {len(batch) for batch in running.given}


def test_a_message_larger_than_max_bytes(running: _Run) -> None:
    """It comes alone: no message is too large to be handled."""
    running.go(lambda _: None, {"max_bytes": 1})
    assert [[offset] for offset in range(_COUNT + 1)] == running.given


def test_a_transient_error_holds_the_whole_batch(running: _Run) -> None:
    """The same messages are attempted again, at their time; the circuit is the first one's."""
    running.go(_once(OutageError(), 3))
    failed = next(batch for batch in running.given if 3 in batch)
    assert len(failed) > 1
    assert [failed, failed] == [batch for batch in running.given if 3 in batch]
    (opened,) = running.of(events.CircuitOpened)
    assert (failed[0], 1, 1.0) == (opened.offset, opened.failures, opened.delay_s)
    (closed,) = running.of(events.CircuitClosed)
    assert "recovered" == closed.outcome
    assert list(range(_COUNT + 1)) == running.done


def test_batch_error_says_what_is_done(running: _Run) -> None:
    """What is before its index is done; the next batch begins with the one that failed."""
    left = [OutageError()]

    def handle(offsets: list[int]) -> None:
        if 3 in offsets and left:
            raise BatchError(offsets.index(3), left.pop())

    running.go(handle)
    assert list(range(_COUNT + 1)) == running.done
    (opened,) = running.of(events.CircuitOpened)
    assert 3 == opened.offset
    index = next(i for i, batch in enumerate(running.given) if 3 in batch)
    assert 3 == running.given[index + 1][0]


def test_batch_error_of_a_permanent_error(running: _Run) -> None:
    """Its message is dead-lettered at once, with the cause; no other is attempted for it."""

    def handle(offsets: list[int]) -> None:
        if 3 in offsets:
            raise BatchError(offsets.index(3), PoisonError("poison"))

    running.go(handle)
    assert [b"3"] == running.letters
    (letter,) = running.of(events.DeadLettered)
    assert ("permanent", 1) == (letter.reason, letter.failures)
    assert [*range(3), *range(4, _COUNT + 1)] == running.done


def test_batch_error_in_a_held_batch(running: _Run) -> None:
    """A held batch that gets on: its beginning is done, and the one that fails is held then."""
    errors = [BatchError(1, OutageError()), OutageError()]

    def handle(offsets: list[int]) -> None:
        if len(offsets) > 2 and errors:
            raise errors.pop()

    running.go(handle)
    assert list(range(_COUNT + 1)) == running.done
    first, second = running.of(events.CircuitOpened)
    assert (second.offset, 1) == (first.offset + 1, second.failures)


def test_poison_is_found_without_batch_error(running: _Run) -> None:
    """A batch with a permanent error is taken apart: only the message that fails is given up."""
    running.go(_raising(PoisonError("poison"), 3))
    assert [b"3"] == running.letters
    (letter,) = running.of(events.DeadLettered)
    assert ("permanent", 2) == (letter.reason, letter.failures)
    assert [*range(3), *range(4, _COUNT + 1)] == running.done


def test_an_exhausted_batch_is_taken_apart(running: _Run) -> None:
    """One more failure, alone, exhausts a message; its neighbours go on."""
    running.go(_raising(OutageError("down"), 3, 4))
    assert [b"3", b"4"] == running.letters
    assert [("exhausted", 4), ("exhausted", 4)] == [
        (letter.reason, letter.failures) for letter in running.of(events.DeadLettered)
    ]
    assert [*range(3), *range(5, _COUNT + 1)] == running.done


def test_once_and_in_order(running: _Run) -> None:
    """A batch that is taken apart is handed over once more, one by one, and then batches again."""
    running.go(_raising(PoisonError(), 3))
    failed = next(batch for batch in running.given if 3 in batch)
    (apart,) = running.of(events.BatchTakenApart)
    assert (failed[0], len(failed), 1) == (apart.offset, apart.messages, apart.failures)
    after = running.given[running.given.index(failed) + 1 :]
    assert [[offset] for offset in failed] == after[: len(failed)]
    assert len(after[len(failed)]) > 1


def test_all_fail_alone(running: _Run) -> None:
    """A bug that fails for every message gives none of them up for another's error."""

    def handle(offsets: list[int]) -> None:
        if offsets[0] < _COUNT:
            raise PoisonError(f"of {offsets[0]}")

    running.go(handle)
    assert [b"%d" % number for number in range(_COUNT)] == running.letters
    assert [f"PoisonError('of {number}')" for number in range(_COUNT)] == [
        letter.error for letter in running.of(events.DeadLettered)
    ]


@pytest.mark.parametrize(
    ("error", "options", "raised"),
    [
        (OutageError(), {"on_exhausted": "stop"}, ExhaustedError),
        (PoisonError(), {"on_permanent": "stop"}, PermanentError),
    ],
)
def test_stop_names_the_message(
    running: _Run, error: Exception, options: dict[str, Any], raised: type[Exception]
) -> None:
    """With `"stop"` what is before the message that fails alone is done, and nothing after it."""
    with pytest.raises(raised) as caught:
        running.go(_raising(error, 3), **options)
    assert 3 == getattr(caught.value, "offset", None)
    assert {(TOPIC, 0): 3} == running.fake.group(GROUP)


def test_repeat_holds_the_batch(running: _Run) -> None:
    """With `on_exhausted="repeat"` a batch is held until it is done, and never taken apart."""
    left = [OutageError() for _ in range(7)]

    def handle(offsets: list[int]) -> None:
        if 3 in offsets and left:
            raise left.pop()

    running.go(handle, on_exhausted="repeat")
    failed = [batch for batch in running.given if 3 in batch]
    assert [failed[0]] * 8 == failed
    assert [] == running.letters


def test_skip(running: _Run) -> None:
    """With `on_permanent="skip"` only the message that fails alone is skipped."""
    running.go(_raising(PoisonError(), 3), on_permanent="skip")
    assert [3] == [event.offset for event in running.of(events.Skipped)]
    assert [*range(3), *range(4, _COUNT + 1)] == running.done


def test_recovery(running: _Run) -> None:
    """`Recovery` is handed the message that fails alone, and no neighbour."""
    taken: list[int | None] = []
    recovery = Recovery(lambda message, _: taken.append(message.offset()))
    running.go(_raising(OutageError(), 3), on_exhausted=recovery)
    assert [3] == taken
    assert [*range(3), *range(4, _COUNT + 1)] == running.done


def test_an_interrupt(running: _Run) -> None:
    """A `KeyboardInterrupt` in the handler: none of the batch is done, and none has failed."""

    def handle(offsets: list[int]) -> None:
        if 3 in offsets:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        running.go(handle)
    assert {(TOPIC, 0): running.given[-1][0]} == running.fake.group(GROUP)
    assert [] == running.of(events.CircuitOpened)


def test_an_operator_gives_up_the_held_message(running: _Run) -> None:
    """`give_up` takes the first of a held batch only: the others are attempted again."""
    left = [OutageError(), OutageError()]

    def handle(offsets: list[int]) -> None:
        if 3 in offsets and left:
            left.pop()
            raise OutageError

    class Operator:
        consumer: LinearConsumer | None = None

        def __call__(self, event: events.Event) -> None:
            if isinstance(event, events.CircuitOpened) and self.consumer is not None:
                self.consumer.give_up(event.topic, event.partition, event.offset)

    operator = Operator()
    with consumer_on(running.fake, listeners=[running.happened.append, operator]) as consumer:
        operator.consumer = consumer
        consumer.run_batches(running._handler(consumer, handle))
    given_up = [letter.offset for letter in running.of(events.DeadLettered)]
    assert 1 <= len(given_up) <= 2
    assert sorted({*range(_COUNT + 1)} - {*given_up}) == running.done


def test_run_after_run_batches(running: _Run) -> None:
    """A batch that is still held when the program goes on with `run` loses nothing."""
    stopped: list[BaseException] = [SystemExit()]
    left = [OutageError()]

    def handle(offsets: list[int]) -> None:
        if len(offsets) > 2:
            raise left.pop() if left else stopped.pop()

    seen: list[int | None] = []

    def each(message: Message) -> None:
        seen.append(message.offset())
        if message.offset() == _COUNT:
            consumer.stop()

    with consumer_on(running.fake) as consumer:
        with pytest.raises(SystemExit):
            consumer.run_batches(running._handler(consumer, handle))
        consumer.run(each)
    assert list(range(_COUNT + 1)) == [*running.done, *seen]


@pytest.mark.parametrize("name", ["max_messages", "max_bytes"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, None])
def test_limits_that_cannot_be(running: _Run, name: str, value: Any) -> None:
    """They are refused before the first message, by name and value."""
    with pytest.raises(ConfigurationError, match=f"{name}={value!r}"):
        running.go(lambda _: None, {name: value})
    assert [] == running.given


@pytest.mark.parametrize("handler", [None, lambda: None, lambda _a, _b: None])
def test_handlers_that_cannot_work(running: _Run, handler: Any) -> None:
    """They are refused before the first message."""
    with (
        consumer_on(running.fake) as consumer,
        pytest.raises(UsageError, match="one list of messages"),
    ):
        consumer.run_batches(handler)


async def _charge(_: list[Message]) -> None:
    """Never awaited."""


def test_work_that_would_not_run(running: _Run) -> None:
    """A coroutine function is refused, and so is a handler that returns work."""
    with consumer_on(running.fake) as consumer:
        with pytest.raises(UsageError, match="never be awaited"):
            consumer.run_batches(_charge)
        with pytest.raises(UsageError, match=r"orders\[0\]@0.*generator"):
            consumer.run_batches(lambda messages: (m for m in messages))
    assert {(TOPIC, 0): 0} == running.fake.group(GROUP)


@pytest.mark.parametrize("index", [-1, 1, 1.0, True, None, "0"])
def test_an_index_beyond_the_batch(running: _Run, index: Any) -> None:
    """What is no position is refused, and nothing is done: what the handler meant is unknown. It
    is no failure of the message either, which would be dead-lettered for it."""

    def handle(_: list[int]) -> None:
        raise BatchError(index, OutageError())

    expected = rf"orders\[0\]@0.*index={index!r} for a batch of 1"
    with pytest.raises(UsageError, match=expected):
        running.go(handle)
    assert {(TOPIC, 0): 0} == running.fake.group(GROUP)


@pytest.mark.parametrize("cause", ["down", None, KeyboardInterrupt()])
def test_a_cause_that_cannot_be(running: _Run, cause: Any) -> None:
    """Nor is a cause accepted that nobody could classify."""

    def handle(_: list[int]) -> None:
        raise BatchError(0, cause)

    with pytest.raises(UsageError, match=r"orders\[0\]@0.*cause="):
        running.go(handle)
    assert {(TOPIC, 0): 0} == running.fake.group(GROUP)


def test_counts(running: _Run) -> None:
    """A batch that is done counts as its messages; one that fails as one attempt."""
    with consumer_on(running.fake) as consumer:
        consumer.run_batches(running._handler(consumer, _once(OutageError(), 3)))
        counts = consumer.counts
    assert (_COUNT + 1, 1) == (counts.succeeded, counts.failed)
