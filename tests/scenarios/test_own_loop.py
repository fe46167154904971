"""A loop of one's own keeps the guarantees on a real broker, wherever it is left."""

import os
import signal
import threading
from collections.abc import Callable

import pytest

from linear_retry import LinearConsumer, Strategy, events
from linear_retry.kafka import Message
from linear_retry.retry.clock import SystemClock
from linear_retry.testing import AttemptFinished, EventLog
from tests.kafka_operations import wait_until
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.handlers import OutageError
from tests.scenarios.scene import Scene
from tests.testing.violations import violations

pytestmark = pytest.mark.broker


def _succeed(_: Message) -> None:
    """A handler that has nothing against any message."""


class Looping:
    """A member in the thread of the test."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._witness = EventLog(SystemClock().now_s)
        self.consumer = LinearConsumer(
            scene.config("own"),
            [scene.topic],
            strategy=Strategy(scene.strategy),
            transient=OutageError,
            dead_letters=scene.letters,
            listeners=[self._witness.listener("own")],
        )

    @property
    def handled(self) -> int:
        log = self._witness.entries
        return sum(isinstance(entry, AttemptFinished) and entry.outcome == "done" for entry in log)

    def loop(
        self, act: Callable[[Message], object], *, leave_after: int, at_end: int | None = None
    ) -> None:
        """Left after so many attempts; stopped once `at_end` messages are handled."""
        handle = self._witness.handler("own", act)
        for left, attempt in enumerate(self.consumer, 1 - leave_after):
            with attempt as message:
                handle(message)
                if self.handled == at_end:
                    self.consumer.stop()
            if left == 0:
                break

    def violations(self, *, finished: bool = True) -> list[str]:
        """With those of the scene's other members."""
        log = sorted([*self._witness.entries, *self._scene.log()], key=lambda entry: entry.at_s)
        return violations(
            log,
            self._scene.visible(),
            committed=self._scene.committed(),
            strategy_length=len(self._scene.strategy),
            finished=finished,
        )


def test_ctrl_c_while_librdkafka_polls(scene: SceneFactory) -> None:
    """The message that the poll has taken is not dropped: the next loop gets it."""
    group = scene()
    group.produce(20)
    own = Looping(group)

    def press() -> None:
        group.produce(1)
        os.kill(os.getpid(), signal.SIGINT)

    with own.consumer:
        for _ in range(4):
            threading.Timer(0.3, press).start()
            with pytest.raises(KeyboardInterrupt):
                own.loop(_succeed, leave_after=1000)
        group.produce(1)
        own.loop(_succeed, leave_after=1000, at_end=25)
    assert [] == own.violations()


def test_another_member_comes_while_a_loop_is_left(scene: SceneFactory) -> None:
    """What the loop had in its batch is handed over; each message is done once."""
    group = scene(2)
    for partition in range(2):
        group.produce(30, partition)
    own = Looping(group)
    with own.consumer:
        own.loop(_succeed, leave_after=10)
        other = group.join("other", _succeed)
        while not group.emitted(events.Assigned, "other"):
            group.produce(1)
            group.produce(1, 1)
            own.loop(_succeed, leave_after=1)
    wait_until(lambda: own.violations() == [], "all is done", detail=group.story)
    other.stop()
    assert [] == own.violations()
