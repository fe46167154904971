"""Prints all of one dead letter: `dlq show`."""

from collections.abc import Iterator
from typing import Any

import typer

from linear_retry.cli.dlq import formats
from linear_retry.cli.output import contents
from linear_retry.cli.output.exit_codes import NEGATIVE, fail
from linear_retry.cli.output.progress import ProgressBar
from linear_retry.cli.output.rows import write_json
from linear_retry.dlq import DeadLetterTopic, Letter, Resolution, State
from linear_retry.dlq.letters.facts import facts_of
from linear_retry.records import printable
from linear_retry.records.retry_headers import (
    EXCEPTION_MESSAGE,
    EXCEPTION_STACK,
    EXCEPTION_TYPE,
)

_SHOWN_ABOVE = frozenset({EXCEPTION_TYPE, EXCEPTION_MESSAGE, EXCEPTION_STACK})


def show(topic: DeadLetterTopic, letter_id: str, *, payload: bool, as_json: bool) -> None:
    """Prints all letters with this id in full, the oldest generation first."""
    with ProgressBar(f"reading {topic.topic}") as bar:
        found = topic.get(letter_id, bar)
    if not found:
        fail(formats.no_such_letter([letter_id], topic.topic), NEGATIVE)
    for number, (letter, state) in enumerate(found):
        resolution = topic.resolution(letter)
        if as_json:
            write_json([_as_json(letter, state, resolution, payload=payload)])
            continue
        lines = [*_lines(letter, state, resolution), *_contents(letter, payload=payload)]
        typer.echo("\n".join(["", *lines] if number else lines))


def _as_json(
    letter: Letter, state: State, resolution: Resolution | None, *, payload: bool
) -> dict[str, Any]:
    return {
        **formats.as_json(letter, state, payload=payload),
        "exception_stack": letter.exception_stack,
        "resolution": resolution,
        "headers": [
            {"name": name, **formats.content("value", value)} for name, value in letter.headers
        ],
        "escaped_headers": letter.escaped_headers,
        "key_bytes": None if letter.key is None else len(letter.key),
        "value_bytes": None if letter.value is None else len(letter.value),
    }


def _lines(letter: Letter, state: State, resolution: Resolution | None) -> Iterator[str]:
    for name, text in facts_of(letter, _state(state, resolution)).items():
        yield from contents.labelled(name, text)
    if letter.exception_stack is not None:
        yield "stack"
        yield from (f"  {line}" for line in printable.lines(letter.exception_stack.rstrip("\n")))
    yield "headers" if letter.headers else "headers     none"
    for name, value in letter.headers:
        if name not in _SHOWN_ABOVE:
            yield f"  {printable.in_one_line(f'{name} = {contents.shown(value)}')}"


def _state(state: State, resolution: Resolution | None) -> str:
    if state is State.RETRY:
        return "retry: a message of a retry topic, no dead letter"
    if resolution is None:
        return state.value
    why = f": {resolution.why}" if resolution.why else ""
    replay = f" ({resolution.replay_id})" if resolution.replay_id else ""
    by = f"{resolution.state} by {resolution.by}"
    return f"{by} at {printable.moment(resolution.at_ms)}{replay}{why}"


def _contents(letter: Letter, *, payload: bool) -> Iterator[str]:
    yield from contents.whole("key", letter.key, payload=payload)
    yield from contents.whole("value", letter.value, payload=payload)
