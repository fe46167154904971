"""The first version of the store."""

from alembic import op
from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Identity,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Text,
    UniqueConstraint,
    text,
)

revision = "0001"
down_revision = None

_ID = BigInteger().with_variant(Integer(), "sqlite")


def upgrade() -> None:
    """Creates all tables."""
    _setting()
    _lease()
    _instance()
    _lane()
    _message()
    _dead_letter()
    _inbox()
    _audit()


def _setting() -> None:
    op.create_table(
        "linear_retry_setting",
        Column("name", Text(), nullable=False),
        Column("value", Text(), nullable=False),
        PrimaryKeyConstraint("name"),
    )


def _lease() -> None:
    op.create_table(
        "linear_retry_lease",
        Column("service", Text(), nullable=False),
        Column("number", Integer(), nullable=False),
        Column("owner", Text()),
        Column("epoch", BigInteger(), nullable=False),
        Column("until_ms", BigInteger(), nullable=False),
        PrimaryKeyConstraint("service", "number"),
    )


def _instance() -> None:
    op.create_table(
        "linear_retry_instance",
        Column("service", Text(), nullable=False),
        Column("owner", Text(), nullable=False),
        Column("seen_ms", BigInteger(), nullable=False),
        PrimaryKeyConstraint("service", "owner"),
    )


def _lane() -> None:
    op.create_table(
        "linear_retry_lane",
        Column("id", _ID, Identity(always=True), nullable=False),
        Column("service", Text(), nullable=False),
        Column("destination", Text(), nullable=False),
        Column("slot", Text(), nullable=False),
        Column("lease", Integer(), nullable=False),
        Column("low_due_ms", BigInteger(), nullable=False),
        Column("hold_until_ms", BigInteger(), nullable=False),
        Column("failures", Integer(), nullable=False),
        Column("error", Text()),
        CheckConstraint("service in ('scheduler', 'outbox')"),
        PrimaryKeyConstraint("id"),
        UniqueConstraint("service", "destination", "slot"),
    )


def _message() -> None:
    op.create_table(
        "linear_retry_message",
        Column("id", _ID, Identity(always=True), nullable=False),
        Column("lane_id", BigInteger(), nullable=False),
        Column("due_ms", BigInteger(), nullable=False),
        Column("key", LargeBinary()),
        Column("value", LargeBinary()),
        Column("headers", LargeBinary(), nullable=False),
        Column("timestamp_ms", BigInteger()),
        Column("retry_id", Text(), nullable=False),
        Column("group_id", Text()),
        Column("origin", Text()),
        Column("stored_ms", BigInteger(), nullable=False),
        ForeignKeyConstraint(["lane_id"], ["linear_retry_lane.id"]),
        PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("linear_retry_message_due", "linear_retry_message", ["lane_id", "due_ms", "id"])
    op.create_index(
        "linear_retry_message_retry_id",
        "linear_retry_message",
        [text("substr(retry_id, 1, 256)")],
    )


def _dead_letter() -> None:
    op.create_table(
        "linear_retry_dead_letter",
        Column("id", _ID, Identity(always=True), nullable=False),
        Column("service", Text(), nullable=False),
        Column("destination", Text(), nullable=False),
        Column("partition", Integer()),
        Column("key", LargeBinary()),
        Column("value", LargeBinary()),
        Column("headers", LargeBinary(), nullable=False),
        Column("timestamp_ms", BigInteger()),
        Column("retry_id", Text(), nullable=False),
        Column("group_id", Text()),
        Column("origin", Text()),
        Column("reason", Text(), nullable=False),
        Column("error", Text(), nullable=False),
        Column("died_ms", BigInteger(), nullable=False),
        PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("linear_retry_dead_letter_died", "linear_retry_dead_letter", ["died_ms", "id"])
    op.create_index(
        "linear_retry_dead_letter_key",
        "linear_retry_dead_letter",
        [text("substr(key, 1, 256)")],
    )
    op.create_index(
        "linear_retry_dead_letter_retry_id",
        "linear_retry_dead_letter",
        [text("substr(retry_id, 1, 256)")],
    )


def _inbox() -> None:
    op.create_table(
        "linear_retry_inbox_place",
        Column("group_id", Text(), nullable=False),
        Column("topic_id", Text(), nullable=False),
        Column("partition", Integer(), nullable=False),
        Column("topic", Text(), nullable=False),
        Column("next_offset", BigInteger(), nullable=False),
        Column("leaving", BigInteger()),
        Column("leaving_lane", Text()),
        Column("epoch", BigInteger(), nullable=False),
        Column("owner", Text(), nullable=False),
        Column("ordered_by", Text(), nullable=False),
        PrimaryKeyConstraint("group_id", "topic_id", "partition"),
    )
    op.create_table(
        "linear_retry_inbox_key",
        Column("group_id", Text(), nullable=False),
        Column("topic_id", Text(), nullable=False),
        Column("partition", Integer(), nullable=False),
        Column("lane", Text(), nullable=False),
        Column("next_offset", BigInteger(), nullable=False),
        PrimaryKeyConstraint("group_id", "topic_id", "partition", "lane"),
    )
    op.create_table(
        "linear_retry_inbox_done",
        Column("group_id", Text(), nullable=False),
        Column("message_id", Text(), nullable=False),
        Column("done_ms", BigInteger(), nullable=False),
        PrimaryKeyConstraint("group_id", "message_id"),
    )
    op.create_index("linear_retry_inbox_done_ms", "linear_retry_inbox_done", ["done_ms"])


def _audit() -> None:
    op.create_table(
        "linear_retry_audit",
        Column("id", _ID, Identity(always=True), nullable=False),
        Column("at_ms", BigInteger(), nullable=False),
        Column("actor", Text(), nullable=False),
        Column("action", Text(), nullable=False),
        Column("count", BigInteger(), nullable=False),
        Column("details", Text(), nullable=False),
        PrimaryKeyConstraint("id"),
    )
    op.create_index("linear_retry_audit_at", "linear_retry_audit", ["at_ms", "id"])
