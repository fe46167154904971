"""`linear-retry strategy simulate` shows people and programs what an outage comes to."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from linear_retry.cli import app
from linear_retry.cli.strategy.simulate import attempts, simulation_json
from linear_retry.strategy.simulation import Recovered, Simulator
from linear_retry.strategy.strategy import Strategy
from tests.cli.strategy.test_commands import child
from tests.docs.markdown import ROOT, blocks, page
from tests.strategy.test_schedule import attempts_ms, delays_ms, of_ms

_STRATEGIES = sorted((ROOT / "strategies").glob("*.json"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "good.json"
    path.write_text('[1, "30s", {"every": "5m", "times": 2}, {"every": 10, "times": 6}]')
    return path


@pytest.fixture
def spread(tmp_path: Path) -> Path:
    path = tmp_path / "spread.json"
    path.write_text('{"delays": [10, 20], "jitter": 0.5, "description": "to see [red]it[/red]"}')
    return path


def output(*arguments: object) -> list[str]:
    """The lines in a pipe; the exit code is 0."""
    result = CliRunner().invoke(app, ["strategy", "simulate", *map(str, arguments)])
    assert 0 == result.exit_code, result.output
    return result.stdout.splitlines()


def objects(*arguments: object) -> list[dict[str, Any]]:
    """The objects that programs get."""
    return [json.loads(line) for line in output(*arguments, "--json")]


def test_an_outage_that_is_waited_out(file: Path) -> None:
    """Each attempt has its start and its wait; then when it is back, and how late."""
    assert [
        Strategy.load(file).label,
        "outage of 7m",
        "attempt  starts at    result  then waits",
        "      1         0s     fails          1s",
        "      2         1s     fails         30s",
        "      3        31s     fails          5m",
        "      4      5m31s     fails          5m",
        "      5     10m31s  succeeds",
        "back 3m31s after the outage: attempt 5 succeeds at 10m31s",
        "outages of up to 11m31s are waited out",
    ] == output(file, "--outage", "7m")


def test_an_outage_that_is_too_long(file: Path) -> None:
    """The last attempt waits for nothing; many with the same wait are one row."""
    assert [
        "5 to 10  10m31s to 11m21s    fail    10s each",
        "     11            11m31s   fails",
        "dead-lettered at 11m31s: attempt 11, the last one, came 28m29s too early",
        "outages of up to 11m31s are waited out",
    ] == output(file, "--outage", "40m")[-4:]


def test_an_outage_of_months_with_repeat(file: Path) -> None:
    """What repeats is one row, however often, and nothing is too long."""
    assert [
        "5 to 777541  10m31s to 2159h59m51s      fail    10s each",
        "     777542                2160h1s  succeeds",
        "back 1s after the outage: attempt 777542 succeeds at 2160h1s",
        "outages of any length are waited out",
    ] == output(file, "--outage", "2160h", "--on-exhausted", "repeat")[-4:]


def test_attempts_that_take_time(file: Path) -> None:
    """Each failing attempt puts off the next by what it takes."""
    lines = output(file, "--outage", "10s", "--attempt", "1500ms")
    assert "an attempt takes 1s500ms to fail" == lines[1]
    assert ["0s", "2s500ms", "34s"] == [line.split()[1] for line in lines[4:7]]


def test_jitter(spread: Path) -> None:
    """Told without jitter, and the bounds with it: back late, or given up too, or always."""
    assert "to see [red]it[/red]" == output(spread, "--outage", "12s")[1]
    assert [
        "with jitter: back 0s to 30s after the outage",
        "with jitter: back 0s to 5s after the outage, or given up too",
        "with jitter: the same, whatever the random draws",
    ] == [output(spread, "--outage", outage)[-2] for outage in ("12s", "40s", "46s")]


def test_max_elapsed(tmp_path: Path) -> None:
    """It is given up at the failure whose retry would be too late, without waiting for that."""
    path = tmp_path / "limited.json"
    path.write_text('{"delays": [{"every": "1m", "times": 60}], "max_elapsed": "5m30s"}')
    assert [
        Strategy.load(path).label,
        "no retry begins later than 5m30s after the first failure",
        "outage of 7m",
        "attempt  starts at  result  then waits",
        " 1 to 5   0s to 4m    fail     1m each",
        "      6         5m   fails",
        "dead-lettered at 5m: attempt 6, the last one, came 2m too early",
        "outages of up to 5m are waited out",
    ] == output(path, "--outage", "7m")


def test_an_empty_strategy(tmp_path: Path) -> None:
    """`[]` gives up after its one attempt, unless there is no outage."""
    path = tmp_path / "none.json"
    path.write_text("[]")
    assert [
        "      1         0s   fails",
        "dead-lettered at 0s: attempt 1, the last one, came 5s too early",
        "no outage is waited out",
    ] == output(path, "--outage", "5s")[-3:]
    assert "back 0s after the outage: attempt 1 succeeds at 0s" == output(path, "--outage", "0")[-2]


def test_one_outage_for_programs(spread: Path) -> None:
    """One object: the strategy, the ending, the bounds with jitter, and the attempts."""
    (found,) = objects(spread, "--outage", "12s", "--attempt", "1s")
    failing = {"times": 1, "every_s": None, "succeeds": False}
    assert {"name": "spread", "jitter": 0.5, "ok": True} == {
        key: found[key] for key in ("name", "jitter", "ok")
    }
    assert {
        "on_exhausted": "dead-letter",
        "attempt_s": 1.0,
        "outage_s": 12.0,
        "outcome": "recovered",
        "attempts": 3,
        "ended_s": 32.0,
        "idle_s": 20.0,
        "too_early_s": None,
        "idle_min_s": 0.0,
        "idle_max_s": 31.0,
        "may_give_up": False,
        "waits_out_s": 32.0,
        "timeline": [
            {"attempt": 1, "at_s": 0.0, "wait_s": 10.0, **failing},
            {"attempt": 2, "at_s": 11.0, "wait_s": 20.0, **failing},
            {"attempt": 3, "at_s": 32.0, "wait_s": None, **failing, "succeeds": True},
        ],
    } == {key: value for key, value in found.items() if key not in _ABOUT_THE_STRATEGY}


_ABOUT_THE_STRATEGY = {
    *("file", "ok", "problems", "name", "fingerprint", "description", "jitter", "delays"),
    *("max_elapsed_s", "total_s", "total_max_s"),
}


@given(delays_ms, attempts_ms, st.integers(0, 80_000))
def test_rows_and_objects_have_every_attempt(
    waits_ms: list[int], attempt_ms: int, outage_ms: int
) -> None:
    """Whatever is taken together, the numbers go from 1 to the last without a gap."""
    simulation = Simulator(of_ms(waits_ms), attempt_ms).through(outage_ms)
    expected = list(range(1, simulation.ending.attempt + 1))
    bounds = [[int(number) for number in row[0].split(" to ")] for row in attempts(simulation)[1:]]
    assert expected == [number for b in bounds for number in range(b[0], b[-1] + 1)]
    objects = simulation_json(simulation, 0)["timeline"]
    assert expected == [row["attempt"] + index for row in objects for index in range(row["times"])]
    last = objects[-1]["succeeds"]
    assert isinstance(simulation.ending, Recovered) == last


def test_several_outages(file: Path, tmp_path: Path) -> None:
    """A row for each, those of the options first, then the summary."""
    outages = tmp_path / "outages.txt"
    outages.write_text("# last year\n90s  # deploy\n40m\n\n420\n")
    assert [
        "outage  attempts           ends      at   idle  too early",
        "   10s         3      recovered     31s    21s",
        " 1m30s         4      recovered   5m31s   4m1s",
        "   40m        11  dead-lettered  11m31s            28m29s",
        "    7m         5      recovered  10m31s  3m31s",
        "4 outages: 1 dead-lettered; idle afterwards 3m31s (median), 4m1s (worst); "
        "23 attempts in all",
        "outages of up to 11m31s are waited out",
    ] == output(file, "--outage", "10s", "--outages", outages)[1:]


def test_several_outages_with_jitter(spread: Path) -> None:
    """One more column has the idle time with jitter, and whether it may be back at all."""
    found = output(spread, *(part for length in (5, 40, 46) for part in ("--outage", length)))
    assert [
        "outage  attempts           ends   at  idle        with jitter  too early",
        "    5s         2      recovered  10s    5s          5s to 10s",
        "   40s         3  dead-lettered  30s        0s to 5s or never        10s",
        "   46s         3  dead-lettered  30s                    never        16s",
    ] == found[2:6]


def test_several_outages_that_are_all_waited_out_or_none(file: Path) -> None:
    """The summary leaves out what there is none of."""
    assert (
        "2 outages: all waited out; idle afterwards 4s500ms (median), 9s (worst); 5 attempts"
        in (output(file, "--outage", "1", "--outage", "22")[-2])
    )
    assert (
        "2 outages: 2 stopped; 22 attempts in all"
        == (output(file, *["--outage", "1h"] * 2, "--on-exhausted", "stop")[-2])
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "no outage is given; write --outage 7m, or --outages FILE"),
        (["--outage", "-5"], 'Invalid value for --outage: "-5" is not a duration; write it as'),
        (["--outage", "nan"], 'Invalid value for --outage: "nan" is not a duration; write it'),
        (["--outage", "1", "--outage", "x"], 'Invalid value for --outage: "x" is not a duration'),
        (["--outage", "9" * 99], "... is longer than 10 years; write 87600h at most"),
        (
            ["--outage", "1", "--attempt", "-1"],
            'Invalid value for --attempt: "-1" is not a duration',
        ),
        (
            ["--outage", "1", "--on-exhausted", "skip"],
            "'skip' is not one of 'dead-letter', 'repeat', 'block', 'stop'",
        ),
    ],
)
def test_wrong_options(file: Path, arguments: list[str], sentence: str) -> None:
    """Exit code 2, and one sentence with option, value, rule and remedy."""
    ended = child("strategy", "simulate", file, *arguments)
    assert (2, "") == (ended.returncode, ended.stdout)
    assert sentence in ended.stderr.splitlines()[-1]
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("delays", "words"),
    [
        ("[]", "it is empty"),
        ("[5, 0]", "no time would"),
        ('{"delays": [5], "max_elapsed": "1m"}', "it ends after max_elapsed, 60 s"),
    ],
)
def test_what_cannot_be_repeated(tmp_path: Path, delays: str, words: str) -> None:
    """A last wait that is not there, or takes no time, cannot be repeated: exit code 2."""
    path = tmp_path / "odd.json"
    path.write_text(delays)
    ended = child("strategy", "simulate", path, "--outage", "1m", "--on-exhausted", "repeat")
    assert (2, "") == (ended.returncode, ended.stdout)
    assert words in ended.stderr.splitlines()[-1]


def test_every_problem_of_both_files(tmp_path: Path) -> None:
    """No problem of the one hides one of the other: exit code 1, nothing on stdout."""
    strategy, outages = tmp_path / "bad.json", tmp_path / "outages.txt"
    strategy.write_text('[true, 1, "5 m"]')
    outages.write_bytes(b"7m\n-3\n")
    ended = child("strategy", "simulate", strategy, "--outages", outages)
    assert (1, "") == (ended.returncode, ended.stdout)
    assert [f"{strategy} [0]", f"{strategy} [2]", f"{outages}:2"] == [
        line.partition(": ")[0] for line in ended.stderr.splitlines()
    ]


def test_problems_for_programs(file: Path, tmp_path: Path) -> None:
    """With --json a program always gets an object, here of what is wrong."""
    result = CliRunner().invoke(
        app, ["strategy", "simulate", "--json", str(file), "--outages", str(tmp_path)]
    )
    found = json.loads(result.stdout)
    assert (1, False, 1, []) == (
        *(result.exit_code, found["ok"]),
        *(len(found["problems"]), found["timeline"]),
    )


@pytest.mark.parametrize("path", _STRATEGIES, ids=lambda path: path.stem)
def test_our_strategies_wait_out_what_they_add_up_to(path: Path) -> None:
    """Each shipped strategy waits out an outage as long as its waits, and no longer one."""
    total_ms = round(Strategy.load(path).total_s * 1000)
    exact, longer = objects(path, "--outage", f"{total_ms}ms", "--outage", f"{total_ms + 1}ms")
    assert ("recovered", "dead-lettered") == (exact["outcome"], longer["outcome"])


@pytest.mark.parametrize("shown", blocks(page("strategies/README.md"), "text"))
def test_the_page_shows_the_output(shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What strategies/README.md shows of a command is what the command says."""
    monkeypatch.chdir(ROOT)
    command, *expected = shown.splitlines()
    words = command.removeprefix("$ linear-retry strategy simulate ").split()
    assert expected == output(*words)


def test_the_readme_shows_a_command_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What README.md shows with a ready strategy can be copied as it stands."""
    monkeypatch.chdir(ROOT)
    (shown,) = re.findall("`linear-retry strategy simulate (.*?)`", page("README.md"))
    words = shown.split()
    assert "back 3m36s after the outage: attempt 6 succeeds at 10m36s" in output(*words)
