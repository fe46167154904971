"""Counts the messages that are out in retry topics: `topics status`."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

import typer

from linear_retry.cli.output.progress import ProgressBar
from linear_retry.cli.output.rows import write_json, write_table
from linear_retry.cli.topics.plan import unread
from linear_retry.dlq.letters.letter import read_letter
from linear_retry.errors import UnknownTopicError
from linear_retry.kafka.topics.groups import Groups
from linear_retry.kafka.topics.reader import Progress, TopicReader
from linear_retry.records.durations import delay_text
from linear_retry.records.printable import moment, one_line
from linear_retry.records.record import Record
from linear_retry.records.topics.names import delay_of, retry_group
from linear_retry.retry.clock import now_ms

_HEAD = ("topic", "delay", "out", "due", "first due", "last due")
_NUMBERS = ("out", "due")


@dataclass(slots=True)
class TopicStatus:
    """The messages of a retry topic that its retry line has not done with. Times are UTC ms.

    `due` of those that are `out` need not wait any longer. `delay_ms` is None if the topic's name
    does not say it: then messages are due when their headers say so.
    """

    topic: str
    delay_ms: int | None
    out: int = 0
    due: int = 0
    first_due_ms: int | None = None
    last_due_ms: int | None = None

    def add(self, record: Record, group: str, at_ms: int) -> None:
        """Counts a record, unless the retry line of `group` is to skip it."""
        letter = read_letter(record)
        if letter.is_retry and letter.group_id != group:
            return
        self.out += 1
        due_ms = letter.retry_at_ms
        if self.delay_ms is not None:
            due_ms = record.timestamp_ms + self.delay_ms
        if due_ms is None:
            return
        self.due += due_ms <= at_ms
        self.first_due_ms = min(due_ms, self.first_due_ms or due_ms)
        self.last_due_ms = max(due_ms, self.last_due_ms or due_ms)


def show_status(prefix: str, group: str, config: Mapping[str, Any], *, as_json: bool) -> None:
    """Prints a line or an object for each retry topic, the shortest delay first.

    Raises `UnknownTopicError` if no topic has the prefix.
    """
    at_ms, line = now_ms(), retry_group(group)
    names = _names(TopicReader(config).topics(), prefix)
    topics = [TopicStatus(name, delay_of(name, prefix)) for name in names]
    for topic in topics:
        with ProgressBar(f"reading {topic.topic}") as bar:
            for record in _unread(config, group, topic.topic, bar):
                topic.add(record, group, at_ms)
    has_members = Groups(config).listed().get(line)
    if not has_members:
        typer.echo(_nobody(line) if has_members is False else _unknown(line), err=True)
    if as_json:
        write_json({**asdict(topic), "group": group} for topic in topics)
    else:
        write_table(_HEAD, map(_cells, topics), _NUMBERS)


def _nobody(line: str) -> str:
    return (
        f"group {one_line(line)} has no members: nothing is retried until its consumer, the retry "
        "line, runs"
    )


def _unknown(line: str) -> str:
    return (
        f"whether group {one_line(line)} has members is not known: it has never run, this user may "
        "not DESCRIBE it, or the brokers do not answer; without its consumer, the retry line, "
        "nothing is retried"
    )


def _names(names: Iterable[str], prefix: str) -> list[str]:
    found = [(delay_of(name, prefix), name) for name in names]
    known = sorted((delay or 0, name) for delay, name in found if delay or name == prefix)
    if not known:
        raise UnknownTopicError(
            f"no such topic: {prefix}, nor one with a delay after it, such as {prefix}.5m; "
            "give the prefix of RetryTopics, or the topic of RetryTopics.single"
        )
    return [name for _, name in known]


def _unread(
    config: Mapping[str, Any], group: str, topic: str, progress: Progress
) -> Iterator[Record]:
    """The records from the retry line's committed offsets on: each partition is in due order."""
    left, is_exact = unread(config, group, topic)
    if not is_exact:
        typer.echo(
            f"{topic}: no answer to what group {one_line(retry_group(group))} has committed, so "
            "all of its records are counted; check that this user may DESCRIBE the group",
            err=True,
        )
    starts = {number: first for number, (first, _) in left.items()}
    return chain.from_iterable(TopicReader(config).read(topic, progress, starts))


def _cells(topic: TopicStatus) -> tuple[str, ...]:
    times = (topic.first_due_ms, topic.last_due_ms)
    return (
        topic.topic,
        "-" if topic.delay_ms is None else delay_text(topic.delay_ms),
        str(topic.out),
        str(topic.due),
        *("-" if at_ms is None else moment(at_ms) for at_ms in times),
    )
