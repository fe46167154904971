"""What a person sees who plays a layer by hand."""

from collections import Counter
from collections.abc import Iterator

import pytest
import typer
from typer.testing import CliRunner

from tests.torture import __main__ as torture
from tests.torture.layer import Broker, ByDepth, Counts, Failure, Layer, Tally, play_all

_APP = typer.Typer()
_APP.command()(torture.main)


def _odd_ones_break(seed: int) -> Counts:
    assert seed % 2 == 0, f"{seed} is odd"
    return Counter({"attempts": 3})


class _Here(Layer):
    """All in this process; after the play `interrupted_after` somebody presses Ctrl-C."""

    name, unit, short, long = "here", "plays", 4, 100

    def __init__(self, interrupted_after: int | None = None) -> None:
        self._interrupted_after = interrupted_after

    def run(self, first: int, amount: int, broker: Broker) -> Iterator[Tally]:
        for seed in range(first, first + amount):
            yield play_all(_odd_ones_break, range(seed, seed + 1))
            if seed == self._interrupted_after:
                raise KeyboardInterrupt


class _Deep(_Here, ByDepth):
    """Its amount is a depth, and it knows one seed."""

    name = "deep"

    def replay(self, seed: int) -> Iterator[Tally]:
        if seed != 8:
            raise ValueError(f"{seed} is no way")
        return iter([play_all(_odd_ones_break, range(seed, seed + 1))])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("deep --seed 5", "--seed: 5 is no way"),
        ("deep --first 5", "--first: deep has a depth"),
        ("nowhere", "is none of: here, deep"),
        ("here --amount 0", "--amount"),
        ("here --amount -5", "--amount"),
        ("here --first -1", "--first"),
        ("here --seed -1", "--seed"),
        ("here --seed x", "--seed"),
        ("here --seed 1 --amount 2", "--seed is one play of one layer"),
        ("here here --seed 1", "--seed is one play of one layer"),
        ("here --short --amount 2", "it is one of them"),
    ],
)
def test_nonsense(monkeypatch: pytest.MonkeyPatch, arguments: str, message: str) -> None:
    """Nothing is played, and one sentence says why: a run of no seeds would look like a proof."""
    monkeypatch.setattr(torture, "LAYERS", (_Here(), _Deep()))
    ended = CliRunner().invoke(_APP, arguments.split(), env={"COLUMNS": "200"})
    assert 2 == ended.exit_code
    assert message in ended.output
    assert "attempts" not in ended.output


def test_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the first has its story and its command, and the seeds of the others are named."""
    monkeypatch.setattr(torture, "LAYERS", (_Here(),))
    ended = CliRunner().invoke(_APP, ["--amount", "10"])
    assert 1 == ended.exit_code
    assert "AssertionError: 5 is odd" in ended.output
    assert "replay: python -m tests.torture here --seed 5\n" in ended.output
    assert "here: 5 of 10 failed, of the seeds 1, 3, 5, 7, 9\n" in ended.output
    assert 0 == CliRunner().invoke(_APP, ["here", "--seed", "4"]).exit_code


def test_no_single_seed() -> None:
    """What only many seeds show is replayed by playing those, and blames none of them."""
    tally = Tally(20, failures=[Failure(10, "never struck", "--first 10 --amount 20")])
    summary = torture.how_to_replay(_Here(), tally)
    assert "replay: python -m tests.torture here --first 10 --amount 20" in summary
    assert "here: 1 of 20 failed, in --first 10 --amount 20\n" in summary


def test_a_depth_is_no_number_of_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A depth of 1 is one, and not a replay; what was played is shown as a depth."""
    monkeypatch.setattr(torture, "LAYERS", (_Deep(),))
    wide = {"COLUMNS": "200"}
    assert "depth 1 " in CliRunner().invoke(_APP, ["--amount", "1"], env=wide).output
    assert "seed 8 " in CliRunner().invoke(_APP, ["--seed", "8"], env=wide).output
    assert "(depth 4)" in torture.summary(_Deep(), 0, Tally(100))


def test_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was played by then is shown."""
    monkeypatch.setattr(torture, "LAYERS", (_Here(interrupted_after=2),))
    ended = CliRunner().invoke(_APP, ["here"])
    assert 130 == ended.exit_code
    assert "3 plays" in ended.output


def test_many_failures() -> None:
    """A layer that fails a million times does not fill the memory with stories."""
    tally = Tally()
    for seed in range(100):
        tally.add(Tally(1, failures=[Failure(seed, "a long one")]))
    assert list(range(100)) == [failure.seed for failure in tally.failures]
    assert 10 == sum(bool(failure.story) for failure in tally.failures)
