"""Where a consumer continues in each of its partitions, as its database has it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlalchemy import Connection

from linear_retry.consumer.settings.inbox import AsksBrokers, PlaceLostError
from linear_retry.errors import BrokerError, StoreError
from linear_retry.kafka import KafkaException, Message
from linear_retry.kafka.consumer.messages import have_no_headers, place_of, read
from linear_retry.log.lines import log_inbox_waits, log_topic_problem
from linear_retry.records.lineage import life_of, message_id
from linear_retry.retry.clock import Clock
from linear_retry.scope import Partition, Place
from linear_retry.store.application import places
from linear_retry.store.application.borrowed import Borrowing
from linear_retry.store.application.places import Row
from linear_retry.store.database import Database
from linear_retry.store.migrations import check_version
from linear_retry.store.sender.identity import store_id

_SAY_AGAIN_S = 60.0
_SILENT_S = 10.0
_OTHERWISE = "the effect is there even if its message is not done"


@dataclass(slots=True)
class _Owned:
    """A place that is ours, and the last offset that was attempted since reading started.

    `stored` is the place as we have committed it. A database whose place is lower is an older copy.
    """

    row: Row
    epoch: int
    stored: int = -1
    attempted: int = -1


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
        life_group_id: str,
        owner: str,
        clock: Clock,
    ) -> None:
        """As `Inbox.places`."""
        self._database = database
        self._group_id = group_id
        self._life_group_id = life_group_id
        self._owner = owner
        self._clock = clock
        self._owned: dict[Partition, _Owned] = {}
        self._awaited: dict[Partition, tuple[float, float]] = {}
        self._say_at_s = 0.0

    def check(self, transaction: Any) -> None:
        """Raises unless `transaction` is an open one of a database that has our tables.

        `StoreVersionError` without these tables, `UsageError` for any other, and `StoreError`.
        """
        check_version(self._database)
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
            return self._claimed(brokers, partitions)
        except (StoreError, BrokerError, KafkaException) as error:
            self._say(f"where its partitions start is not known: {error}")
            return {}

    def starts(self, partition: Partition, offset: int) -> None:
        """Notes that reading starts at `offset`: nothing from there on was attempted yet."""
        owned = self._owned.get(partition)
        if owned is not None:
            owned.attempted = offset - 1

    def leave(self, partition: Partition, offset: int) -> None:
        """Notes that the letter of the message there is about to be sent.

        After a kill its commit tells the next owner that it was. Raises `StoreError`, and
        `PlaceLostError`: then another owner will send it.
        """
        owned = self._of(partition)
        with self._database.begin() as connection:
            if not places.leave(connection, self._database, owned.row, owned.epoch, offset):
                raise self._lost(partition)

    def passed(self, next_offsets: Mapping[Partition, int]) -> None:
        """Stores that all before these offsets is done, where that is more than was stored.

        If it cannot be stored now, the next one covers it, or the commit of the offset does.
        """
        new = {
            key: offset
            for key, offset in next_offsets.items()
            if key in self._owned and offset > self._owned[key].stored
        }
        if not new:
            return
        stored: dict[Partition, int] = {}
        try:
            with self._database.begin() as connection:
                for key, offset in new.items():
                    one = self._owned[key]
                    # Not waiting: the handler that has the row writes a later place anyway.
                    own = self._database, one.row, one.epoch
                    if places.pass_to(connection, *own, one.stored, offset):
                        stored[key] = offset
        except StoreError as error:
            self._say(f"what is done without a handler is not stored: {error}")
            return
        for key, offset in stored.items():
            one = self._owned[key]
            one.stored = max(one.stored, offset)

    def lost(self, partitions: Sequence[Partition]) -> Mapping[Partition, str]:
        """Returns those of these whose places are not as we left them, each with the reason.

        Another member has claimed it, or the database was replaced by an older copy. Where no
        message comes, no handler would notice.
        """
        # Before the look: what handlers store meanwhile is more.
        known = {
            key: (one, one.stored)
            for key in partitions
            if (one := self._owned.get(key)) is not None
        }
        try:
            with self._database.reading() as connection:
                rows = {
                    Row(row.group_id, row.topic_id, row.partition): row
                    for row in places.read_all(connection, self._group_id)
                }
        except StoreError:
            return {}  # who handles a message, or claims a place, says so
        found: dict[Partition, str] = {}
        for key, (one, stored) in known.items():
            row = rows.get(one.row)
            if row is None or row.epoch != one.epoch:
                found[key] = str(self._lost(key))
            elif row.next_offset < stored:
                found[key] = str(self._moved(key, row.next_offset, stored))
        return found

    # -- in the application's transaction, on any thread -----------------------------------

    def take(self, transaction: Any, batch: Sequence[Message]) -> list[Message]:
        """Writes the place behind this batch; returns its messages that are not done yet.

        Raises `PlaceLostError`.
        """
        place = place_of(batch[0])
        partition, offset = (place.topic, place.partition), place.offset
        end = place_of(batch[-1]).offset + 1
        owned = self._of(partition)
        attempted, owned.attempted = owned.attempted, max(owned.attempted, end - 1)
        own, new = (self._database, owned.row, owned.epoch), list(batch)
        with self._borrowing.connection(transaction) as connection:
            if not places.take(connection, *own, owned.stored, offset, end):
                stored = places.look(connection, *own)
                if stored is None:
                    raise self._lost(partition)
                if stored < owned.stored:
                    raise self._moved(partition, stored, owned.stored)
                if offset > attempted:
                    self._say_replaced(place, stored)
                    owned.stored = 0
                else:  # the commit of an earlier attempt has succeeded, and its answer was lost
                    new = [one for one in batch if place_of(one).offset >= stored]
                    end = max(end, stored)
                places.put(connection, *own, end)
            return self._not_done(connection, new)

    def committed(self, batch: Sequence[Message]) -> None:
        """Notes that the transaction of this batch is committed."""
        place = place_of(batch[-1])
        owned = self._owned.get((place.topic, place.partition))
        if owned is not None:
            owned.stored = max(owned.stored, place.offset + 1)

    # -- inside ----------------------------------------------------------------------------

    @cached_property
    def _borrowing(self) -> Borrowing:
        with self._database.begin() as connection:
            own_id = store_id(self._database, connection)
        return Borrowing(self._database, own_id, "inbox", _OTHERWISE)

    def _not_done(self, connection: Connection, batch: list[Message]) -> list[Message]:
        """Leaves out what was handled in another life: replayed, or after a retry topic."""
        if have_no_headers(batch):
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
        claimed: dict[Partition, _Owned] = {}
        with self._database.begin() as connection:
            for partition in partitions:
                topic, number = partition
                row = Row(self._group_id, ids[topic], number)
                found = places.claim(connection, self._database, row, topic, self._owner)
                if found is None:
                    self._await(connection, partition, row)
                    continue
                claimed[partition] = _Owned(row, found.epoch, found.next_offset or -1)
                starts[partition] = found.next_offset
                if found.leaving is not None:
                    # A letter's offset is committed only once the letter is acknowledged.
                    has_left = (brokers.committed(partition) or 0) > found.leaving
                    starts[partition] = found.leaving + 1 if has_left else found.next_offset
        self._owned |= claimed
        for partition in claimed:
            self._awaited.pop(partition, None)
        return starts

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
        has_ended = places.end_holder(connection, self._database, row)
        self._say(
            f"{partition[0]}[{partition[1]}]: a transaction of its earlier owner has been open for "
            f"{_SILENT_S:g} s: "
            + ("its session was ended" if has_ended else "end it, or its process")
        )

    def _of(self, partition: Partition) -> _Owned:
        owned = self._owned.get(partition)
        if owned is None:
            raise self._lost(partition)
        return owned

    def _lost(self, partition: Partition) -> PlaceLostError:
        return PlaceLostError(
            f"{partition[0]}[{partition[1]}]: another member has its place in {self._database}"
        )

    def _moved(self, partition: Partition, place: int, known: int) -> PlaceLostError:
        return PlaceLostError(
            f"{partition[0]}[{partition[1]}]: {self._database} has its place at {place}, and had "
            f"it at {known}: it is an older copy; what it lacks is read again"
        )

    def _say_replaced(self, place: Place, stored: int) -> None:
        log_topic_problem(
            place.topic,
            f"{place}: the inbox has all before offset {stored} as done, of a log that this one "
            "replaces: it continues here",
        )

    def _say(self, problem: str) -> None:
        """Logs it, once a minute at most: it is asked again twice a second."""
        now_s = self._clock.now_s()
        if now_s >= self._say_at_s:
            self._say_at_s = now_s + _SAY_AGAIN_S
            log_inbox_waits(self._group_id, problem)
