"""The layer: a member is killed at any point of its life."""

import random
import signal
from collections import Counter
from dataclasses import dataclass
from typing import Any

from linear_retry.scope import ScopeKind
from tests.real_kafka import RealKafka
from tests.scenarios.protocols import PROTOCOLS
from tests.torture.layer import Counts, OnBroker
from tests.torture.struck.points import POINTS, Point
from tests.torture.struck.scene import StruckScene, struck_scene

_AT_ONCE = 8
_STRIDE = 63  # so that a few seeds are of all kinds; prime to the number of points


@dataclass(frozen=True, slots=True)
class Cast:
    """What a seed stands for."""

    number: int
    point: Point
    protocol: str
    scope: ScopeKind
    static: bool
    rng: random.Random

    @property
    def config(self) -> dict[str, Any]:
        name = {"group.instance.id": "static"} if self.static else {}
        return {**PROTOCOLS[self.protocol], **name}

    @property
    def heirs_config(self) -> dict[str, Any]:
        """In KIP-848 groups a name stays taken until the session of the dead has ended."""
        new_name = self.static and self.protocol == "consumer"
        return {"group.instance.id": "another"} if new_name else {}


def cast(seed: int) -> Cast:
    """Points go round; with each round protocol and scope are others."""
    lap, number = seed // len(POINTS), seed * _STRIDE % len(POINTS)
    point, rng = POINTS[number], random.Random(seed)
    protocol = list(PROTOCOLS)[(lap + number) % len(PROTOCOLS)]
    # Not in step with the protocols, which also are three.
    turns = (lap + number) // len(PROTOCOLS) + 2 * number
    scope = point.plot.scopes[turns % len(point.plot.scopes)]
    alone = point.plot.company == "nobody"
    return Cast(number, point, protocol, scope, alone and rng.random() < 0.25, rng)


def play(seed: int, kafka: RealKafka) -> Counts:
    """One is killed at its point, another goes on: the guarantees hold over both lives."""
    given = cast(seed)
    with struck_scene(kafka, given.point, scope=given.scope, config=given.config) as scene:
        first = scene.strike(given.rng)
        others = scene.company(first)
        scene.wait_until_struck(first)
        code = first.exit_code()
        assert code == -signal.SIGKILL, f"exit code {code}\n{scene.report()}"
        others = others or [scene.heir("second", config=given.heirs_config)]
        scene.produce_for_the_heirs()
        scene.wait_until_all_is_done()
        for other in others:
            other.stop()
        scene.presume_letters()
        letters = scene.letters_amiss(lambda *place: sent_and_not_committed(scene, *place))
        broken = [*scene.violations(), *letters, *repeated_too_much(scene)]
        assert not broken, "\n".join([*broken, scene.report()])
        twice = sum(count - 1 for count in scene.letters_found().values())
        handled = Counter(scene.handled())
        return Counter(
            {
                "points struck": 1,
                f"in {given.protocol} groups": 1,
                f"in scope {given.scope}": 1,
                "static members": int(given.static),
                "attempts": len(scene.attempts()),
                "handled twice": sum(count > 1 for count in handled.values()),
                "letters twice": twice,
            }
        )


CRASH_POINTS = OnBroker("crash-points", "kills", 28, 50 * len(POINTS), play, _AT_ONCE)


def sent_and_not_committed(scene: StruckScene, partition: int, offset: int) -> bool:
    """Whether the dead one may have sent this letter, and did not know it to be committed."""
    failed = (scene.topic, partition, offset) in scene.failed("first")
    return failed and offset >= scene.acknowledged().get(partition, 0)


def repeated_too_much(scene: StruckScene) -> list[str]:
    """Whoever goes on begins behind everything of which the dead one knew that it is committed."""
    known = scene.acknowledged()
    return [
        f"{part}@{offset} was known to be committed, and is attempted again by the {heir} one"
        for heir in ("second", "other")
        for _, part, offset in scene.attempts(heir)
        if offset < known.get(part, 0)
    ]
