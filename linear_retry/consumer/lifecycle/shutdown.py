"""Closes a consumer in bounded time, whatever the brokers do."""

import threading
from collections.abc import Callable, Sequence

from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.partitions.offsets import Offsets
from linear_retry.events import ClientError, Event, Revoked, Stopped
from linear_retry.kafka import KafkaException
from linear_retry.kafka.consumer.client import Client
from linear_retry.scope import Partition

_SEND_AGAIN_S = 0.5
_LEFT_BEHIND: list[object] = []
"""Clients whose close did not return: freeing them would make librdkafka wait again, for ever."""


class Shutdown:
    """Commits what is done, emits the last events and leaves the group."""

    def __init__(
        self,
        client: Client,
        assignment: Assignment,
        offsets: Offsets,
        emit: Callable[[Event], None],
        *,
        leaves_group: bool,
    ) -> None:
        """`leaves_group`: not static; a static member keeps its partitions for its session."""
        self._client = client
        self._assignment = assignment
        self._offsets = offsets
        self._emit = emit
        self._leaves_group = leaves_group
        self._now_s = assignment.now_s

    def close(self, *, commit: bool, timeout_s: float) -> None:
        """Returns after `timeout_s` at the latest.

        librdkafka's own `close` has no timeout: it waits 45 s for a pending commit with the brokers
        down, and for minutes if the member was fenced. So the commit is sent and awaited here, and
        the mere close runs in its own thread.
        """
        give_up_at_s = self._now_s() + timeout_s
        try:
            if commit:
                self._commit(give_up_at_s - timeout_s / 2)
            partitions = self._assignment.partitions
            if partitions:
                self._emit(Revoked(partitions))
            self._emit(Stopped(left_group=self._leaves_group))
        finally:
            # Also after a Ctrl-C or a listener's SystemExit: a member left behind would block its
            # partitions for max.poll.interval.ms.
            self._client.disarm()
            self._leave(give_up_at_s, timeout_s)

    def _leave(self, give_up_at_s: float, timeout_s: float) -> None:
        refusals: list[KafkaException] = []

        def leave() -> None:
            try:
                self._client.close()
            except KafkaException as error:
                refusals.append(error)

        ender = threading.Thread(target=leave, name="linear_retry close", daemon=True)
        ender.start()
        ender.join(max(give_up_at_s - self._now_s(), 0.1))
        if ender.is_alive():
            _LEFT_BEHIND.append(self._client)
            text = f"the client had not closed after {timeout_s:.3g} s and is left behind"
            self._emit(ClientError("_TIMED_OUT", text, 1))
        for error in refusals:
            self._report(error)

    def _commit(self, give_up_at_s: float) -> None:
        """Commits what is done, with everything paused: what arrives now is for the next owner.

        Repeats until it is acknowledged: if other members end at the same time, the group refuses
        it until the rebalance is over. Also waits until no commit is in flight: one that librdkafka
        retries by itself may undo a later one (`OffsetCommits`).
        """
        if not self._offsets.uncommitted() and not self._under_way(self._assignment.partitions):
            return
        send_at_s = self._now_s()
        try:
            ours = self._paused()
            while self._now_s() < give_up_at_s:
                left = self._offsets.uncommitted(ours)
                if not left and not self._under_way(ours):
                    return
                if left and self._now_s() >= send_at_s:
                    self._client.commit(left)
                    send_at_s = self._now_s() + _SEND_AGAIN_S
                self._client.drain(0.1)
        except KafkaException as error:
            self._report(error)

    def _under_way(self, partitions: Sequence[Partition]) -> bool:
        return any(map(self._client.awaits_commit, partitions))

    def _paused(self) -> Sequence[Partition]:
        """Pauses everything, and returns the partitions that we may commit.

        If one is not assigned any more, librdkafka refuses the call for all of them. It may be
        another member's, whose commits ours would undo. What the others deliver is dropped anyway.
        """
        owned = self._assignment.partitions
        try:
            self._client.pause(owned)
        except KafkaException as error:
            self._report(error)
            assigned = self._client.assignment()
            return [partition for partition in owned if partition in assigned]
        return owned

    def _report(self, error: KafkaException) -> None:
        self._emit(ClientError(error.args[0].name(), f"at close: {error.args[0].str()}", 1))
