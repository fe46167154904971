"""An outage makes only so many messages leave the line, and each leaves it for one place."""

import threading

import pytest

from linear_retry import Recovery, RetryTopics, events
from linear_retry.kafka import Message
from linear_retry.testing import LiveLineNeverWaits, broken
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.handlers import OutageError
from tests.scenarios.retry_scene import Outage, RetrySceneFactory

pytestmark = pytest.mark.broker


def test_a_line_that_opens_after_so_many_in_a_row(retry_scene: RetrySceneFactory) -> None:
    """Blocking retries, then retries off the line, then dead letters: of an outage three messages
    leave; the fourth is held, and attempted once each `hold`, until it is handled."""

    def three(prefix: str) -> RetryTopics:
        return RetryTopics(prefix, strategy=["300ms"], limit=3, hold=0.7)

    group = retry_scene(three, strategy=[0.1])
    is_down = True

    def handle(message: Message) -> None:
        if message.value() == b"lost" or is_down:
            raise OutageError(message.value())

    group.write([(0, None, b"lost" if n == 0 else b"%d" % n, ()) for n in range(6)])
    group.live(handle)
    first = group.wait_for(events.LimitReached, member="live")
    assert (3, 0.7, 2) == (first.offset, first.delay_s, first.failures)
    second = group.wait_for(events.LimitReached, 2, "live")
    assert (3, 3) == (second.offset, second.failures)
    assert [0, 1, 2] == [event.offset for event in group.emitted(events.SentToRetry)]
    is_down = False
    wait_until(lambda: len(group.handled()) == 3, "the rest is handled", detail=group.story)
    group.retry(handle)
    group.wait_for_ends(6)
    assert [] == group.end_well()
    attempts = [place.offset for place in group.attempts("live")]
    assert [0, 0, 1, 1, 2, 2, 3, 3, 3, 3, 4, 5] == attempts
    (letter,) = group.dead_letters()
    assert (b"lost", "exhausted", 3) == (letter.value, letter.reason, letter.failures)
    assert 5 == len(group.handled())


def test_a_function_of_the_users_takes_over(scene: SceneFactory) -> None:
    """It is called with the message and its last error, and again where it raises: the handler is
    not, and what is behind the message waits until it has returned."""

    group = scene(strategy=[0.1])
    calls: list[tuple[bytes | None, str]] = []

    def take_over(message: Message, error: Exception) -> None:
        calls.append((message.value(), str(error)))
        if len(calls) == 1:
            raise ConnectionError("the table is locked")

    dependency = Outage()
    group.write([(0, None, value, ()) for value in (b"lost *", b"fine 0", b"lost too *")])
    member = group.join("first", dependency, on_exhausted=Recovery(take_over))
    wait_until(lambda: len(group.emitted(events.HandedOver)) == 2, "both", detail=group.story)
    assert [(b"lost *", "lost *")] * 2 + [(b"lost too *", "lost too *")] == calls
    member.stop()
    assert [] == group.violations()
    assert [0, 0, 1, 2, 2] == [place.offset for place in group.attempts()]
    assert [] == group.dead_letters()


def test_the_live_line_waits_for_no_retry(retry_scene: RetrySceneFactory) -> None:
    """While a retry is in its handler, and then while a circuit of the retry line is open, the live
    line handles all that comes; what the retry line has not done yet, it does afterwards."""

    def one(prefix: str) -> RetryTopics:
        return RetryTopics(prefix, strategy=["300ms"], limit=None)

    group = retry_scene(one, strategy=[])
    freed = threading.Event()
    dependency = Outage()

    def held_up(message: Message) -> None:
        if not freed.wait(PATIENCE_S):
            raise AssertionError("the live line has waited for this")
        dependency(message)

    def go_on(handled: int) -> None:
        group.write([(1, None, b"fine 0", ()) for _ in range(10)])
        wait_until(lambda: len(group.handled("live")) == handled, "all", detail=group.story)

    group.write([(0, None, b"late 2", ())])
    group.live(dependency)
    # Its own strategy blocks for far longer than the test may take, unless it is told to go on.
    retry = group.retry(held_up, strategy=[3600], scope="partition").consumer
    group.wait_for_attempts(1, "retry")
    go_on(10)
    freed.set()
    group.wait_for(events.CircuitOpened, member="retry")
    go_on(20)
    assert retry.retry_now().result(PATIENCE_S)
    group.wait_for_ends(21)
    assert [] == group.end_well(retry_strategy_length=1)
    assert [] == broken(group.log(), [LiveLineNeverWaits(group.retries, within_s=60)])
