"""What the members of a group saw of one outage is one row."""

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from pyspark.sql import Row, SparkSession

from linear_retry.errors import ConfigurationError
from linear_retry.journal.episodes import Episode
from linear_retry.journal.outages import group_episodes
from linear_retry.scope import Place, Scope
from linear_retry.spark import Lake, group_outages
from tests.docs.markdown import blocks, code, page, table

pytestmark = pytest.mark.usefixtures("interpreted")

_COLUMNS = (
    "`group` string, member string, kind string, opened_at_ms bigint, last_at_ms bigint, "
    "retry_at_ms bigint, outcome string, open_s double, "
    "message_topic string, message_partition bigint, message_offset bigint, "
    "error string, error_type string, probes array<int>, letters bigint, missing bigint, "
    "lower_ms bigint, upper_ms bigint, clock_ms bigint"
)
_NOON_MS = 1_795_262_400_000
_SKEW_MS = 2000
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class _Episode:
    group: str
    member: str
    opened_ms: int | None
    last_ms: int
    lower_ms: int | None
    upper_ms: int | None
    outcome: str | None = "recovered"
    clock_ms: int | None = None
    offset: int = 0
    open_s: float | None = None
    retry_ms: int | None = None
    """When the next attempt is due; not None: it is open."""

    @property
    def row(self) -> tuple[object, ...]:
        error = None if self.opened_ms is None else f"E({self.offset})"
        kind = "closed" if self.outcome is not None else "stopped"
        retry_at_ms = None if self.retry_ms is None else _NOON_MS + self.retry_ms
        opened_ms = None if self.opened_ms is None else _NOON_MS + self.opened_ms
        return (
            *(self.group, self.member, kind if retry_at_ms is None else "open"),
            *(opened_ms, _NOON_MS + self.last_ms, retry_at_ms, self.outcome),
            *(self.open_s, *self.held, error, error and "E", [1], 1, 0),
            *(self.lower_ms, self.upper_ms, self.clock_ms),
        )

    @property
    def held(self) -> tuple[str, int, int] | tuple[None, None, None]:
        return (None, None, None) if self.opened_ms is None else ("orders", 0, self.offset)


def _whole(group: str, member: str, opened_ms: int, lower_ms: int, upper_ms: int) -> _Episode:
    return _Episode(group, member, opened_ms, opened_ms + upper_ms + 5, lower_ms, upper_ms)


def _fleet() -> Iterator[_Episode]:
    """Twelve members, whose clocks differ by up to two seconds, see eight outages of 20 s."""
    for number in range(8):
        for member in range(12):
            skew_ms = member * _SKEW_MS // 11
            opened_ms = number * 60_000 + 37 * member + skew_ms
            yield _whole("fleet", f"pod-{member}", opened_ms, 15_000, 20_000 + 10 * member)


def _cases() -> Iterator[_Episode]:
    yield from _fleet()
    yield _whole("parts", "a", 0, 0, 1000)
    yield _whole("parts", "b", 900, 30_000, 40_000)
    yield _whole("parts", "c", 35_000, 0, 500)
    ahead = _whole("brokers", "a", 600_000, 1000, 2000)
    yield replace(ahead, clock_ms=-600_000)
    yield _whole("brokers", "b", 10, 1000, 2000)
    for offset in range(50):
        opened_ms = offset * 1010
        yield _Episode(
            *("letters", "a", opened_ms, opened_ms + 1000, 1000, None),
            *("dead-lettered", None, offset),
        )
    yield _Episode("open", "a", 0, 5000, 5000, None, None, retry_ms=5500)
    yield _Episode("open", "b", None, 3000, None, None, "recovered")
    for number in range(12):
        opened_ms = number * 7000
        yield _Episode(
            *("waiting", f"pod-{number}", opened_ms, opened_ms, 0, None, None),
            offset=number,
            retry_ms=opened_ms + 300_000,
        )
    for number in range(3):
        opened_ms = number * 30_000
        yield _Episode("restarts", f"pod-{number}", opened_ms, opened_ms + 9, 9, None, None)
    yield _whole("restarts", "pod-3", 90_000, 0, 100)
    yield _Episode("days", "pod-1", 0, 9, 9, None, None)
    yield _Episode("days", "pod-2", 9 + _DAY_MS, 20 + _DAY_MS, 9, None, None)
    yield _Episode("days", "pod-3", 21 + 2 * _DAY_MS, 30 + 2 * _DAY_MS, 9, None, None)
    yield _Episode("gone", "pod-1", 0, 9, 9, None, None, offset=1)
    yield _Episode("gone", "pod-2", 30_000, 30_009, 9, None, None, offset=2)
    close = _Episode("closes", "a", None, 60_000, None, None, "recovered", None, 0, 50.0)
    yield from (close, replace(close, last_ms=5000, open_s=1e300))
    yield _whole("apart", "a", 0, 0, 100)
    yield _whole("apart", "a", 105 + _SKEW_MS + 1, 0, 100)


