"""What a failure leads to is the same for a message and for a micro-batch."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka import Message

from linear_retry import Event, ExhaustedError, PermanentError, Strategy, events
from linear_retry.retry.case import Held
from linear_retry.retry.decision import OnExhausted, OnPermanent, Policy, RetrySettings
from linear_retry.scope import Scope
from tests.consumer.attempts.test_outcomes import Scene
from tests.consumer.group import OutageError, PoisonError
from tests.consumer.joined_parts import driven
from tests.spark.streaming.virtual import World, row

_DOWN, _BAD = OutageError("down"), PoisonError("bad")


def _of_message(policy: Policy, errors: Sequence[Exception]) -> list[Event]:
    """The events of a message whose attempts raise these, and then succeed."""
    scene = Scene()
    settings = RetrySettings(policy, lambda error: isinstance(error, OutageError), "consumer")
    outcomes = scene.outcomes(settings=settings)
    message = Message(topic="orders", partition=0, offset=5, value=b"v")
    held = Held(message, ("orders", 0), 5, scene.joined.assignment.epochs.get(("orders", 0)) or 0)
    for error in errors:
        outcomes.failed(held, error)
        leaving = outcomes.take_leaving()
        if leaving is not None:
            driven(outcomes.send(leaving))
        circuit = scene.joined.circuits.get(Scope())
        if circuit is None or circuit.held is None:
            break
        held = circuit.held
        scene.joined.clock.advance(circuit.retry_at_s - scene.joined.clock.now_s())
    else:
        outcomes.carry_out(outcomes.engine.recovered(held))
    return scene.joined.happened


def _of_micro_batch(policy: Policy, errors: Sequence[Exception]) -> list[Event]:
    """The events of a micro-batch of one row whose attempts raise these, and then succeed."""
    assert isinstance(policy.strategy, Strategy)
    choices: Any = {"on_exhausted": policy.on_exhausted, "on_permanent": policy.on_permanent}
    choices["limit"] = policy.letter_limit
    world, left = World(policy.strategy, **choices), list(errors)

    def handler(_: int) -> None:
        if left:
            raise left.pop(0)

    try:
        world.runner.handle(world.stream(handler, [row(0)]))
    finally:
        assert [] == left
    return world.events[1:]  # without that of the stream's beginning


EventsOf = Callable[[Policy, Sequence[Exception]], list[Event]]

_TARGETS = pytest.mark.parametrize("events_of", [_of_message, _of_micro_batch])


@_TARGETS
@pytest.mark.parametrize(
    ("on_exhausted", "on_permanent", "errors", "expected"),
    [
        ("dead-letter", "dead-letter", [], []),
        ("dead-letter", "dead-letter", [_DOWN], ["CircuitOpened", "CircuitClosed"]),
        (
            *("dead-letter", "dead-letter", [_DOWN] * 3),
            ["CircuitOpened", "ProbeFailed", "DeadLettered", "CircuitClosed"],
        ),
        ("dead-letter", "dead-letter", [_BAD], ["DeadLettered"]),
        (
            *("dead-letter", "dead-letter", [_DOWN, _BAD]),
            ["CircuitOpened", "DeadLettered", "CircuitClosed"],
        ),
        (
            *("repeat", "skip", [_DOWN] * 4),
            ["CircuitOpened", *["ProbeFailed"] * 3, "CircuitClosed"],
        ),
        ("repeat", "skip", [_BAD], ["Skipped"]),
    ],
)
def test_the_events_of_what_was_decided(
    events_of: EventsOf,
    on_exhausted: OnExhausted,
    on_permanent: OnPermanent,
    errors: list[Exception],
    expected: list[str],
) -> None:
    """A circuit is said to open once, each failed probe by itself, and the end of it last."""
    policy = Policy(Strategy([1, 2]), on_exhausted, on_permanent)
    assert expected == [type(event).__name__ for event in events_of(policy, errors)]


@_TARGETS
def test_the_delays_are_those_of_the_strategy(events_of: EventsOf) -> None:
    """Element by element; the last one again where the user chose to repeat it."""
    happened = events_of(Policy(Strategy([1, 2]), "repeat", "skip"), [_DOWN] * 4)
    waits = [e for e in happened if isinstance(e, events.CircuitOpened | events.ProbeFailed)]
    assert [(1, 1.0), (2, 2.0), (3, 2.0), (4, 2.0)] == [(e.failures, e.delay_s) for e in waits]


@_TARGETS
@pytest.mark.parametrize(
    ("limit_s", "delays_s"),
    [(None, [1, 2, 4, 8]), (15, [1, 2, 4, 8]), (14.999, [1, 2, 4]), (3, [1, 2]), (2.999, [1])],
)
def test_max_elapsed_counts_from_the_first_failure(
    events_of: EventsOf, limit_s: float | None, delays_s: list[float]
) -> None:
    """What was waited before counts, and the failure that is the last one waits for nothing."""
    policy = Policy(Strategy([1, 2, 4, 8], max_elapsed=limit_s))
    happened = events_of(policy, [_DOWN] * (len(delays_s) + 1))
    waits = [e for e in happened if isinstance(e, events.CircuitOpened | events.ProbeFailed)]
    assert delays_s == [event.delay_s for event in waits]
    (letter,) = [event for event in happened if isinstance(event, events.DeadLettered)]
    assert ("exhausted", len(delays_s) + 1) == (letter.reason, letter.failures)


@_TARGETS
@pytest.mark.parametrize(("error", "kind"), [(_DOWN, ExhaustedError), (_BAD, PermanentError)])
def test_stop_raises_with_the_cause(
    events_of: EventsOf, error: Exception, kind: type[Exception]
) -> None:
    """What the handler raised last is the cause, and nothing is done with the message."""
    with pytest.raises(kind) as caught:
        events_of(Policy(Strategy([]), "stop", "stop"), [error])
    assert error is caught.value.__cause__


def _raised(error: Exception) -> Exception:
    """As it comes out of a handler."""
    try:
        raise error
    except Exception as raised:  # noqa: BLE001  (whatever it is)
        return raised


@_TARGETS
@pytest.mark.parametrize(
    ("policy", "errors"),
    [
        (Policy(Strategy([1])), [_raised(PoisonError("key 1"))]),
        (Policy(Strategy([1]), on_permanent="skip"), [_raised(PoisonError("key 1"))]),
        (
            Policy(Strategy([1]), letter_limit=0, dead_letters="orders.dlq"),
            [_raised(PoisonError("key 1")), _raised(PoisonError("key 2"))],
        ),
    ],
    ids=["dead-letter", "skip", "limit"],
)
def test_a_bug_in_the_handler_is_logged_with_its_traceback(
    events_of: EventsOf,
    policy: Policy,
    errors: list[Exception],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The bug: where and why a handler fails on every message was in no log, and with `"skip"`, or
    for a message that the limit holds, nowhere at all. The first of equal errors has its traceback,
    as text, so that no record keeps the exception and its frames."""
    events_of(policy, errors)
    (record,) = [one for one in caplog.records if one.exc_info or one.exc_text]
    text = logging.Formatter().format(record)
    assert "PoisonError: key 1" in text
    assert 'test_engine.py", line' in text
    assert "raise error" in text
    assert (logging.ERROR, None) == (record.levelno, record.exc_info)


@_TARGETS
def test_an_outage_is_logged_without_traceback(
    events_of: EventsOf, caplog: pytest.LogCaptureFixture
) -> None:
    """Each wait is one line."""
    caplog.set_level(logging.INFO)
    events_of(Policy(Strategy([1, 2])), [_raised(_DOWN)] * 2)
    assert [None] * len(caplog.records) == [one.exc_text for one in caplog.records]
