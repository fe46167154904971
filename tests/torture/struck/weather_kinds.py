"""What may happen to a member that stands still, and what it takes to get over it."""

import random
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from linear_retry import FencedError, events
from linear_retry.retry.clock import SystemClock
from tests.kafka_operations import wait_until
from tests.real_kafka import RealKafka
from tests.scenarios.process import Process
from tests.scenarios.scene import Member
from tests.torture.schedules.schedule import State
from tests.torture.struck.scene import PARTITIONS, TRANSACTION_MS, StruckScene

_MAX_POLL_INTERVAL_MS = 3000
_TOO_LONG_S = 3.8
_QUICK_TO_FIND = {"topic.metadata.refresh.interval.ms": 300}
_SAME = {"group.instance.id": "the-same"}


@dataclass(slots=True)
class Play:
    """A member that stands still at its point, while the weather changes."""

    scene: StruckScene
    kafka: RealKafka
    rng: random.Random
    first: Process
    others: list[Member]
    over: Callable[[], None]
    """Who stood still goes on: from now on nothing is excused."""

    def release(self) -> None:
        """It goes on."""
        self.scene.go.touch()
        self.over()

    @property
    def leaves(self) -> bool:
        """It ends by itself once it goes on."""
        return bool(self.scene.plot.stops_at)

    def heir_if_it_leaves(self) -> None:
        if self.leaves and not self.others:
            self.others.append(self.scene.heir("second"))

    def all_is_done(self) -> None:
        self.scene.produce_for_the_heirs()
        self.scene.wait_until_all_is_done()

    def end(self) -> None:
        """All of them leave, in any order."""
        steps: list[Callable[[], None]] = [other.stop for other in self.others]
        steps.append(self.first_ends)
        self.rng.shuffle(steps)
        for step in steps:
            step()

    def first_ends(self) -> None:
        if not self.leaves:
            self.first.signal(signal.SIGTERM)
        code = self.first.exit_code(30)
        assert code == 0, f"exit code {code}\n{self.scene.report()}"


def stopped(play: Play) -> None:
    """Past its session: it wakes up when others have done what was its own."""
    _succeeded(play)
    play.first.signal(signal.SIGCONT)
    play.over()
    _awake(play)


def held_up(play: Play) -> None:
    """For longer than `max.poll.interval.ms`, while its client's threads go on.

    Others go on only where librdkafka was not in the midst of a poll: its callbacks may take as
    long as they like.
    """
    until_s = SystemClock().now_s() + _TOO_LONG_S
    wait_until(lambda: SystemClock().now_s() > until_s, "it is held up")
    if play.scene.point.in_poll:
        play.release()
        _succeeded(play)
    else:
        _succeeded(play)
        play.release()
    _awake(play)


def broker_stopped(play: Play) -> None:
    """In an orderly way, and started."""
    _bounced(play, play.kafka.stop)


def broker_killed(play: Play) -> None:
    """And started."""
    _bounced(play, play.kafka.kill)


def grown(play: Play) -> None:
    """Its topic has more partitions all at once."""
    scene = play.scene
    scene.kafka.add_partitions(scene.topic, 2 * PARTITIONS)
    for partition in range(PARTITIONS, 2 * PARTITIONS):
        scene.produce(3, partition)
    play.release()
    play.heir_if_it_leaves()
    play.all_is_done()
    play.end()


def emptied(play: Play) -> None:
    """Retention has removed some of what it has still to read, and what it holds."""
    scene = play.scene
    for partition in range(PARTITIONS):
        scene.empty(partition, before=play.rng.randint(1, scene.plot.messages))
    play.release()
    play.heir_if_it_leaves()
    play.all_is_done()
    play.end()


def _is_halfway(scene: StruckScene) -> bool:
    """Whether what it gives up has no owner until it asks for a second rebalance (KIP-429).

    One that comes in its name is given what it still has, without any rebalance (KIP-345), and
    nobody asks: the rest has no owner until some other member comes or goes.
    """
    cooperative = scene.config("first").get("partition.assignment.strategy") == "cooperative-sticky"
    return cooperative and "on_revoke" in scene.point.moment


def impersonated(play: Play) -> None:
    """Another comes with its `group.instance.id`: one of them ends, the other goes on."""
    scene = play.scene
    newer = scene.heir("newer", close_timeout_s=3, start_timeout_s=5, config=_SAME)
    if play.rng.random() < 0.5:
        wait_until(
            lambda: newer.ended.done() or scene.emitted(events.Assigned, "newer"),
            "it is let in, or not",
            detail=scene.report,
        )
    play.release()
    wait_until(
        lambda: play.first.has_ended or newer.ended.done(), "one gives way", detail=scene.report
    )
    fenced = newer.ended.exception(30) if newer.ended.done() else None
    if fenced is not None:
        # KIP-848: a name is its member's while that one lives.
        assert isinstance(fenced, FencedError), f"{fenced!r}\n{scene.report()}"
        play.heir_if_it_leaves()
    else:
        play.others.append(newer)
        if _is_halfway(scene):
            play.others.append(scene.heir("third"))
    play.all_is_done()
    if fenced is not None:
        play.end()
        return
    for other in play.others:
        other.stop()
    code = play.first.exit_code(30)
    assert code == 0 if play.leaves else "FencedError" in play.first.stderr(), scene.report()
    scene.presume_letters()


def _succeeded(play: Play) -> None:
    play.others = play.others or [play.scene.heir("second")]
    play.all_is_done()


def _awake(play: Play) -> None:
    if play.rng.random() < 0.5:
        play.all_is_done()
    play.end()
    play.scene.presume_letters()


def _bounced(play: Play, down: Callable[[], None]) -> None:
    with play.scene.disturbing("no broker"):
        down()
        first_up = play.rng.random() < 0.5
        if first_up:
            play.kafka.start()
        play.release()
        if not first_up:
            play.kafka.start()
    play.heir_if_it_leaves()
    play.all_is_done()
    play.end()


@dataclass(frozen=True, slots=True)
class Kind:
    """One sort of weather, beginning in `first_state`; the others follow.

    `config` is everybody's, `own_config` that of who stands still. One that `bounces` has a broker
    for itself.
    """

    name: str
    strike: Callable[[Play], None]
    first_state: State
    signal: int | None = None
    config: dict[str, Any] | None = None
    own_config: dict[str, Any] | None = None
    transaction_ms: int = TRANSACTION_MS
    bounces: bool = False


_STOPPED = Kind("stopped past the session", stopped, "in the handler", signal.SIGSTOP)
_HELD_UP = Kind(
    "held up past max.poll.interval.ms",
    held_up,
    "waiting for a letter",
    own_config={"max.poll.interval.ms": _MAX_POLL_INTERVAL_MS},
    transaction_ms=_MAX_POLL_INTERVAL_MS // 3,
)
_GROWN = Kind("partitions added", grown, "open", config=_QUICK_TO_FIND)
_EMPTIED = Kind("records deleted", emptied, "half-open")
_TWICE = Kind("group.instance.id twice", impersonated, "committing", own_config=_SAME)
_CALM = (_STOPPED, _HELD_UP, _GROWN, _EMPTIED, _TWICE)
_ROUGH = (
    Kind("broker stopped and started", broker_stopped, "open", bounces=True),
    Kind("broker killed and started", broker_killed, "waiting for a letter", bounces=True),
)
ROUND = (*_CALM, *_CALM, *_ROUGH)
"""A seed's kind. Starting a broker is dear."""
