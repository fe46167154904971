"""Of two commands that record at once, the newer fences the older."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import pytest

from linear_retry.dlq import EVERYTHING, State
from linear_retry.dlq.purge import purge
from linear_retry.dlq.reading.reading import Cluster
from linear_retry.dlq.reading.resolutions import Resolution
from linear_retry.dlq.replay.recording import reopen, resolve
from linear_retry.errors import FencedError
from tests.dlq.scene import NewScene, Scene
from tests.patience import PATIENCE_S
from tests.torture.replays.life import replay_all
from tests.torture.replays.points import reporting

pytestmark = pytest.mark.broker

_RESOLVED = Resolution(State.RESOLVED, "me")
# Before it has taken over it is the newer; before it has read what is recorded it knows all.
_EARLY = ["planned", "before init_transactions", "after init_transactions"]
_OVERTAKEN = [
    "before begin_transaction 1",
    "after produce 9",
    "before commit_transaction 1",
    "after commit_transaction 1",
    "before commit_transaction 4",
]


@contextmanager
def _standing_still(
    given: Scene, act: Callable[[Cluster, Callable[[str], None]], int], point: str
) -> Iterator[Callable[[], Future[int]]]:
    """The first one stands still at `point` inside the `with`; what is given lets it go on."""
    there, go = threading.Event(), threading.Event()

    def at_point(moment: str) -> None:
        if moment == point and not there.is_set():
            there.set()
            assert go.wait(PATIENCE_S)

    cluster = replace(given.cluster, producer=reporting(at_point))
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(act, cluster, at_point)
        assert there.wait(PATIENCE_S), f"{point} is not reached"

        def release() -> Future[int]:
            go.set()
            return first

        try:
            yield release
        finally:
            go.set()


def _letters(given: Scene) -> None:
    given.add_letters([given.letter(p, n) for n in range(16) for p in range(2)])


def _all_in_order(given: Scene) -> None:
    assert {p: [(n, 1) for n in range(16)] for p in range(2)} == given.arrived()
    assert {"replayed"} == set(given.states())


@pytest.mark.parametrize("point", _OVERTAKEN)
def test_the_newer_of_two_replays_fences_the_older(scene: NewScene, point: str) -> None:
    """Wherever the older is: it sends no more, and says so; all arrive once, in order."""
    given = scene(2)
    _letters(given)
    with _standing_still(
        given, lambda c, at_point: replay_all(c, given.letters, at_point), point
    ) as go:
        replay_all(given.cluster, given.letters)
        _all_in_order(given)
        with pytest.raises(FencedError, match="a newer replay, resolve, reopen or purge"):
            go().result(PATIENCE_S)
    assert 0 == replay_all(given.cluster, given.letters)
    _all_in_order(given)


@pytest.mark.parametrize("point", _EARLY)
def test_an_older_plan_sends_nothing_that_was_sent_since(scene: NewScene, point: str) -> None:
    """What is recorded is read after all others are fenced, whenever the plan was made."""
    given = scene(2)
    _letters(given)
    with _standing_still(
        given, lambda c, at_point: replay_all(c, given.letters, at_point), point
    ) as go:
        assert 32 == replay_all(given.cluster, given.letters)
        assert 0 == go().result(PATIENCE_S)
    _all_in_order(given)


@pytest.mark.parametrize("other", ["resolve", "reopen", "purge"])
def test_whoever_records_ends_an_older_replay(scene: NewScene, other: str) -> None:
    """What is resolved is not sent after it; what is deleted is not sent either."""
    given = scene(2)
    _letters(given)
    acts: dict[str, Callable[[], object]] = {
        "resolve": lambda: resolve(given.cluster, given.letters, EVERYTHING, _RESOLVED, None),
        "reopen": lambda: reopen(given.cluster, given.letters, EVERYTHING, None),
        "purge": lambda: purge(given.cluster, given.letters, None, everything=True),
    }
    point = "before commit_transaction 2"
    with _standing_still(
        given, lambda c, at_point: replay_all(c, given.letters, at_point), point
    ) as go:
        acts[other]()
        arrived = given.arrived()
        with pytest.raises(FencedError):
            go().result(PATIENCE_S)
    assert arrived == given.arrived()
    left = replay_all(given.cluster, given.letters)
    assert left == (32 if other == "reopen" else 0)


def test_a_purge_that_is_overtaken_deletes_nothing(scene: NewScene) -> None:
    """Somebody has opened a letter again after the purge has seen it dealt with."""
    given = scene(2)
    _letters(given)
    resolve(given.cluster, given.letters, EVERYTHING, _RESOLVED, None)

    def act(cluster: Cluster, _: Callable[[str], None]) -> int:
        return purge(cluster, given.letters, None, everything=False).letters

    with _standing_still(given, act, "before begin_transaction 1") as go:
        assert 32 == reopen(given.cluster, given.letters, EVERYTHING, None)
        with pytest.raises(FencedError):
            go().result(PATIENCE_S)
    assert ["open"] * 32 == given.states()
    assert 32 == replay_all(given.cluster, given.letters)
    _all_in_order(given)
