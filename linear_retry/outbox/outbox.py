"""The outbox: produces messages, and stores what cannot be sent."""

import itertools
import os
import time
import uuid
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from linear_retry.errors import ConfigurationError, LinearRetryError, UsageError
from linear_retry.kafka.consumer.settings import Config
from linear_retry.kafka.producers.direct import DirectProducer, OnDelivery, Report
from linear_retry.kafka.producers.direct_settings import direct_settings
from linear_retry.outbox.held_lanes import HeldLanes
from linear_retry.outbox.keeper import Keeper
from linear_retry.outbox.message import (
    AS_IS,
    Headers,
    Recover,
    content,
    header_list,
    partition_number,
    reported,
    timestamp_number,
)
from linear_retry.outbox.outbox_sender import OutboxSender, SenderThread
from linear_retry.outbox.sending import Sending
from linear_retry.outbox.status import OutboxCounts, OutboxHealth, health_of
from linear_retry.outbox.storing import Storing
from linear_retry.outbox.transaction import Transactions
from linear_retry.retry.callables import UndoneError, check_result, why_not
from linear_retry.store import lanes
from linear_retry.store.database import Database
from linear_retry.store.listing.statistics import HeldLane
from linear_retry.store.migrations import check_version, migrate
from linear_retry.store.records import OnRefused
from linear_retry.store.sender.identity import store_id
from linear_retry.strategy.strategy import Strategy

_STRATEGY = Strategy([3, 3, 3])
_SLICE_S = 0.1  # Ctrl-C takes effect between two calls into librdkafka, not inside one


