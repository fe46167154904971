"""A message that fails for good: dead-lettered, skipped, or the end."""

from __future__ import annotations

from typing import Any

import pybreaker
import pytest

from linear_retry import ExhaustedError, PermanentError, RetryAfter, Strategy, events
from linear_retry.kafka import Message
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.handlers import OutageError, PoisonError, Scripted

pytestmark = pytest.mark.broker


def test_repeat_the_last_delay(scene: SceneFactory) -> None:
    """`on_exhausted="repeat"`: the last delay for ever, and no dead letter."""
    group = scene(strategy=[0.1, 0.05])
    group.produce(3)
    member = group.join("first", Scripted({"0@1": ["outage"] * 5}), on_exhausted="repeat")
    group.wait_until_done()
    member.stop()
    assert [0.1, 0.05, 0.05, 0.05, 0.05] == group.waits_s()
    assert [] == group.dead_letters()
    assert [] == group.violations()


@pytest.mark.parametrize(
    ("steps", "options", "error", "failures"),
    [
        (["outage"] * 3, {"on_exhausted": "stop"}, ExhaustedError, 3),
        (["outage", "poison"], {"on_permanent": "stop"}, PermanentError, 2),
    ],
    ids=["exhausted", "permanent"],
)
def test_stop(
    scene: SceneFactory,
    steps: list[str],
    options: dict[str, Any],
    error: type[ExhaustedError | PermanentError],
    failures: int,
) -> None:
    """`"stop"` raises with the message's place, and nothing is committed past it."""
    group = scene(strategy=[0.05, 0.05])
    group.produce(4)
    member = group.join("first", Scripted({"0@2": steps}), **options)
    with pytest.raises(error) as raised:
        member.result()
    place = (raised.value.topic, raised.value.partition, raised.value.offset)
    assert ((group.topic, 0, 2), failures) == (place, raised.value.failures)
    assert {(group.topic, 0): 2} == group.committed()
    assert [] == group.dead_letters()
    assert [] == group.violations(finished=False)


def test_skip(scene: SceneFactory) -> None:
    """`on_permanent="skip"`: said, with the id that a letter would have had; then on."""
    group = scene()
    group.produce(4)
    member = group.join("first", Scripted({"0@2": ["poison"]}), on_permanent="skip")
    group.wait_until_done()
    member.stop()
    (skipped,) = group.said(events.Skipped)
    assert (group.topic, 0, 2) == (skipped.topic, skipped.partition, skipped.offset)
    assert skipped.retry_id.startswith(f"{group.group}/{group.topic}/0/2/")
    assert [] == group.dead_letters()
    assert [] == group.violations()


def test_empty_strategy(scene: SceneFactory) -> None:
    """With no delays the first failure is the last: dead-lettered, and nothing is paused."""
    group = scene(strategy=[])
    group.produce(4)
    member = group.join("first", Scripted({"0@2": ["outage"]}))
    group.wait_until_done()
    member.stop()
    assert [("exhausted", 1)] == [(e.reason, e.failures) for e in group.said(events.DeadLettered)]
    assert [] == group.said(events.CircuitOpened)
    assert [] == group.violations()


def test_retry_after(scene: SceneFactory) -> None:
    """A handler may ask for more time than the strategy gives, never for less."""
    group = scene(strategy=[0.1, 0.3, 0.1])
    group.produce(2)
    asked = iter([RetryAfter(0.4), RetryAfter(0.2)])

    def handle(message: Message) -> None:
        if message.offset() == 1 and (error := next(asked, None)):
            raise error

    member = group.join("first", handle)
    group.wait_until_done()
    member.stop()
    assert [0.4, 0.3] == group.waits_s()
    assert [] == group.violations()


def test_breaker_of_the_handlers_own(scene: SceneFactory) -> None:
    """An open breaker in the handler is waited for like any outage, without being listed."""
    group = scene(strategy=[0.05] * 20)
    group.produce(3)
    breaker = pybreaker.CircuitBreaker(fail_max=1, reset_timeout=0.2)
    outages = iter([OutageError("down")])

    def call(offset: int | None) -> None:
        if offset == 1 and (error := next(outages, None)):
            raise error

    member = group.join("first", lambda message: breaker.call(call, message.offset()))
    group.wait_until_done()
    member.stop()
    assert "CircuitBreakerError" in group.said(events.CircuitOpened)[0].error
    assert [] == group.dead_letters()
    assert [] == group.violations()


@pytest.mark.parametrize(
    ("leaves", "letters"),
    [([OutageError("a"), OutageError("b")], 0), ([OutageError("a"), PoisonError("b")], 1)],
    ids=["all transient", "one permanent"],
)
def test_exception_group(scene: SceneFactory, leaves: list[Exception], letters: int) -> None:
    """A group of errors is waited for where all of them may go away, else it is permanent."""
    group = scene(strategy=[0.05])
    group.produce(3)
    raised = iter([ExceptionGroup("several", leaves)])

    def handle(message: Message) -> None:
        if message.offset() == 1 and (error := next(raised, None)):
            raise error

    member = group.join("first", handle)
    group.wait_until_done()
    member.stop()
    assert letters == len(group.dead_letters())
    assert 1 - letters == len(group.said(events.CircuitOpened))
    assert [] == group.violations()


def test_outages_and_poison_on_four_partitions(scene: SceneFactory) -> None:
    """Two outages and two poisonous ones among 400 messages: in order, all done, two letters."""
    group = scene(4, strategy=[0.05] * 40)
    for partition in range(4):
        group.produce(100, partition)
    script = {
        "1@10": ["outage"] * 6,
        "3@60": ["outage"] * 12,
        "0@33": ["poison"],
        "2@77": ["outage", "poison"],
    }
    member = group.join("first", Scripted(script), strategy=Strategy([0.05] * 40))
    group.wait_until_done()
    member.stop()
    letters = {
        (letter.original_partition, letter.original_offset): letter.reason
        for letter in group.dead_letters()
    }
    assert {(0, 33): "permanent", (2, 77): "permanent"} == letters
    assert 400 + 6 + 12 + 1 == len(group.attempts())
    assert ["recovered", "recovered", "dead-lettered"] == sorted(
        (event.outcome for event in group.said(events.CircuitClosed)), reverse=True
    )
    assert [] == group.violations()
