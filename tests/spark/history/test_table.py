"""The table is brought up to date with what came since, as if it were made of all."""

import random
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

from linear_retry.events import Assigned, CircuitClosed
from linear_retry.journal.entry import Entry, encode
from linear_retry.records.record import Record
from linear_retry.spark import EPISODES, JOURNAL, Lake, LakeError, journal, update_episodes
from linear_retry.spark.history import table
from linear_retry.spark.lake.changes import noting, version
from tests.spark.history.expected_episodes import expected_episodes
from tests.spark.history.recorded_outages import NOON_MS
from tests.spark.history.test_episodes import random_instance
from tests.spark.records import frame

pytestmark = pytest.mark.usefixtures("interpreted")

_DAY_MS = 86_400_000


def _lives(rng: random.Random) -> Iterator[Entry]:
    """Of 40 members one instance after another, over ten days."""
    for number in range(40):
        at_ms, member = NOON_MS + rng.randint(0, 2 * _DAY_MS), f"pod-{number}"
        for life in range(rng.randint(1, 5)):
            entries = list(random_instance(rng, member, f"{member}-{life}", at_ms))
            yield from entries
            last_ms = max((entry.at_ms for entry in entries), default=at_ms)
            at_ms = last_ms + rng.choice([1000, 2 * _DAY_MS])


def _ingested(rng: random.Random) -> list[list[Entry]]:
    """In three parts, by time, but for a few that come later, and a few that come twice."""
    entries = sorted(_lives(rng), key=lambda entry: entry.at_ms)
    late = {number: rng.choice([0] * 9 + [len(entries) // 5]) for number in range(len(entries))}
    order = sorted(range(len(entries)), key=lambda number: number + late[number])
    step = -(-len(entries) // 3)
    parts = [[entries[each] for each in order[n : n + step]] for n in range(0, len(order), step)]
    parts[2] += rng.choices(parts[0], k=5)
    return parts


def _rows(spark: SparkSession, entries: Sequence[Entry]) -> DataFrame:
    records = [
        Record("journal", 0, number, 0, None, encode(entry)) for number, entry in enumerate(entries)
    ]
    at_ms = F.get_json_object(F.col("value").cast("string"), "$.at_ms").cast("bigint")
    return journal(frame(spark, records).withColumn("timestamp", F.timestamp_millis(at_ms)))


def _add(lake: Lake, entries: Sequence[Entry]) -> None:
    rows = _rows(lake.spark, entries)
    lake.create(JOURNAL, rows.schema)
    rows.write.format("delta").mode("append").save(lake.place(JOURNAL))


def _found(lake: Lake) -> list[str]:
    return sorted(repr(_plain(tuple(row)[:-1])) for row in lake.table(EPISODES).collect())


def _plain(value: Any) -> Any:
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else value


class _Counting(Lake):
    """Does not let the table be made anew."""

    def replace(self, rows: DataFrame, name: str) -> None:
        raise AssertionError("it was made of all")


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if each journal were too large to be read whole each time."""
    monkeypatch.setattr(table, "SMALL_BYTES", 0)


@pytest.mark.long
@pytest.mark.usefixtures("large")
def test_what_came_since_is_enough(spark: SparkSession, tmp_path: Path) -> None:
    """After each part, late entries and dead members too, the table is that of all entries."""
    parts, so_far = _ingested(random.Random(3)), list[Entry]()
    for number, part in enumerate(parts):
        lake = (_Counting if number else Lake)(spark, str(tmp_path))
        _add(lake, part)
        so_far += part
        counts = update_episodes(lake)
        expected = sorted(repr(_plain(row)) for row in expected_episodes(so_far))
        assert expected == _found(lake), number
        assert sum(counts.values()) == len(expected)
    assigned = next(entry for entry in so_far if isinstance(entry.event, Assigned))
    _add(lake, [assigned])
    assert counts == update_episodes(lake), "what changes nothing is read once all the same"
    before = lake.spark.read.format("delta").load(lake.place(EPISODES)).inputFiles()
    commits = version(lake, EPISODES)
    assert counts == update_episodes(lake)
    assert commits == version(lake, EPISODES), "with nothing new, nothing is written"
    assert before == lake.table(EPISODES).inputFiles()


@pytest.mark.long
@pytest.mark.usefixtures("large")
def test_of_two_at_once_none_hides_what_the_other_lacks(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One that is overtaken, and has read less of the journal, may end with an error or not: the
    next one adds what is missing."""
    rng, overtaken = random.Random(5), list[int]()
    parts = [list(random_instance(rng, "pod", f"pod-{n}", NOON_MS + n * 1000)) for n in range(3)]
    lake = Lake(spark, str(tmp_path))

    class Overtaken(Lake):
        def table(self, name: str, version: int | None = None) -> DataFrame:
            if version is not None and not overtaken:
                overtaken.append(version)
                _add(lake, parts[2])
                update_episodes(lake)
            return super().table(name, version)

    _add(lake, parts[0])
    update_episodes(lake)
    _add(lake, parts[1])
    with suppress(LakeError):
        update_episodes(Overtaken(spark, str(tmp_path)))
    assert overtaken
    update_episodes(lake)
    entries = [entry for part in parts for entry in part]
    assert sorted(repr(_plain(row)) for row in expected_episodes(entries)) == _found(lake)


@pytest.mark.long
def test_a_small_journal_is_read_whole(spark: SparkSession, tmp_path: Path) -> None:
    """After each part, the table is that of all entries, and is written anew."""
    lake, so_far, rng = Lake(spark, str(tmp_path)), list[Entry](), random.Random(2)
    for number in range(2):
        part = list(random_instance(rng, "pod", f"pod-{number}", NOON_MS))
        _add(lake, part)
        so_far += part
        counts = update_episodes(lake)
        expected = sorted(repr(_plain(row)) for row in expected_episodes(so_far))
        assert expected == _found(lake)
        assert sum(counts.values()) == len(expected)
    done = spark.sql(f"DESCRIBE HISTORY delta.`{lake.place(EPISODES)}`").collect()
    assert "MERGE" not in {row["operation"] for row in done}


@pytest.mark.long
@pytest.mark.usefixtures("large")
def test_what_is_not_known_is_made_of_all(spark: SparkSession, tmp_path: Path) -> None:
    """With a note of another journal, or after another program's change: no row twice, none
    missing."""
    lake = Lake(spark, str(tmp_path))
    entries = list(random_instance(random.Random(1), "pod", "pod-1", NOON_MS))
    _add(lake, entries)
    update_episodes(lake)
    first, all_rows = _found(lake), lake.table(EPISODES)
    for noted in (None, 0, 99):
        with nullcontext() if noted is None else noting(lake, table.NOTE, noted):
            lake.replace(all_rows.limit(1), EPISODES)
        update_episodes(lake)
        assert first == _found(lake)
    assert any(isinstance(entry.event, CircuitClosed) for entry in entries)
