"""Resets a partition whose committed offset does not exist (any more)."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.errors import DataLossError
from linear_retry.events import DataLost, Event
from linear_retry.kafka.consumer.client import BEGINNING, END, Client
from linear_retry.scope import Partition, Place

_PAUSE_S = 3.0


@dataclass(frozen=True, slots=True)
class _Missing:
    """The offset that the broker has not, or None: none is committed; reported at `serial`."""

    offset: int | None
    serial: int


class OffsetReset:
    """Asks the broker where partitions begin, or end, and begins them there.

    Until the broker says so, nothing of them comes. A question without an answer takes a second,
    in which nothing is polled: so after one, all others wait.
    """

    def __init__(
        self,
        client: Client,
        assignment: Assignment,
        flow_control: FlowControl,
        reset: str,
        emit: Callable[[Event], None],
    ) -> None:
        """`reset` is `auto.offset.reset` as the user has it."""
        self._client = client
        self._assignment = assignment
        self._offsets = flow_control.offsets
        self._flow_control = flow_control
        self._reset = reset
        self._begins_at_end = reset == "latest"
        self._emit = emit
        self.missing: dict[Partition, _Missing] = {}
        self._unanswered_at_s = -math.inf

    def lost(self, partition: Partition, offset: int | None) -> None:
        """Handles a partition without a committed offset, or with one that is gone.

        librdkafka's `auto.offset.reset` is ours (`error`), so that the second, a loss, is reported.
        What is in memory is still handled.

        Raises `DataLossError` where the user chose `error` too.
        """
        missing = offset if offset is not None and offset >= 0 else None
        if self._offsets.is_old_news(partition, missing):
            return
        if self._reset == "error" and not self._is_garbage(partition, missing):
            raise DataLossError(_no_place_to_begin(partition, missing))
        self.missing[partition] = _Missing(missing, self._assignment.serial)
        if self._assignment.now_s() >= self._unanswered_at_s + _PAUSE_S:
            self._ask(partition)

    def ask_again(self) -> None:
        """Ask again where nobody has answered. To be called before what has arrived is looked at.

        What was sought or restarted since, librdkafka speaks of once more by itself.
        """
        is_stale = self._assignment.is_stale
        self.missing = {
            key: missing
            for key, missing in self.missing.items()
            if not is_stale(key, missing.serial)
        }
        if self._assignment.now_s() >= self._unanswered_at_s + _PAUSE_S:
            for partition in tuple(self.missing):
                if not self._ask(partition):
                    return

    def _ask(self, partition: Partition) -> bool:
        """False: there is no answer."""
        missing = self.missing.pop(partition)
        if self._is_garbage(partition, missing.offset):
            self._flow_control.reassign(partition)
            return True
        there = self._client.ask_offset(partition, END if self._begins_at_end else BEGINNING)
        if there is None:
            self.missing[partition] = missing  # the last one now: others may be answered
            self._unanswered_at_s = self._assignment.now_s()
            return False
        self._begin(partition, missing.offset, there)
        return True

    def _is_garbage(self, partition: Partition, missing_offset: int | None) -> bool:
        """Whether nobody needs it: it is above what comes next, which the broker has.

        librdkafka 2.16 asks for 8680820740569200761 after a batch whose checksum is wrong.
        """
        client, next_offset = self._client, self._offsets.next_offset(partition)
        if missing_offset is None or next_offset is None or missing_offset <= next_offset:
            return False
        first, end = client.ask_offset(partition, BEGINNING), client.ask_offset(partition, END)
        return first is not None and end is not None and first <= next_offset <= end

    def _begin(self, partition: Partition, missing_offset: int | None, there: int) -> None:
        """At a number, and never "at the beginning" or "at the end".

        Assigned so twice, as an eager assignment is while others begin, librdkafka 2.16 goes there
        once more half a second later: a late answer to its first question starts a timer that
        nothing stops.
        """
        is_loss = missing_offset is not None
        if is_loss:
            self._emit(DataLost(*partition, offset=missing_offset or 0, next_offset=there))
        # With `latest`, what is committed must exist, or the next owner goes to the end once more.
        self._offsets.reset(partition, there, has_commit=is_loss and not self._begins_at_end)
        if not self._is_anything_before(partition, missing_offset):
            # A seek before the first message goes there, and not to what is lost once more.
            self._offsets.start_at(partition, there)
        self._flow_control.reassign(partition, keep_ahead=True)

    def _is_anything_before(self, partition: Partition, missing_offset: int | None) -> bool:
        """Whether something before the place that was lost is in memory still."""
        next_offset = self._offsets.next_offset(partition)
        if next_offset is None:
            return False
        holding = self._flow_control.circuits.holding(partition, next_offset)
        return missing_offset != next_offset or holding is not None


def _no_place_to_begin(partition: Partition, offset: int | None) -> str:
    topic, number = partition
    where = f"{topic}[{number}]" if offset is None else str(Place(topic, number, offset))
    return (
        f"{where}: the group has committed no offset that the broker has, and "
        "auto.offset.reset=error; commit one, or set auto.offset.reset to earliest or latest"
    )
