"""Decides the outcome of a batch that brokers have refused in part."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile
from operator import attrgetter
from typing import TypeAlias

from linear_retry.kafka import KafkaError
from linear_retry.kafka.producers.acknowledged import TOO_LARGE
from linear_retry.records.record import OutgoingRecord
from linear_retry.store.records import StoredMessage

OF_THE_RECORD = TOO_LARGE | {KafkaError.INVALID_RECORD, KafkaError.INVALID_TIMESTAMP}
"""Errors that this record has at any time, and the next one of its lane may not have."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """These are written to Kafka."""

    messages: Sequence[StoredMessage]


@dataclass(frozen=True, slots=True)
class Narrowed:
    """Nothing of it is written; of this destination only these are to be sent the next time."""

    destination: str
    ids: frozenset[int]


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


Outcome: TypeAlias = Accepted | Narrowed | Held | Dead


def by_lane(messages: Iterable[StoredMessage]) -> list[list[StoredMessage]]:
    """Groups messages that are in the order of their lanes."""
    return [list(group) for _, group in groupby(messages, attrgetter("lane_id"))]


def outcomes(messages: Sequence[StoredMessage], refused: Mapping[int, KafkaError]) -> list[Outcome]:
    """Returns the outcome of the destinations of which messages were refused, by their places.

    Those of other destinations are sent once more as they are. A broker that refuses one record
    refuses the whole batch that it is in, with records of other lanes: so a message dies only when
    it was the only one of its destination.
    """
    found: list[Outcome] = []
    by_destination = defaultdict[str, list[list[StoredMessage]]](list)
    for lane in by_lane(messages):
        by_destination[lane[0].destination].append(lane)
    errors = {messages[place].id: error for place, error in refused.items()}
    for lanes in by_destination.values():
        if any(each.id in errors for lane in lanes for each in lane):
            found += _of_destination(lanes, errors)
    return found


def _of_destination(
    lanes: Sequence[Sequence[StoredMessage]], errors: Mapping[int, KafkaError]
) -> list[Outcome]:
    heads = [lane[0] for lane in lanes if lane[0].id in errors]
    held = [each for each in heads if errors[each.id].code() not in OF_THE_RECORD]
    if held:
        return [Held(each, error_text(errors[each.id])) for each in held]
    innocent = [each for lane in lanes for each in takewhile(lambda m: m.id not in errors, lane)]
    if innocent:
        return [_narrowed(innocent)]
    error = errors[heads[0].id]
    if sum(map(len, lanes)) == 1:
        return [Dead(heads[0], reason_of(error), error_text(error))]
    suspects = [each for lane in lanes for each in takewhile(lambda m: m.id in errors, lane)]
    return [_narrowed(suspects[: _half(suspects, error)])]


def _half(suspects: Sequence[StoredMessage], error: KafkaError) -> int:
    """How many to send first, at least one: what stands before the one of which size is to blame.

    Where nothing shows which it is, half of them.
    """
    sizes = [size_bytes(each) for each in suspects]
    largest = sizes.index(max(sizes))
    if error.code() in TOO_LARGE and (largest > 0 or 2 * sizes[0] > sum(sizes)):
        return max(1, largest)
    return max(1, len(suspects) // 2)


def size_bytes(message: StoredMessage | OutgoingRecord) -> int:
    """Returns the size of a message's contents, which is less than what it takes in a batch."""
    contents = [message.key, message.value, *(value for _, value in message.headers)]
    return sum(len(content or b"") for content in contents)


def _narrowed(messages: Sequence[StoredMessage]) -> Narrowed:
    return Narrowed(messages[0].destination, frozenset(each.id for each in messages))


def reason_of(error: KafkaError) -> str:
    """Returns the reason of a dead letter whose message the brokers have refused."""
    return "too-large" if error.code() in TOO_LARGE else "refused"


def error_text(error: KafkaError) -> str:
    """Formats the brokers' error for people."""
    return f"{error.str()} ({error.name()})"
