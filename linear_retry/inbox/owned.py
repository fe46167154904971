"""The place of one partition as its owner writes it: of all messages in order, or of each key."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from sqlalchemy import Connection

from linear_retry.consumer.settings.by_key import LaneOf
from linear_retry.consumer.settings.inbox import PlaceLostError
from linear_retry.errors import StoreError
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import place_of
from linear_retry.log.lines import log_topic_problem
from linear_retry.scope import Place, Scope
from linear_retry.store.application import keyed_places, places
from linear_retry.store.application.places import Claimed, Row
from linear_retry.store.database import Database


class Owned(ABC):
    """A place that is ours, in `row`.

    `stored` is the place as we have committed it: a database whose place is lower is an older copy.
    `back_to`: where it is to be set back, as reading starts before what is stored.
    """

    def __init__(self, database: Database, where: Scope, row: Row, claimed: Claimed) -> None:
        self._database = database
        self._where = where
        self.row = row
        self.epoch = claimed.epoch
        self.stored = -1 if claimed.next_offset is None else claimed.next_offset
        self.back_to: int | None = None

    @property
    def sum_beyond(self) -> int:
        """The least sum of the offsets that its keys have beyond the place."""
        return 0

    @property
    def has_more(self) -> bool:
        """Whether there is something to store besides the place."""
        return False

    @abstractmethod
    def starts(self, offset: int, *, is_another_log: bool) -> None:
        """Notes that reading starts there."""

    @abstractmethod
    def has_left(self, connection: Connection, claimed: Claimed) -> int | None:
        """Notes that the letter which was about to leave has; returns where reading begins."""

    def is_done(self, message: Message) -> bool:  # noqa: ARG002  (in order it lies before the place)
        """Whether it need not be handed over, as far as is known without asking."""
        return False

    @abstractmethod
    def take(self, connection: Connection, batch: Sequence[Message]) -> list[Message]:
        """Notes in a handler's transaction that these are done; returns those that were not.

        Raises `PlaceLostError`, and `StoreError` if a later attempt may succeed.
        """

    @abstractmethod
    def committed(self, batch: Sequence[Message]) -> None:
        """Notes that the transaction of these is committed."""

    @abstractmethod
    def leave(self, connection: Connection, message: Message) -> bool:
        """Notes that its letter is about to be sent; False: the place is not ours any more."""

    @abstractmethod
    def ended(self, message: Message) -> None:
        """Notes that it is done without a handler, which `pass_to` stores."""

    def pass_to(self, connection: Connection, next_offset: int) -> bool:
        """Stores that all before this is done; False: not now."""
        # Not waiting: the handler that writes the row writes a later place anyway.
        own = self._database, self.row, self.epoch
        return places.pass_to(connection, *own, self.stored, next_offset)

    def passed(self, next_offset: int) -> None:
        """Notes that `pass_to` is committed."""
        self.stored = max(self.stored, next_offset)

    def lost(self) -> PlaceLostError:
        """Returns the error of a place that another member has claimed."""
        return PlaceLostError(f"{self._where}: another member has its place in {self._database}")

    def moved(self, place: int, known: int) -> PlaceLostError:
        """Logs that a place is not where it was any more, and returns the error."""
        return self._older(f"has its place at {place}, and had it at {known}")

    def lacks_keys(self) -> PlaceLostError:
        """Logs that beyond a place less is done than was, and returns the error."""
        return self._older("lacks some of what its keys have done")

    def _older(self, what: str) -> PlaceLostError:
        # Else only the event of a lost partition has it, which is a matter of course.
        problem = (
            f"{self._where}: {self._database} {what}: it is an older copy; what it lacks is read "
            "again"
        )
        log_topic_problem(self._where.topic or "", problem)
        return PlaceLostError(problem)


class InOrder(Owned):
    """The place of a partition whose messages are handled in their order."""

    def __init__(self, database: Database, where: Scope, row: Row, claimed: Claimed) -> None:
        super().__init__(database, where, row, claimed)
        self._attempted = -1

    def starts(self, offset: int, *, is_another_log: bool) -> None:  # noqa: ARG002  (its place tells)
        self._attempted = offset - 1

    def has_left(self, connection: Connection, claimed: Claimed) -> int | None:  # noqa: ARG002
        return None if claimed.leaving is None else claimed.leaving + 1

    def take(self, connection: Connection, batch: Sequence[Message]) -> list[Message]:
        offset, end = place_of(batch[0]).offset, place_of(batch[-1]).offset + 1
        attempted, self._attempted = self._attempted, max(self._attempted, end - 1)
        own, new = (self._database, self.row, self.epoch), list(batch)
        if not places.take(connection, *own, self.stored, offset, end):
            stored = places.look(connection, *own)
            if stored is None:
                raise self.lost()
            if stored < self.stored:
                raise self.moved(stored, self.stored)
            if offset > attempted:
                self._say_replaced(place_of(batch[0]), stored)
                self.stored = 0
            else:  # the commit of an earlier attempt has succeeded, and its answer was lost
                new = [one for one in batch if place_of(one).offset >= stored]
                end = max(end, stored)
            places.put(connection, *own, end)
        return new

    def committed(self, batch: Sequence[Message]) -> None:
        self.stored = max(self.stored, place_of(batch[-1]).offset + 1)

    def leave(self, connection: Connection, message: Message) -> bool:
        offset = place_of(message).offset
        return places.leave(connection, self._database, self.row, self.epoch, offset)

    def ended(self, message: Message) -> None:
        """Does nothing: the place tells."""

    def _say_replaced(self, place: Place, stored: int) -> None:
        log_topic_problem(
            place.topic,
            f"{place}: the inbox has all before offset {stored} as done, of a log that this one "
            "replaces: it continues here",
        )


class ByKey(Owned):
    """The place of a partition, and how far each key is done beyond it.

    The owner moves the place; handlers only write the row of their message's key.
    """

    def __init__(
        self,
        database: Database,
        where: Scope,
        row: Row,
        claimed: Claimed,
        lane_of: LaneOf,
        beyond: dict[str, int],
    ) -> None:
        """`beyond` has the next offset of each lane that has one in the database."""
        super().__init__(database, where, row, claimed)
        self._get_lane = lane_of
        self._known = beyond
        self._ended: dict[str, int] = {}

    @property
    def sum_beyond(self) -> int:
        return sum(offset for offset in self._known.copy().values() if offset > self.stored)

    @property
    def has_more(self) -> bool:
        return bool(self._ended)

    def starts(self, offset: int, *, is_another_log: bool) -> None:
        if offset < self.stored or is_another_log:
            self.back_to = offset

    def has_left(self, connection: Connection, claimed: Claimed) -> int | None:
        if claimed.leaving is not None and claimed.leaving_lane is not None:
            self._take(connection, claimed.leaving_lane, claimed.leaving)
            self._note(claimed.leaving_lane, claimed.leaving + 1)
        return claimed.next_offset

    def is_done(self, message: Message) -> bool:
        return place_of(message).offset < self._known.get(self._lane_of(message), -1)

    def take(self, connection: Connection, batch: Sequence[Message]) -> list[Message]:
        (message,) = batch
        lane, offset = self._lane_of(message), place_of(message).offset
        if self.back_to is not None:
            raise self._goes_back()
        if self._take(connection, lane, offset):
            return [message]
        known = self._known.get(lane, -1)
        found = keyed_places.look(connection, self._database, self.row, self.epoch, lane)
        if found is None:
            raise self.lost()
        place, stored = found
        if stored > offset and stored >= known:
            # The commit of an earlier attempt has succeeded, and its answer was lost.
            return []
        if place > offset:
            raise self._goes_back()
        raise self.moved(max(place, stored), known)

    def committed(self, batch: Sequence[Message]) -> None:
        self._note(self._lane_of(batch[-1]), place_of(batch[-1]).offset + 1)

    def leave(self, connection: Connection, message: Message) -> bool:
        self._store_ended(connection)  # it would take the place of one that has left
        lane, offset = self._lane_of(message), place_of(message).offset
        return places.leave(connection, self._database, self.row, self.epoch, offset, lane)

    def ended(self, message: Message) -> None:
        self._ended[self._lane_of(message)] = place_of(message).offset + 1

    def pass_to(self, connection: Connection, next_offset: int) -> bool:
        self._store_ended(connection)
        has_passed = super().pass_to(connection, next_offset)
        if has_passed:
            keyed_places.forget(connection, self.row, next_offset)
        return has_passed

    def passed(self, next_offset: int) -> None:
        super().passed(next_offset)
        for lane, offset in self._ended.items():
            self._note(lane, offset)
        self._ended.clear()
        for lane, offset in self._known.copy().items():
            if offset <= self.stored:
                self._known.pop(lane, None)

    def _store_ended(self, connection: Connection) -> None:
        for lane, next_offset in self._ended.items():
            self._take(connection, lane, next_offset - 1)

    def _take(self, connection: Connection, lane: str, offset: int) -> bool:
        own = self._database, self.row, self.epoch
        return keyed_places.take(connection, *own, lane, self._known.get(lane, -1), offset)

    def _note(self, lane: str, next_offset: int) -> None:
        self._known[lane] = max(next_offset, self._known.get(lane, -1))

    def _lane_of(self, message: Message) -> str:
        return self._get_lane(message).key or ""

    def _goes_back(self) -> StoreError:
        return StoreError(
            f"{self._where}: its log begins again before the place in {self._database}, which is "
            "being set back; a later attempt may succeed"
        )
