"""Runs each neighbour in a virtual environment of its own, in turns."""

import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.child import LIMIT_S, in_child
from benchmarks.contestants import ALIKE
from benchmarks.figures import Figure, Result
from benchmarks.scale import Scale
from benchmarks.throughput import bare_s, ours_s
from benchmarks.topics import config_of_new_group, filled_topic
from tests.real_kafka import RealKafka

_CHECKOUT = Path(__file__).parents[2]
ENVIRONMENTS = _CHECKOUT / ".cache" / "benchmarks"
_INSTALL_LIMIT_S = 300


@dataclass(frozen=True, slots=True)
class Neighbour:
    """`module` is run by the environment's Python; it reads one message of every `share`.

    `pythons` are the commands that may make the environment, of which the first that runs does.
    """

    name: str
    requirement: str
    module: str
    share: int = 1
    pythons: tuple[str, ...] = (sys.executable,)

    def python(self) -> str:
        """The Python that makes its environment. Raises `NotInstalledError`."""
        for command in self.pythons:
            with suppress(NotInstalledError):
                _do([command, "-c", ""])
                return command
        raise NotInstalledError(f"it needs one of {', '.join(self.pythons)}")


NEIGHBOURS = (
    Neighbour("Quix Streams", "quixstreams==3.28.1", "quix_streams"),
    Neighbour("Arroyo", "sentry-arroyo==2.48.0", "arroyo_processor", 10),
    Neighbour("FastStream", "faststream[confluent]==0.7.8", "fast_stream", 50),
)


class NotInstalledError(Exception):
    """A neighbour cannot be had here; the text says why."""


def run(
    kafka: RealKafka,
    scale: Scale,
    neighbours: tuple[Neighbour, ...] = NEIGHBOURS,
    environments: Path = ENVIRONMENTS,
) -> Result:
    """Ours, a bare loop and every neighbour in turn, with the no-op handler.

    Slow ones read the topic's first messages only: a rate needs no million.
    """
    pythons, notes = installed(neighbours, environments)
    topic, count = filled_topic(kafka, scale.messages), scale.messages
    rates: dict[str, list[float]] = {}
    for _ in range(scale.rounds):
        config, bare_config = config_of_new_group(kafka), config_of_new_group(kafka, **ALIKE)
        found = {
            "ours": count / in_child(ours_s, config, topic, count, 0.0),
            "bare loop": count / in_child(bare_s, bare_config, topic, count, 0.0),
        }
        for neighbour, python in pythons.items():
            messages = max(count // neighbour.share, 2)
            found[neighbour.requirement] = rate_of(kafka, topic, neighbour, python, messages)
        for name, rate in found.items():
            rates.setdefault(name, []).append(rate)
    return Result(
        tuple(Figure(name, "messages/s", tuple(values)) for name, values in rates.items()),
        notes=tuple(notes),
    )


def installed(
    neighbours: tuple[Neighbour, ...], environments: Path = ENVIRONMENTS
) -> tuple[Mapping[Neighbour, Path], list[str]]:
    """Returns the Python of each neighbour's environment, and a note on each that has none."""
    pythons: dict[Neighbour, Path] = {}
    notes: list[str] = []
    for neighbour in neighbours:
        try:
            pythons[neighbour] = _environment(environments / neighbour.module, neighbour)
        except NotInstalledError as error:
            notes.append(f"{neighbour.name} is not here: {error}")
    return pythons, notes


def _environment(directory: Path, neighbour: Neighbour) -> Path:
    """Its Python, with the pinned package; made at the first call, then only looked up."""
    python, complete = directory / "bin" / "python", directory / neighbour.requirement
    if not complete.exists():
        _do([neighbour.python(), "-m", "venv", "--clear", str(directory)])
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _do([*pip, neighbour.requirement])
        complete.touch()  # last: an installation that was cut short is begun anew
    return python


def _do(command: list[str]) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_INSTALL_LIMIT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalledError(str(error)) from error
    if done.returncode:
        last = (done.stderr or done.stdout).strip().rpartition("\n")[2]
        raise NotInstalledError(last or f"exit code {done.returncode}")


def rate_of(
    kafka: RealKafka,
    topic: str,
    neighbour: Neighbour,
    python: Path,
    messages: int,
    **more: float,
) -> float:
    """Messages per second. Runs with the fetch settings of ours, where it lets them be set.

    `more` is what else its program is told.
    """
    asked = {
        "bootstrap": kafka.bootstrap,
        "group": config_of_new_group(kafka)["group.id"],
        "topic": topic,
        "messages": messages,
        "fetch": ALIKE,
        **more,
    }
    done = subprocess.run(
        [str(python), "-m", f"benchmarks.neighbours.{neighbour.module}", json.dumps(asked)],
        cwd=_CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    if done.returncode:
        raise AssertionError(f"{neighbour.name} failed:\n{done.stderr[-3000:]}")
    return messages / float(done.stdout.strip().rpartition("\n")[2])
