"""The benchmarks measure what they say, whatever the times are."""

import json
import math
from pathlib import Path

import pytest

from benchmarks.__main__ import ALL, BENCHMARKS, Benchmark, main
from benchmarks.figures import Figure, Result, Target, percentile, shown
from benchmarks.java import NotBuiltError
from benchmarks.neighbours.race import Neighbour
from benchmarks.neighbours.race import run as race
from benchmarks.report import as_json, table
from benchmarks.retry_topics import spring, success_cost
from benchmarks.scale import Scale
from tests.real_kafka import RealKafka

_TINY = Scale(
    rounds=1,
    messages=200,
    lone_messages_each=3,
    retried_messages_each=1,
    closings_each=2,
    letters_each=3,
    open_s=0.2,
    openings=3,
    listed_letters=100,
    page_loads=2,
    replayed_letters=100,
    ingested_letters=100,
    episode_events=100,
    returning_s=0.05,
    due_at_once=20,
    waiting_messages=30,
    waiting_beside_live=20,
    live_s=0.1,
    sent_messages=1_000,
    stored_messages=2_000,
    lateness_s=0.2,
    snapshot_s=0.2,
)


@pytest.mark.broker
@pytest.mark.parametrize("benchmark", BENCHMARKS.values(), ids=BENCHMARKS.keys())
def test_each_benchmark_gives_finite_figures(kafka: RealKafka, benchmark: Benchmark) -> None:
    """Every benchmark runs to its end, and has a finite value for each round of each figure."""
    figures = benchmark(kafka, _TINY).figures
    assert figures
    for figure in figures:
        assert _TINY.rounds == len(figure.rounds)
        assert all(map(math.isfinite, figure.rounds)), figure


@pytest.mark.broker
def test_no_retry_of_the_benchmark_is_early(kafka: RealKafka) -> None:
    """The one figure that no slow machine excuses: an attempt never starts before `retry_at`."""
    figures = BENCHMARKS["retry"](kafka, _TINY).figures
    (earliest,) = (figure for figure in figures if "earliest" in figure.name)
    assert "reached" == earliest.verdict


@pytest.mark.broker
def test_a_neighbour_that_cannot_be_installed_is_reported(kafka: RealKafka, tmp_path: Path) -> None:
    """Where pip fails, the others are still measured, and a note names who is missing."""
    absent = Neighbour("Absent", str(tmp_path / "no-such-package"), "absent", 1)
    result = race(kafka, _TINY, (absent,), tmp_path / "environments")
    assert ["ours", "bare loop"] == [figure.name for figure in result.figures]
    (note,) = result.notes
    assert note.startswith("Absent is not here: ")
    assert "no-such-package" in note


@pytest.mark.broker
def test_without_history_a_success_is_still_measured(kafka: RealKafka) -> None:
    """A shallow clone has no earlier commit to compare with: a note names it."""
    result = success_cost.run(kafka, _TINY, "no-such-commit")
    assert ["a success"] == [figure.name for figure in result.figures]
    assert "no-such-commit" in result.notes[0]


@pytest.mark.broker
def test_spring_that_cannot_be_built_is_reported(kafka: RealKafka) -> None:
    """Without Maven, or offline, there is nothing to compare, and a note says why."""

    def build() -> None:
        raise NotBuiltError("no Maven")

    assert Result((), ("Spring Kafka is not here: no Maven",)) == spring.run(kafka, _TINY, build)


def test_the_delay_does_not_count_among_those_that_leave_and_return() -> None:
    """Three left at 10 a second, and were back 0.3 s after the first, the delay of 1 s aside."""
    attempts = {"a": (10.0, 11.1), "b": (10.1, 11.2), "c": (10.2, 11.3)}
    assert pytest.approx((10.0, 10.0)) == spring.rates_of(attempts)


def test_a_figure_is_its_median_and_its_spread() -> None:
    """The JSON of a figure has every round's value, and what is computed of them."""
    figure = Figure("one", "ms", (3.0, 1.0, 2.0), Target("at most", 2.0))
    assert {
        "name": "one",
        "unit": "ms",
        "median": 2.0,
        "lowest": 1.0,
        "highest": 3.0,
        "rounds": [3.0, 1.0, 2.0],
        "target": "at most 2",
        "verdict": "reached",
    } == figure.as_json()


@pytest.mark.parametrize(
    ("target", "verdict"),
    [
        (None, ""),
        (Target("at most", 5.0), "reached"),
        (Target("at most", 4.9), "MISSED"),
        (Target("at least", 5.0), "reached"),
        (Target("at least", 5.1), "MISSED"),
    ],
)
def test_the_verdict_goes_by_the_median(target: Target | None, verdict: str) -> None:
    """A target that the median meets exactly is reached; one round beyond it changes nothing."""
    assert verdict == Figure("one", "ms", (1.0, 5.0, 9.0), target).verdict


@pytest.mark.parametrize(("percent", "value"), [(1, 1.0), (50, 50.0), (99, 99.0), (100, 100.0)])
def test_a_percentile_is_a_value_that_was_measured(percent: float, value: float) -> None:
    """Nearest rank: of 1 to 100, the p-th percentile is p."""
    assert value == percentile([float(number) for number in range(100, 0, -1)], percent)
    assert 7.0 == percentile([7.0], percent)


@pytest.mark.parametrize(
    ("value", "text"), [(0.0123456, "0.0123"), (3.14159, "3.14"), (1234567.8, "1,234,568")]
)
def test_a_shown_value_has_the_digits_that_count(value: float, text: str) -> None:
    """Three digits, and never fewer than stand before the point."""
    assert text == shown(value)


def test_an_unknown_benchmark_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt name is an error that lists the right ones, before a broker is started."""
    with pytest.raises(SystemExit) as ended:
        main(["throughputs"])
    assert 2 == ended.value.code
    reported = capsys.readouterr().err
    assert [] == [name for name in ALL if name not in reported]


def test_a_table_shows_spread_target_and_notes() -> None:
    """A person reads median, lowest and highest round, and whether the target is reached."""
    figure = Figure("one", "ms", (3.0, 1.0, 2.0), Target("at most", 1.5))
    lines = table("some", Result((figure,), notes=("mind the gap",))).splitlines()
    assert ["", "some", "  mind the gap"] == [*lines[:2], lines[3]]
    assert ["one", "2", "ms", "(1", "…", "3)", "at", "most", "1.5:", "MISSED"] == lines[2].split()


def test_json_holds_what_was_run_figures_and_notes() -> None:
    """A program reads the same, and every round's value."""
    result = Result((Figure("one", "ms", (3.0, 1.0)),), notes=("mind the gap",))
    reported = json.loads(as_json({"python": "3"}, {"some": result}))
    assert {"python": "3"} == reported["about"]
    assert ["mind the gap"] == reported["benchmarks"]["some"]["notes"]
    assert [[3.0, 1.0]] == [
        figure["rounds"] for figure in reported["benchmarks"]["some"]["figures"]
    ]
