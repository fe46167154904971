"""The tables of the store: one schema for the scheduler, the outbox and their dead letters."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

# SQLite counts up only where the key is an INTEGER; it is 64 bits wide there.
_ID = BigInteger().with_variant(Integer(), "sqlite")

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
        Column("retry_id", Text, nullable=False),
        Column("group_id", Text),
        Column("origin", Text),  # topic[partition]@offset in the intake topic; null in an outbox
    )


setting = Table(
    "linear_retry_setting",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
"""What is fixed for the store's life: the cluster it sends to, and its own id."""

lease = Table(
    "linear_retry_lease",
    metadata,
    Column("service", Text, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("owner", Text),
    Column("epoch", BigInteger, nullable=False),
    Column("until_ms", BigInteger, nullable=False),
)
"""One row for each group of lanes, held by one instance at a time; `epoch` counts the owners."""

instance = Table(
    "linear_retry_instance",
    metadata,
    Column("service", Text, primary_key=True),
    Column("owner", Text, primary_key=True),
    Column("seen_ms", BigInteger, nullable=False),
)
"""The instances that send, each with the time of its last sign of life."""

lane = Table(
    "linear_retry_lane",
    metadata,
    _id(),
    Column("service", Text, nullable=False),
    Column("destination", Text, nullable=False),
    Column("slot", Text, nullable=False),
    Column("lease", Integer, nullable=False),
    Column("low_due_ms", BigInteger, nullable=False),
    Column("hold_until_ms", BigInteger, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("error", Text),
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
    Index("linear_retry_message_retry_id", "retry_id"),
)
"""Messages that wait; the row is deleted once the message is acknowledged."""

dead_letter = Table(
    "linear_retry_dead_letter",
    metadata,
    _id(),
    Column("service", Text, nullable=False),
    Column("destination", Text, nullable=False),  # "" where the record named none
    Column("partition", Integer),
    *_payload(),
    Column("timestamp_ms", BigInteger),
    *_about(),
    Column("reason", Text, nullable=False),
    Column("error", Text, nullable=False),
    Column("died_ms", BigInteger, nullable=False),
    Index("linear_retry_dead_letter_died", "died_ms", "id"),
    Index("linear_retry_dead_letter_retry_id", "retry_id"),
    Index("linear_retry_dead_letter_key", "key"),
)
"""Messages that no retry can save; the migrations add an index for the search in `error`."""

position = Table(
    "linear_retry_position",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("topic", Text, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("next_offset", BigInteger, nullable=False),
)
"""Where the intake continues; written in the transaction that inserts the messages before it."""

audit = Table(
    "linear_retry_audit",
    metadata,
    _id(),
    Column("at_ms", BigInteger, nullable=False),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("details", Text, nullable=False),  # JSON
    Index("linear_retry_audit_at", "at_ms", "id"),
)
"""Every change by a person: who, when, what and why."""
