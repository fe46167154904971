"""The commands propose and simulate delays by the recorded outages."""

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from linear_retry import Strategy
from linear_retry.cli import app
from linear_retry.spark import Lake, LakeError, groups
from linear_retry.spark.history.tuning import of_rule
from linear_retry.strategy.tuning.held_out import compare
from linear_retry.strategy.tuning.proposal import propose
from linear_retry.strategy.tuning.solver import Conditions
from tests.cli.result import Result
from tests.docs.markdown import ROOT, blocks, page
from tests.spark.history.recorded_outages import instance, write_journal
from tests.strategy.tuning.recorded import durations_ms, recorded

CURRENT_MS = (*[10_000] * 3, *[60_000] * 4, *[600_000] * 40)
BILLING_MS = durations_ms(11, 120)
COVER, MOST, SHORTEST_S, PROBE_COST_S = 0.95, 12, 2, 20
ASKED = ("--probe-cost", str(PROBE_COST_S), "--cover", str(COVER))
LIMITS = ("--most", str(MOST), "--shortest", f"{SHORTEST_S}s")


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """With the journal of two groups, and what became of it."""
    root = tmp_path_factory.mktemp("tune")
    write_journal(
        root,
        [
            *instance("billing", BILLING_MS, CURRENT_MS),
            *instance("few", [5000, 70_000], CURRENT_MS),
        ],
    )
    return str(root)


def _ran(*arguments: object) -> Result:
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    return Result(result.exit_code, result.stdout, result.stderr)


def _reported(result: Result) -> list[dict[str, Any]]:
    assert (0, "") == (result.code, result.err)
    return result.objects


def test_what_is_proposed_is_a_strategy(lake: str, tmp_path: Path) -> None:
    """The file has the delays that the first outages call for, and `strategy check` accepts it."""
    file = tmp_path / "billing.json"
    asked = ("spark", "tune", "--lake", lake, "--group", "billing", *ASKED, *LIMITS)
    result = _ran(*asked, "--to", file)
    assert (0, "") == (result.code, result.err)
    assert result.out.startswith("billing: made from 80 outages, compared on the 40 after them\n")
    assert result.out.endswith(f"{file}: written\n")
    checked = _ran("strategy", "check", file)
    assert (0, True) == (checked.code, ": ok, " in checked.out)
    seen = recorded(BILLING_MS, CURRENT_MS).chosen(np.arange(120) < 80)
    conditions = Conditions(COVER, MOST, SHORTEST_S * 1000)
    expected = propose(seen, PROBE_COST_S * 1000, conditions)
    assert expected == Strategy.load(file).delays_ms


def test_each_group_is_by_itself(lake: str, tmp_path: Path) -> None:
    """With its own current strategy; one file is for one of them."""
    billing, few = _reported(_ran("spark", "tune", "--lake", lake, *ASKED, "--json"))
    assert ("billing", "proposed", 120, 80) == tuple(
        billing[name] for name in ("group", "verdict", "outages", "seen")
    )
    # The journal knows no more of it than outages have come to.
    known = billing["current_s"]
    assert [delay_ms / 1000 for delay_ms in CURRENT_MS][: len(known)] == known
    assert sum(known) * 1000 >= max(BILLING_MS)
    assert ("few", "too few", 59) == (few["group"], few["verdict"], few["needed"])
    file = tmp_path / "one.json"
    result = _ran("spark", "tune", "--lake", lake, *ASKED, "--to", file)
    which = "--to is for one strategy; choose its group with --group: 'billing', 'few'\n"
    assert (2, "", which) == (result.code, result.out, result.err)
    assert not file.exists()


def test_with_too_few_outages_nothing_is_written(lake: str, tmp_path: Path) -> None:
    """It says how many it takes, with an exit code of its own."""
    file = tmp_path / "few.json"
    result = _ran("spark", "tune", "--lake", lake, "--group", "few", *ASKED, "--to", file)
    assert (5, "") == (result.code, result.err)
    needed = "a proposal needs 59 outages with a known end, and there are 1"
    enough = "that is enough for --cover 0.05"
    cost = "what any delays would cost is not known from so few"
    assert f"few: nothing is proposed: {needed}; {enough}; {cost}\n" == result.out
    assert not file.exists()


def test_what_the_next_outages_outlast_is_not_written(spark: SparkSession, tmp_path: Path) -> None:
    """Outages that become longer: the proposal misses --cover, with an exit code of its own,
    and nothing is said to be saved by it."""
    growing_ms = np.concatenate([durations_ms(1, 80), 20 * durations_ms(2, 40)])
    write_journal(tmp_path, instance("billing", growing_ms, CURRENT_MS))
    file = tmp_path / "billing.json"
    result = _ran("spark", "tune", "--lake", tmp_path, *ASKED, "--to", file)
    assert (7, "") == (result.code, result.err)
    last = result.out.splitlines()[-1]
    assert last.startswith("not confirmed: it covers 0.")
    assert "saved" not in result.out
    assert last.endswith("and --cover is 0.95; ask for less, or wait for more outages")
    assert not file.exists()


def test_a_rule_is_tuned_by_its_own_outages(lake: str, tmp_path: Path) -> None:
    """A rate limit's seconds say nothing about a night's maintenance. Of the rules of --current,
    the first that takes an outage's error has it."""
    file = tmp_path / "pay.json"
    slow = {"errors": ["builtins.ConnectionError"], "delays": ["10m"]}
    file.write_text(json.dumps({"rules": [{**slow, "topics": ["refunds"]}, slow, slow]}))
    asked = ("spark", "tune", "--lake", lake, "--group", "billing", *ASKED, *LIMITS)
    whole = _reported(_ran(*asked, "--json"))[0]
    tuned = [_ran(*asked, "--current", file, "--rule", number, "--json") for number in (1, 2, 3)]
    assert [5, 0, 5] == [each.code for each in tuned]
    (of_rule,) = tuned[1].objects
    assert whole["delays_s"] == of_rule["delays_s"]
    assert [600.0] == of_rule["current_s"]
    simulated = ("strategy", "simulate", file, "--lake", lake, "--group", "billing", "--rule")
    assert [5, 0] == [_ran(*simulated, number).code for number in (1, 2)]


