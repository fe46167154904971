"""The layer: a member of either line is killed at any point of its life."""

import random
import signal
from collections import Counter

from tests.real_kafka import RealKafka
from tests.torture.layer import Counts, OnBroker
from tests.torture.retry_kills.points import POINTS
from tests.torture.retry_kills.scene import kill_scene

_AT_ONCE = 6
_STRIDE = 11  # so that a few seeds are of all kinds; prime to the number of points


def play(seed: int, kafka: RealKafka) -> Counts:
    """One is killed at its point, another goes on: each message has one end, and its steps."""
    point, rng = POINTS[seed * _STRIDE % len(POINTS)], random.Random(seed)
    with kill_scene(kafka, point) as scene:
        first = scene.strike(rng)
        code = first.exit_code()
        assert code == -signal.SIGKILL, f"exit code {code}\n{scene.story()}"
        scene.heir()
        scene.wait_until_all_is_done()
        amiss = scene.amiss()
        assert not amiss, "\n".join([str(point), *amiss, scene.story()])
        return Counter({f"{point.line} line": 1, "attempts": len(scene.attempts())})


RETRY_KILLS = OnBroker("retry-kills", "kills", 12, 20 * len(POINTS), play, _AT_ONCE)
