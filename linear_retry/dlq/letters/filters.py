"""Selects letters by reason, exception, origin, key, time and state."""

from collections.abc import Container
from dataclasses import dataclass

from linear_retry.dlq.letters.letter import Letter, State


@dataclass(frozen=True, slots=True)
class Filter:
    """Selects letters. All criteria must match; of several values of one, any.

    Of `headers` all must be present: a name and its whole value. `exceptions` are parts of type or
    message, whatever their case. `origins` are a topic and a partition, or None for all of its
    partitions. `since_ms` and `until_ms` apply to the time at which the letter was written, the
    latter exclusive. `keys` has None for letters without a key. `ids` are letters' ids, with or
    without `#generation`. `chosen` has the resolution keys of the selected letters, which may be
    too many for a tuple; None: all letters. `limit` is for readers: at most so many
    that match, the first that are read; a replay takes the oldest. `not_exceptions` and
    `not_origins` exclude what the same values in `exceptions` and `origins` would select. `ranges`
    are partitions of the dead-letter topic, each with a first and a last offset: nothing else is
    read.
    """

    reasons: tuple[str, ...] = ()
    exceptions: tuple[str, ...] = ()
    origins: tuple[tuple[str, int | None], ...] = ()
    keys: tuple[bytes | None, ...] = ()
    since_ms: int | None = None
    until_ms: int | None = None
    ids: tuple[str, ...] = ()
    headers: tuple[tuple[str, bytes], ...] = ()
    states: tuple[State, ...] = ()
    chosen: Container[str] | None = None
    limit: int | None = None
    not_exceptions: tuple[str, ...] = ()
    not_origins: tuple[tuple[str, int | None], ...] = ()
    ranges: tuple[tuple[int, int, int], ...] | None = None

    def matches(self, letter: Letter, state: State) -> bool:
        """Whether the filter selects `letter`, which is in this state."""
        return (
            (not self.states or state in self.states)
            and (self.since_ms is None or letter.timestamp_ms >= self.since_ms)
            and (self.until_ms is None or letter.timestamp_ms < self.until_ms)
            and (not self.reasons or letter.reason in self.reasons)
            and (not self.keys or letter.key in self.keys)
            and (self.ranges is None or _is_within(letter, self.ranges))
            and (self.chosen is None or letter.resolution_key in self.chosen)
            and (not self.ids or letter.id in self.ids or letter.resolution_key in self.ids)
            and (not self.origins or _is_from(letter, self.origins))
            and (not self.exceptions or _failed_with(letter, self.exceptions))
            and not (self.not_origins and _is_from(letter, self.not_origins))
            and not (self.not_exceptions and _failed_with(letter, self.not_exceptions))
            and all(header in letter.headers for header in self.headers)
        )


def _is_within(letter: Letter, ranges: tuple[tuple[int, int, int], ...]) -> bool:
    return any(
        letter.partition == partition and first <= letter.offset <= last
        for partition, first, last in ranges
    )


def _is_from(letter: Letter, origins: tuple[tuple[str, int | None], ...]) -> bool:
    origin = letter.origin
    return origin is not None and (
        (origin.topic, origin.partition) in origins or (origin.topic, None) in origins
    )


def _failed_with(letter: Letter, exceptions: tuple[str, ...]) -> bool:
    texts = [text.casefold() for text in (letter.exception_type, letter.exception_message) if text]
    return any(part.casefold() in text for part in exceptions for text in texts)


EVERYTHING = Filter()
