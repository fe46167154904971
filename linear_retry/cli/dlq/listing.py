"""What lies in a dead-letter topic? `dlq list`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TypeAlias

import typer

from linear_retry.cli.dlq import telling
from linear_retry.cli.dlq.ending import nothing
from linear_retry.cli.dlq.progress import Bar
from linear_retry.cli.dlq.rows import Lines, on_a_terminal, write_json, write_table
from linear_retry.dlq import DeadLetterTopic, Filter, Letter, State
from linear_retry.dlq.counting import count

_SORTED = 10_000
_SORTED_BYTES = 16 * 1024 * 1024
_CHUNK = 1_000

_Found: TypeAlias = tuple[Letter, State]


def list_letters(
    topic: DeadLetterTopic, letter_filter: Filter, *, payload: bool, as_json: bool
) -> None:
    """Print the letters that the filter means. Some thousands by time; more as they are read."""
    write = _writer(payload=payload, as_json=as_json)
    with Bar(f"reading {topic.topic}") as bar:
        found = topic.letters(letter_filter, bar)
        first, is_all = _first(found)
        bar.hide()
        if not first:
            typer.echo(nothing(topic.topic, letter_filter), err=True)
            return
        first.sort(key=lambda each: (each[0].timestamp_ms, each[0].partition, each[0].offset))
        write(first)
        first.clear()
        while not is_all and (chunk := list(islice(found, _CHUNK))):
            write(chunk)


def _first(found: Iterator[_Found]) -> tuple[list[_Found], bool]:
    """As many as may be held in memory, and whether these are all."""
    first: list[_Found] = []
    left_bytes = _SORTED_BYTES
    for each in found:
        first.append(each)
        left_bytes -= each[0].size_bytes
        if len(first) == _SORTED or left_bytes < 0:
            return first, False
    return first, True


def _writer(*, payload: bool, as_json: bool) -> Callable[[list[_Found]], None]:
    if as_json:
        return lambda found: write_json(telling.as_json(*each, payload=payload) for each in found)
    if on_a_terminal():
        from linear_retry.cli.dlq.drawn import draw

        return lambda found: draw(found, payload=payload)
    if payload:
        lines = Lines((*telling.HEAD, *telling.PAYLOAD_HEAD))
        return lambda found: lines.write(
            (*telling.cells(*each), *telling.payload_cells(each[0])) for each in found
        )
    lines = Lines(telling.HEAD)
    return lambda found: lines.write(telling.cells(*each) for each in found)


def count_letters(
    topic: DeadLetterTopic, letter_filter: Filter, traits: Sequence[str], *, as_json: bool
) -> None:
    """Print how many of the letters that the filter means are alike, the most frequent first."""
    with Bar(f"reading {topic.topic}") as bar:
        counts = count(topic.letters(letter_filter, bar), traits)
    if not counts:
        typer.echo(nothing(topic.topic, letter_filter), err=True)
        return
    if as_json:
        write_json(
            {**dict(zip(traits, group, strict=True)), "letters": number}
            for group, number in counts.most()
        )
    else:
        rows = [
            (*("-" if part is None else telling.one_line(part) for part in group), str(number))
            for group, number in counts.most()
        ]
        write_table((*traits, "letters"), rows, numbers=("letters",))
    if counts.others:
        typer.echo(f"{counts.others} letters more are of other groups: too many to count", err=True)
