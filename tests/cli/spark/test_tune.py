"""Comparisons of strategies are printed rightly, and with their uncertainty."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from linear_retry.cli import app
from linear_retry.cli.spark import comparison
from linear_retry.cli.spark.tune import show
from linear_retry.spark import Tuned
from linear_retry.strategy.tuning.gaps import Gap
from linear_retry.strategy.tuning.held_out import Comparison, Costs, Mean
from linear_retry.strategy.tuning.outages import ClocksApart
from linear_retry.strategy.tuning.proposal import TooFew
from linear_retry.strategy.tuning.solver import DEFAULT_COVER, Conditions, Unreachable


def _mean(mean: float, by: float = 0.0) -> Mean:
    return Mean(mean, mean - by, mean + by)


def _costs(idle_ms: float, attempts: float, covered: float) -> Costs:
    total_ms = _mean(idle_ms + 5000 * attempts, 1000)
    return Costs(_mean(idle_ms, 500), _mean(attempts, 0.25), _mean(covered, 0.001), total_ms)


def _compared(saved: Mean | None, *, current_covers: float = 0.998) -> Comparison:
    current = None if saved is None else _costs(40_000, 8, current_covers)
    both = None if saved is None else _mean(min(current_covers, 0.998), 0.001)
    return Comparison(current, _costs(12_340, 4, 0.998), saved, both)


def test_each_strategy_has_a_column() -> None:
    """What is counted in the mean, with its interval; shares are never rounded up to all."""
    assert [
        ("mean per outage", "current", "proposed"),
        ("idle after it", "40s (40s to 40s)", "12s (12s to 13s)"),
        ("attempts", "8 (7.8 to 8.2)", "4 (3.8 to 4.2)"),
        ("cost", "1m20s (1m19s to 1m21s)", "32s (31s to 33s)"),
        ("covered", "99.8 % (99.7 to 99.9)", "99.8 % (99.7 to 99.9)"),
        ("given up of 300", "0.6 (0.3 to 0.9)", "0.6 (0.3 to 0.9)"),
    ] == comparison.rows(_compared(_mean(48_000)), "proposed", 300)


@pytest.mark.parametrize(
    ("saved", "text"),
    [
        (_mean(48_000, 2000), "saved: 48s (46s to 50s) per outage, {both}"),
        (_mean(1000, 2000), "saved: 1s (-1s to 3s) per outage, {both}; the interval includes 0"),
        (_mean(-9000, 2000), "lost: 9s (7s to 11s) per outage, {both}"),
        (_mean(7_200_000, 29_000), "saved: 2h (2h to 2h) per outage, {both}"),
    ],
)
def test_a_difference_is_no_surer_than_it_is(saved: Mean, text: str) -> None:
    """A saving whose interval holds 0 may be none, and one below 0 is a loss."""
    both = "in the 99.8 % that both strategies cover"
    assert [text.format(both=both)] == list(comparison.remarks(_compared(saved), "proposed"))


def test_who_gives_up_more_is_shown() -> None:
    """What is given up costs its attempts only: a strategy that ends at once would be cheapest."""
    _, text = comparison.remarks(_compared(_mean(-9000), current_covers=0.9), "proposed")
    assert "the current strategy gives up on more of them, which costs it nothing here" == text
    _, text = comparison.remarks(_compared(_mean(-9000), current_covers=1), "simulated")
    assert text.startswith("the simulated strategy gives up on more")


def test_without_a_current_strategy_nothing_is_compared() -> None:
    """It says how to give one."""
    found = _compared(None)
    assert [("mean per outage", "proposed")] == comparison.rows(found, "proposed", 300)[:1]
    (text,) = comparison.remarks(found, "proposed")
    assert "the journal has no delays of the current strategy; give it with --current FILE" == text


def test_json_is_in_seconds() -> None:
    """The same names whatever the verdict is; what there is not is null."""
    head = ("billing", 900, 600, (1000,))
    compared = _compared(_mean(48_000, 2000))
    gap = Gap(36_000, 336_000, 0.4, 9000.0, (76_000, 160_000))
    output = comparison.tuned_json(Tuned(*head, (45_000, 500), compared, True, gap))
    assert ("proposed", [45, 0.5], [1]) == (
        output["verdict"],
        output["delays_s"],
        output["current_s"],
    )
    assert {"mean": 48, "low": 46, "high": 50} == output["saved_s"]
    assert {"mean": 12.34, "low": 11.84, "high": 12.84} == output["proposed"]["idle_s"]
    assert {
        "from_ms": 36_000,
        "until_ms": 336_000,
        "share": 0.4,
        "cost_ms": 9000.0,
        "attempts_ms": (76_000, 160_000),
    } == output["gap"]
    assert (None, None, None) == tuple(output[n] for n in ("learning_s", "fixed_s", "fixed"))
    beside = replace(compared, fixed=compared.proposed)
    more = Tuned(*head, (45_000, 500), beside, True, gap, (1000, 75_000), (30_000, 30_000))
    whole = comparison.tuned_json(more)
    assert ([1, 75], [30, 30]) == (whole["learning_s"], whole["fixed_s"])
    assert whole["fixed"] == whole["proposed"]
    missed = comparison.tuned_json(Tuned(*head, (45_000, 500), compared, False, None))
    assert ("not confirmed", None, None) == tuple(missed[n] for n in ("verdict", "gap", "saved_s"))
    few = comparison.tuned_json(Tuned(*head, TooFew(20, 59, 0.86), None, False, None))
    assert ("too few", 20, 59, 0.86) == tuple(
        few[name] for name in ("verdict", "ended", "needed", "cover")
    )
    unreachable = comparison.tuned_json(Tuned(*head, Unreachable(0.8), None, False, None))
    assert ("unreachable", 0.8) == (unreachable["verdict"], unreachable["cover"])
    clocks = ClocksApart("pod-1", "pod-2", 3_600_000, 12)
    apart = comparison.tuned_json(Tuned(*head, clocks, None, False, None))
    assert ("clocks apart", "pod-1", "pod-2", 3_600_000, 900) == tuple(
        apart[name] for name in ("verdict", "ahead", "behind", "by_ms", "outages")
    )
    assert output.keys() - {"delays_s"} == unreachable.keys() - {"cover"}
    assert output.keys() - {"delays_s"} == few.keys() - {"cover", "ended", "needed"}


def test_what_nobody_could_see_is_said() -> None:
    """With what it costs, and what the running strategy would have to do to show it."""
    gap = Gap(636_000, 4_236_000, 0.2, 26_300.0, (1_196_000, 2_251_000))
    expected = (
        "20.0 % of all outages ended between 10m36s and 1h10m36s after the first failure, where no "
        "attempt was made: not knowing when costs up to 26s per outage; attempts after 19m56s and "
        "37m31s, by the current strategy, would tell more"
    )
    assert expected == comparison.unknown(gap)


def test_clocks_that_disagree_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """The bug: with clocks an hour apart, delays were proposed from three times the outages."""
    clocks = ClocksApart("pod-1", "pod-2", 3_600_000, 12)
    show([Tuned("billing", 36, 0, None, clocks, None, False, None)], Conditions())
    assert (
        "billing: nothing is proposed: the clocks of its members disagree: in 12 outages that both "
        "saw, that of pod-1 was 1h ahead of that of pod-2, so that one outage counts as several; "
        "set the clocks, and message.timestamp.type=LogAppendTime for the journal's topic\n"
    ) == capsys.readouterr().out


def test_a_fixed_interval_is_shown_beside_the_proposal() -> None:
    """In a column of its own, and with a sentence where it did better in the later outages."""
    found = replace(_compared(_mean(48_000)), fixed=_costs(13_000, 5, 0.998))
    assert ("mean per outage", "current", "proposed", "fixed interval") == comparison.rows(
        found, "proposed", 300
    )[0]
    assert [] == list(comparison.doubts(found, 300))
    better = replace(found, fixed=_costs(11_000, 4, 0.998))
    (text,) = comparison.doubts(better, 300)
    assert "in these outages the fixed interval costs less than the proposed delays" == text


def test_of_few_outages_the_cost_is_not_known() -> None:
    """The bug: with few, only the cover was said to be unsure, and a cost was printed as known."""
    costs = replace(_costs(12_340, 4, 0.998), total_ms=Mean(32_000, 15_000, 49_000))
    (text,) = comparison.doubts(Comparison(None, costs, None, None), 20)
    expected = (
        "what an outage costs is hardly known from 20: between 15s and 49s; compare again when "
        "there are more"
    )
    assert expected == text


def _refused(*arguments: object) -> tuple[int, str]:
    """The exit code, and what is said on stderr in one line."""
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert "" == result.stdout
    return result.exit_code, " ".join(result.stderr.replace("│", " ").split())


def test_all_commands_ask_for_the_same_cover() -> None:
    """The bug: `spark tune` asked for 0.999, and `spark run` for 0.95, of the same outages."""
    spark = get_command(app).commands["spark"]  # type: ignore[attr-defined]  # it is a group
    covers = {
        command: option.default
        for command, each in spark.commands.items()
        for option in each.params
        if option.name == "cover"
    }
    assert {"tune": DEFAULT_COVER, "report": DEFAULT_COVER, "run": DEFAULT_COVER} == covers
    assert DEFAULT_COVER == Conditions().cover


def test_a_file_is_not_overwritten(tmp_path: Path) -> None:
    """Only with --force, and never where no file can be."""
    file = tmp_path / "mine.json"
    file.write_text("[1]")
    asked = ("spark", "tune", "--lake", tmp_path, "--probe-cost", "5", "--to")
    assert (2, f"{file}: exists already; add --force to overwrite it") == _refused(*asked, file)
    for place in (tmp_path, tmp_path / "missing" / "mine.json"):
        text = f"{place}: not in an existing directory; give --to another file"
        assert (2, text) == _refused(*asked, place, "--force")
    assert "[1]" == file.read_text()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--probe-cost", "-1"), '"-1" is not a duration'),
        (("--probe-cost", "5", "--cover", "0"), "cover=0.0: it is a share; give more than 0"),
        (("--probe-cost", "5", "--cover", "1.5"), "Invalid value for '--cover'"),
        (("--probe-cost", "5", "--most", "1001"), "Invalid value for '--most'"),
        (("--probe-cost", "5", "--shortest", "0s"), "shortest_ms=0: give 1 to 604800000"),
        ((), "Missing option '--probe-cost'"),
        (("--probe-cost", "5", "--rule", "2"), "give --current FILE"),
    ],
)
def test_wrong_usage_of_tune(arguments: tuple[str, ...], text: str, tmp_path: Path) -> None:
    """Which option, its value and its range."""
    code, output = _refused("spark", "tune", "--lake", tmp_path, *arguments)
    assert 2 == code
    assert text in output


def test_a_current_strategy_that_is_none(tmp_path: Path) -> None:
    """All its problems, and the exit code of a file that is not right."""
    file = tmp_path / "bad.json"
    file.write_text("[-1]")
    asked = ("spark", "tune", "--lake", tmp_path, "--probe-cost", "5", "--current", file)
    code, output = _refused(*asked)
    assert 1 == code
    assert output.startswith(f"{file} [0]: -1 is not a delay")
    code, output = _refused("strategy", "simulate", file, "--lake", tmp_path)
    assert 1 == code
    assert output.startswith(f"{file} [0]: -1 is not a delay")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--outage", "7m", "--group", "billing"), "are for recorded outages; give --lake DIR"),
        (("--outage", "7m", "--probe-cost", "1"), "are for recorded outages; give --lake DIR"),
        (("--lake", "lake", "--outage", "7m"), "are not for recorded outages; leave them out"),
        (("--lake", "lake", "--attempt", "1s"), "are not for recorded outages; leave them out"),
    ],
)
def test_given_and_recorded_outages_are_apart(
    arguments: tuple[str, ...], text: str, tmp_path: Path
) -> None:
    """An option that would change nothing is refused."""
    file = tmp_path / "good.json"
    file.write_text("[1]")
    code, output = _refused("strategy", "simulate", file, *arguments)
    assert 2 == code
    assert text in output
