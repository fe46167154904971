"""A consumer with an inbox is killed, or suspended, at any point of a message."""

import json
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from typing import get_args

import pytest

from tests import dying_with_parent
from tests.conftest import TopicFactory
from tests.inbox.effects import GROUP, Effects
from tests.inbox.struck import POISON, Arguments, Point
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S
from tests.real_kafka import RealKafka

pytestmark = pytest.mark.broker

_ALL = 6


def _arguments(
    kafka: RealKafka, topic: TopicFactory, effects: Effects, *, by_key: bool = False
) -> Arguments:
    """Six messages of one partition; a member that is gone is missed after a second."""
    name = topic()
    kafka.produce(name, [(0, b"%d" % number, b"", []) for number in range(_ALL)])
    config = kafka.client_settings(
        **{
            "group.id": f"{GROUP}-{name}",
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 1_000,
            "heartbeat.interval.ms": 200,
        }
    )
    return Arguments(config, name, topic(), effects.url, _ALL, by_key=by_key)


def _start(arguments: Arguments) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "tests.inbox.struck", json.dumps(asdict(arguments))]
    return subprocess.Popen(dying_with_parent.guarded(*command))


@pytest.mark.parametrize("point", get_args(Point))
def test_killed_at_any_point(
    kafka: RealKafka, topic: TopicFactory, effects: Effects, point: Point
) -> None:
    """Each effect is there once and in order; there is one letter."""
    arguments = _arguments(kafka, topic, effects)
    killed = _start(replace(arguments, strikes=point))
    assert -signal.SIGKILL == killed.wait(PATIENCE_S)
    assert 0 == _start(arguments).wait(PATIENCE_S)
    assert [n for n in range(_ALL) if n != POISON] == effects.of()
    assert 1 == len(kafka.read(arguments.letters))


@pytest.mark.parametrize("point", get_args(Point))
def test_killed_at_any_point_while_a_key_is_held(
    kafka: RealKafka, topic: TopicFactory, in_postgres: Effects, point: Point
) -> None:
    """All others are beyond it: each effect is there once; there is one letter."""
    arguments = _arguments(kafka, topic, in_postgres, by_key=True)
    killed = _start(replace(arguments, strikes=point))
    assert -signal.SIGKILL == killed.wait(PATIENCE_S)
    assert 0 == _start(arguments).wait(PATIENCE_S)
    assert [n for n in range(_ALL) if n != POISON] == sorted(in_postgres.of())
    # Behind a transaction that was killed it is seen once that has timed out.
    wait_until(lambda: len(kafka.read(arguments.letters)) == 1, "one letter")
    wait_until(lambda: in_postgres.keys() == 0, "no key is beyond the place")


def test_suspended_in_a_transaction(
    kafka: RealKafka, topic: TopicFactory, in_postgres: Effects, caplog: pytest.LogCaptureFixture
) -> None:
    """The next owner waits for it, then ends its session, and continues. Awake again, the first
    finds its transaction gone."""
    arguments = _arguments(kafka, topic, in_postgres)
    suspended = _start(replace(arguments, strikes="handled", signal=signal.SIGSTOP))
    try:
        wait_until(lambda: in_postgres.of() == [0, 1], "the effects before it")
        assert 0 == _start(arguments).wait(PATIENCE_S)
        assert [n for n in range(_ALL) if n != POISON] == in_postgres.of()
    finally:
        suspended.send_signal(signal.SIGCONT)
    assert 0 == suspended.wait(PATIENCE_S)
    assert [n for n in range(_ALL) if n != POISON] == in_postgres.of()
    assert 1 == len(kafka.read(arguments.letters))
