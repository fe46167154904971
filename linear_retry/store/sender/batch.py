"""Decides the outcome of a batch that brokers have refused in part."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import TypeAlias

from linear_retry.kafka import KafkaError
from linear_retry.kafka.producers.acknowledged import TOO_LARGE
from linear_retry.store.records import StoredMessage

_OF_THE_RECORD = TOO_LARGE | {KafkaError.INVALID_RECORD, KafkaError.INVALID_TIMESTAMP}
"""Errors that this record has at any time, and the next one of its lane may not have."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """These are written to Kafka."""

    messages: Sequence[StoredMessage]


@dataclass(frozen=True, slots=True)
class Shortened:
    """Nothing of it is written; only this many of the lane are to be sent the next time."""

    lane_id: int
    messages: int


@dataclass(frozen=True, slots=True)
class Held:
    """The lane's first message is refused, and may be accepted later."""

    first: StoredMessage
    error: str


@dataclass(frozen=True, slots=True)
class Dead:
    """A message that no topic with these settings will ever accept."""

    message: StoredMessage
    reason: str
    error: str


Outcome: TypeAlias = Accepted | Shortened | Held | Dead


def by_lane(messages: Iterable[StoredMessage]) -> list[list[StoredMessage]]:
    """Groups messages that are in the order of their lanes."""
    return [list(group) for _, group in groupby(messages, attrgetter("lane_id"))]


def outcomes(messages: Sequence[StoredMessage], refused: Mapping[int, KafkaError]) -> list[Outcome]:
    """Returns the outcome of the lanes of which messages were refused, by their places.

    Those of other lanes are sent once more as they are. A broker that refuses a batch for one of
    its records refuses all of them: so a first message is sent by itself before it dies.
    """
    found: list[Outcome] = []
    start = 0
    for lane in by_lane(messages):
        first = next((n for n in range(len(lane)) if start + n in refused), None)
        if first is not None:
            found.append(_outcome(lane, first, refused[start + first]))
        start += len(lane)
    return found


def _outcome(lane: Sequence[StoredMessage], first: int, error: KafkaError) -> Outcome:
    if first > 0:
        return Shortened(lane[0].lane_id, first)
    text = f"{error.str()} ({error.name()})"
    if error.code() not in _OF_THE_RECORD:
        return Held(lane[0], text)
    if len(lane) > 1:
        return Shortened(lane[0].lane_id, 1)
    return Dead(lane[0], "too-large" if error.code() in TOO_LARGE else "refused", text)