def _random() -> list[_Episode]:
    rng = random.Random(1)
    found = []
    for number in range(400):
        opened_ms = rng.choice([None, rng.randrange(2_000_000)])
        lower_ms = None if opened_ms is None else rng.choice([None, rng.randrange(4000)])
        upper_ms = None if lower_ms is None else rng.choice([None, lower_ms + rng.randrange(2000)])
        last_ms = (opened_ms or rng.randrange(2_000_000)) + rng.randrange(-100, 6000)
        group, member = f"random {rng.randrange(3)}", f"pod-{rng.randrange(5)}"
        outcome = rng.choice(["recovered", "dead-lettered", "sent-to-retry", "dropped", None])
        clock_ms = rng.choice([None, 0, rng.randrange(-3000, 3000)])
        retry_ms = rng.choice([None, last_ms + rng.randrange(9000)]) if outcome is None else None
        offset = rng.choice([number, rng.randrange(60)])
        found.append(
            _Episode(
                *(group, member, opened_ms, last_ms, lower_ms, upper_ms, outcome, clock_ms, offset),
                retry_ms=retry_ms,
            )
        )
    return found


@pytest.fixture(scope="module")
def outages(spark: SparkSession) -> dict[str, list[Row]]:
    """Of all cases, by group, in the order of time: one job."""
    episodes = [*_cases(), *_random()]
    random.Random(2).shuffle(episodes)
    frame = spark.createDataFrame([each.row for each in episodes], _COLUMNS)
    found = defaultdict(list)
    for row in group_outages(frame, skew_s=_SKEW_MS / 1000).orderBy("opened_at_ms").collect():
        found[row.group].append(row)
    return found


def test_members_whose_clocks_differ_saw_one_outage(outages: dict[str, list[Row]]) -> None:
    """Twelve members and eight outages are eight rows, each open once and not twelve times."""
    rows = outages["fleet"]
    assert [(12, 12, 24)] * 8 == [(row.members, row.episodes, row.attempts) for row in rows]
    assert {22.522} == {row.open_s for row in rows}
    assert {17_407} == {row.lower_ms for row in rows}


def test_its_bounds_are_of_all_that_was_seen(outages: dict[str, list[Row]]) -> None:
    """From the first failure of any to the last, and to the first success after that."""
    [row] = outages["parts"]
    assert (3, 35_000, 35_500, 3) == (row.members, row.lower_ms, row.upper_ms, row.recovered)
    assert (_NOON_MS, _NOON_MS + 40_905) == (row.opened_at_ms, row.last_at_ms)


def test_the_brokers_clock_counts_where_it_is_known(outages: dict[str, list[Row]]) -> None:
    """A member ten minutes ahead saw the same outage, if the brokers say so."""
    [row] = outages["brokers"]
    assert (2, _NOON_MS, 1010) == (row.members, row.opened_at_ms, row.lower_ms)


def test_messages_given_up_one_after_another_are_one_outage(outages: dict[str, list[Row]]) -> None:
    """The next message fails at once; of no end anything is known."""
    [row] = outages["letters"]
    assert (50, 50, 50, 0) == (row.messages, row.given_up, row.letters, row.recovered)
    assert (49 * 1010 + 1000, None) == (row.lower_ms, row.upper_ms)


def test_what_is_open_or_has_no_beginning_belongs_to_it(outages: dict[str, list[Row]]) -> None:
    """An episode without bounds adds none."""
    [row] = outages["open"]
    assert (1, 2, 5000, None) == (row.still_open, row.episodes, row.lower_ms, row.upper_ms)


def test_members_that_wait_for_their_next_attempt_are_in_one_outage(
    outages: dict[str, list[Row]],
) -> None:
    """However long the delay: each goes on until it is attempted again."""
    [row] = outages["waiting"]
    assert (12, 12, 12, 77.0) == (row.members, row.episodes, row.still_open, row.open_s)


def test_an_outage_goes_on_while_its_members_restart(outages: dict[str, list[Row]]) -> None:
    """The message that one left open fails again in the next: it did not succeed between."""
    [row] = outages["restarts"]
    assert (4, 1, 90_000, 90_100) == (row.episodes, row.messages, row.lower_ms, row.upper_ms)


def test_a_message_that_fails_days_later_fails_in_another_outage(
    outages: dict[str, list[Row]],
) -> None:
    """Within a day it is the same; without the message, nothing connects what was left open."""
    assert [2, 1] == [row.episodes for row in outages["days"]]
    assert [1, 1] == [row.episodes for row in outages["gone"]]


def test_a_close_alone_says_since_when(outages: dict[str, list[Row]]) -> None:
    """Unless the number that it says is absurd."""
    assert [0.0, 50.0] == [row.open_s for row in outages["closes"]]


def test_what_is_further_apart_than_clocks_is_not_one(outages: dict[str, list[Row]]) -> None:
    """A millisecond more than the skew between the end of one and the beginning of the next."""
    assert [1, 1] == [row.episodes for row in outages["apart"]]


def _expected(episodes: list[_Episode]) -> list[list[_Episode]]:
    """Any two that overlap, or nearly, are of one outage: merged until none do."""
    until = {id(each): _until(each, episodes) for each in episodes}
    islands: list[list[_Episode]] = [[each] for each in episodes]
    merged = True
    while merged:
        merged = False
        for one in islands:
            for other in islands:
                if one is not other and _touch(one, other, until):
                    one.extend(other)
                    islands.remove(other)
                    merged = True
                    break
    return islands


