"""Episodes are those in the journal, and nothing is guessed."""

import json
import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (its usual name)
from typer.testing import CliRunner

from linear_retry import events
from linear_retry.cli import app
from linear_retry.cli.spark import pipeline
from linear_retry.events import CircuitClosed, CircuitOpened, CloseOutcome, Event, ProbeFailed
from linear_retry.journal.entry import Entry, encode
from linear_retry.records.record import Record
from linear_retry.scope import Scope
from linear_retry.spark import journal
from linear_retry.spark.history.episodes import KINDS
from linear_retry.spark.history.table import update_episodes
from linear_retry.spark.lake.lake import EPISODES, JOURNAL, Lake
from tests.docs.markdown import blocks, code, page, table
from tests.spark.history.expected_episodes import expected_episodes
from tests.spark.records import frame

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOON_MS = 1_795_262_400_000
NOON = EPOCH + timedelta(milliseconds=NOON_MS)
REFUSED = "ConnectionError('refused')"
ERRORS = {
    "requests.exceptions.Timeout('1')": "requests.exceptions.Timeout",
    "<shop.Odd, whose __repr__ raised an exception>": "shop.Odd",
    "503 Service Unavailable": None,
}
TimedEvent: TypeAlias = tuple[int, Event]


def _at(at_ms: int) -> datetime:
    return NOON + timedelta(milliseconds=at_ms)


def _opened(retry_at_ms: int, error: str = REFUSED) -> CircuitOpened:
    return CircuitOpened(Scope(), "orders", 3, 7, error, 1, 1.0, _at(retry_at_ms))


def _failed(retry_at_ms: int, failures: int = 2) -> ProbeFailed:
    return ProbeFailed(Scope(), "orders", 3, 7, REFUSED, failures, 1.0, _at(retry_at_ms))


def _closed(outcome: CloseOutcome = "recovered", open_s: float = 1.0) -> CircuitClosed:
    return CircuitClosed(Scope(), outcome, open_s)


def _letter() -> events.DeadLettered:
    return events.DeadLettered("orders", 3, 7, "dlq", "id", 1, "exhausted", REFUSED, 3, ())


def _instance(
    group: str, *timed: TimedEvent, instance: str = "a", first: int = 1, member: str = "pod"
) -> list[Entry]:
    return [
        Entry(instance, number, NOON_MS + at_ms, group, member, event)
        for number, (at_ms, event) in enumerate(timed, first)
    ]


def _cases() -> Iterator[Entry]:
    """Each group is the case of one test below."""
    waited_out = (0, _opened(1000)), (1040, _failed(6040)), (6200, _failed(36_200, failures=3))
    yield from _instance("waited out", *waited_out, (36_900, _closed(open_s=36.9)))
    yield from _instance(
        "outlasted", (0, _opened(1000)), (1040, _letter()), (1041, _closed("dead-lettered"))
    )
    left = events.SentToRetry("orders", 3, 7, "orders.retry.5m", "id", 1, 1, _at(9000), REFUSED, 3)
    yield from _instance("left", (0, _opened(1000)), (1040, left), (1041, _closed("sent-to-retry")))
    unsent = events.DeadLetterFailed(Scope(), "orders", 3, 7, "dlq", "down", 1, 1.0, _at(1000))
    yield from _instance(
        "unsent", (0, _opened(1000)), (0, unsent), (1040, _closed("dead-lettered"))
    )
    now = events.RetriedNow(Scope(), "orders", 3, 7, 1, 600.0)
    yield from _instance("early", (0, _opened(700_000)), (100_000, now), (100_200, _closed()))
    revoked = events.Revoked((("orders", 3),))
    yield from _instance("taken away", (0, _opened(1000)), (500, revoked), (90_000, _closed()))
    yield from _instance("ends", (0, _opened(0)), (5, _opened(9)), (9, _closed()), first=100)
    stopped = events.Stopped(False)
    yield from _instance("ends", (0, _opened(0)), (9, stopped), instance="b", first=200)
    yield from _instance("ends", (20, _opened(0)), instance="c", first=300)
    yield from _instance("ends", (30, _closed()), (31, _opened(99)), instance="d", first=400)
    lossy = _instance("lossy", (0, _opened(1000)), (1002, _closed()), (1003, _opened(2003)))
    lossy += _instance("lossy", (9000, _closed()), first=6)
    yield from (*lossy, lossy[0], lossy[3])
    yield from _instance("odd clock", (0, _opened(1000)), (2**63 - 1 - NOON_MS, _failed(0)))
    yield from _instance("odd clock", (1000, _closed()), first=3)
    there = events.Assigned((("orders", 2), ("orders", 3)))
    yield from _instance("taken", (0, there), (1, _opened(0)), instance="dead", member="dead")
    yield from _instance("taken", (9, there), (10, _opened(0)), instance="alive", member="alive")
    yield from _instance("returned", (0, _opened(0)), (20, there), instance="alive", member="alive")
    yield from _instance("returned", (10, there), instance="short", member="short")
    for error in ERRORS:
        yield from _instance(f"type {error}", (0, _opened(0, error)))
    yield from _instance("letters only", (0, _letter()), (1, stopped))


