"""A consumer stays in its group while its circuit is open."""

import pytest

from linear_retry import RetryAfter, events
from linear_retry.kafka import Message
from tests.kafka_operations import wait_until
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.protocols import PROTOCOLS, soon_missed

pytestmark = [
    pytest.mark.broker,
    pytest.mark.filterwarnings("ignore:max.poll.interval.ms=6000 is less than twice"),
]

MAX_POLL_INTERVAL_S = 6
OPEN_S = 3 * MAX_POLL_INTERVAL_S + 1


class OneLongOutage:
    """Fails once, and asks for a wait of more than three times the longest between two polls."""

    def __init__(self) -> None:
        self._failed = False

    def __call__(self, message: Message) -> None:
        if not self._failed:
            self._failed = True
            raise RetryAfter(OPEN_S)


def test_stays_a_member(scene: SceneFactory) -> None:
    """Paused for three times max.poll.interval.ms, a member is never removed: in every protocol."""
    interval = {"max.poll.interval.ms": MAX_POLL_INTERVAL_S * 1000}
    protocols = PROTOCOLS.values()
    groups = [scene(2, config=soon_missed(protocol | interval)) for protocol in protocols]
    for group in groups:
        group.produce(5, 0)
        group.produce(5, 1)
        group.join("first", OneLongOutage())
    for group in groups:
        group.wait_for(events.CircuitOpened)
    wait_until(
        lambda: all(group.emitted(events.CircuitClosed) for group in groups),
        "each is closed again",
    )
    for group in groups:
        assert ["first"] == group.kafka.group_members(group.group)
        group.wait_until_done()
        assert [] == group.emitted(events.Lost) + group.emitted(events.Revoked)
        group.end()
        assert [] == group.violations()
