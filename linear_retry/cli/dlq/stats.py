"""Prints statistics of a dead-letter topic: `dlq stats`."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import typer

from linear_retry.cli.dlq import formats
from linear_retry.cli.output.progress import ProgressBar
from linear_retry.cli.output.rows import write_bars, write_json
from linear_retry.dlq import DeadLetterTopic, Filter, State, Stats, Top
from linear_retry.records import printable
from linear_retry.records.durations import duration_text

LETTERS = "linear_retry_dlq_letters"
OLDEST_OPEN = "linear_retry_dlq_oldest_open_timestamp_seconds"


def show_stats(topic: DeadLetterTopic, letter_filter: Filter, *, as_json: bool) -> None:
    """Prints statistics of the selected letters."""
    with ProgressBar(f"reading {topic.topic}") as bar:
        stats = topic.stats(letter_filter, bar)
    if as_json:
        write_json([_as_json(stats)])
    elif stats.letters:
        _print(stats)
    else:
        typer.echo(formats.no_letters(topic.topic, letter_filter), err=True)


def _as_json(stats: Stats) -> dict[str, Any]:
    return {
        "letters": stats.letters,
        "states": {state.value: count for state, count in stats.states.items()},
        "formats": stats.formats,
        "oldest_ms": stats.oldest_ms,
        "newest_ms": stats.newest_ms,
        "oldest_open_ms": stats.oldest_open_ms,
        **{
            f"top_{name}s": [{name: text, "letters": count} for text, count in top.most]
            for name, top in stats.tops.items()
        },
        "span_ms": stats.span_ms,
        "over_time": [{"from_ms": from_ms, "letters": count} for from_ms, count in stats.spans],
    }


def _print(stats: Stats) -> None:
    for name, text in _facts(stats):
        typer.echo(f"{name:<11} {text}")
    write_bars(
        f"written, in spans of {duration_text(stats.span_ms)}",
        [(printable.moment(from_ms), count) for from_ms, count in stats.spans],
    )
    for name, top in stats.tops.items():
        write_bars(_title(name, top), [(_shown(text), count) for text, count in top.most])


def _facts(stats: Stats) -> Iterator[tuple[str, str]]:
    states = stats.states
    done = sum(count for state, count in states.items() if state.is_done)
    yield "letters", str(stats.letters)
    yield "open", str(states[State.OPEN])
    yield (
        "done",
        f"{done} ({100 * done // stats.letters} %): {states[State.REPLAYED]} replayed, "
        f"{states[State.RESOLVED]} resolved",
    )
    if states[State.RETRY]:
        yield "in retry", f"{states[State.RETRY]}: messages of a retry topic, no dead letters"
    if stats.oldest_ms is not None and stats.newest_ms is not None:
        yield "oldest", printable.moment(stats.oldest_ms)
        yield "newest", printable.moment(stats.newest_ms)
    if stats.oldest_open_ms is not None:
        yield "oldest open", printable.moment(stats.oldest_open_ms)
    if stats.formats.keys() != {"linear-retry"}:
        yield "written by", ", ".join(f"{name}: {count}" for name, count in stats.formats.items())


def _title(name: str, top: Top) -> str:
    title = f"top {name}s"
    if top.others:
        return f"{title} (of the first {top.different}; {top.others} letters have others)"
    return title if top.different == len(top.most) else f"{title} (of {top.different})"


def _shown(text: str | None) -> str:
    return "(unknown)" if text is None else printable.one_line(text) or "(empty)"


def write_backlog(topics: Iterable[DeadLetterTopic], letter_filter: Filter) -> None:
    """Prints metrics of all topics for Prometheus, after all are read: never partial ones.

    In the text format, for node_exporter's textfile collector: a whole topic is read, which is too
    slow for each scrape of a server.
    """
    found = {}
    for topic in topics:
        with topic, ProgressBar(f"reading {topic.topic}") as bar:
            found[topic.topic] = topic.stats(letter_filter, bar)
    typer.echo("\n".join(exposition(found)))


def exposition(found: Mapping[str, Stats]) -> Iterator[str]:
    """Yields the lines. A topic without open letters has no oldest one."""
    yield f"# HELP {LETTERS} Dead letters in the topic, by state"
    yield f"# TYPE {LETTERS} gauge"
    for topic, stats in found.items():
        for state, count in stats.states.items():
            if state is State.RETRY and not count:
                continue
            yield f'{LETTERS}{{topic="{topic}",state="{state}"}} {count}'
    yield f"# HELP {OLDEST_OPEN} When the oldest open dead letter was written, in Unix time"
    yield f"# TYPE {OLDEST_OPEN} gauge"
    for topic, stats in found.items():
        if stats.oldest_open_ms is not None:
            yield f'{OLDEST_OPEN}{{topic="{topic}"}} {stats.oldest_open_ms / 1000:.3f}'