def random_instance(rng: random.Random, member: str, instance: str, at_ms: int) -> Iterator[Entry]:
    """Anything that a consumer would say and more, with entries lost, and the clock set back."""
    kind = rng.choice(["consumer", "consumer", "topic", "partition"])
    for number in range(1, rng.randint(1, 25)):
        at_ms += rng.choice([0, 1, 40, 1000, 60_000, -500])
        event = _random_event(rng, kind, number, at_ms)
        if rng.random() > 0.06:
            yield Entry(instance, number, at_ms, "random", member, event)


def _random_event(rng: random.Random, kind: Any, number: int, at_ms: int) -> Event:
    place = rng.choice(["orders", "refunds"]), rng.randint(0, 1)
    scope = Scope.of(kind, place)
    held = scope, *place, number
    retry_at = _at(at_ms - NOON_MS + rng.choice([0, 1000, 30_000]))
    outcome: CloseOutcome = rng.choice(["recovered", "dead-lettered", "sent-to-retry", "dropped"])
    reason = rng.choice(["exhausted", "given-up"])
    choices: dict[Event, float] = {
        CircuitOpened(*held, REFUSED, number, 1.0, retry_at): 5,
        ProbeFailed(*held, REFUSED, number, 1.0, retry_at): 5,
        events.RetriedNow(*held, number, 2.0): 2,
        CircuitClosed(scope, outcome, 2.5): 5,
        events.DeadLetterFailed(*held, "dlq", REFUSED, 1, 1.0, retry_at): 1,
        events.LimitReached(*held, REFUSED, number, 1.0, retry_at, 5): 1,
        events.DeadLettered(*place, number, "dlq", "id", 1, reason, REFUSED, 3, ()): 3,
        events.SentToRetry(*place, number, "retry", "id", 1, 1, retry_at, REFUSED, 3): 2,
        events.Assigned((place, ("orders", 7))): 0.5,
        events.Revoked((place,)): 0.5,
        events.Lost((place,), "fenced"): 0.5,
        events.Stopped(True): 0.3,
    }
    return rng.choices([*choices], [*choices.values()])[0]


def _disorder() -> list[Entry]:
    """Of 400 lives of 300 members, from partitions that are read in any order, some twice."""
    rng = random.Random(1)
    entries: list[Entry] = []
    for number in range(400):
        member, at_ms = f"pod-{rng.randint(1, 300)}", NOON_MS + rng.randint(0, 10**6)
        entries += random_instance(rng, member, f"instance-{number}", at_ms)
    entries += rng.choices(entries, k=100)
    rng.shuffle(entries)
    return entries


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """With all that is told here: a job takes seconds."""
    made = Lake(spark, str(tmp_path_factory.mktemp("outages")))
    records = [
        Record("journal", 0, offset, entry.at_ms, entry.key, encode(entry))
        for offset, entry in enumerate([*_cases(), *_disorder()])
    ]
    rows = journal(frame(spark, records))
    made.replace(rows.withColumn("timestamp", F.coalesce("at", "timestamp")), JOURNAL)
    return made


@pytest.fixture(scope="module")
def kinds(lake: Lake) -> dict[str, int]:
    """As the command tells them that made the table."""
    result = CliRunner().invoke(app, ["spark", "episodes", "--lake", f"{lake.path}/", "--json"])
    assert (0, "") == (result.exit_code, result.stderr)
    found: dict[str, int] = json.loads(result.stdout)
    return found


