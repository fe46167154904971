"""The layer: a replay is killed at any point of its life, and another one goes on."""

import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.patience import PATIENCE_S
from tests.real_kafka import RealKafka
from tests.torture.layer import Counts, OnBroker
from tests.torture.replays.child import Role
from tests.torture.replays.life import replay_all
from tests.torture.replays.points import POINTS
from tests.torture.replays.scene import Scene, scene

_AT_ONCE = 4
_STRIDE = 7  # so that a few seeds are of all kinds; prime to the number of points


def play(seed: int, kafka: RealKafka) -> Counts:
    """Killed at its point, now and then at an early one before: all arrive once, in order."""
    rng = random.Random(seed)
    given = scene(kafka, rng)
    # Those before it send nothing: so its own is reached.
    points = [
        *rng.choices(POINTS[:3], k=rng.choice([0, 0, 1])),
        POINTS[seed * _STRIDE % len(POINTS)],
    ]
    for point in points:
        _killed_at(point, given, rng)
    sent = replay_all(given.cluster, given.letters)
    assert not (broken := given.amiss()), "\n".join([*points, *broken])
    assert replay_all(given.cluster, given.letters) == 0, points
    assert not (broken := given.amiss()), "\n".join([*points, *broken])
    return Counter({"kills": len(points), "sent after the last": sent})


def _killed_at(point: str, given: Scene, rng: random.Random) -> None:
    with tempfile.TemporaryDirectory() as directory:
        struck = Path(directory) / "struck"
        into_commit_s = rng.choice([0.0, 0.001, 0.003, 0.01])
        role = Role(given.kafka.bootstrap, given.letters, point, str(struck), into_commit_s)
        done = subprocess.run(
            [sys.executable, "-m", "tests.torture.replays.child", role.to_json()],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        ended = f"{point}: exit code {done.returncode}\n{done.stderr}"
        assert struck.exists(), f"not reached: {ended}"
        assert done.returncode == -signal.SIGKILL, ended


REPLAY_KILLS = OnBroker("replay-kills", "replays", 10, 200, play, _AT_ONCE)
