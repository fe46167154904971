"""A handler takes longer than `max.poll.interval.ms`."""

import threading

import pytest

from linear_retry import HandlerTooSlowError, events
from linear_retry.kafka import Message
from tests.scenarios.conftest import SceneFactory

pytestmark = pytest.mark.broker

_LIMIT_S = 2.0
_QUICK = {
    "max.poll.interval.ms": int(1000 * _LIMIT_S),
    "session.timeout.ms": 1000,
    "heartbeat.interval.ms": 200,
}

# In the new protocol the session is the broker's, and the client cannot know how short it is.
kip_848_has_no_session = pytest.mark.filterwarnings(
    "ignore:max.poll.interval.ms=2000 is less than twice"
)
both_protocols = pytest.mark.parametrize(
    "config",
    [_QUICK, {"group.protocol": "consumer", "max.poll.interval.ms": 2000}],
    ids=["classic", "consumer"],
)


class _Slow:
    """Takes too long for offset 2, so many times."""

    def __init__(self, times: int) -> None:
        self._left = times

    def __call__(self, message: Message) -> None:
        if message.offset() == 2 and self._left:
            self._left -= 1
            threading.Event().wait(_LIMIT_S + 0.3)


@kip_848_has_no_session
@both_protocols
def test_handled_again(scene: SceneFactory, config: dict[str, object]) -> None:
    """What took too long is reported, not stored, for another may own it, and handled again."""
    group = scene(config=config)
    group.produce(5)
    member = group.join("first", _Slow(1))
    slow = group.wait_for(events.HandlerTooSlow)
    assert (2, 1, _LIMIT_S) == (slow.offset, slow.attempts, slow.max_poll_interval_s)
    assert slow.elapsed_s > slow.max_poll_interval_s
    group.wait_until_done()
    member.stop()
    offsets = [offset for _, _, offset in group.handled()]
    assert ([0, 1, 2], 2) == (offsets[:3], offsets.count(2))
    assert [] == group.dead_letters()
    assert [] == group.violations()


def test_the_third_time_in_a_row(scene: SceneFactory) -> None:
    """A handler that is always too slow ends its consumer, and the message is not committed."""
    group = scene(config=_QUICK)
    group.produce(5)
    member = group.join("first", _Slow(3))
    with pytest.raises(HandlerTooSlowError, match=r"@2: the handler took .* third time"):
        member.result()
    assert [1, 2, 3] == [event.attempts for event in group.emitted(events.HandlerTooSlow)]
    assert group.committed()[group.topic, 0] <= 2
    assert [] == group.violations(finished=False)


def test_many_that_add_up(scene: SceneFactory) -> None:
    """Messages that are quick each, and together slower than the limit, cost no partition."""
    # Of a session of a second a slow machine may miss the heartbeats, whatever the handler does.
    config = _QUICK | {"max.poll.interval.ms": 6000, "session.timeout.ms": 3000}
    group = scene(config=config)
    group.produce(60)
    member = group.join("first", lambda _: threading.Event().wait(0.12))
    group.wait_until_done()
    member.stop()
    assert [] == group.emitted(events.HandlerTooSlow)
    assert [] == group.emitted(events.Lost)
    assert 60 == len(group.attempts())
    assert [] == group.violations()
