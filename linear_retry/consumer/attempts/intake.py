"""Decides which of the messages read ahead are handed over, and deals with the others."""

from typing import Literal, TypeAlias, assert_never

from linear_retry.consumer.attempts.outcomes import Outcomes
from linear_retry.consumer.partitions.commit_notes import CommitNotes
from linear_retry.consumer.settings.by_key import LaneOf
from linear_retry.consumer.settings.inbox import InboxPlaces
from linear_retry.errors import DeadLetterError
from linear_retry.events import PassedOver
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import (
    foreign_group,
    foreign_or_unfit,
    have_no_headers,
    offset_of,
    partition_of,
)
from linear_retry.records.commit_note import NotedFailures
from linear_retry.retry.case import Held

_MOST_RETRIES = 32
_Obstacle: TypeAlias = (
    Literal["done", "doubt", "returned"] | PassedOver | NotedFailures | DeadLetterError
)
"""Why a message is not handed over: what the note or its headers say of it."""


class Intake:
    """Takes in the messages that are ours, not done before, and not to wait for a retry."""

    def __init__(
        self,
        outcomes: Outcomes,
        notes: CommitNotes,
        *,
        lane_of: LaneOf,
        reads_retries: bool = False,
        returns: bool = False,
        inbox: InboxPlaces | None = None,
    ) -> None:
        """`reads_retries`: of retry topics. `returns`: each is sent back to its own topic.

        `lane_of` gives a message's unit of order. `inbox` knows of keys what is done of each.
        """
        self._outcomes = outcomes
        self._notes = notes
        self._assignment = outcomes.partitions.assignment
        self._offsets = outcomes.partitions.offsets
        self._read_ahead = outcomes.partitions.read_ahead
        self._flow_control = outcomes.partitions.flow_control
        self._reads_retries = reads_retries
        self._why_not = foreign_or_unfit if reads_retries else foreign_group
        self._returns = returns
        self._lane_of = lane_of
        self._inbox = inbox

    def for_us(self, ahead: list[Message], most: int | None = None) -> list[Message]:
        """Returns the messages to hand over, none behind one that is not; deals with such a head.

        The only place that decides this. Most messages have no headers, so are not replays, and
        most partitions have no note.
        """
        # A failure ends a batch: to read the headers of thousands again after each takes 100 ms.
        most = _MOST_RETRIES if most is None and self._reads_retries else most
        batch, ours = ahead[:most], 0
        asks = self._reads_retries or self._notes.has_any or self._inbox is not None
        if not asks and have_no_headers(batch):
            return batch
        for message in batch:
            obstacle = self._obstacle(message)
            if obstacle is None:
                ours += 1
            elif ours:
                break  # it is asked again when it is the first
            elif obstacle == "done" or isinstance(obstacle, PassedOver):
                self._offsets.done(self._read_ahead.pass_over(ahead.pop(0)))
                if isinstance(obstacle, PassedOver):
                    self._outcomes.emit(obstacle)
            else:
                self._deal_with(self.held(ahead.pop(0)), obstacle)
                return []  # and `ahead` may be stale: what is refused or held may open a circuit
        return ahead[:ours]

    def unfit(self, message: Message) -> DeadLetterError | None:
        """Returns why a message of a retry topic cannot be retried; None: it can."""
        why_not = self._why_not(message, self._outcomes.line) if self._reads_retries else None
        return why_not if isinstance(why_not, DeadLetterError) else None

    def held(self, message: Message, *others: Message) -> Held[Message]:
        """Returns messages that are about to fail, with the failures of a batch taken apart."""
        partition = partition_of(message)
        epoch = self._assignment.epochs.get(partition) or 0
        key = self._lane_of(message).key
        found = Held(message, partition, offset_of(message), epoch, others=others, key=key)
        return self._outcomes.batches.resumed(found)

    # -- inside ----------------------------------------------------------------------------

    def _obstacle(self, message: Message) -> _Obstacle | None:
        if self._inbox is not None and self._inbox.is_done(message):
            return "done"
        judgement = self._notes.judge(message)
        if judgement != "undone":
            return judgement
        partition, offset = partition_of(message), offset_of(message)
        why_not = self._why_not(message, self._outcomes.line)
        if isinstance(why_not, str):
            return PassedOver(*partition, offset, retry_group_id=why_not)
        if why_not is not None:
            return why_not
        if self._returns:
            return "returned"
        noted = self._notes.failures_at(partition, offset)
        if noted is not None and self._read_ahead.holds_before(message):
            # Two keys with one digest are one lane, in which another message comes first.
            self._notes.forget_failures(partition, offset)
            return None
        return noted

    def _deal_with(
        self,
        held: Held[Message],
        obstacle: Literal["doubt", "returned"] | NotedFailures | DeadLetterError,
    ) -> None:
        match obstacle:
            case "doubt":
                base = self._notes.put_aside(held.partition, held.offset)
                self._flow_control.read_again(held.partition, base)
            case "returned":
                self._outcomes.carry_out(self._outcomes.engine.returned(held))
            case NotedFailures():
                self._notes.forget_failures(held.partition, held.offset)
                self._outcomes.carry_out(self._outcomes.engine.restored(held, obstacle))
            case DeadLetterError():
                self._outcomes.failed(held, obstacle, is_permanent=True)
            case _:
                assert_never(obstacle)