def _span(island: list[_Episode]) -> tuple[int, int]:
    begins = [_began(each) for each in island]
    ends = [each.last_ms + (each.clock_ms or 0) for each in island]
    return min(begins), max([*begins, *ends])


def _began(each: _Episode) -> int:
    return (each.last_ms if each.opened_ms is None else each.opened_ms) + (each.clock_ms or 0)


def _until(each: _Episode, all_of_group: list[_Episode]) -> int:
    """When it is attempted again, if it is open, or its message has failed again, if it has."""
    clock_ms = each.clock_ms or 0
    until = max(_began(each), each.last_ms + clock_ms)
    if each.retry_ms is not None:
        until = max(until, each.retry_ms + clock_ms)
    if each.outcome is not None or each.opened_ms is None:
        return until
    again = [
        _began(other)
        for other in all_of_group
        if other.held == each.held and _began(other) > _began(each)
    ]
    return max(until, min(again)) if again and min(again) <= until + _DAY_MS else until


def _touch(one: list[_Episode], other: list[_Episode], until: dict[int, int]) -> bool:
    began, other_began = min(map(_began, one)), min(map(_began, other))
    ended, other_ended = (max(until[id(each)] for each in island) for island in (one, other))
    return began <= other_ended + _SKEW_MS and other_began <= ended + _SKEW_MS


def _bounds(island: list[_Episode]) -> tuple[int | None, int | None]:
    known = [each for each in island if each.lower_ms is not None]
    if not known:
        return None, None
    first = min(map(_began, known))
    failed = max(_began(each) + (each.lower_ms or 0) for each in known)
    good = [_began(each) + each.upper_ms for each in known if each.upper_ms is not None]
    later = [each for each in good if each >= failed]
    return failed - first, min(later) - first if later else None


def test_it_is_the_law(outages: dict[str, list[Row]]) -> None:
    """In any order and of any shape, the same as two at a time in plain Python."""
    found, expected = [], []
    for group in {each.group for each in _random()}:
        for row in outages[group]:
            times = row.opened_at_ms - _NOON_MS, row.last_at_ms - _NOON_MS
            found.append((group, times, row.episodes, (row.lower_ms, row.upper_ms)))
        for island in _expected([each for each in _random() if each.group == group]):
            expected.append((group, _span(island), len(island), _bounds(island)))
    assert sorted(map(repr, expected)) == sorted(map(repr, found))
    assert 30 < len(found) < 390


def _plain(each: _Episode) -> Episode:
    return Episode(
        group=each.group,
        member=each.member,
        instance=each.member,
        scope=Scope(),
        sequence=1,
        last_ms=_NOON_MS + each.last_ms,
        opened_ms=None if each.opened_ms is None else _NOON_MS + each.opened_ms,
        held=None if each.opened_ms is None else Place("orders", 0, each.offset),
        retry_at_ms=None if each.retry_ms is None else _NOON_MS + each.retry_ms,
        error=None if each.opened_ms is None else f"E({each.offset})",
        outcome=each.outcome,  # type: ignore[arg-type]  # of these tests, any text
        open_s=each.open_s,
        clock_ms=each.clock_ms or 0,
    )


def test_it_is_the_law_of_the_journal(outages: dict[str, list[Row]]) -> None:
    """The same outages as `group_episodes` makes of the same episodes, without Spark."""
    episodes = [_plain(each) for each in (*_cases(), *_random())]
    counts = ("group", "members", "messages", "recovered", "given_up", "left_line", "error")
    found = [
        (each.began_ms, each.ended_ms, len(each.episodes), *(getattr(each, n) for n in counts))
        for each in group_episodes(episodes, skew_s=_SKEW_MS / 1000)
    ]
    expected = [
        (row.opened_at_ms, row.last_at_ms, row.episodes, *(row[name] for name in counts))
        for rows in outages.values()
        for row in rows
    ]
    assert sorted(map(repr, expected)) == sorted(map(repr, found))


def test_the_page_groups_the_outages_of_a_lake(
    reported_lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its code shows them, the earliest first."""
    [python] = [
        each for each in blocks(page("docs/spark/outages.md"), "python") if "group_outages" in each
    ]
    exec(compile(python.replace('"lake"', repr(reported_lake.path)), "outages.md", "exec"), {})
    assert "billing" in capsys.readouterr().out


def test_the_page_has_every_column(outages: dict[str, list[Row]]) -> None:
    """docs/spark/outages.md names them in order."""
    rows = table(page("docs/spark/outages.md"), "outage")
    assert [name for row in rows for name in code(row[0])] == outages["open"][0].__fields__


def test_a_skew_is_not_negative(spark: SparkSession) -> None:
    """It would take apart what overlaps."""
    with pytest.raises(ConfigurationError, match="skew_s=-1: give 0 seconds or more"):
        group_outages(spark.createDataFrame([], _COLUMNS), skew_s=-1)
