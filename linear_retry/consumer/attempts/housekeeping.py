"""Keeps a consumer in its group, and does its chores, while messages are attempted or wait."""

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from typing import Protocol, TypeAlias

from linear_retry.consumer.attempts.outcomes import Outcomes
from linear_retry.consumer.control.operator_actions import OperatorActions
from linear_retry.consumer.operations.overrun import OverrunWatchdog
from linear_retry.consumer.partitions.polling import Poller
from linear_retry.kafka import Message
from linear_retry.retry.case import RECOVERY, ToCallback
from linear_retry.scope import Scope


class Due(Protocol):
    """When a chore is due: infinity for never."""

    @property
    def due_at_s(self) -> float: ...


Chore: TypeAlias = tuple[Due, Callable[[], None]]
"""A periodic task, run by the owner thread between polls once it is due."""


class Housekeeping:
    """Polls, runs the chores, sends what is leaving, and says which circuits are to be probed."""

    def __init__(
        self,
        poller: Poller,
        outcomes: Outcomes,
        operator_actions: OperatorActions,
        chores: Sequence[Chore],
    ) -> None:
        """`chores` that are due run once a turn, after the poll, in their order."""
        partitions = outcomes.partitions
        self._poller = poller
        self._outcomes = outcomes
        self.now_s = partitions.assignment.now_s
        self._commits = partitions.commits
        self._read_ahead = partitions.read_ahead
        self._circuits = operator_actions.circuits
        self._operator_actions = operator_actions
        self._requests = operator_actions.requests
        self._chores = chores
        self._overrun = OverrunWatchdog(
            partitions.read_ahead, partitions.flow_control, outcomes.emit
        )

    def poll(self) -> None:
        """Polls once, and runs the chores that are due."""
        self._poller.poll()
        for due, chore in self._chores:
            if due.due_at_s <= self.now_s():
                chore()

    def poll_along(self) -> None:
        """Polls while waiting for something else, to stay in the group."""
        self._poller.touch()
        if self._commits.due_at_s <= self.now_s():
            self._outcomes.tick()

    def poll_if_late(self) -> None:
        """Polls if one is due: probes and deliveries may take longer than the group allows."""
        if self.now_s() >= self._read_ahead.deadline_s:
            self.poll_along()

    def await_delivery(self) -> None:
        """Polls until the dead letter in flight is answered; at once without one.

        Pauses nothing for it, and hands over nothing meanwhile.
        """
        leaving = self._outcomes.take_leaving()
        if leaving is None:
            return
        # If polling raises, its message is delivered again.
        with closing(self._outcomes.send(leaving)) as steps:
            # It may have failed a while ago. No poll before the first step: the message is neither
            # read ahead nor done, and only that step checks whose it is.
            self._poller.give_up_if_overran()
            for polls_at_once in steps:
                if isinstance(leaving.route, ToCallback):
                    self.overran(leaving.held.message, RECOVERY)
                if polls_at_once:
                    self.poll_along()
                else:
                    self.poll_if_late()

    def scopes_to_probe(self) -> Iterable[Scope]:
        """The scopes to probe: first those that operators requested, then those that are due."""
        asked = self._operator_actions.due() if self._requests.due_at_s < math.inf else []
        now_s = self.now_s()
        due = self._circuits.due(now_s) if self._circuits.next_retry_at_s <= now_s else []
        return dict.fromkeys([*asked, *due])

    def overran(self, message: Message, what: str = "handler") -> bool:
        """Whether the group has removed us while the user's code, `what`, had this message."""
        now_s = self.now_s()
        if not self._read_ahead.overran(now_s):
            return False
        self._overrun.note(now_s, message, what)
        return True
