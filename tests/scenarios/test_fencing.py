"""Two members have one `group.instance.id`."""

import threading

import pytest

from linear_retry import FencedError, events
from linear_retry.kafka import Message
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.handlers import Dependency
from tests.scenarios.protocols import KIP_848

pytestmark = pytest.mark.broker

_SAME = {"group.instance.id": "the-same"}


def test_the_older_one_gives_way(scene: SceneFactory) -> None:
    """The older one raises, commits nothing more, and closes in time; the newer does it all."""
    group = scene(strategy=[10, 60])
    group.produce(20)
    outage = Dependency()

    def fail_at_ten(message: Message) -> None:
        outage.down = message.offset() == 10
        outage(message)

    older = group.join("older", fail_at_ten, config=_SAME, close_timeout_s=3)
    group.wait_for(events.CircuitOpened)
    newer = group.join("newer", Dependency(), config=_SAME)
    with pytest.raises(FencedError, match=r"group\.instance\.id"):
        older.result()
    group.wait_until_done()
    newer.stop()
    assert [False] == [event.left_group for event in group.emitted(events.Stopped, "older")]
    assert [] == group.dead_letters()
    assert [] == group.violations()


def test_the_older_one_is_busy(scene: SceneFactory) -> None:
    """Fenced while its handler runs: what that finishes is not committed by the older one."""
    group = scene()
    group.produce(20)
    freed = threading.Event()

    def stick(message: Message) -> None:
        if message.offset() == 10:
            freed.wait()

    older = group.join("older", stick, config=_SAME, close_timeout_s=3)
    group.wait_for_attempts(11)
    newer = group.join("newer", Dependency(), config=_SAME)
    group.wait_until_done()
    freed.set()
    with pytest.raises(FencedError):
        older.result()
    newer.stop()
    assert [] == group.violations()


def test_the_newer_one_gives_way(scene: SceneFactory) -> None:
    """In a KIP-848 group the name is its member's while that one lives: the newer one raises.

    When its name has been taken for longer than a killed member's session lasts, and not before.
    """
    group = scene(config=KIP_848)
    group.produce(5)
    older = group.join("older", Dependency(), config=_SAME)
    group.wait_for_attempts(1)
    limits = {"close_timeout_s": 3, "start_timeout_s": 1}
    newer = group.join("newer", Dependency(), config=_SAME, **limits)
    with pytest.raises(FencedError, match=r"group\.instance\.id"):
        newer.result()
    (first, second) = group.emitted(events.InstanceIdTaken, "newer")
    # The session is 6 s on this broker, and 10 are allowed for its end to be seen.
    assert 16.0 == pytest.approx(first.remaining_s, abs=1.5)
    assert 0 < second.remaining_s < first.remaining_s
    group.wait_until_done()
    older.stop()
    assert [] == group.attempts("newer")
    assert [] == group.violations()
