"""A micro-batch is waited with, given up and stopped as a message is."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from linear_retry import (
    AttemptInfo,
    ConfigurationError,
    Event,
    RetryAfter,
    StrategyFile,
    UsageError,
    current_attempt,
    events,
)
from linear_retry.errors import PermanentError, UnknownTopicError
from linear_retry.records.dead_letter import parse
from linear_retry.scope import Scope
from linear_retry.spark.streaming.batch import BadRows
from tests.consumer.group import OutageError, PoisonError
from tests.spark.streaming.virtual import LETTERS, PLACE, StoppedError, World, row


def _failing(*errors: Exception | None) -> Callable[[int], None]:
    """Each attempt raises the next of them; after the last one all succeed."""
    left = list(errors)

    def handler(number: int) -> None:
        error = left.pop(0) if left else None
        if error is not None:
            raise error

    return handler


def test_a_transient_error_is_waited_for_in_place() -> None:
    """The same batch is attempted again after each delay, never early, until it succeeds."""
    world = World([1, 5, 30])
    stream = world.stream(_failing(OutageError(), RetryAfter(7)))
    world.runner.handle(stream)
    begun_s = stream.attempted_at_s[0]
    assert [0, 1, 8] == [at_s - begun_s for at_s in stream.attempted_at_s]
    assert ["Assigned", "CircuitOpened", "ProbeFailed", "CircuitClosed"] == world.kinds()
    _, opened, failed, closed = world.events
    assert isinstance(opened, events.CircuitOpened)
    assert (Scope(), *PLACE, 0, 1, 1.0) == (
        *(opened.scope, opened.topic, opened.partition, opened.offset),
        *(opened.failures, opened.delay_s),
    )
    assert isinstance(failed, events.ProbeFailed)
    assert (2, 7.0) == (failed.failures, failed.delay_s)
    assert events.CircuitClosed(Scope(), "recovered", 8.0) == closed


def test_a_changed_file_is_in_force_from_the_next_failure_on(tmp_path: Path) -> None:
    """As for a consumer's messages: a query need not be restarted in an outage."""
    path = tmp_path / "pay.json"
    path.write_text("[60, 600]")
    world = World(StrategyFile(path))
    left = ["[60, 600]", "[1, 5]"]

    def handler(_: int) -> None:
        if left:
            path.write_text(left.pop(0))
            raise OutageError

    stream = world.stream(handler)
    world.runner.handle(stream)
    assert [60.0, 5.0] == stream.waits_s
    assert "StrategyReloaded" in world.kinds()


def test_a_handler_may_ask_about_its_attempt() -> None:
    """As that of a message: how often the micro-batch has failed, and whether it is the last."""
    world, seen = World([1, 5]), list[AttemptInfo]()

    def handler(_: int) -> None:
        seen.append(current_attempt())
        raise OutageError

    world.runner.handle(world.stream(handler, [row(4)]))
    assert [(1, 1.0), (2, 5.0), (3, None)] == [(info.number, info.next_delay_s) for info in seen]
    assert seen[0].first_failure is None
    assert seen[1].first_failure is not None
    assert 1 == len({info.message_id for info in seen})
    with pytest.raises(UsageError, match="outside a handler"):
        current_attempt()


def test_work_that_nobody_would_do_is_refused() -> None:
    """A function that returns a generator has handled no row: the query fails, and no letter goes
    out. The bug: the micro-batch counted as done."""
    world = World([1])
    stream = world.stream(lambda number: (number for _ in range(3)))
    with pytest.raises(UsageError, match=r"spark:charge, micro-batch 0: .* type generator: "):
        world.runner.handle(stream)
    assert ["Assigned", "Revoked"] == world.kinds()
    assert [] == world.letters()


def test_a_restart_does_not_set_the_count_back() -> None:
    """A job that is restarted more often than its strategy has delays gives the batch up; and
    `max_elapsed` counts from the first failure of all runs."""
    world = World([1, 5])
    stream = world.stream(_failing(*[OutageError()] * 3), [row(4)])
    first_ms = world.kafka.clock.utc_ms()
    world.runner.handle(stream)
    assert (3, first_ms) == stream.noted
    again = replace(world.stream(_failing(OutageError()), [row(4)]), run="run-2", noted=(2, 1000))
    world.runner.handle(again)
    assert 1 == len(again.attempted_at_s)
    kept = world.letters(0)[-1]
    letter = parse(kept.headers or (), kept.key, kept.value)
    assert (3, 1000, "exhausted") == (letter.failures, letter.first_failure_ms, letter.reason)
    later = replace(again, number=1, handler=_failing(OutageError()), noted=(2, 1000), read=0)
    world.runner.handle(later)
    assert 0 == later.read


