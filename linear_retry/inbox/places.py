"""Where a consumer continues in each of its partitions, as its database has it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from sqlalchemy import Connection

from linear_retry.consumer.settings.by_key import Order
from linear_retry.consumer.settings.inbox import AsksBrokers, PlaceLostError
from linear_retry.errors import BrokerError, StoreError
from linear_retry.inbox.owned import ByKey, InOrder, Owned
from linear_retry.kafka import KafkaException, Message
from linear_retry.kafka.consumer.messages import have_no_headers, partition_of, read
from linear_retry.log.lines import log_inbox_waits
from linear_retry.records.lineage import life_of, message_id
from linear_retry.retry.clock import Clock
from linear_retry.scope import Partition, Scope
from linear_retry.store.application import keyed_places, places
from linear_retry.store.application.borrowed import Borrowing
from linear_retry.store.application.places import Claimed, Row
from linear_retry.store.database import Database
from linear_retry.store.migrations import check_version
from linear_retry.store.sender.identity import store_id

_SAY_AGAIN_S = 60.0
_SILENT_S = 10.0
_LOCK_MS = 1_000
"""The consumer polls on the thread that writes what is done without a handler."""
_OTHERWISE = "the effect is there even if its message is not done"


class Places:
    """The places of one consumer's partitions.

    A place is claimed at each assignment: its epoch goes up, and with that no earlier owner can
    commit an effect any more. In the handler's transaction the place is written first: the row is
    then its own until it ends, and a new owner waits for that.
    """

    def __init__(
        self,
        database: Database,
        group_id: str,
        life_group_id: str | None,
        owner: str,
        clock: Clock,
        order: Order,
        begin_at: Callable[[Sequence[Partition]], Mapping[Partition, int]] | None = None,
    ) -> None:
        """As `Inbox.places`; without `life_group_id` what comes back is like any other message.

        `begin_at` says where partitions begin of which nothing is stored; by default the group's
        commit does.
        """
        self._database = database
        self._group_id = group_id
        self._life_group_id = life_group_id
        self._owner = owner
        self._clock = clock
        self._order = order
        self._begin_at = begin_at
        self._is_by_key = bool(order.name)
        self._owned: dict[Partition, Owned] = {}
        self._awaited: dict[Partition, tuple[float, float]] = {}
        self._say_at_s = 0.0

    def check_tables(self) -> None:
        """Raises `StoreVersionError` for a database without our tables, and `StoreError`.

        Not within a transaction: of SQLite that may be the one writer.
        """
        check_version(self._database)
        _ = self._borrowing

    def check(self, transaction: Any) -> None:
        """Raises `UsageError` unless `transaction` is an open one of this database."""
        with self._borrowing.connection(transaction) as connection:
            self._borrowing.check(connection)

    def close(self) -> None:
        """Closes its own connections."""
        self._database.close()

    # -- for the owner thread --------------------------------------------------------------

    def claim(
        self, brokers: AsksBrokers, partitions: Sequence[Partition]
    ) -> Mapping[Partition, int | None]:
        """Returns where these start, as far as their places could be claimed.

        None: nothing of it was handled yet, so that the group's commit says where.
        """
        try:
            starts = self._claimed(brokers, partitions)
            return starts if self._begin_at is None else self._begun(starts, self._begin_at)
        except (StoreError, BrokerError, KafkaException) as error:
            self._say(f"where its partitions start is not known: {error}")
            return {}

    def starts(self, partition: Partition, offset: int, *, is_another_log: bool) -> None:
        """Notes that reading starts at `offset`: nothing from there on was attempted since.

        Where the order is that of keys, and that lies before what is stored, the place is set back.
        """
        owned = self._owned.get(partition)
        if owned is None:
            return
        owned.starts(offset, is_another_log=is_another_log)
        self._go_back()

    def is_done(self, message: Message) -> bool:
        """Whether it is done already, as far as is known without asking the database."""
        owned = self._owned.get(partition_of(message))
        return owned is not None and owned.is_done(message)

    def leave(self, message: Message) -> None:
        """Notes that the letter of this message is about to be sent.

        After a kill its commit tells the next owner that it was. Raises `StoreError`, and
        `PlaceLostError`: then another owner will send it.
        """
        owned = self._of(message)
        with self._database.begin() as connection:
            self._database.limit_locks(connection, _LOCK_MS)
            if not owned.leave(connection, message):
                raise owned.lost()

    def passed(self, next_offsets: Mapping[Partition, int], ended: Message | None = None) -> None:
        """Stores that all before these offsets is done, where that is more than was stored.

        And that `ended` is, which had no handler's transaction. If it cannot be stored now, the
        next one covers it, or the commit of the offset does.
        """
        if ended is not None and (one := self._owned.get(partition_of(ended))) is not None:
            one.ended(ended)
        self._go_back()
        new = {
            key: (owned, offset)
            for key, offset in next_offsets.items()
            if (owned := self._owned.get(key)) is not None
            and (offset > owned.stored or owned.has_more)
            and owned.back_to is None
        }
        if not new:
            return
        stored: list[Partition] = []
        try:
            with self._database.begin() as connection:
                self._database.limit_locks(connection, _LOCK_MS)
                for key, (owned, offset) in new.items():
                    if owned.pass_to(connection, offset):
                        stored.append(key)
        except StoreError as error:
            self._say(f"what is done without a handler is not stored: {error}")
            return
        for owned, offset in map(new.__getitem__, stored):
            owned.passed(offset)

    def lost(self, partitions: Sequence[Partition]) -> Mapping[Partition, str]:
        """Returns those of these whose places are not as we left them, each with the reason.

        Another member has claimed it, or the database was replaced by an older copy. Where no
        message comes, no handler would notice.
        """
        # Before the look: what handlers store meanwhile is more.
        known = {
            key: (one, one.stored, one.sum_beyond)
            for key in partitions
            if (one := self._owned.get(key)) is not None
        }
        try:
            with self._database.reading() as connection:
                rows = {
                    Row(row.group_id, row.topic_id, row.partition): row
                    for row in places.read_all(connection, self._group_id)
                }
                sums: Mapping[Row, int] = {}
                if self._is_by_key:
                    sums = keyed_places.sums_beyond(connection, self._group_id)
        except StoreError:
            return {}  # who handles a message, or claims a place, says so
        found: dict[Partition, str] = {}
        for key, (one, stored, least) in known.items():
            row = rows.get(one.row)
            if row is None or row.epoch != one.epoch:
                found[key] = str(one.lost())
            elif row.next_offset < stored:
                found[key] = str(one.moved(row.next_offset, stored))
            elif sums.get(one.row, 0) < least:
                found[key] = str(one.lacks_keys())
        return found

    # -- in the application's transaction, on any thread -----------------------------------

    def take(self, transaction: Any, batch: Sequence[Message]) -> list[Message]:
        """Writes the place behind this batch; returns its messages that are not done yet.

        Raises `PlaceLostError`.
        """
        owned = self._of(batch[0])
        with (
            self._database.explained(),
            self._borrowing.connection(transaction) as connection,
        ):
            return self._not_done(connection, owned.take(connection, batch))

    def committed(self, batch: Sequence[Message]) -> None:
        """Notes that the transaction of this batch is committed."""
        owned = self._owned.get(partition_of(batch[-1]))
        if owned is not None:
            owned.committed(batch)

    # -- inside ----------------------------------------------------------------------------

    @cached_property
    def _borrowing(self) -> Borrowing:
        with self._database.begin() as connection:
            own_id = store_id(self._database, connection)
        return Borrowing(self._database, own_id, "inbox", _OTHERWISE)

    def _not_done(self, connection: Connection, batch: list[Message]) -> list[Message]:
        """Leaves out what was handled in another life: replayed, or after a retry topic."""
        if self._life_group_id is None or have_no_headers(batch):
            return batch
        now_ms, new = self._clock.utc_ms(), []
        for message in batch:
            record = read(message)
            is_back = life_of(dict(record.headers), record.topic, in_retry_topic=True) != "first"
            life = self._life_group_id, message_id(record)
            if not is_back or places.note_done(connection, self._database, *life, now_ms):
                new.append(message)
        return new

    def _claimed(
        self, brokers: AsksBrokers, partitions: Sequence[Partition]
    ) -> Mapping[Partition, int | None]:
        ids = brokers.topic_ids({topic for topic, _ in partitions})
        starts: dict[Partition, int | None] = {}
        claimed: dict[Partition, Owned] = {}
        with self._database.begin() as connection:
            for partition in partitions:
                row = Row(self._group_id, ids[partition[0]], partition[1])
                found = self._claim(connection, partition, row)
                if found is None:
                    continue
                beyond = keyed_places.read_beyond(connection, row) if self._is_by_key else {}
                owned = claimed[partition] = self._owned_as(partition, row, found, beyond)
                starts[partition] = found.next_offset
                leaving, lane = found.leaving, found.leaving_lane or ""
                if leaving is not None and brokers.has_done(partition, leaving, lane):
                    starts[partition] = owned.has_left(connection, found)
        self._owned |= claimed
        for partition in claimed:
            self._awaited.pop(partition, None)
        return starts

    def _begun(
        self,
        starts: Mapping[Partition, int | None],
        begin_at: Callable[[Sequence[Partition]], Mapping[Partition, int]],
    ) -> Mapping[Partition, int | None]:
        """Stores where partitions begin of which nothing is stored: from now on that is known."""
        unknown = [partition for partition, offset in starts.items() if offset is None]
        begin = begin_at(unknown) if unknown else {}
        if begin:
            with self._database.begin() as connection:
                for partition, offset in begin.items():
                    owned = self._owned[partition]
                    places.put(connection, self._database, owned.row, owned.epoch, offset)
        return {**starts, **begin}

    def _claim(self, connection: Connection, partition: Partition, row: Row) -> Claimed | None:
        own = self._database, row, partition[0], self._owner
        try:
            found = places.claim(connection, *own, self._order.name)
        except places.OtherOrderError as other:
            self._say(f"{Scope(*partition)}: {other}")
            return None
        if found is None:
            self._await(connection, partition, row)
        return found

    def _owned_as(
        self, partition: Partition, row: Row, claimed: Claimed, beyond: dict[str, int]
    ) -> Owned:
        own = self._database, Scope(*partition), row, claimed
        return ByKey(*own, self._order.lane_of, beyond) if self._is_by_key else InOrder(*own)

    def _go_back(self) -> None:
        """Sets places back to where reading starts, as soon as no handler writes there.

        Each gets another epoch: what a handler still writes is of what was there before.
        """
        for partition, owned in [*self._owned.items()]:
            if owned.back_to is None:
                continue
            own = self._database, owned.row
            try:
                with self._database.begin() as connection:
                    if places.look(connection, *own, owned.epoch) is None:
                        continue  # another member's: who handles a message learns of it
                    claimed = self._claim(connection, partition, owned.row)
                    if claimed is None:
                        continue
                    places.put(connection, *own, claimed.epoch, owned.back_to)
                    keyed_places.forget(connection, owned.row)
            except StoreError as error:
                self._say(f"{Scope(*partition)}: its place is not set back: {error}")
                return
            claimed = replace(claimed, next_offset=owned.back_to)
            self._owned[partition] = self._owned_as(partition, owned.row, claimed, {})

    def _await(self, connection: Connection, partition: Partition, row: Row) -> None:
        """Waits for the transaction of an earlier owner; at last it ends that."""
        now_s = self._clock.now_s()
        since_s, asked_s = self._awaited.get(partition, (now_s, now_s))
        if now_s > asked_s + _SILENT_S:  # another assignment: another transaction
            since_s = now_s
        self._awaited[partition] = since_s, now_s
        if now_s < since_s + _SILENT_S:
            return
        self._awaited[partition] = now_s, now_s
        has_ended = places.end_holders(connection, self._database, row)
        self._say(
            f"{partition[0]}[{partition[1]}]: a transaction of its earlier owner has been open for "
            f"{_SILENT_S:g} s: "
            + ("its session was ended" if has_ended else "end it, or its process")
        )

    def _of(self, message: Message) -> Owned:
        partition = partition_of(message)
        if partition not in self._owned:
            raise PlaceLostError(
                f"{Scope(*partition)}: this member has not claimed its place in {self._database}"
            )
        return self._owned[partition]

    def _say(self, problem: str) -> None:
        """Logs it, once a minute at most: it is asked again twice a second."""
        now_s = self._clock.now_s()
        if now_s >= self._say_at_s:
            self._say_at_s = now_s + _SAY_AGAIN_S
            log_inbox_waits(self._group_id, problem)
