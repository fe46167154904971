"""The report counts what is in the lake, and shows no more than it should."""

import json
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]  # it has no types
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from linear_retry.cli import app
from linear_retry.spark import DEAD_LETTERS, Lake, Tuned, dead_letters, report
from linear_retry.spark.reporting.report import TABLES
from linear_retry.strategy.tuning.proposal import TooFew
from tests.dlq.sample_letters import our_record
from tests.docs.markdown import blocks, code, table
from tests.docs.markdown import page as page_of
from tests.report.frames import HOSTILE
from tests.spark.records import frame
from tests.spark.reporting.reported import LENGTHS_MS

pytestmark = pytest.mark.usefixtures("interpreted")

_DOCS = page_of("docs/spark/report.md")


def _ran(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["spark", "report", *arguments])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(scope="module")
def page(reported_lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the whole lake, by the command."""
    page = tmp_path_factory.mktemp("page") / "report.html"
    code, out, err = _ran("--lake", f"{reported_lake.path}/", "--to", str(page), "--json")
    assert (0, "") == (code, err)
    files = {"page": str(page), "tables": f"{page.parent}/report_tables"}
    assert {**files, "outages": 18, "letters": 15, "advice": 3} == json.loads(out)
    return page


def _table(page: Path, name: str) -> list[dict[str, Any]]:
    table = pd.read_parquet(page.parent / "report_tables" / f"{name}.parquet")
    rows: list[dict[str, Any]] = table.astype(object).where(table.notna(), None).to_dict("records")
    return rows


def test_groups(page: Path) -> None:
    """What is known, what was given up, and the three parts of the time that was blocked."""
    rows = {row["group"]: row for row in _table(page, "groups")}
    billing, stock, lost = rows["billing"], rows["stock"], rows[HOSTILE]
    assert (10, 10, 0, 10) == tuple(
        billing[name] for name in ("outages", "recovered", "given_up", "known_end")
    )
    assert (6, 0, 6, 0) == tuple(
        stock[name] for name in ("outages", "recovered", "given_up", "known_end")
    )
    assert (2, 1, 2) == (lost["outages"], lost["recovered"], lost["unknown_length"])
    assert (1, 0, 0) == (lost["left_line"], lost["given_up"], stock["left_line"])
    assert (0.0, 0.005) == (lost["down_s"], lost["other_s"])
    assert [0, 6 * 96.0] == [stock["unsure_s"], stock["blocked_s"]]
    for row in rows.values():
        assert row["blocked_s"] == pytest.approx(row["down_s"] + row["unsure_s"] + row["other_s"])
    assert billing["down_s"] <= sum(LENGTHS_MS) / 1000 <= billing["down_s"] + billing["unsure_s"]


def test_durations(page: Path) -> None:
    """Shares fall with time, within their bounds; a share that never ended has no time."""
    rows = _table(page, "durations")
    for group in ("billing", "stock"):
        shares = [row["lasting"] for row in rows if row["group"] == group]
        assert shares == sorted(shares, reverse=True)
    assert all(row["low"] <= row["lasting"] <= row["high"] for row in rows)
    ends = {(row["group"], row["ended"]): row for row in _table(page, "duration_quantiles")}
    assert 1 < ends["billing", 0.5]["after_s"] < 36
    assert (None, None) == (ends["stock", 0.5]["after_s"], ends["stock", 0.5]["high_s"])


def test_proposals(page: Path) -> None:
    """Each group has its proposal, or why there is none, and the page says so."""
    rows = {row["group"]: row for row in _table(page, "proposals")}
    billing = rows["billing"]
    assert ("too few", 10, 7, 59) == tuple(
        billing[name] for name in ("verdict", "outages", "seen", "needed")
    )
    assert (10, 0.95, None) == (billing["probe_cost_s"], billing["cover"], billing["delays"])
    assert "Proposed delays" in page.read_text()


def test_letters_count_once(page: Path) -> None:
    """A letter that lies in the topic twice is one; what is no letter counts, and is told."""
    rows = {(row["group"], row["reason"]): row for row in _table(page, "letters")}
    assert 12 == rows["stock", "permanent"]["letters"]
    assert 2 == rows["billing", "exhausted"]["letters"]
    assert (1, 1) == (rows[None, None]["letters"], rows[None, None]["unreadable"])
    assert f"no {HOSTILE}" == rows["stock", "permanent"]["latest_text"]
    assert 15 == sum(row["letters"] for row in _table(page, "letters_over_time"))


def test_keys(page: Path) -> None:
    """Text as it is; bytes that are none in hexadecimal digits; and no key at all."""
    found = {(row["group"], row["form"], row["key"]) for row in _table(page, "keys")}
    assert {
        *(("stock", "text", key) for key in ("customer-4711", HOSTILE)),
        ("stock", "bytes", "0xff00"),
        ("stock", "none", None),
        *(("billing", "text", key) for key in ("customer-4711", "k")),
        (None, "bytes", "0xfe"),
    } == found


def test_errors(page: Path) -> None:
    """Outages and letters of one error are in one row, whatever module their type is of."""
    rows = {(row["group"], row["error"]): row for row in _table(page, "errors")}
    assert (6, 6, 0) == tuple(
        rows["stock", "NoSuchItem"][name] for name in ("outages", "given_up", "recovered")
    )
    refused = rows["billing", "ConnectionError"]
    assert (10, 2) == (refused["recovered"], refused["letters_exhausted"])
    assert 12 == rows["stock", "ConnectionError"]["letters_permanent"]


def test_events(page: Path) -> None:
    """What is rare in the journal, and should be known."""
    [row] = _table(page, "events")
    assert (HOSTILE, "DataLost", 1) == (row["group"], row["event"], row["times"])


def test_both_kinds_of_files_have_the_same_rows(page: Path) -> None:
    """Whatever quotes and ends of lines are in a text."""
    for parquet in page.parent.glob("report_tables/*.parquet"):
        assert len(pd.read_parquet(parquet)) == len(pd.read_csv(parquet.with_suffix(".csv")))


def test_the_page_has_no_keys(reported_lake: Lake, page: Path, tmp_path: Path) -> None:
    """`--no-keys` leaves out keys and texts, from the page and the tables, also earlier ones."""
    folder = tmp_path / "report_tables"
    folder.mkdir()
    (folder / "keys.csv").write_text("customer-4711")
    assert "customer-4711" in page.read_text()
    target = tmp_path / "report.html"
    code, out, _ = _ran("--lake", reported_lake.path, "--to", str(target), "--no-keys")
    text = (
        f"{target}: 18 outages, 15 dead letters, 3 pieces of advice; the tables are in {folder}\n"
    )
    assert (0, text) == (code, out)
    files = [target, *folder.glob("*.csv")]
    assert not [file for file in files if "customer-" in file.read_text()]
    assert not list(folder.glob("keys.*"))
    assert ("Top keys" in page.read_text(), "Top keys" in target.read_text()) == (True, False)


def test_only_letters(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A lake without outages has a page of its letters, which says so; by the code of the docs."""
    found = Lake(spark, str(tmp_path / "lake"))
    found.replace(dead_letters(frame(spark, [our_record()])), DEAD_LETTERS)
    target = tmp_path / "report.html"
    (python,) = blocks(_DOCS, "python")
    here = python.replace('"lake"', repr(found.path)).replace('"report.html"', repr(str(target)))
    exec(compile(here, "report.md", "exec"), {})
    assert "None 1 0\n" == capsys.readouterr().out
    assert "This lake has no outages yet" in target.read_text()


def test_every_column_is_reported(page: Path) -> None:
    """docs/spark/report.md has each table, and each column of it."""
    everywhere = {"group", "reason", "exception_type", "error", "event", "key"}
    documented = {code(row[0])[0]: set(code(" ".join(row[2:]))) for row in table(_DOCS, "table")}
    assert set(TABLES) == set(documented)
    for name, columns in documented.items():
        found = set(pd.read_parquet(page.parent / "report_tables" / f"{name}.parquet").columns)
        assert found - everywhere - {"first_ms", "last_ms"} <= columns, name


def test_nothing_at_all(spark: SparkSession, tmp_path: Path) -> None:
    """One line, and no file."""
    code, out, err = _ran("--lake", str(tmp_path / "none"), "--to", str(tmp_path / "a.html"))
    assert (3, "") == (code, out)
    assert f"{tmp_path}/none: there are neither outages nor dead letters to report; run" in err
    assert 1 == err.count("\n")
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("command", "more"), [("report", ()), ("run", ("--bootstrap", "a:1", "--journal", "j"))]
)
def test_a_cover_of_nothing(command: str, more: tuple[str, ...], tmp_path: Path) -> None:
    """Refused before Spark is begun, as by `tune`: it was read, or ingested, first."""
    arguments = ("--lake", "none", "--to", str(tmp_path / "a.html"), "--cover", "0", *more)
    result = CliRunner().invoke(app, ["spark", command, *arguments])
    assert (2, "") == (result.exit_code, result.stdout)
    assert "cover=0.0: it is a share; give more than 0, and 1 at most\n" == result.stderr


def test_proposals_are_not_made_twice(reported_lake: Lake, tmp_path: Path) -> None:
    """Those of `tune` are on the page as they are, and none are made for it."""
    one = Tuned("billing", 10, 7, None, TooFew(7, 4711, None), None, False, None)
    target = tmp_path / "report.html"
    report(reported_lake, target, resamples=2, proposals=[one])
    assert ["too few", 4711] == [
        _table(target, "proposals")[0][each] for each in ("verdict", "needed")
    ]
    assert "it takes 4,711" in target.read_text()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("report", "give the page a name that ends with .html"),
        ("none/report.html", "cannot be written; name a file in a directory that you may write to"),
        (".html", "give the page a name that ends with .html"),
    ],
)
def test_where_no_page_can_be(name: str, text: str, tmp_path: Path) -> None:
    """Reported before Spark is begun."""
    target = tmp_path / name
    assert (3, "", f"{target}: {text}\n") == _ran("--lake", "lake", "--to", str(target))
