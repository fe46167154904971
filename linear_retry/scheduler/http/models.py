"""What requests and answers look like: filters and pages in queries, and bodies in JSON."""

from collections.abc import Mapping
from dataclasses import asdict
from http import HTTPStatus
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from linear_retry.records.json_fields import from_json, to_json
from linear_retry.records.retry_headers import INT64_MAX
from linear_retry.records.text import Header
from linear_retry.records.topics.names import is_topic_name
from linear_retry.scheduler.changes import MOST_IDS
from linear_retry.store.listing.dead_letters import ListedDeadLetter as StoredListedDeadLetter
from linear_retry.store.listing.filters import DeadLetterFilter, MessageFilter, Place
from linear_retry.store.listing.messages import ListedMessage as StoredListedMessage
from linear_retry.store.records import Service, StoredDeadLetter, StoredMessage
from linear_retry.web.security.authentication import Actor, RefusedError

Text = Annotated[str, Field(max_length=1000)]
Id = Annotated[int, Field(ge=1, le=INT64_MAX)]
Ms = Annotated[int, Field(ge=0, le=INT64_MAX)]
Partition = Annotated[int, Field(ge=0, le=2**31 - 1, strict=True)]

# In JSON true is no number: taken for one, it is the record with the id 1.
_JsonId = Annotated[Id, Field(strict=True)]
_JsonMs = Annotated[Ms, Field(strict=True)]

HeaderName = Annotated[str, Field(min_length=1, max_length=1000, pattern=r"^[^\x00]*$")]
MOST_IN_PAGE = 500
_PAGING = {"after", "limit"}


def _topic(name: str) -> str:
    if not is_topic_name(name):
        raise ValueError("must be the name of a topic")
    return name


Topic = Annotated[str, Field(max_length=249), AfterValidator(_topic)]


class Strict(BaseModel):
    """Refuses fields that it does not know: a misspelled filter would select everything."""

    model_config = ConfigDict(extra="forbid")


def _base64(digits: str) -> str:
    from_json({"base64": digits})
    return digits


Base64Digits = Annotated[str, AfterValidator(_base64)]


class Base64(Strict):
    """Bytes that are not UTF-8."""

    base64: Base64Digits


Content = str | Base64 | None
"""A key or a value: text if it is UTF-8."""


class Payload(BaseModel):
    """The parts of a record that only operators see."""

    key: Content
    value: Content
    headers: list[tuple[str, Content]]
    timestamp_ms: int | None
    """The record's own; null: the time of sending."""


