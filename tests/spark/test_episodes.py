"""Are the episodes those that the journal tells, and is nothing guessed?"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from linear_retry import events
from linear_retry.dead_letter import Record
from linear_retry.events import CircuitClosed, CircuitOpened, CloseOutcome, Event, ProbeFailed
from linear_retry.journal_entry import Entry, encode
from linear_retry.scope import Scope
from linear_retry.spark.entries import entries
from linear_retry.spark.episodes import episodes
from tests.spark.expected_episodes import expected_episodes
from tests.spark.records import frame

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOON_MS = 1_795_262_400_000
REFUSED = "ConnectionError('refused')"


def _at(at_ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=at_ms)


def _opened(retry_at_ms: int, scope: Scope | None = None, error: str = REFUSED) -> CircuitOpened:
    return CircuitOpened(scope or Scope(), "orders", 3, 7, error, 1, 1.0, _at(retry_at_ms))


def _failed(retry_at_ms: int, failures: int = 2) -> ProbeFailed:
    return ProbeFailed(Scope(), "orders", 3, 7, REFUSED, failures, 1.0, _at(retry_at_ms))


def _closed(outcome: CloseOutcome = "recovered", open_s: float = 1.0) -> CircuitClosed:
    return CircuitClosed(Scope(), outcome, open_s)


def _letter(reason: str = "exhausted") -> events.DeadLettered:
    return events.DeadLettered("orders", 3, 7, "dlq", "id", 1, reason, REFUSED, 3, ())


def _life(*told: tuple[int, Event], instance: str = "a", first: int = 1) -> list[Entry]:
    return [
        Entry(instance, number, NOON_MS + at_ms, "billing", "pod", event)
        for number, (at_ms, event) in enumerate(told, first)
    ]


def _found(spark: SparkSession, *life: Entry) -> list[Row]:
    records = [
        Record("journal", 0, offset, NOON_MS, entry.key, encode(entry), ())
        for offset, entry in enumerate(life)
    ]
    return episodes(entries(frame(spark, records))).orderBy("sequence").collect()


def _plain(value: Any) -> Any:
    """As it can be compared and sorted."""
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    return value


# -- one of each kind -----------------------------------------------------------------------------


def test_an_outage_that_was_waited_out(spark: SparkSession) -> None:
    """It lasted longer than to the last probe that failed, and no longer than to the next."""
    [row] = _found(
        spark,
        *_life(
            (0, _opened(NOON_MS + 1000)),
            (1040, _failed(NOON_MS + 6040)),
            (6200, _failed(NOON_MS + 36_200, failures=3)),
            (36_900, _closed(open_s=36.9)),
        ),
    )
    assert ("closed", "recovered", 36.9) == (row.kind, row.outcome, row.open_s)
    assert (6040, 36_200) == (row.lower_ms, row.upper_ms)
    assert ("orders", 3, 7, "ConnectionError") == (
        *(row.message_topic, row.message_partition, row.message_offset),
        row.error_type,
    )
    assert [(1000, 1040, 2), (6040, 6200, 3)] == [
        (probe.due_ms - NOON_MS, probe.at_ms - NOON_MS, probe.failures) for probe in row.probes
    ]
    assert (NOON_MS, NOON_MS + 36_900) == (row.opened_at_ms, row.closed_at_ms)


def test_an_outage_that_outlasted_the_strategy(spark: SparkSession) -> None:
    """It lasted longer than to the last attempt, which is told by the letter; it has no end."""
    [row] = _found(
        spark,
        *_life((0, _opened(NOON_MS + 1000)), (1040, _letter()), (1041, _closed("dead-lettered"))),
    )
    assert ("closed", "dead-lettered", 1) == (row.kind, row.outcome, row.letters)
    assert (1000, None) == (row.lower_ms, row.upper_ms)


def test_a_letter_that_could_not_be_sent_is_no_outage(spark: SparkSession) -> None:
    """The circuit was open for Kafka's sake: of the dependency it says nothing."""
    failed = events.DeadLetterFailed(
        *(Scope(), "orders", 3, 7, "dlq", "down", 1, 1.0), _at(NOON_MS + 1000)
    )
    [row] = _found(
        spark,
        *_life((0, _opened(NOON_MS + 1000)), (0, failed), (1040, _closed("dead-lettered"))),
    )
    assert (1, None, None) == (row.letters_failed, row.lower_ms, row.upper_ms)


def test_an_operator_may_be_early(spark: SparkSession) -> None:
    """The good probe began when it was asked for, not when it was due."""
    now = events.RetriedNow(Scope(), "orders", 3, 7, 1, 600.0)
    [row] = _found(
        spark, *_life((0, _opened(NOON_MS + 700_000)), (100_000, now), (100_200, _closed()))
    )
    assert (0, 100_000) == (row.lower_ms, row.upper_ms)


def test_what_was_taken_away_was_probed_later(spark: SparkSession) -> None:
    """After a rebalance another message may have been the good probe, and came when it came."""
    revoked = events.Revoked((("orders", 3),))
    [row] = _found(spark, *_life((0, _opened(NOON_MS + 1000)), (500, revoked), (90_000, _closed())))
    assert (0, 90_000) == (row.lower_ms, row.upper_ms)


