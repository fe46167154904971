"""Rehearses a replay: what a handler makes of each letter, in the order of the replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple, Protocol

from linear_retry.dlq.rehearsal.handling import Attempted
from linear_retry.dlq.replay.outgoing import unpacked
from linear_retry.dlq.replay.plan import Plan
from linear_retry.records.record import Record
from linear_retry.records.text import ErrorText


class Verdict(StrEnum):
    """What a replay of the letter would come to."""

    SUCCEEDS = "would succeed"
    AS_BEFORE = "fails as before"
    OTHERWISE = "fails otherwise"


class Rehearsed(NamedTuple):
    """What came of one letter. `name` is its resolution key; `topic` to `offset` its origin.

    `before` is the type of the exception in the letter, `error` what the handler has raised now.
    `follows_failure`: an earlier letter of its key fails, which it would overtake in a replay.
    """

    name: str
    topic: str
    partition: int
    offset: int
    before: str | None
    error: ErrorText | None
    is_transient: bool
    follows_failure: bool

    @property
    def verdict(self) -> Verdict:
        """By the exception's type: its text may name the attempt, a time, or an address."""
        if self.error is None:
            return Verdict.SUCCEEDS
        return Verdict.AS_BEFORE if self.error.type == self.before else Verdict.OTHERWISE

    @property
    def may_be_replayed(self) -> bool:
        """Whether it would succeed, and overtake none of its key."""
        return self.error is None and not self.follows_failure


class CallsHandler(Protocol):
    """What calls the handler: a `HandlerProcess`."""

    @property
    def group_id(self) -> str:
        """The group of its consumer."""

    def attempt(self, record: Record) -> Attempted:
        """Calls it with the message, and returns what came of it."""


def rehearse(
    plan: Plan, handler: CallsHandler, before: Mapping[str, str | None], left_out: Counter[str]
) -> Iterator[Rehearsed]:
    """Yields what comes of each letter of `plan`, in order; `before` has the types by name.

    Nothing is sent, and nothing committed; what the handler itself does is real. Letters of other
    groups, which it is not for, are counted in `left_out`.
    """
    failed: set[tuple[int, bytes]] = set()
    for entry in plan.order:
        planned, message = plan.partitions[entry.source], unpacked(entry.content)
        group = message.group_in(planned.to_topic)
        if group not in ("", handler.group_id):
            left_out[group] += 1
            continue
        place = planned.to_topic, planned.to_partition or 0, entry.offset
        content = message.key, message.value, tuple(message.headers)
        attempted = handler.attempt(Record(*place, message.timestamp_ms, *content))
        lane = None if message.key is None else (entry.source, message.key)
        follows = lane in failed
        if attempted.error is not None and lane is not None:
            failed.add(lane)
        was, error = before.get(entry.name), attempted.error
        yield Rehearsed(entry.name, *place, was, error, attempted.is_transient, follows)
