"""Measures what retry topics cost a consumer that has none, against the commit before them."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.child import LIMIT_S
from benchmarks.figures import Figure, Result, Target
from benchmarks.scale import Scale
from benchmarks.topics import config_of_new_group, filled_topic
from tests.real_kafka import RealKafka

_CHECKOUT = Path(__file__).parents[2]
_PROGRAM = Path(__file__).with_name("success_program.py")
BEFORE = "e67daa2"  # the last commit without retry topics
_RUNS_EACH = 3  # of which the fastest counts: whatever else the machine does only slows them down


def run(kafka: RealKafka, scale: Scale, commit: str = BEFORE) -> Result:
    """Processor time of the consumer's thread, with a handler that does nothing."""
    topic = filled_topic(kafka, scale.messages)
    with tempfile.TemporaryDirectory() as directory:
        try:
            before = _checked_out(commit, Path(directory))
        except (OSError, subprocess.CalledProcessError) as error:
            now = tuple(_cost_us(kafka, scale, topic, _CHECKOUT) for _ in range(scale.rounds))
            note = f"commit {commit} is not here to compare with: {error}"
            return Result((Figure("a success", "µs", now),), notes=(note,))
        rounds = [_round(kafka, scale, topic, before) for _ in range(scale.rounds)]
    now, then = zip(*rounds, strict=True)
    ratio = tuple(ours / theirs for ours, theirs in rounds)
    return Result(
        (
            Figure("a success", "µs", now),
            Figure(f"the same at {commit}, before retry topics", "µs", then),
            Figure("now / then", "times", ratio, Target("at most", 1.02)),
        )
    )


def _checked_out(commit: str, directory: Path) -> Path:
    """The package as it was then."""
    archive = subprocess.run(
        ["git", "archive", commit, "linear_retry", "strategies"],
        cwd=_CHECKOUT,
        capture_output=True,
        check=True,
    )
    subprocess.run(["tar", "-x", "-C", str(directory)], input=archive.stdout, check=True)
    return directory


def _round(kafka: RealKafka, scale: Scale, topic: str, before: Path) -> tuple[float, float]:
    """In turn, so that a slow moment of the machine is one for both."""
    costs = [
        (_cost_us(kafka, scale, topic, _CHECKOUT), _cost_us(kafka, scale, topic, before))
        for _ in range(_RUNS_EACH)
    ]
    now, then = zip(*costs, strict=True)
    return min(now), min(then)


def _cost_us(kafka: RealKafka, scale: Scale, topic: str, checkout: Path) -> float:
    asked = {"config": config_of_new_group(kafka), "topic": topic, "messages": scale.messages}
    done = subprocess.run(
        [sys.executable, str(_PROGRAM), json.dumps(asked)],
        env={**os.environ, "PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    if done.returncode:
        raise AssertionError(f"{_PROGRAM.name} with {checkout} failed:\n{done.stderr[-3000:]}")
    return float(done.stdout)