@pytest.fixture(scope="module")
def rows(lake: Lake, kinds: dict[str, int]) -> list[Row]:
    return lake.table(EPISODES).orderBy("sequence").collect()


def _of(rows: list[Row], group: str) -> list[Row]:
    return [row for row in rows if row.group == group]


def test_an_outage_that_was_waited_out(rows: list[Row]) -> None:
    """It lasted longer than to the last probe that failed, and no longer than to the next."""
    [row] = _of(rows, "waited out")
    assert ("closed", "recovered", 36.9) == (row.kind, row.outcome, row.open_s)
    assert (6040, 36_200) == (row.lower_ms, row.upper_ms)
    assert (NOON_MS, NOON_MS + 36_900) == (row.opened_at_ms, row.closed_at_ms)
    held = row.message_topic, row.message_partition, row.message_offset
    assert ("orders", 3, 7, "ConnectionError") == (*held, row.error_type)
    assert [(1000, 1040, 2), (6040, 6200, 3)] == [
        (probe.due_ms - NOON_MS, probe.at_ms - NOON_MS, probe.failures) for probe in row.probes
    ]


def test_an_outage_that_outlasted_the_strategy(rows: list[Row]) -> None:
    """It lasted longer than to the last attempt, of which the letter tells; it has no end."""
    [row] = _of(rows, "outlasted")
    assert ("closed", "dead-lettered", 1) == (row.kind, row.outcome, row.letters)
    assert (1000, None) == (row.lower_ms, row.upper_ms)


def test_an_outage_whose_message_left_for_a_retry_topic(rows: list[Row]) -> None:
    """Its last attempt failed too: it lasted at least till then; there is no letter."""
    [row] = _of(rows, "left")
    assert ("closed", "sent-to-retry", 0) == (row.kind, row.outcome, row.letters)
    assert (1000, None) == (row.lower_ms, row.upper_ms)


def test_a_letter_that_could_not_be_sent_is_no_outage(rows: list[Row]) -> None:
    """The circuit was open for Kafka's sake: of the dependency it says nothing."""
    [row] = _of(rows, "unsent")
    assert (1, None, None) == (row.letters_failed, row.lower_ms, row.upper_ms)


def test_an_operator_may_be_early(rows: list[Row]) -> None:
    """The good probe began when it was asked for, not when it was due."""
    [row] = _of(rows, "early")
    assert (0, 100_000) == (row.lower_ms, row.upper_ms)


def test_what_was_taken_away_was_probed_later(rows: list[Row]) -> None:
    """After a rebalance another message may have been the good probe, and came when it came."""
    [row] = _of(rows, "taken away")
    assert (0, 90_000) == (row.lower_ms, row.upper_ms)


def test_how_episodes_end_is_distinguished(rows: list[Row]) -> None:
    """Opened again, ended with the consumer, with another life of the member, or not at all."""
    found = [(row.sequence, row.kind, row.closed_at_ms is not None) for row in _of(rows, "ends")]
    assert [
        (100, "close_missing", False),
        (101, "closed", True),
        (200, "stopped", False),
        (300, "restarted", False),
        (400, "left_censored", True),
        (401, "open", False),
    ] == found


def test_a_dead_member_is_not_open_for_ever(rows: list[Row]) -> None:
    """What it held was assigned to another one; that one's own is open, and what came back is."""
    assert [("dead", "taken_over"), ("alive", "open")] == [
        (row.instance, row.kind)
        for row in sorted(_of(rows, "taken"), key=lambda row: row.last_at_ms)
    ]
    assert ["open"] == [row.kind for row in _of(rows, "returned")]


def test_where_entries_are_missing_nothing_is_known(rows: list[Row]) -> None:
    """Between an opening and the close of another one, there may have been any number of both."""
    whole, gap = _of(rows, "lossy")
    assert ("closed", 0, 0, 1000) == (whole.kind, whole.missing, whole.lower_ms, whole.upper_ms)
    assert ("closed", 2, None, None) == (gap.kind, gap.missing, gap.lower_ms, gap.upper_ms)


