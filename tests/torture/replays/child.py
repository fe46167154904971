"""One replay, in a process of its own: run as a script, with a `Role` in JSON."""

import json
import os
import signal
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

from linear_retry.dlq.reading.reading import Cluster
from tests.torture.replays.life import replay_all
from tests.torture.replays.points import reporting


@dataclass(frozen=True, slots=True)
class Role:
    """The replay of `topic` kills itself at `point`, and makes the file `struck` right before.

    Amid a commit it goes on for `into_commit_s`, while a thread waits to strike.
    """

    bootstrap: str
    topic: str
    point: str
    struck: str
    into_commit_s: float

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def main(role: Role) -> None:
    def strike() -> None:
        Path(role.struck).touch()
        os.kill(os.getpid(), signal.SIGKILL)

    def at_point(point: str) -> None:
        if point != role.point:
            return
        if point.startswith("amid"):
            threading.Timer(role.into_commit_s, strike).start()
        else:
            strike()

    cluster = Cluster({"bootstrap.servers": role.bootstrap}, producer=reporting(at_point))
    replay_all(cluster, role.topic, at_point)


if __name__ == "__main__":
    main(Role(**json.loads(sys.argv[1])))
