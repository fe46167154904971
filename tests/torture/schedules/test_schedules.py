"""The schedules find what is broken, shrink it, and play the same each time."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import pytest
from confluent_kafka import Message

from linear_retry.consumer.partitions.offsets import Offsets
from linear_retry.retry.circuits import Circuits
from tests.real_kafka import RealKafka
from tests.torture.layer import Failure, Tally
from tests.torture.schedules import layer
from tests.torture.schedules.layer import Schedules
from tests.torture.schedules.play import KINDS, broken_law, play, story
from tests.torture.schedules.schedule import Kind, Schedule, Setting, Step, draw
from tests.torture.schedules.shrinking import Shrinking
from tests.torture.schedules.struck import SENSELESS, cell, gaps, summed_up
from tests.torture.schedules.world import World

_BY_NAME = {kind.name: kind for kind in KINDS}
_PRINT_LOGS = (
    "from tests.torture.schedules.test_schedules import log_of\n"
    "for seed in range(12): print(log_of(seed))"
)


def log_of(seed: int) -> str:
    """All that happened under the schedule of this seed, as one hash."""
    schedule = draw(seed, KINDS)
    world = World(schedule.setting)
    world.play(schedule)
    entries = "\n".join(map(str, world.group.witness.entries))
    return sha256(entries.encode()).hexdigest()


def test_the_same_seed_gives_the_same_log() -> None:
    """Also in another process, where sets and dictionaries have another order."""
    here = [log_of(seed) for seed in range(12)]
    there = subprocess.run(
        [sys.executable, "-c", _PRINT_LOGS],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert here == there.stdout.split()


def _ungated(_: Circuits[Message], partition: object) -> bool:
    return False


def _believing(_: Offsets, partition: object, offset: int, last_kept: object = None) -> str:
    return "next"


@pytest.mark.parametrize(
    ("owner", "name", "broken", "law", "steps"),
    [
        (Circuits, "stops", _ungated, "NothingWhileOpen", 3),
        (Offsets, "classify_offset", _believing, "InOrder", 4),
    ],
    ids=["without the gate", "believing the first jump"],
)
# A member that is killed while it leaves is so in the thread that closes its client.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_missing_rule_is_found(
    owner: type,
    name: str,
    broken: Callable[..., Any],
    law: str,
    steps: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Within a few hundred schedules, and as a story of a few steps."""
    monkeypatch.setattr(owner, name, broken)
    schedules = (draw(seed, KINDS) for seed in range(400))
    found = next(each for each in schedules if (broken_law(each) or "").startswith(law))
    shortest = Shrinking(broken_law, _BY_NAME, 120).shrink(found)
    assert len(shortest.steps) <= steps


