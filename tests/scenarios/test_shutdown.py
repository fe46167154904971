"""A member ends on a signal."""

import logging
import re
import signal
from pathlib import Path

import pytest

from linear_retry import events
from tests.kafka_operations import wait_until
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.handlers import Dependency
from tests.scenarios.protocols import COOPERATIVE
from tests.scenarios.scene import Scene

pytestmark = pytest.mark.broker

TOLD = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])


@TOLD
def test_asked_to_stop_while_open(scene: SceneFactory, number: int) -> None:
    """Out at once, nothing committed for the held message, and the next life goes on waiting."""
    group = scene(strategy=[3600])
    group.produce(5)
    first = group.spawn("first", {"0@2": ["outage"]})
    group.wait_for(events.CircuitOpened)
    first.signal(number)
    assert 0 == first.exit_code()
    assert [True] == [event.left_group for event in group.emitted(events.Stopped)]
    assert {(group.topic, 0): 2} == group.committed()
    second = group.spawn("second")
    group.wait_for(events.CircuitOpened, member="second")
    second.signal(number)
    assert 0 == second.exit_code()
    before, after = group.emitted(events.CircuitOpened)
    assert 2 == after.offset
    # What is noted beside the offset is rounded up to tenths of a second.
    assert 0 <= (after.retry_at - before.retry_at).total_seconds() <= 0.1
    assert [] == group.attempts("second")
    assert {(group.topic, 0): 2} == group.committed()
    assert [] == group.violations(finished=False)


def test_asked_to_stop_while_it_joins_again(
    scene: SceneFactory, caplog: pytest.LogCaptureFixture
) -> None:
    """A member of a cooperative group that has no partition leaves. librdkafka closed it without a
    word, and the partitions that were to move were nobody's until its session was over."""
    patient = {"session.timeout.ms": 900_000, "max.poll.interval.ms": 1_800_000, "debug": "cgrp"}
    caplog.set_level(logging.DEBUG, "linear_retry.librdkafka")
    group = scene(1, config=COOPERATIVE | patient)
    first = group.join("first", Dependency(), config={"heartbeat.interval.ms": 3000})
    group.wait_for(events.Assigned)
    second = group.join("second", Dependency())
    group.wait_for(events.Assigned, member="second")
    caplog.clear()
    third = group.join("third", Dependency())
    wait_until(
        lambda: re.search(r"\[second#.*state steady -> init", caplog.text),
        "the second joins again",
        detail=group.story,
    )
    second.stop()
    _wait_for_members(group, ["first", "third"])
    first.stop()
    group.produce(5)
    group.wait_until_done()
    third.stop()
    assert [] == group.violations()


def test_asked_to_stop_while_busy(scene: SceneFactory, tmp_path: Path) -> None:
    """The message in hand is finished and committed, and no other is begun."""
    group = scene()
    group.produce(5)
    gate = tmp_path / "gate"
    first = group.spawn("first", {"0@2": [f"gate {gate}"]})
    group.wait_for_attempts(3)
    first.signal(signal.SIGTERM)
    gate.touch()
    assert 0 == first.exit_code()
    assert [0, 1, 2] == [offset for _, _, offset in group.handled("first")]
    assert {(group.topic, 0): 3} == group.committed()
    assert [] == group.violations(finished=False)


def test_asked_twice_while_the_handler_hangs(scene: SceneFactory, tmp_path: Path) -> None:
    """The second Ctrl-C is KeyboardInterrupt in the handler; its message is not counted."""
    group = scene()
    group.produce(4)
    noted = tmp_path / "noted"
    first = group.spawn("first", {"0@2": [f"hang {noted}"]})
    group.wait_for_attempts(3)
    first.signal(signal.SIGINT)
    wait_until(noted.exists, "the first Ctrl-C has been noted")
    first.signal(signal.SIGINT)
    assert -signal.SIGINT == first.exit_code()
    assert "KeyboardInterrupt" in first.stderr()
    assert [] == group.emitted(events.CircuitOpened)
    assert {(group.topic, 0): 2} == group.committed()
    assert [] == group.violations(finished=False)


def test_asked_to_stop_while_a_letter_is_awaited(scene: SceneFactory, tmp_path: Path) -> None:
    """Out at once though nobody acknowledges it; the next life attempts its message again."""
    group = scene()
    group.produce(3)
    gate = tmp_path / "gate"
    first = group.spawn("first", {"0@1": [f"gate {gate} poison"]})
    group.wait_for_attempts(2)
    group.kafka.delete_topic(group.letters)
    gate.touch()
    wait_until(lambda: group.failed("first"), "the message has failed")
    first.signal(signal.SIGTERM)
    assert 0 == first.exit_code()
    assert {(group.topic, 0): 1} == group.committed()
    group.kafka.create_topic(group.letters)
    second = group.spawn("second", {"0@1": ["poison"]})
    group.wait_until_done()
    second.signal(signal.SIGTERM)
    assert 0 == second.exit_code()
    assert 1 == len(group.dead_letters())
    assert [] == group.violations()


def _wait_for_members(group: Scene, names: list[str]) -> None:
    wait_until(
        lambda: names == group.kafka.group_members(group.group),
        f"the members {names}",
        detail=group.story,
    )
