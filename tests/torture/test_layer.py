"""Plays go round in processes of their own.

Those import this module: it imports no more than they need.
"""

import os
import signal
from collections import Counter
from contextlib import closing

from tests.real_kafka import RealKafka
from tests.torture.layer import Counts, Seeded, Tally


def test_left_in_the_midst() -> None:
    """Whoever listens no longer waits for a few plays, and not for a million."""
    layer = Seeded("two", "plays", short=1, long=1, play=_play, chunk=1)
    with closing(layer.run(0, 1_000_000, _no_broker)) as plays:  # type: ignore[type-var]  # it is a generator
        assert 1 == next(plays).done


def test_a_process_that_dies() -> None:
    """Nobody can say in which seed, so those that it may have been are named, with all the rest."""
    layer = Seeded("two", "plays", short=1, long=1, play=_seven_kills, chunk=5)
    tally = Tally()
    for part in layer.run(0, 100, _no_broker):
        tally.add(part)
    assert any(failure.command == "--first 5 --amount 5" for failure in tally.failures)


def _play(seed: int) -> Counts:
    return Counter({"seeds": seed})


def _seven_kills(seed: int) -> Counts:
    if seed == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return Counter()


def _no_broker() -> RealKafka:
    raise AssertionError("nobody asks for it")