def test_a_failure_is_counted_before_it_is_said() -> None:
    """Whoever stops the query because its circuit opened finds the failure counted by the next
    run. The bug: the stop came between the event and the count."""

    def stop(event: Event) -> None:
        if isinstance(event, events.CircuitOpened):
            stream.stop()

    world = World([1], listener=stop)
    stream = world.stream(_failing(OutageError()))
    first_ms = world.kafka.clock.utc_ms()
    with pytest.raises(StoppedError):
        world.runner.handle(stream)
    assert (1, first_ms) == stream.noted


def test_bad_rows_alone_become_letters() -> None:
    """With the cause as their error, whatever `transient` says of it; the others are done."""
    world = World([1])
    rows = [row(4), row(5), row(6)]
    bad = BadRows([rows[1].place], OutageError("no amount"))
    stream = world.stream(_failing(OutageError(), bad), rows)
    world.runner.handle(stream)
    kinds = ["Assigned", "CircuitOpened", "DeadLettered", "CircuitClosed"]
    assert kinds == world.kinds()
    (kept,) = world.letters(0)
    letter = parse(kept.headers or (), kept.key, kept.value)
    assert (b"v5", "permanent") == (kept.value, letter.reason)
    assert letter.error is not None
    assert letter.error.type.endswith("OutageError")
    assert 1 == stream.read


def test_bad_rows_may_be_skipped_or_stop_the_query() -> None:
    """As `on_permanent` says for any error."""
    bad = BadRows([row(5).place], PoisonError("no amount"))
    world = World([1], on_permanent="skip")
    world.runner.handle(world.stream(_failing(bad), [row(5)]))
    assert ["Assigned", "Skipped"] == world.kinds()
    world = World([1], on_permanent="stop")
    with pytest.raises(PermanentError, match="no amount"):
        world.runner.handle(world.stream(_failing(bad), [row(5)]))


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (BadRows([], PoisonError()), "BadRows with rows that are not there"),
        (BadRows([row(9).place], PoisonError()), "BadRows with rows that are not there"),
        (BadRows([row(5).place], "x"), "BadRows with cause='x'"),  # type: ignore[arg-type]
    ],
)
def test_bad_rows_that_cannot_be_meant_end_the_query(bad: BadRows, text: str) -> None:
    """Nothing is sent, and the micro-batch is not done."""
    world = World([1])
    with pytest.raises(UsageError, match=f"spark:charge, micro-batch 0: the handler raised {text}"):
        world.runner.handle(world.stream(_failing(bad), [row(5)]))
    assert [] == world.letters()


def test_exhausted_each_row_becomes_a_letter() -> None:
    """In their order, with what the contract says of each, and only then is the batch over."""
    world = World([1, 2])
    rows = [row(4), row(5), row(7, partition=1)]
    world.runner.handle(world.stream(_failing(*[OutageError("down")] * 3), rows))
    kinds = ["DeadLettered"] * 3 + ["CircuitClosed"]
    assert ["Assigned", "CircuitOpened", "ProbeFailed", *kinds] == world.kinds()
    assert events.CircuitClosed(Scope(), "dead-lettered", 3.0) == world.events[-1]
    first, second = world.letters(0)
    (third,) = world.letters(1)
    assert [b"v4", b"v5", b"v7"] == [each.value for each in (first, second, third)]
    letter = parse(third.headers or (), third.key, third.value)
    assert ("billing/orders/1/7/754c90a23c19", "exhausted", 3, "billing", (("h", b"1"),)) == (
        *(letter.retry_id, letter.reason, letter.failures, letter.group_id),
        letter.original_headers,
    )


def test_a_letter_that_is_not_acknowledged_holds_the_batch() -> None:
    """Its sending, and nothing else, is tried again; the handler is not called, none is left out,
    and order is kept."""
    world = World([])
    world.kafka.faults.fail_delivery(KafkaError._MSG_TIMED_OUT, times=2)
    stream = world.stream(_failing(OutageError()), [row(0), row(1)])
    world.runner.handle(stream)
    failed = ["CircuitOpened", "DeadLetterFailed", "DeadLetterFailed"]
    done = ["DeadLettered", "DeadLettered", "CircuitClosed"]
    assert ["Assigned", *failed, *done] == world.kinds()
    failure = next(each for each in world.events if isinstance(each, events.DeadLetterFailed))
    assert (*PLACE, 0) == (failure.topic, failure.partition, failure.offset)
    assert failure.error.startswith("orders[0]@0: _MSG_TIMED_OUT")
    assert [1.0, 2.0] == stream.waits_s
    assert 1 == len(stream.attempted_at_s)
    assert [b"v0", b"v1"] == [each.value for each in world.letters()]


def test_a_missing_topic_of_letters() -> None:
    """At the start it ends the query; later it is waited for, since somebody may make it again."""
    world = World([])
    del world.kafka.topics[LETTERS]
    with pytest.raises(UnknownTopicError, match="does not exist"):
        world.runner.handle(world.stream(_failing()))
    world = World([])
    world.runner.handle(world.stream(_failing()))
    world.kafka.topics.pop(LETTERS)
    world.kafka.clock.at(40, lambda: world.kafka.create_topic(LETTERS))
    world.runner.handle(world.stream(_failing(OutageError()), [row(0)]))
    assert [b"v0"] == [each.value for each in world.letters()]


