"""Transactional letters are there exactly once, though the broker is killed meanwhile."""

import pytest

from linear_retry import DeadLetters, events
from tests.real_kafka import RealKafka
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.handlers import Dependency

pytestmark = pytest.mark.broker

LETTERS = 30


def test_killed_and_started(own_scene: SceneFactory, own_kafka: RealKafka) -> None:
    """Whatever was under way is ended by the broker, and sent again only if it was aborted."""
    group = own_scene(strategy=[])
    refused = Dependency()
    refused.refuses |= {(0, offset) for offset in range(LETTERS)}
    group.produce(LETTERS)
    config = {"transaction.timeout.ms": 5000}
    letters = DeadLetters(group.letters, config, transactional=True, limit=None)
    member = group.join("first", refused, dead_letters=letters)
    group.wait_for(events.DeadLettered, LETTERS // 3)
    with group.disturbing("no broker"):
        own_kafka.restart()
    group.wait_until_done()
    member.stop()
    assert list(range(LETTERS)) == [one.original_offset for one in group.dead_letters()]
    assert [] == group.violations()
