"""Counts letters that are alike, by the fields that a user names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeAlias

from linear_retry.dlq.letters.letter import Letter, State

DIFFERENT_AT_MOST = 100_000

_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999  # the years 1 to 9999

Trait: TypeAlias = Callable[[Letter, State], str | None]


def _time(length: int) -> Trait:
    def of(letter: Letter, _: State) -> str | None:
        at_ms = letter.timestamp_ms
        if at_ms == -1 or not _FIRST_MS <= at_ms <= _LAST_MS:
            return None
        return datetime.fromtimestamp(at_ms // 1000, UTC).isoformat(" ")[:length]

    return of


def _partition(letter: Letter, _: State) -> str | None:
    origin = letter.origin
    if origin is None or origin.partition is None:
        return None
    return f"{origin.topic}[{origin.partition}]"


TRAITS: Mapping[str, Trait] = {
    "exception": lambda letter, _: letter.exception_type,
    "message": lambda letter, _: letter.exception_message,
    "origin": lambda letter, _: None if letter.origin is None else letter.origin.topic,
    "partition": _partition,
    "reason": lambda letter, _: letter.reason,
    "group": lambda letter, _: letter.group_id,
    "state": lambda _, state: state.value,
    "format": lambda letter, _: letter.format,
    "key": lambda letter, _: None if letter.key is None else text_of(letter.key),
    "day": _time(10),
    "hour": _time(13),
}
"""In what letters may be alike, by name. None: the letter says nothing of it."""


def text_of(content: bytes) -> str:
    """As text where it is UTF-8, else in hexadecimal digits."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return f"0x{content.hex()}"


Group: TypeAlias = tuple[str | None, ...]


class Counts:
    """How often each group was seen. Memory is bounded: from the first hundred thousand different
    groups on, those that are new are counted together in `others`.
    """

    def __init__(self, different_at_most: int = DIFFERENT_AT_MOST) -> None:
        self._counts: Counter[Group] = Counter()
        self._at_most = different_at_most
        self.others = 0

    def add(self, group: Group) -> None:
        if group in self._counts or len(self._counts) < self._at_most:
            self._counts[group] += 1
        else:
            self.others += 1

    def most(self, at_most: int | None = None) -> list[tuple[Group, int]]:
        """The groups with their counts, the largest first; equal ones by their names."""
        found = sorted(self._counts.items(), key=lambda each: (-each[1], _sortable(each[0])))
        return found[:at_most]

    def __len__(self) -> int:
        return len(self._counts)


def count(letters: Iterable[tuple[Letter, State]], traits: Sequence[str]) -> Counts:
    """How many letters are alike in all of these traits, which are names in `TRAITS`."""
    read = [TRAITS[name] for name in traits]
    counts = Counts()
    for letter, state in letters:
        counts.add(tuple([trait(letter, state) for trait in read]))
    return counts


def _sortable(group: Group) -> tuple[str, ...]:
    return tuple(part or "" for part in group)