def test_a_batch_that_comes_again_makes_letters_of_the_same_id() -> None:
    """Killed between the letters and the checkpoint, a stream gives the batch again: readers drop
    what has an id that they know."""
    world = World([])
    for run in ("run-1", "run-2"):
        stream = replace(world.stream(_failing(OutageError()), [row(3)]), run=run)
        world.runner.handle(stream)
    first, second = (parse(each.headers or (), None, None) for each in world.letters())
    assert first.retry_id == second.retry_id
    assert 2 == world.kinds().count("Assigned")


@pytest.mark.parametrize("delay_s", [0.5, 3600.0])
def test_a_stop_ends_the_wait_at_once(delay_s: float) -> None:
    """Nothing is decided about the batch: no letter, and the circuit is gone with the stream."""
    world = World([delay_s])
    stream = world.stream(_failing(OutageError()), [row(0)])
    world.kafka.clock.at(0.1, stream.stop)
    begun_s = world.kafka.clock.now_s()
    with pytest.raises(StoppedError):
        world.runner.handle(stream)
    assert 0.2 > world.kafka.clock.now_s() - begun_s
    assert ["Assigned", "CircuitOpened", "CircuitClosed", "Revoked"] == world.kinds()
    assert "dropped" == world.events[2].outcome  # type: ignore[union-attr]  # see above
    assert [] == world.letters()


@pytest.mark.parametrize("error", [OutageError(), PoisonError()])
def test_what_a_stop_interrupts_has_not_failed(error: Exception) -> None:
    """Jobs that a stop cancels fail of anything: that is neither a wait nor a letter."""
    world = World([1])
    stream = world.stream(_failing(), [row(0)])

    def interrupted(number: int) -> None:
        stream.stop()
        raise error

    stream.handler = interrupted
    with pytest.raises(StoppedError):
        world.runner.handle(stream)
    assert ["Assigned", "Revoked"] == world.kinds()
    assert [] == world.letters()


def test_a_stop_while_letters_cannot_be_sent() -> None:
    """Those that were acknowledged stay; the batch is not done."""
    world = World([])
    stream = world.stream(_failing(PoisonError()), [row(0), row(1)])
    world.runner.handle(world.stream(_failing()))
    world.kafka.faults.lose_report()
    world.kafka.clock.at(5, stream.stop)
    with pytest.raises(StoppedError):
        world.runner.handle(stream)
    assert [] == world.letters()
    assert "Revoked" == world.kinds()[-1]


def test_a_stop_between_two_letters() -> None:
    """However many rows are left: the batch comes again, and they with it."""
    world = World([])
    stream = world.stream(_failing(PoisonError()), [row(n) for n in range(100)])
    world.kafka.faults.delivery_s = 0.1
    world.kafka.clock.at(0.25, stream.stop)
    with pytest.raises(StoppedError):
        world.runner.handle(stream)
    assert 3 >= len(world.letters())


def test_skip_is_one_event_for_the_batch() -> None:
    """Loss by choice: its rows are not even read."""
    world = World([1], on_exhausted="stop", on_permanent="skip", with_letters=False)
    stream = world.stream(_failing(PoisonError("bad")), [row(0)])
    world.runner.handle(stream)
    assert 0 == stream.read
    retry_id = "billing/spark:charge/0/0/105b99d291ee"
    skipped = events.Skipped(*PLACE, 0, retry_id, "PoisonError('bad')")
    assert [events.Assigned((PLACE,)), skipped] == world.events


def test_the_limit_holds_the_next_batch_back() -> None:
    """A batch is given up whole, or not at all; a success ends the row."""
    world = World([], limit=2)
    world.runner.handle(world.stream(_failing(PoisonError()), [row(n) for n in range(3)]))
    stream = world.stream(_failing(PoisonError(), PoisonError()), [row(3)])
    world.runner.handle(stream)
    assert [30.0, 30.0] == stream.waits_s
    assert 3 == len(world.letters())
    assert ["CircuitOpened", "LimitReached", "LimitReached", "CircuitClosed"] == world.kinds()[-4:]


def test_letters_of_the_topic_of_letters() -> None:
    """A stream that reads it would be given its own letters for ever."""
    world = World([])
    stream = world.stream(_failing(PoisonError()), [row(0, topic=LETTERS)])
    with pytest.raises(ConfigurationError, match="own letters"):
        world.runner.handle(stream)
    assert [] == world.letters()


def test_the_end_is_reported_once_and_only_where_anything_was() -> None:
    """A journal waits for what is on its way when it learns of the end."""
    world = World([])
    world.runner.close()
    assert [] == world.kinds()
    world.runner.handle(world.stream(_failing()))
    world.runner.close()
    world.runner.close()
    assert ["Assigned", "Stopped"] == world.kinds()
