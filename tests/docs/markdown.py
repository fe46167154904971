"""Reads a page of Markdown: blocks of code, tables, links."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def page(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of one language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def table(text: str, first_column: str) -> list[list[str]]:
    """The rows, cell by cell, of the one table whose header begins with `first_column`."""
    found = re.findall(
        rf"^\| {re.escape(first_column)} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE
    )
    assert 1 == len(found), first_column
    return [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in found[0].splitlines()
    ]


def code(cell: str) -> list[str]:
    """What stands between backticks."""
    return re.findall(r"`([^`]+)`", cell)


def links(text: str) -> list[str]:
    """The targets of all links, those inside code left out."""
    return re.findall(r"\]\(([^)]+)\)", _prose(text))


def anchors(text: str) -> set[str]:
    """Those that GitHub and the site give to the headings."""
    headings = re.findall(r"^#+ (.+)$", _prose(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


def _prose(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