class _About(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    id: int
    service: Service
    destination: str
    retry_id: str
    group_id: str | None
    origin: str | None
    """topic[partition]@offset in the intake topic; null for an outbox."""


class _Listed(BaseModel):
    key: Content = None
    """Null for a viewer."""
    value_bytes: int | None
    """Null is a tombstone."""


class Message(_About):
    """A message that waits."""

    slot: str
    """What is sent in order: the partition, or a slot of keys."""
    due_ms: int
    stored_ms: int


class ListedMessage(Message, _Listed):
    """A message that waits, with the state of its lane."""

    hold_until_ms: int
    """Until when its lane is on hold; in the past: it is not."""
    error: str | None
    """Why the lane was held last."""


class WholeMessage(Message):
    """A message that waits, with its payload; null for a viewer."""

    payload: Payload | None = None


class DeadLetter(_About):
    """A message that no retry can save."""

    partition: int | None
    """Null: by key."""
    reason: str
    error: str
    died_ms: int


class ListedDeadLetter(DeadLetter, _Listed):
    """A dead letter."""


class WholeDeadLetter(DeadLetter):
    """A dead letter, with its payload; null for a viewer."""

    payload: Payload | None = None


class Messages(BaseModel):
    """A page; `next` begins the following one, and is null on the last."""

    messages: list[ListedMessage]
    next: str | None


class DeadLetters(BaseModel):
    """A page; `next` begins the following one, and is null on the last."""

    dead_letters: list[ListedDeadLetter]
    next: str | None


class Selection(BaseModel):
    """How many records a filter selects, and the ids of the first 10,000: a change is of ids.

    They are counted up to 100,000: of ten million a count takes longer than the store may.
    """

    count: int
    ids: list[int]


class Chosen(Strict):
    """The records of a change, by id, and why it is made. Those that are gone are left out."""

    ids: Annotated[list[_JsonId], Field(min_length=1, max_length=MOST_IDS)]
    comment: Text = ""


class Postponed(Chosen):
    """The records that wait until another time."""

    due_ms: _JsonMs


class Edited(Strict):
    """The parts to replace; those that are left out stay as they are."""

    destination: Topic = ""
    partition: Partition | None = None
    key: Content = None
    value: Content = None
    headers: list[tuple[HeaderName, Content]] = []
    comment: Text = ""


class Changed(BaseModel):
    """How many records have changed, and how many were gone: sent, deleted or forwarded.

    `due`: how many of those to postpone, to delete or to give up were due, and so may be in a batch
    that is being sent: what is in one comes all the same.
    """

    changed: int
    gone: int
    due: int = 0


class Forwarded(BaseModel):
    """The new id that an edited message is known by."""

    retry_id: str


class _Counted(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    destination: str


class Waiting(_Counted):
    """The messages that wait for one destination; `oldest_due_ms` is the first one's due time.

    `is_more`: at most 10,000 of a lane are counted, and it may have more.
    """

    waiting: int
    due: int
    is_more: bool
    oldest_due_ms: int


class Held(_Counted):
    """A lane on hold: a destination's partition, or a slot of its keys."""

    slot: str
    hold_until_ms: int
    failures: int
    error: str | None


class Dead(BaseModel):
    """The dead letters of one reason whose errors begin alike."""

    model_config = ConfigDict(from_attributes=True)

    reason: str
    error: str
    count: int


class Statistics(BaseModel):
    """What the store holds of one service; `dead` has the 100 most frequent errors."""

    waiting: list[Waiting]
    held: list[Held]
    dead: list[Dead]


class Change(BaseModel):
    """An entry of the audit."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    at_ms: int
    actor: str
    action: str
    count: int
    details: dict[str, Any]


class Audit(BaseModel):
    """Changes, the latest first."""

    changes: list[Change]


def listed(stored: StoredListedMessage | StoredListedDeadLetter, *, keys: bool) -> dict[str, Any]:
    """Returns the fields of a listed record, without its key if that is not to be seen."""
    return asdict(stored) | {"key": to_json(stored.key) if keys else None}


def changed(given: Chosen, count: int, due: int = 0) -> Changed:
    """Returns the answer to a change of `count` records, of which that many were due."""
    return Changed(changed=count, gone=len(set(given.ids)) - count, due=due)


def payload_of(stored: StoredMessage | StoredDeadLetter) -> Payload:
    """Returns what operators see."""
    return Payload.model_validate(
        {
            "key": to_json(stored.key),
            "value": to_json(stored.value),
            "headers": [(name, to_json(value)) for name, value in stored.headers],
            "timestamp_ms": stored.timestamp_ms,
        }
    )


def replaced(edited: Edited) -> Mapping[str, Any]:
    """Returns the fields of a record to replace."""
    given = edited.model_dump(exclude_unset=True, exclude={"comment"})
    for name in given.keys() & {"key", "value"}:
        given[name] = from_json(given[name])
    if "headers" in given:
        given["headers"] = _headers(given["headers"])
    return given


def _headers(written: Any) -> tuple[Header, ...]:
    return tuple((name, from_json(value)) for name, value in written)


class _Query(Strict):
    """Left out is everything."""

    service: Service | None = None
    destination: Text | None = None
    group_id: Text | None = None
    retry_id: Text | None = None
    key: Text | None = None
    key_base64: Base64Digits | None = None
    """In place of `key`, for one that is not UTF-8."""
    error: Text | None = None
    """A part of the error's text, in upper or lower case; of a message, that of its lane."""
    since_ms: Ms | None = None
    until_ms: Ms | None = None
    """Exclusive."""

    @model_validator(mode="after")
    def _one_key(self) -> Self:
        if self.key is not None and self.key_base64 is not None:
            raise ValueError("give key or key_base64, not both")
        return self

    def check(self, by: Actor) -> None:
        """Raises `RefusedError` if the actor may not ask for it: who asks by key guesses keys."""
        if (self.key is not None or self.key_base64 is not None) and not by.sees_payloads:
            raise RefusedError(
                HTTPStatus.FORBIDDEN, f"{by.name} is a {by.role}: keys are for operators"
            )

    def _fields(self) -> dict[str, Any]:
        fields = self.model_dump(exclude={"key", "key_base64", *_PAGING})
        written = self.key if self.key_base64 is None else {"base64": self.key_base64}
        return fields | {"key": from_json(written)}


class MessageQuery(_Query):
    """Which messages; the times are those at which they are due."""

    is_held: bool | None = None
    """Whether their lane is on hold now."""

    def filter(self) -> MessageFilter:
        """Returns the store's filter."""
        return MessageFilter(**self._fields())


class DeadLetterQuery(_Query):
    """Which dead letters; the times are those at which they died."""

    reason: Text | None = None

    def filter(self) -> DeadLetterFilter:
        """Returns the store's filter."""
        return DeadLetterFilter(**self._fields())


def _within_64_bits(after: str) -> str:
    if max(map(int, after.split("."))) > INT64_MAX:
        raise ValueError("must be `next` of the page before")
    return after


_After = Annotated[
    str, Field(pattern=r"^[0-9]{1,19}\.[0-9]{1,19}$"), AfterValidator(_within_64_bits)
]


class _Page(Strict):
    after: _After | None = None
    """`next` of the page before."""
    limit: Annotated[int, Field(ge=1, le=MOST_IN_PAGE)] = 100

    def place(self) -> Place | None:
        """Returns the place behind which the page begins."""
        return None if self.after is None else Place(*map(int, self.after.split(".")))


class MessagePage(MessageQuery, _Page):
    """A page of messages, the first due first."""


class DeadLetterPage(DeadLetterQuery, _Page):
    """A page of dead letters, the latest first."""


def next_of(places: list[Place], limit: int) -> str | None:
    """Returns where the next page begins; None after the last one."""
    return f"{places[-1].time_ms}.{places[-1].id}" if len(places) == limit else None
