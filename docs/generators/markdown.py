"""Writes tables as Markdown."""

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown, one line a row."""
    body = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join([body[0], "|" + "---|" * len(head), *body[1:]]) + "\n"


def codes(names: Iterable[str]) -> str:
    """Names as code, with commas between."""
    return ", ".join(f"`{name}`" for name in names)


def cell(text: str) -> str:
    """Text as one cell of a table: on one line, with its bars escaped."""
    return " ".join(text.split()).replace("|", r"\|")
