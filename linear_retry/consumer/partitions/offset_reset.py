"""Resets a partition whose committed offset does not exist, or no longer does."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.errors import DataLossError
from linear_retry.events import DataLost, Event
from linear_retry.kafka.consumer.client import BEGINNING, END, Client
from linear_retry.log.lines import log_no_commit
from linear_retry.scope import Partition, Place, Scope

_PAUSE_S = 3.0
_NONE_COMMITTED = "no previously committed offset"
_TRUNCATED = "log truncation detected"


@dataclass(frozen=True, slots=True)
class _Missing:
    """The missing offset, or None if none is committed; reported at `serial`."""

    offset: int | None
    serial: int


@dataclass(frozen=True, slots=True)
class _Cut:
    """A log without the offset that was to be read next in `epoch`; it continues at `there`."""

    epoch: int | None
    offset: int
    there: int | None


class OffsetReset:
    """Asks the broker where partitions begin or end, and starts them there.

    Until the broker answers, such a partition delivers nothing. An unanswered request blocks the
    polling for a second, so after one all others wait.

    A partition is `cut` if its log does not reach up to its next offset any more: offsets are given
    again. It continues where the log was cut, once nothing of it is in memory; until then nothing
    that it delivers counts.
    """

    def __init__(
        self,
        client: Client,
        assignment: Assignment,
        flow_control: FlowControl,
        reset: str,
        emit: Callable[[Event], None],
        *,
        reads_retries: bool = False,
    ) -> None:
        """`reset` is the user's `auto.offset.reset`.

        `reads_retries`: the topics are this group's from their first message on.
        """
        self._client = client
        self._assignment = assignment
        self._offsets = flow_control.offsets
        self._flow_control = flow_control
        self._reset = reset
        self.begins_at_end = reset == "latest"
        self._reads_retries = reads_retries
        self._emit = emit
        self.missing: dict[Partition, _Missing] = {}
        self.cut: dict[Partition, _Cut] = {}
        self._unanswered_at_s = -math.inf

    @property
    def due_at_s(self) -> float:
        return -math.inf if self.cut else math.inf

    def lost(self, partition: Partition, offset: int | None, text: str = _NONE_COMMITTED) -> None:
        """Handles a partition without a committed offset, or with one that is gone.

        librdkafka's own `auto.offset.reset` is set to `error`, so that it reports both; the second
        is a loss. Messages in memory are still handled. `text` is librdkafka's: only that says that
        the log was truncated, and where.

        Raises `DataLossError` if the user chose `error` too.
        """
        if partition in self._flow_control.unplaced:
            return  # that is about the group's offset; it is assigned again where it is to start
        missing = offset if offset is not None and offset >= 0 else None
        if _TRUNCATED in text:
            end = re.search(r"broker end offset is (\d+)", text)
            self.note_cut(partition, None if end is None else int(end[1]))
            return
        if self._offsets.is_old_news(partition, missing):
            is_silent = self._assignment.is_silent(partition)
            is_echo = _NONE_COMMITTED in text if missing is None else is_silent
            if not is_echo:  # librdkafka has stopped reading there, and no watchdog looks
                self._flow_control.reassign(partition)
            return
        if self._reset == "error" and not self._is_garbage(partition, missing):
            raise self._refused(partition, missing)
        self.missing[partition] = _Missing(missing, self._assignment.serial)
        if self._assignment.now_s() >= self._unanswered_at_s + _PAUSE_S:
            self._ask(partition)

    def note_cut(self, partition: Partition, there: int | None = None) -> None:
        """Handles a partition whose log ends before its next offset, or is another topic's.

        `there` is where the log was cut, as far as that is known. Reading on there, as Java's
        client does, repeats nothing and passes nothing over; elsewhere `auto.offset.reset` says.

        Raises `DataLossError` as `lost` does.
        """
        offset = self._flow_control.next_to_fetch(partition) or 0
        self.check_accepted(partition, offset)
        self.missing.pop(partition, None)
        self.cut[partition] = _Cut(self._assignment.epochs.get(partition), offset, there)
        self._offsets.limit_commits(partition, there)
        if there is not None:
            self._emit(DataLost(*partition, offset=offset, next_offset=there))
        self.tick()

    def check_accepted(self, partition: Partition, offset: int) -> None:
        """Raises `DataLossError` if no loss is accepted, `offset` being lost."""
        if self._reset == "error":
            raise self._refused(partition, offset)

    def tick(self) -> None:
        """Starts what was cut again, as soon as nothing of it is in memory."""
        for partition, cut in tuple(self.cut.items()):
            if self._assignment.epochs.get(partition) != cut.epoch:
                del self.cut[partition]  # its owner begins at the committed offset
            elif cut.there is None:
                self._locate(partition, cut)
            elif not self._waits_for(partition):
                del self.cut[partition]
                # What was in memory may have been dropped, to be fetched again, and not handled.
                next_offset = self._offsets.next_offset(partition)
                there = cut.there if next_offset is None else min(next_offset, cut.there)
                self._flow_control.read_another_log(partition, there)

    def _waits_for(self, partition: Partition) -> bool:
        """Whether what is in memory of a log that was cut is handled first."""
        flow_control = self._flow_control
        return not flow_control.waits_for_keys and flow_control.has_in_memory(partition)

    def ask_again(self) -> None:
        """Repeats unanswered requests. Must be called before new arrivals are processed.

        Partitions that were sought or restarted since are left out: librdkafka reports them again.
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
        """Asks for the offset, and starts the partition there. False: no answer."""
        missing = self.missing.pop(partition)
        if self._is_garbage(partition, missing.offset):
            self._flow_control.reassign(partition)
            return True
        there = self._ask_edge(partition, missing.offset)
        if there is None:
            self.missing[partition] = missing  # re-added last: others may be answered
            return False
        if missing.offset is not None and there < missing.offset:
            self.note_cut(partition, there)
        else:
            self._begin(partition, missing.offset, there)
        return True

    def _locate(self, partition: Partition, cut: _Cut) -> None:
        """Asks where a log that was cut begins, or ends, if that was not reported."""
        if self._assignment.now_s() < self._unanswered_at_s + _PAUSE_S:
            return
        there = self._ask_edge(partition)
        if there is not None:
            self.cut[partition] = replace(cut, there=there)
            self._offsets.limit_commits(partition, there)
            self._emit(DataLost(*partition, offset=cut.offset, next_offset=there))

    def _ask_edge(self, partition: Partition, gone: int | None = None) -> int | None:
        """Asks where its log begins, or ends; None: no answer, and all others wait for a while.

        Where retention has removed the message of a key that is held, `gone`, others behind it are
        not done: reading continues at the beginning, whatever `auto.offset.reset` says.
        """
        there = self._client.ask_offset(partition, END if self.begins_at_end else BEGINNING)
        if self.begins_at_end and gone is not None and self._flow_control.waits_for_keys:
            begin = self._client.ask_offset(partition, BEGINNING)
            there = begin if begin is None or gone < begin else there
        if there is None:
            self._unanswered_at_s = self._assignment.now_s()
        return there

    def _is_garbage(self, partition: Partition, missing_offset: int | None) -> bool:
        """Whether the missing offset is bogus: it is above the next one, which the broker has.

        librdkafka 2.16 requests 8680820740569200761 after a batch with a wrong checksum.
        """
        client, next_offset = self._client, self._offsets.next_offset(partition)
        if missing_offset is None or next_offset is None or missing_offset <= next_offset:
            return False
        first, end = client.ask_offset(partition, BEGINNING), client.ask_offset(partition, END)
        return first is not None and end is not None and first <= next_offset <= end

    def _begin(self, partition: Partition, missing_offset: int | None, there: int) -> None:
        """Starts the partition at a numeric offset, never "at the beginning" or "at the end".

        When a logical offset is assigned twice, as in an eager assignment while other partitions
        start, librdkafka 2.16 jumps there again half a second later: a late answer to its first
        request starts a timer that nothing stops.
        """
        is_loss = missing_offset is not None
        if is_loss or (self._reads_retries and there > 0):
            self._emit(DataLost(*partition, offset=missing_offset or 0, next_offset=there))
        if not is_loss:
            self._log_no_commit(partition, there)
        # With `latest`, the committed offset must exist, or the next owner skips to the end again.
        self._offsets.reset(partition, there, has_commit=is_loss and not self.begins_at_end)
        if not self._is_anything_before(partition, missing_offset):
            # So that a seek before the first message goes here, not to the missing offset.
            self._offsets.start_at(partition, there)
        self._flow_control.reassign(partition, keep_ahead=True)

    def _log_no_commit(self, partition: Partition, there: int) -> None:
        """Says how much is handled: again, if the group only has a wrong name."""
        end = there if self.begins_at_end else self._client.ask_offset(partition, END)
        if end is None:
            self._unanswered_at_s = self._assignment.now_s()
        log_no_commit(partition, self._client.group_id, there, end, is_end=self.begins_at_end)

    def _refused(self, partition: Partition, offset: int | None) -> DataLossError:
        if offset is None:
            return DataLossError(
                f"{Scope(*partition)}: the group has committed no offset, and "
                "auto.offset.reset=error; commit one, or set it to earliest or latest"
            )
        first, end = (self._client.ask_offset(partition, at) for at in (BEGINNING, END))
        return DataLossError(
            f"{Place(*partition, offset)}: reading must start there, but the partition's messages "
            f"begin at offset {first} and end before {end}: retention removed them, or the topic "
            "was deleted and created again, and auto.offset.reset=error; start from an offset that "
            "it has, or set that to earliest or latest"
        )

    def _is_anything_before(self, partition: Partition, missing_offset: int | None) -> bool:
        """Whether messages from before the lost range are still in memory."""
        next_offset = self._offsets.next_offset(partition)
        if next_offset is None:
            return False
        holding = self._flow_control.circuits.holding(partition, next_offset)
        return missing_offset != next_offset or holding is not None
