"""Advice from a report's numbers, each with its rule."""

from collections.abc import Iterator
from dataclasses import dataclass

from linear_retry.report.errors import (
    FEWEST_GIVEN_UP,
    FEWEST_IN_VAIN,
    FEWEST_RECOVERED,
    in_vain,
    too_soon,
)
from linear_retry.report.letters import with_share
from linear_retry.report.section import Row, Tables, count, counted, moment, percent, records, shown

_FEWEST_OF_A_KEY, _LARGE_SHARE_OF_A_KEY = 10, 0.2
_EVENTS = {
    "DataLost": "lost messages: retention removed them before they were read. Give the topic a "
    "longer `retention.ms`, or shorten the strategy",
    "HandlerTooSlow": "had a handler that took longer than `max.poll.interval.ms`. Give its "
    "calls timeouts",
    "Skipped": "skipped messages that had failed, as `on_permanent` says: they have no dead "
    "letters",
    "LimitReached": "reached the limit of dead letters in a row: an outage looked like bad "
    "messages. Check whether its errors should be in `transient`",
    "HeldMessageAtRisk": "held messages that were nearly as old as their topic’s "
    "`retention.ms`: they may be removed before they are handled. Raise `retention.ms`, or retry "
    "them or give them up earlier",
    "RetentionTooShort": "has a strategy that waits longer than its topic’s `retention.ms`: "
    "messages may be removed before it ends. Shorten the strategy, or raise `retention.ms`",
}


@dataclass(frozen=True, slots=True)
class Advice:
    """A sentence or two with numbers, and the rule behind them."""

    text: str
    rule: str


def advice(tables: Tables) -> list[Advice]:
    """Returns all advice whose rule applies, the most urgent first."""
    groups, letters, keys, events, errors = (
        records(tables[name]) if name in tables else []
        for name in ("groups", "letters", "keys", "events", "errors")
    )
    return [
        *_of_events(events),
        *_in_vain(errors),
        *_too_soon(errors),
        *_hot_keys(keys, letters),
        *_missing(groups),
    ]


def _of_events(rows: list[Row]) -> Iterator[Advice]:
    for event, text in _EVENTS.items():
        for row in (row for row in rows if row["event"] == event):
            when = f"{count(row['times'])} times, the last at {moment(row['last_ms'])}"
            if row["times"] == 1:
                when = f"once, at {moment(row['last_ms'])}"
            yield Advice(
                f"Group {shown(row['group'])} {text} ({when}).", f"{event} is in the journal."
            )


def _in_vain(rows: list[Row]) -> Iterator[Advice]:
    for row in in_vain(rows):
        # None of n has recovered: with 95% confidence, at most this share of such outages does.
        most = 1 - 0.05 ** (1 / row["given_up"])
        yield Advice(
            f"In group {shown(row['group'])}, {counted(row['outages'], 'outage')} began with "
            f"{shown(row['error'])}, {count(row['given_up'])} were given up, and none recovered: "
            f"at most {percent(most)} of them would. Unless the dependency is still down, remove "
            "the error from `transient`: its messages then become dead letters at once.",
            f"{FEWEST_IN_VAIN} or more were given up and none recovered; the share has a "
            "confidence of 95%.",
        )


def _too_soon(rows: list[Row]) -> Iterator[Advice]:
    for row in too_soon(rows):
        here = f"{count(row['recovered_here'])} in this group" if row["recovered_here"] else ""
        elsewhere = row["recovered_elsewhere"]
        others = f"{count(elsewhere)} in others" if elsewhere else ""
        where = " and ".join(filter(None, (here, others)))
        yield Advice(
            f"Group {shown(row['group'])} gave up {counted(row['letters'], 'message')} at once for "
            f"{shown(row['error'])}, but outages that began with it recovered: {where}. Check "
            "whether it belongs in `transient`.",
            f"{FEWEST_GIVEN_UP} or more permanent letters, and {FEWEST_RECOVERED} or more outages "
            "of the same error that recovered.",
        )


def _hot_keys(rows: list[Row], letters: list[Row]) -> Iterator[Advice]:
    for row in with_share(rows, letters):
        share = row["share"] or 0
        is_hot = row["letters"] >= _FEWEST_OF_A_KEY and share >= _LARGE_SHARE_OF_A_KEY
        if row["form"] != "none" and is_hot:
            yield Advice(
                f"{count(row['letters'])} letters of group {shown(row['group'])} "
                f"({percent(share)} of all) have the key {shown(row['key'])}: find "
                "out first what is wrong with it.",
                f"One key has {_FEWEST_OF_A_KEY} letters or more, and "
                f"{percent(_LARGE_SHARE_OF_A_KEY)} of its group’s or more.",
            )


def _missing(groups: list[Row]) -> Iterator[Advice]:
    lossy = [row for row in groups if row["with_missing_entries"]]
    if lossy:
        outages = sum(row["with_missing_entries"] for row in lossy)
        yield Advice(
            f"Entries of the journal are missing in {counted(outages, 'outage')} of "
            f"{counted(len(lossy), 'group')}: their durations are not known. "
            "`linear_retry_journal_dropped_total` shows when entries are dropped.",
            "A number in the sequence of a consumer’s entries is missing.",
        )