def test_how_episodes_end_is_told_apart(spark: SparkSession) -> None:
    """Opened again, ended with the consumer, with another life of the member, or not at all."""
    stopped = _life((0, _opened(NOON_MS)), (9, events.Stopped(False)), instance="b", first=200)
    died = _life((20, _opened(NOON_MS)), instance="c", first=300)
    still = _life((30, _closed()), (31, _opened(NOON_MS + 99)), instance="d", first=400)
    twice = _life((0, _opened(NOON_MS)), (5, _opened(NOON_MS + 9)), (9, _closed()), first=100)
    rows = _found(spark, *twice, *stopped, *died, *still)
    assert [
        *((100, "close_missing"), (101, "closed"), (200, "stopped"), (300, "restarted")),
        *((400, "left_censored"), (401, "open")),
    ] == [(row.sequence, row.kind) for row in rows]
    ends = [row.closed_at_ms is not None for row in rows]
    assert [False, True, False, False, True, False] == ends


def test_where_entries_are_missing_nothing_is_known(spark: SparkSession) -> None:
    """Between an opening and the close of another one, there may have been any number of both."""
    life = _life((0, _opened(NOON_MS + 1000)), (2, _closed()), (3, _opened(NOON_MS + 1003)))
    life += _life((9000, _closed()), first=6)
    whole, gap = _found(spark, *life, life[0], life[3])
    assert ("closed", 0, 1000) == (whole.kind, whole.missing, whole.upper_ms + 998)
    assert ("closed", 2, None, None) == (gap.kind, gap.missing, gap.lower_ms, gap.upper_ms)


@pytest.mark.parametrize(
    ("error", "name"),
    [
        ("requests.exceptions.Timeout('1')", "requests.exceptions.Timeout"),
        ("<shop.Odd, whose __repr__ raised an exception>", "shop.Odd"),
        ("503 Service Unavailable", None),
    ],
)
def test_the_type_of_an_error_is_read_where_it_is_told(
    spark: SparkSession, error: str, name: str | None
) -> None:
    """An exception's `repr` begins with its type, unless its author chose otherwise."""
    [row] = _found(spark, *_life((0, _opened(NOON_MS, error=error))))
    assert name == row.error_type


def test_a_journal_without_episodes(spark: SparkSession) -> None:
    """Letters without an open circuit are none."""
    assert [] == _found(spark, *_life((0, _letter()), (1, events.Stopped(True))))


# -- against the law, told one entry at a time ----------------------------------------------------


def _random_life(dice: random.Random, member: str, instance: str, at_ms: int) -> Iterator[Entry]:
    """Mostly what a consumer would do, and then with entries lost, or out of time."""
    kind = dice.choice(["consumer", "consumer", "topic", "partition"])
    failures = 0
    for number in range(1, dice.randint(1, 25)):
        at_ms += dice.choice([0, 1, 40, 1000, 60_000, -500])
        place = dice.choice(["orders", "refunds"]), dice.randint(0, 1)
        scope = Scope.of(kind, place)  # type: ignore[arg-type]
        retry_at, delay_s = _at(at_ms + dice.choice([0, 1000, 30_000])), 1.0
        failures += 1
        coordinates = (scope, *place, number)
        wait = (REFUSED, failures, delay_s, retry_at)
        event: Event = dice.choices(
            [
                CircuitOpened(*coordinates, *wait),
                ProbeFailed(*coordinates, *wait),
                events.RetriedNow(*coordinates, failures, 2.0),
                CircuitClosed(scope, dice.choice(["recovered", "dead-lettered", "dropped"]), 2.5),
                events.DeadLetterFailed(*coordinates, "dlq", REFUSED, 1, delay_s, retry_at),
                events.LimitReached(*coordinates, REFUSED, failures, 5, delay_s, retry_at),
                events.DeadLettered(
                    *(*place, number, "dlq", "id", 1, dice.choice(["exhausted", "given-up"])),
                    *(REFUSED, 3, ()),
                ),
                dice.choice([events.Revoked((place,)), events.Lost((place,), "fenced")]),
                events.Stopped(True),
            ],
            [5, 5, 2, 5, 1, 1, 3, 1, 0.3],
        )[0]
        if dice.random() > 0.06:
            yield Entry(instance, number, at_ms, "billing", member, event)


@pytest.mark.parametrize("seed", [1, 2])
def test_it_is_the_law(spark: SparkSession, seed: int) -> None:
    """Of 300 lives of 200 members in any disorder, with losses and repeats: row by row the same."""
    dice = random.Random(seed)
    told: list[Entry] = []
    for number in range(300):
        member, at_ms = f"pod-{dice.randint(1, 200)}", NOON_MS + dice.randint(0, 10**6)
        told += _random_life(dice, member, f"life-{number}", at_ms)
    told += dice.choices(told, k=100)
    dice.shuffle(told)
    found = [_plain(tuple(row)) for row in _found(spark, *told)]
    expected = [_plain(row) for row in expected_episodes(told)]
    kinds = {row[6] for row in expected}
    assert {"closed", "close_missing", "stopped", "restarted", "open", "left_censored"} == kinds
    assert any(row[-1] is not None for row in expected)
    assert sorted(map(repr, expected)) == sorted(map(repr, found))