class Outbox:
    """A producer that stores what Kafka does not take, and sends it later, in order.

    A message is durable once its `on_delivery` or `flush` says so: Kafka has it, or the store. Each
    has a header `retry-message-id`; one that may have reached Kafka although its acknowledgement
    did not come is sent again, with the same id. Of one key, the first copies are in the order of
    `produce`, within one `Outbox`. Threads may share it; a forked child may not use it.
    """

    def __init__(
        self,
        config: Config,
        *,
        store: str | None = None,
        schema: str | None = None,
        strategy: Strategy | None = None,
        on_refused: OnRefused = "hold",
        sender: bool = True,
        recover: Recover | None = None,
    ) -> None:
        """Connects to the store; to Kafka in the background.

        `config`: keys of librdkafka's producer. A message that is not acknowledged within
        `message.timeout.ms`, here 10 s by default, is stored. `store` and `schema`: as `Database`
        takes them; a SQLite file gets its tables here, PostgreSQL must have them.

        `strategy`: the waits of a stored message that its topic does not take; 3 s, three times, by
        default. `on_refused="hold"`: then the last wait again and again, and what comes after it in
        its lane waits too, until the topic takes it or somebody edits it or gives it up. With
        `"dead-letter"` it is a dead letter of the store after the last wait, or at once if it is
        refused for what it is, such as its size, and what comes after it is sent. While the brokers
        are away nothing counts as refused. `sender=False`: another process sends what is stored,
        such as `linear-retry outbox run`, and `strategy` and `on_refused` are its own.

        A message that the store does not take is kept, and stored as soon as it does. `recover` is
        called, from the outbox's own thread, with one that was not stored within
        `message.timeout.ms` either, and the store's error; if it raises, that is logged.

        Raises `ConfigurationError`, `StoreVersionError`, and `StoreError` if the store cannot be
        reached.
        """
        refusal = None if recover is None else why_not(recover, 2)
        if refusal is not None:
            raise ConfigurationError(
                f"recover={recover!r}: not a function of a message and its error ({refusal}); give "
                "a plain function of these two"
            )
        settings = direct_settings(config)
        self._is_forked = self._is_closed = self._is_unusable = False
        self._ended_by: Exception | None = None
        os.register_at_fork(after_in_child=_noting_fork(weakref.ref(self)))
        self._reports: deque[Report] = deque()
        self._database = Database(store, schema=schema)
        self._outbox_sender = OutboxSender(
            self._database, config, strategy or _STRATEGY, on_refused
        )
        waiting, own_id = opened(self._database)
        self._transactions = Transactions(self._database, own_id)
        self._id_prefix = uuid.uuid4().hex.encode() + b"-"
        self._next_number = itertools.count(1).__next__
        self._sending = Sending(
            lambda: DirectProducer(settings.config, self._reports),
            HeldLanes(waiting),
            self._next_number,
            queue_messages=settings.queue_messages,
            largest_bytes=settings.largest_bytes,
        )
        self._storing = Storing(
            self._database,
            self._reports,
            timeout_s=settings.timeout_s,
            recover=recover,
            lanes=waiting,
        )
        self._keeper = Keeper(
            self._sending, self._storing, self._database, timeout_s=settings.timeout_s
        )
        thread = SenderThread(self._outbox_sender, str(self._database), self._end)
        self._sender = thread if sender else None
        self._keeper.start()
        if self._sender is not None:
            self._sender.start()

    def produce(
        self,
        topic: str,
        value: bytes | str | None = None,
        key: bytes | str | None = None,
        *,
        headers: Headers = (),
        partition: int | None = None,
        timestamp: int | None = None,
        retry: bool = True,
        on_delivery: OnDelivery | None = None,
    ) -> None:
        """Sends a message, or stores it. Never waits for either.

        `timestamp`: ms since 1970; None is now. `retry=False`: it is never stored, and keeps no
        order with those that are. `on_delivery(error, message)` is called by `poll`, `flush` or
        `close`: with `error` None once the message is durable, else a `KafkaError` or, if it could
        not be stored, the store's exception; `message` is an `OutboxMessage`.

        Raises `BufferError` if too many messages wait, `KafkaException` for one beyond
        `message.max.bytes`, `UsageError` for one that no record can be, such as a value that has
        no bytes, for a topic that no broker accepts, after `close` or in a forked child, and
        `ConfigurationError` once it is known that the store's messages cannot be sent to this
        cluster, as they belong to another.
        """
        if self._is_unusable:
            raise self._unusable()
        if type(value) not in AS_IS:
            value = content(value, "value")
        if type(key) not in AS_IS:
            key = content(key, "key")
        number = self._next_number()
        unsent = (
            topic,
            value,
            key,
            -1 if partition is None else partition_number(partition),
            timestamp_number(timestamp) if timestamp else 0,
            header_list(headers) if headers else (),
            b"%b%d" % (self._id_prefix, number),
            retry,
            on_delivery,
        )
        self._sending.send(number, unsent)

    def add(
        self,
        transaction: Any,
        topic: str,
        value: bytes | str | None = None,
        key: bytes | str | None = None,
        *,
        headers: Headers = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> str:
        """Stores a message in `transaction`: it is sent if that is committed, and only then.

        `transaction` is an open one in the store's database: a `Connection` or `Session` of
        SQLAlchemy, a connection or cursor of psycopg 3 or sqlite3, or Django's `connection` within
        `atomic()`. It is neither committed nor rolled back here. Returns the message's
        `retry-message-id`. Between transactions that store messages of one key, the order is theirs
        only if one begins `add` after the other's commit; `produce` keeps no order with `add`.

        Raises as `produce`; `UsageError` also for what is no open transaction, or of another
        database, and `StoreVersionError` if our tables are missing there. What the database itself
        raises is the exception of the application's library; under `REPEATABLE READ` that can be a
        serialization failure: repeat the transaction, as with any other statement.
        """
        if self._is_unusable:
            raise self._unusable()
        place = (
            -1 if partition is None else partition_number(partition),
            timestamp_number(timestamp) if timestamp else 0,
        )
        about = (header_list(headers), b"%b%d" % (self._id_prefix, self._next_number()))
        message = self._sending.checked((topic, value, key, *place, *about, True, None))
        self._transactions.add(transaction, message)
        return message.message_id

    def prepare(self, topic: str, key: bytes | str | None, partition: int | None) -> None:
        """Asks the store for what `add` needs beside the transaction. Raises `StoreError` too."""
        if self._is_unusable:
            raise self._unusable()
        self._transactions.prepare(topic, key, partition)

    def poll(self, timeout_s: float = 0.0) -> int:
        """Calls the `on_delivery` of messages; waits for the first for at most `timeout_s`.

        Returns how many it has called. What a callback raises comes out of here; the others are
        called next time.
        """
        until_s = time.monotonic() + timeout_s
        self._sending.poll(0.0)
        called = self._call()
        while not called and (left_s := until_s - time.monotonic()) > 0:
            self._sending.poll(min(left_s, _SLICE_S))
            called = self._call()
        return called

    def flush(self, timeout_s: float | None = None) -> int:
        """Waits until every message is in Kafka or in the store, and calls `on_delivery`.

        Returns the number of messages that are in neither after `timeout_s`. Without it, that ends
        soon after `message.timeout.ms`, as what is not acknowledged is stored then; or after twice
        that time, if the store takes nothing: then it is reported as failed. Raises
        `ConfigurationError` as `produce`, after all that.
        """
        left = self._flush(timeout_s)
        if self._ended_by is not None:
            raise self._unusable()
        return left

    def _flush(self, timeout_s: float | None) -> int:
        until_s = None if timeout_s is None else time.monotonic() + timeout_s
        while left := len(self._sending):
            if until_s is not None and time.monotonic() >= until_s:
                return left
            self._sending.flush(_SLICE_S)
            self._call()
        self._call()
        return 0

    def close(self, timeout_s: float | None = None) -> None:
        """Waits as `flush`; then stores what is not acknowledged. A second call does nothing.

        Attempts to store it end after `message.timeout.ms`.
        """
        if self._is_closed:
            return
        self._is_closed = self._is_unusable = True
        try:
            self._flush(timeout_s)
        finally:
            if len(self._sending):
                self._sending.end_direct()
            self._keeper.stop()
            if self._sender is not None:
                self._sender.stop()
            self._database.close()
        self._call()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def health(self) -> OutboxHealth:
        """Returns its health, from memory; for any thread, such as that of a probe."""
        sender, sending = self._sender, self._sending
        return health_of(
            is_closed=self._is_closed,
            ended_by=self._ended_by,
            troubles=(self._keeper.trouble, "" if sender is None else sender.trouble),
            stored_for=sending.reason if sending.holds_any else None,
            held=self._keeper.held,
        )

    @property
    def held_lanes(self) -> Sequence[HeldLane]:
        """The lanes whose topic does not take their first message; as read from the store last."""
        return self._keeper.held

    @property
    def counts(self) -> OutboxCounts:
        """The counts since it was created."""
        storing, sender = self._storing, self._outbox_sender
        return OutboxCounts(storing.stored, storing.lost, sender.sent, sender.dead)

    def oldest_s(self) -> float | None:
        """Asks the store how long its oldest message waits; None: none. Raises `StoreError`."""
        with self._database.reading() as connection:
            first_ms = min(lanes.waiting(connection, "outbox").values(), default=None)
            now_ms = self._database.now_ms(connection)
        return None if first_ms is None else (now_ms - first_ms) / 1000

    def __len__(self) -> int:
        """The number of messages that are neither in Kafka nor in the store, as far as is known."""
        return len(self._sending)

    def _call(self) -> int:
        """Calls the callbacks that are due; outside librdkafka, so that they may raise."""
        called = 0
        while self._reports:
            try:
                report = self._reports.popleft()
            except IndexError:  # another thread was faster
                break
            *_, on_delivery = report.unsent
            if on_delivery is not None:
                called += 1
                try:
                    check_result(on_delivery(report.error, reported(report)))
                except UndoneError as undone:
                    raise UsageError(f"on_delivery={on_delivery!r} returned {undone}") from None
        return called

    def _end(self, error: Exception) -> None:
        """Lets nothing more be produced: the sender's thread has met an error that stays."""
        self._ended_by, self._is_unusable = error, True

    def _unusable(self) -> LinearRetryError:
        if self._is_forked:
            return UsageError(
                "this Outbox was created before a fork: librdkafka's threads are not in the child; "
                "create it in the process that produces"
            )
        if self._ended_by is not None and not self._is_closed:
            return ConfigurationError(f"{self._ended_by}")
        return UsageError("this Outbox is closed; create a new one")


def _noting_fork(found: weakref.ref[Outbox]) -> Callable[[], None]:
    """Returns what is called in a forked child: asking for the process's id takes 0.2 us."""

    def note() -> None:
        outbox = found()
        if outbox is not None:
            outbox._is_forked = outbox._is_closed = outbox._is_unusable = True

    return note


def opened(database: Database) -> tuple[set[tuple[str, str]], str]:
    """Checks the store; returns the lanes that still have messages, and its id."""
    with ExitStack() as undo:
        undo.callback(database.close)
        if database.is_sqlite:
            migrate(database)
        check_version(database)
        with database.begin() as connection:
            opened = set(lanes.waiting(connection, "outbox")), store_id(database, connection)
        undo.pop_all()
        return opened
