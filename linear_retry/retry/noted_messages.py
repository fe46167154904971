"""Says of each message from a committed offset on whether the note beside it counts it as done."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal, TypeAlias

from linear_retry.records.commit_note import CommitNote, Digests, NotedFailures, Undone

Judgement: TypeAlias = Literal["done", "undone", "doubt"]


class NotedMessages:
    """One partition's `note`, asked about its messages in offset order.

    Its base is where they are read from again if it turns out to be about another log, and from
    `frontier` on nothing is done. The note decides, not the reader's settings: a message is done
    only if all owners before would have said so.
    """

    def __init__(self, note: CommitNote, digests: Digests) -> None:
        self.note = note
        self._digests = digests
        self.frontier = note.frontier
        self._undone: list[Undone] = []
        self._take(note.undone)

    def _take(self, undone: Iterable[Undone]) -> None:
        self._undone = sorted(undone, key=lambda one: one.offset)
        self._at: dict[int, list[Undone]] = {}
        self._keys: dict[bytes, int] = {}
        self._unkeyed: int | None = None
        for one in self._undone:
            if one.is_there:
                self._at.setdefault(one.offset, []).append(one)
            if one.kind == "key":
                # Of two keys with one digest the lowest place counts.
                self._keys.setdefault(one.digest, one.offset)
            elif one.kind == "unkeyed" and self._unkeyed is None:
                self._unkeyed = one.offset

    def judge(
        self,
        offset: int,
        key: bytes | None,
        timestamp_ms: int | None,
        leader_epoch: int | None,
        *,
        order: bytes | None,
    ) -> Judgement:
        """Says of the message at `offset` whether it is done; `order` is the key of its order.

        `doubt`: it is at a place where the note has another, so the note is about another log.
        """
        known = self.note.leader_epoch
        if known is not None and leader_epoch is not None and leader_epoch > known:
            # The log was cut below, and these have come since: nothing is passed over any more.
            self.frontier = min(self.frontier, offset)
        if offset < self.note.base:
            return "undone"
        if (there := self._at.get(offset)) is not None:
            matches = all(self._matches(one, key, timestamp_ms, order) for one in there)
            return "undone" if matches else "doubt"
        if offset >= self.frontier:
            return "undone"
        place = self._unkeyed if order is None else self._keys.get(self._digests.of_key(order))
        return "done" if place is None or offset < place else "undone"

    def failures_at(self, offset: int) -> NotedFailures | None:
        """Returns the failures of the message at `offset`."""
        found = (one.failures for one in self._at.get(offset, ()) if one.failures is not None)
        return max(found, key=lambda each: each.count, default=None)

    def forget_failures(self, offset: int) -> None:
        """Forgets those of the message at `offset`: from there on its owner counts."""
        self._take(
            replace(one, failures=None) if one.offset == offset else one for one in self._undone
        )

    def left(self, offset: int) -> CommitNote | None:
        """Returns what is still to be said beside a commit of `offset`; None: nothing.

        What was not reached is carried as it is; a key of which the next message is not known yet
        begins at `offset`.
        """
        if offset < self.note.base:
            return None  # the log was cut, and what was done is to be handled again
        frontier = max(self.frontier, offset)
        lifted = (_lifted(one, offset) for one in self._undone)
        undone = [one for one in lifted if one is not None]
        if frontier == offset:
            undone = [one for one in undone if one.failures is not None]
        if frontier == offset and not undone:
            return None
        return replace(self.note, base=offset, frontier=frontier, undone=tuple(undone))

    def _matches(
        self, one: Undone, key: bytes | None, timestamp_ms: int | None, order: bytes | None
    ) -> bool:
        match one.kind:
            case "message":
                return one.digest == self._digests.of_message(key, timestamp_ms)
            case "key":
                return order is not None and one.digest == self._digests.of_key(order)
            case "unkeyed":
                return order is None


def _lifted(one: Undone, offset: int) -> Undone | None:
    """Returns what is left of it from `offset` on."""
    if one.offset >= offset:
        return one
    if one.kind == "message":
        return None
    return replace(one, offset=offset, failures=None, is_there=False)
