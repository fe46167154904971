"""The tables of the store: one schema for the scheduler, the outbox, the inbox, dead letters."""

from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ColumnElement,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    func,
    literal_column,
)

from linear_retry.records.text import valid_unicode

# SQLite counts up only where the key is an INTEGER; it is 64 bits wide there.
_ID = BigInteger().with_variant(Integer(), "sqlite")


class StoredText(TypeDecorator[str]):
    """Text that a record may bring: PostgreSQL refuses a NUL, and UTF-8 a lone surrogate."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, _: Any) -> str | None:
        return None if value is None else stored_text(value)


def stored_text(text: str) -> str:
    """Returns `text` as the store keeps it, and as it must be compared with what is stored."""
    # A question of microseconds, and of millions of rows: most texts are ASCII.
    if text.isascii():
        return text.replace("\0", "\ufffd")
    return valid_unicode(text).replace("\0", "\ufffd")


metadata = MetaData()
"""Their names begin with `linear_retry_`: they may stand beside an application's own."""


def _id() -> Column[int]:
    return Column("id", _ID, Identity(always=True), primary_key=True)


def _payload() -> tuple[Column[bytes], ...]:
    """The record's own parts, byte for byte; `headers` as `header_bytes` writes them."""
    return (
        Column("key", LargeBinary),
        Column("value", LargeBinary),
        Column("headers", LargeBinary, nullable=False),
    )


def _about() -> tuple[Column[str], ...]:
    """What people search by: taken from the retry headers, where there are any."""
    return (
        Column("retry_id", StoredText, nullable=False),
        Column("group_id", StoredText),
        Column(
            "origin", StoredText
        ),  # topic[partition]@offset in the intake topic; null in an outbox
    )


setting = Table(
    "linear_retry_setting",
    metadata,
    Column("name", StoredText, primary_key=True),
    Column("value", StoredText, nullable=False),
)
"""What is fixed for the store's life: the cluster it sends to, and its own id."""

lease = Table(
    "linear_retry_lease",
    metadata,
    Column("service", StoredText, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("owner", StoredText),
    Column("epoch", BigInteger, nullable=False),
    Column("until_ms", BigInteger, nullable=False),
)
"""One row for each group of lanes, held by one instance at a time; `epoch` counts the owners."""

instance = Table(
    "linear_retry_instance",
    metadata,
    Column("service", StoredText, primary_key=True),
    Column("owner", StoredText, primary_key=True),
    Column("seen_ms", BigInteger, nullable=False),
)
"""The instances that send, each with the time of its last sign of life."""

lane = Table(
    "linear_retry_lane",
    metadata,
    _id(),
    Column("service", StoredText, nullable=False),
    Column("destination", StoredText, nullable=False),
    Column("slot", StoredText, nullable=False),
    Column("lease", Integer, nullable=False),
    Column("low_due_ms", BigInteger, nullable=False),
    Column("hold_until_ms", BigInteger, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("error", StoredText),
    UniqueConstraint("service", "destination", "slot"),
    CheckConstraint("service in ('scheduler', 'outbox')"),
)
"""What is sent in order: a destination's partition, or a slot of its keys.

No message of the lane is due before `low_due_ms`: the search for the next one begins there, beyond
the index entries of those that are gone, which an old snapshot keeps alive.
"""

message = Table(
    "linear_retry_message",
    metadata,
    _id(),
    Column("lane_id", BigInteger, ForeignKey(lane.c.id), nullable=False),
    Column("due_ms", BigInteger, nullable=False),
    *_payload(),
    Column("timestamp_ms", BigInteger),
    *_about(),
    Column("stored_ms", BigInteger, nullable=False),
    # Not on due_ms alone: a lane that is held would have to be read over by every search.
    Index("linear_retry_message_due", "lane_id", "due_ms", "id"),
    # SQLite would give the number of a row that is gone, which an operator has seen, to a new one.
    sqlite_autoincrement=True,
)
"""Messages that wait; the row is deleted once the message is acknowledged."""

dead_letter = Table(
    "linear_retry_dead_letter",
    metadata,
    _id(),
    Column("service", StoredText, nullable=False),
    Column("destination", StoredText, nullable=False),  # "" where the record named none
    Column("partition", Integer),
    *_payload(),
    Column("timestamp_ms", BigInteger),
    *_about(),
    Column("reason", StoredText, nullable=False),
    Column("error", StoredText, nullable=False),
    Column("died_ms", BigInteger, nullable=False),
    Index("linear_retry_dead_letter_died", "died_ms", "id"),
    sqlite_autoincrement=True,
)
"""Messages that no retry can save; the migrations add an index for the search in `error`."""

_START = 256


def start_of(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """The part of a key or an id that is in an index, as each statement must have it.

    A B-tree of PostgreSQL refuses a row whose indexed value is longer than 2.7 kB. A hash index
    takes it, but each message with a key that 1,000,000 others have takes milliseconds.
    """
    length: ColumnElement[int] = literal_column(str(_START))
    first: ColumnElement[int] = literal_column("1")
    return func.substr(column, first, length, type_=column.type)


def is_equal(column: ColumnElement[Any], wanted: str | bytes) -> ColumnElement[bool]:
    """The condition that a key or an id is `wanted`, found by its index."""
    text = stored_text(wanted) if isinstance(wanted, str) else wanted
    # Not `column == text`: SQLite would put that into the other condition, which has an index.
    rest = func.substr(column, _START + 1, type_=column.type)
    return (start_of(column) == text[:_START]) & (rest == text[_START:])


Index("linear_retry_message_retry_id", start_of(message.c.retry_id))
Index("linear_retry_dead_letter_retry_id", start_of(dead_letter.c.retry_id))
Index("linear_retry_dead_letter_key", start_of(dead_letter.c.key))

inbox_place = Table(
    "linear_retry_inbox_place",
    metadata,
    Column("group_id", StoredText, primary_key=True),
    Column("topic_id", StoredText, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("topic", StoredText, nullable=False),
    Column("next_offset", BigInteger, nullable=False),  # -1: nothing was handled yet
    Column("leaving", BigInteger),
    Column("leaving_lane", StoredText),
    Column("epoch", BigInteger, nullable=False),
    Column("owner", StoredText, nullable=False),
    Column("ordered_by", StoredText, nullable=False),  # empty: the partition
)
"""Where a consumer continues; written in the transaction that has the handler's effect.

`epoch` counts the owners. The letter of the message at `leaving` may have been sent.
"""

inbox_key = Table(
    "linear_retry_inbox_key",
    metadata,
    Column("group_id", StoredText, primary_key=True),
    Column("topic_id", StoredText, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("lane", StoredText, primary_key=True),
    Column("next_offset", BigInteger, nullable=False),
)
"""How far each key of a partition is done beyond its place; where keys are the order."""

inbox_done = Table(
    "linear_retry_inbox_done",
    metadata,
    Column("group_id", StoredText, primary_key=True),
    Column("message_id", StoredText, primary_key=True),
    Column("done_ms", BigInteger, nullable=False),
    Index("linear_retry_inbox_done_ms", "done_ms"),
)
"""Messages that were handled after a replay or a retry: a second one of the same is not."""

audit = Table(
    "linear_retry_audit",
    metadata,
    _id(),
    Column("at_ms", BigInteger, nullable=False),
    Column("actor", StoredText, nullable=False),
    Column("action", StoredText, nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("details", StoredText, nullable=False),  # JSON
    Index("linear_retry_audit_at", "at_ms", "id"),
)
"""Every change by a person: who, when, what and why."""
