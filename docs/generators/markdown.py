"""Writes tables as Markdown."""

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a Markdown table, one line per row."""
    body = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join([body[0], "|" + "---|" * len(head), *body[1:]]) + "\n"


def codes(names: Iterable[str]) -> str:
    """Formats names as code, separated by commas."""
    return ", ".join(f"`{name}`" for name in names)


def cell(text: str) -> str:
    """Formats text for a table cell: in one line, with its bars escaped."""
    return " ".join(text.split()).replace("|", r"\|")
