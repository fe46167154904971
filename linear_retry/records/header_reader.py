"""Reads headers that any system may have written, and collects what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping

from linear_retry.records.header_text import whole_number

INT64_MAX = 2**63 - 1


class HeaderReader:
    """Reads headers by name and type; never raises, but collects `problems`, one text each.

    One whose value is null counts as missing. What is missing or garbled reads as a stand-in, so
    look at `problems` before using anything.
    """

    def __init__(self, contents: Mapping[str, bytes | None]) -> None:
        """`contents` are headers by name."""
        self._contents = contents
        self.problems: list[str] = []

    def text(self, name: str) -> str:
        """Text of at least one character; a problem where it is missing."""
        text = self.optional_text(name)
        if not text:
            self._complain(name, "text in UTF-8, not empty")
        return text or ""

    def optional_text(self, name: str) -> str | None:
        content = self._contents.get(name)
        try:
            return None if content is None else content.decode()
        except UnicodeDecodeError:
            self._complain(name, "text in UTF-8")
            return None

    def number(
        self,
        name: str,
        *,
        at_least: int = 0,
        at_most: int = INT64_MAX,
        default: int | None = None,
    ) -> int:
        """A whole number in that range; a problem where it is missing and has no default."""
        content = self._contents.get(name)
        if content is None and default is not None:
            return default
        number = None if content is None else whole_number(content)
        if number is None or not at_least <= number <= at_most:
            self._complain(name, f"a whole number in decimal digits, {at_least} to {at_most}")
            return at_least
        return number

    def optional_number(self, name: str) -> int | None:
        return None if self._contents.get(name) is None else self.number(name)

    def names(self, name: str) -> tuple[str, ...]:
        """A list with commas; empty where it is missing. An empty text is one empty name."""
        text = self.optional_text(name)
        return () if text is None else tuple(text.split(","))

    def _complain(self, name: str, rule: str) -> None:
        content = self._contents.get(name)
        found = "is missing" if content is None else f"is {content[:40]!r}"
        problem = f"{name} {found}, must be {rule}"
        if not any(known.startswith(f"{name} ") for known in self.problems):
            self.problems.append(problem)
