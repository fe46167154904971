"""Selects letters of an index."""

from dataclasses import dataclass

from linear_retry.dlq.letters.letter import State

SHORTEST_TEXT = 3
"""Characters: a shorter one is in no index, and among a million letters takes seconds."""

DONE = tuple(each for each in State if each.is_done)
"""The states of letters about which nothing is left to be done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFilter:
    """Which letters. All criteria must match; None matches every letter.

    `error`, the exception's type, and `pattern`, its message without numbers and ids, are those of
    a group. `text` is a part of type or message, whatever the case of its ASCII letters. `origin`
    is the topic that the message came from. `not_text` and `not_origin` exclude what the same
    values of `text` and `origin` would select, `not_text` whatever the white space between words.
    `no_key` selects letters without a key, and with `key` these as well. `header` is a name without
    `=`, and a whole value. `since_ms` and `until_ms` apply to the time at which the letter was
    written, the latter exclusive. `name` is a letter's id, with all its generations.
    `states` are any of these; empty: all.
    """

    error: str | None = None
    pattern: str | None = None
    text: str | None = None
    not_text: str | None = None
    key: bytes | None = None
    no_key: bool = False
    header: tuple[str, bytes] | None = None
    group_id: str | None = None
    origin: str | None = None
    not_origin: str | None = None
    reason: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    name: str | None = None
    states: tuple[State, ...] = (State.OPEN,)

    @property
    def asks_for_content(self) -> bool:
        """Whether it would tell a viewer, who sees no keys and headers, which there are."""
        return self.key is not None or self.no_key or self.header is not None

    @property
    def of_kind(self) -> dict[str, str]:
        """The criteria that a kind of letters matches as a whole, by column."""
        names = ("error", "pattern", "group_id", "origin", "reason")
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    @property
    def is_of_kinds(self) -> bool:
        """Whether there is no other criterion, but for states."""
        others = (self.text, self.not_text, self.since_ms, self.until_ms, self.name)
        return not self.asks_for_content and all(value is None for value in others)


@dataclass(frozen=True, slots=True)
class Selection:
    """The letters that a filter selected at a moment: those that were counted.

    Letters that come later are not among them. `epoch` is the index's: one that was built again
    gives its letters other numbers.
    """

    topic: str
    filter: LetterFilter
    count: int
    epoch: str
    last_id: int