def test_an_entry_of_no_time_is_a_missing_one(rows: list[Row]) -> None:
    """Foreign entries may say anything; a difference of such times would end the job."""
    [row] = _of(rows, "odd clock")
    assert ("closed", 1, [], None) == (row.kind, row.missing, row.probes, row.upper_ms)


@pytest.mark.parametrize(("error", "name"), ERRORS.items())
def test_the_type_of_an_error_is_read_where_it_is_known(
    rows: list[Row], error: str, name: str | None
) -> None:
    """An exception's `repr` begins with its type, unless its author chose otherwise."""
    [row] = _of(rows, f"type {error}")
    assert name == row.error_type


def test_letters_without_an_open_circuit_are_no_episode(rows: list[Row]) -> None:
    """A message may die without anything having waited."""
    assert [] == _of(rows, "letters only")


def _plain(value: Any) -> Any:
    """As it can be compared: a `Row` is a tuple."""
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else value


def test_it_is_the_law(rows: list[Row]) -> None:
    """Whatever is lost, told twice or out of time: row by row the same as one entry at a time."""
    expected = [_plain(row) for row in expected_episodes(_disorder())]
    assert set(KINDS) == {row[7] for row in expected}
    assert {True, False} == {row[-2] is None for row in expected}
    found = [_plain(tuple(row)[:-1]) for row in _of(rows, "random")]  # without its date
    assert sorted(map(repr, expected)) == sorted(map(repr, found))


def test_how_many_there_are_is_reported(rows: list[Row], kinds: dict[str, int]) -> None:
    """Of each kind, in the order of the page; together they are all rows."""
    assert Counter(row.kind for row in rows) == Counter(kinds)
    assert {NOON.date()} == {row.date for row in rows}


class _PlannedError(Exception):
    """Says how the rows would be found that were to be written."""


class _Planning(Lake):
    def has(self, name: str) -> bool:
        return False

    def replace(self, rows: DataFrame, name: str) -> None:
        jvm_rows: Any = rows._jdf
        raise _PlannedError(jvm_rows.queryExecution().optimizedPlan().toString())


def test_the_tasks_that_write_do_not_find(lake: Lake) -> None:
    """They are few, and found the episodes too: each for many others, with the memory of all."""
    with pytest.raises(_PlannedError, match=r"\ARebalancePartitions") as planned:
        update_episodes(_Planning(lake.spark, lake.path))
    assert "Window" in str(planned.value)


def test_the_page_has_every_column_and_kind(rows: list[Row]) -> None:
    """docs/spark/outages.md names them in the table's order."""
    text = page("docs/spark/outages.md")
    assert [name for row in table(text, "column") for name in code(row[0])] == rows[0].__fields__
    assert [name for row in table(text, "kind") for name in code(row[0])] == list(KINDS)


def test_the_page_turns_outages_into_delays(capsys: pytest.CaptureFixture[str]) -> None:
    """Its code proposes delays, and says what they save."""
    [python] = [each for each in blocks(page("docs/spark/outages.md"), "python") if "np" in each]
    exec(compile(python, "outages.md", "exec"), {})
    delays, saved = capsys.readouterr().out.splitlines()
    assert delays.startswith("(")
    assert saved.startswith("Mean(mean=")


def test_without_a_journal_there_are_no_outages(spark: SparkSession, tmp_path: Path) -> None:
    """It says what to run first."""
    result = CliRunner().invoke(app, ["spark", "episodes", "--lake", str(tmp_path)])
    assert (3, "") == (result.exit_code, result.stdout)
    assert f"{tmp_path}/journal: nothing is there yet" in result.stderr
    assert "run `linear-retry spark ingest` first" in result.stderr


@pytest.mark.parametrize(
    ("made", "text"),
    [
        ({"closed": 5, "stopped": 0, "open": 2}, "episodes: 7 rows (5 closed, 2 open)\n"),
        ({"closed": 1, "open": 0}, "episodes: 1 row (1 closed)\n"),
        ({"closed": 0, "open": 0}, "episodes: 0 rows\n"),
    ],
)
def test_what_is_there_is_reported(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, made: dict[str, int], text: str
) -> None:
    """In a line, and of kinds that there are."""
    monkeypatch.setattr(pipeline, "update_episodes", lambda _: made)
    result = CliRunner().invoke(app, ["spark", "episodes", "--lake", "lake"])
    assert (0, text) == (result.exit_code, result.stdout)