def test_a_story_has_steps_and_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was done, what happened, and which guarantee that breaks."""
    monkeypatch.setattr(Circuits, "stops", _ungated)
    seed = next(seed for seed in range(400) if broken_law(draw(seed, KINDS)) is not None)
    reported = story(seed, 20)
    assert "1. " in reported
    assert "is attempted" in reported
    assert "what is broken:" in reported


def _needs(*names: str) -> Callable[[Schedule], str | None]:
    def breaks(schedule: Schedule) -> str | None:
        return "law" if set(names) <= {step.name for step in schedule.steps} else None

    return breaks


def test_what_is_not_needed_goes() -> None:
    """The steps that break it are left, as plain as can be, in the plainest setting."""
    names = ["a", "b", "c", "d", "e", "f", "g"]
    kinds = {name: Kind(name, {"times": range(5)}, 1, True, False) for name in names}
    steps = tuple(Step(name, (("times", 3),), "open", 2) for name in names)
    schedule = Schedule(Setting(protocol="consumer", partitions=3), steps)
    shortest = Shrinking(_needs("b", "f"), kinds, 1000).shrink(schedule)
    assert Schedule(Setting(), (Step("b", (("times", 0),)), Step("f", (("times", 0),)))) == shortest


def test_another_law_is_not_the_same() -> None:
    """A shorter schedule that breaks something else is no shorter story of this."""
    kinds = {"a": Kind("a", {}, 1, True, False)}
    schedule = Schedule(Setting(), (Step("a"), Step("a")))
    shortest = Shrinking(lambda one: f"law {len(one.steps)}", kinds, 100).shrink(schedule)
    assert schedule == shortest


def test_what_breaks_nothing_cannot_be_shrunk() -> None:
    """There is no story."""
    with pytest.raises(ValueError, match="breaks nothing"):
        Shrinking(lambda _: None, {}, 10).shrink(Schedule(Setting(), ()))


def test_what_has_struck_nowhere_is_a_gap() -> None:
    """Each pair of step and state counts in each scope, but for those that make no sense."""
    kinds = [Kind("leak", {}, 1, True, False), Kind("turn_all", {}, 1, False, False)]
    wanted = gaps(Counter(), kinds)
    assert cell("leak", "open", "topic") in wanted
    assert cell("leak", "closing", "topic") not in wanted
    assert [] == [each for each in wanted if each.startswith("turn_all")]
    assert [] == gaps(Counter(wanted), kinds)


def test_the_table_names_only_what_is_there() -> None:
    """No pair is left in it whose step has another name now."""
    assert set() == {name for name, _ in SENSELESS} - set(_BY_NAME)


def test_what_is_reported_of_many() -> None:
    """Strikes by state, in all scopes; everything else as it is."""
    counts = Counter({cell("leak", "open", "topic"): 2, cell("dead", "open", "partition"): 3})
    assert Counter({"strikes open": 5, "attempts": 7}) == summed_up(counts + Counter(attempts=7))


def _in_parts(*parts: Tally) -> Callable[..., Any]:
    """Instead of `Seeded`: these come, one after another, as they are asked for."""

    class Parts:
        def __init__(self, *_: object) -> None: ...

        def run(self, *_: object) -> Iterator[Tally]:
            yield from parts
            pytest.fail("asked for too early")

    return Parts


def test_a_failure_is_reported_as_soon_as_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shrunk, before anything else is played: a long run takes hours."""
    monkeypatch.setattr(Circuits, "stops", _ungated)
    seed = next(seed for seed in range(400) if broken_law(draw(seed, KINDS)) is not None)
    monkeypatch.setattr(layer, "Seeded", _in_parts(Tally(9, failures=[Failure(seed, "long")])))
    part = next(Schedules(shrinking_plays=5).run(0, 100, _no_broker))
    assert [seed] == [failure.seed for failure in part.failures]
    assert "1. " in part.failures[0].story


def test_what_does_not_fail_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is reported as it came, with the remark that it did not come again."""
    failed = Tally(9, failures=[Failure(0, "as it came")])
    monkeypatch.setattr(layer, "Seeded", _in_parts(failed))
    part = next(Schedules(shrinking_plays=5).run(0, 100, _no_broker))
    assert "not so when played again:\nas it came" == part.failures[0].story


def test_what_never_struck_is_replayed_by_all() -> None:
    """No single seed is to blame for that."""
    *_, last = Schedules(enough=1).run(3, 2, _no_broker)
    assert ["--first 3 --amount 2"] == [failure.command for failure in last.failures]
    assert "has never struck" in last.failures[0].story


def test_one_seed_is_a_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is played here, and its failure is shrunk as far as can be."""
    monkeypatch.setattr(Circuits, "stops", _ungated)
    seed = next(seed for seed in range(400) if broken_law(draw(seed, KINDS)) is not None)
    parts = list(Schedules(shrinking_plays=5).run(seed, 1, _no_broker))
    assert [seed] == [failure.seed for part in parts for failure in part.failures]
    assert 1 == sum(part.done for part in parts)


def _no_broker() -> RealKafka:
    raise AssertionError("nobody asks for it")


def test_a_play_counts_what_happened() -> None:
    """Attempts, and the strikes by step, state and scope."""
    counts = play(0) + play(1) + play(2)
    assert counts["attempts"] > 0
    assert any(" while " in name for name in counts)