def test_which_outages_are_a_rules(spark: SparkSession) -> None:
    """By the name of the error and the topic, and not those of a rule before; a rule without
    errors takes the rest."""
    rows = [
        ("TimeoutError", "orders"),
        ("httpx.ReadTimeout", "orders.eu"),
        ("httpx.ReadTimeout", "refunds"),
        (None, "orders"),
        ("KeyError", None),
    ]
    episodes = spark.createDataFrame(
        [(index, *row) for index, row in enumerate(rows)],
        "index int, error_type string, message_topic string",
    )
    of_all: Any = {"strategy": None, "errors": None, "topics": ["*"]}
    of_orders: Any = {**of_all, "errors": ["httpx.ReadTimeout"], "topics": ["orders.*"]}
    of_time: Any = {**of_all, "errors": ["builtins.TimeoutError", "httpx.ReadTimeout"]}
    rules = [of_orders, of_time, of_all]
    found = [
        sorted(row["index"] for row in of_rule(episodes, rules, number).collect())
        for number in (1, 2, 3)
    ]
    assert [[1], [0, 2], [3, 4]] == found


def test_a_strategy_is_taken_through_what_was_recorded(lake: str, tmp_path: Path) -> None:
    """What it comes to is what the library says of these outages, with the same seed."""
    file = tmp_path / "other.json"
    file.write_text('{"delays": [60, {"every": "5m", "times": 9}], "jitter": 0.5}')
    asked = ("strategy", "simulate", file, "--lake", lake, "--group", "billing")
    [output] = _reported(_ran(*asked, "--probe-cost", "20", "--seed", "7", "--json"))
    waits_ms = [75_000, *[375_000] * 9]  # with half the jitter
    known = recorded(BILLING_MS, CURRENT_MS)
    rng = np.random.default_rng(7)
    expected = compare(CURRENT_MS, waits_ms, known, 20_000, rng=rng)
    assert expected.saved is not None
    assert output["saved_s"]["mean"] == pytest.approx(expected.saved.mean / 1000, abs=1e-3)
    assert output["saved_s"]["low"] == pytest.approx(expected.saved.low / 1000, abs=1e-3)
    assert output["strategy"]["attempts"]["mean"] == pytest.approx(expected.proposed.probes.mean)
    assert (120, "other", "billing") == (output["outages"], output["name"], output["group"])


def test_the_present_strategy_may_be_given(lake: str, tmp_path: Path) -> None:
    """A strategy beside itself saves nothing, surely."""
    file = tmp_path / "same.json"
    file.write_text("[30, 60, 600]")
    result = _ran("strategy", "simulate", file, "--lake", lake, "--current", file)
    assert (0, "") == (result.code, result.err)
    label, *lines = result.out.splitlines()
    assert Strategy.load(file).label == label
    assert ["billing: 120 outages", "few: 2 outages"] == [
        line.partition(",")[0] for line in lines if line.endswith(" with a known end")
    ]
    assert 2 == sum(line.startswith("saved: 0s (0s to 0s) per outage") for line in lines)


def test_no_such_group(lake: str) -> None:
    """Those that there are are named."""
    result = _ran("spark", "tune", "--lake", lake, "--group", "biling", *ASKED)
    assert (2, "") == (result.code, result.out)
    there = f"{lake}/episodes: no outage is of group 'biling'; there are: 'billing', 'few'\n"
    assert there == result.err


def test_before_there_are_outages(spark: SparkSession, tmp_path: Path) -> None:
    """It says which command makes the table."""
    with pytest.raises(LakeError, match="run `linear-retry spark episodes` first"):
        groups(Lake(spark, str(tmp_path)))


def test_the_page_is_true(
    lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commands and the code of docs/spark/tuning.md work, one after another."""
    output = page("docs/spark/tuning.md")
    monkeypatch.chdir(tmp_path)
    rules = [{"errors": [name], "delays": [1, 60]} for name in ("KeyError", "ConnectionError")]
    (tmp_path / "pay.json").write_text(json.dumps({"rules": rules}))
    for line in "".join(blocks(output, "sh")).splitlines():
        _, *arguments = shlex.split(line.replace("--lake lake", f"--lake {lake}"))
        result = _ran(*arguments)
        assert (0, "") == (result.code, result.err)
    capsys.readouterr()
    (python,) = blocks(output, "python")
    exec(compile(python.replace('"lake"', f'"{lake}"'), "tuning.md", "exec"), {})
    billing, few, covered, *shares = capsys.readouterr().out.splitlines()
    assert billing.startswith("billing (")
    assert "few TooFew(ended=1, needed=59, cover=0.05)" == few
    assert covered.startswith("Mean(mean=")
    assert "after_s" in shares[1]


def test_it_needs_no_jvm_of_its_own() -> None:
    """Spark Connect has none: the module that tunes never reaches behind the DataFrame API."""
    behind = ("_jvm", "_jdf", "_jsc", "sparkContext", ".rdd", "_sc")
    source = (ROOT / "linear_retry" / "spark" / "history" / "tuning.py").read_text()
    assert [] == [name for name in behind if name in source]
