"""The group gives and takes partitions, and answers commits: what then?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from linear_retry.consumer.partitions.delivery_filter import DeliveryFilter
from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.consumer.state import Parts
from linear_retry.errors import ConfigurationError
from linear_retry.events import Assigned, CircuitClosed, CommitFailed, Lost, Revoked
from linear_retry.kafka import KafkaError, KafkaException
from linear_retry.scope import Partition


class Rebalance:
    """Called inside `poll` and `consume`; the handler is never running then.

    So everything that is finished is in `Offsets` already, and can be committed. Its state: of
    which partitions a commit is not answered yet that was sent before they were assigned.
    """

    def __init__(
        self,
        parts: Parts,
        flow_control: FlowControl,
        delivery_filter: DeliveryFilter,
        own_topics: frozenset[str],
    ) -> None:
        """`own_topics` are those that we write to: consuming them would be a loop."""
        self._parts = parts
        self._flow_control = flow_control
        self._delivery_filter = delivery_filter
        self._own_topics = own_topics
        self._asked_before: set[Partition] = set()

    def assigned(self, partitions: list[Partition]) -> None:
        """A new epoch for each; paused or not as its circuit says, whatever it was before."""
        matched = sorted({topic for topic, _ in partitions} & self._own_topics)
        if matched:
            raise ConfigurationError(
                f"the subscription matches {', '.join(matched)}, to which this consumer writes its "
                "dead letters, its journal or its answers: it would consume them; narrow the "
                "pattern"
            )
        parts = self._parts
        self._asked_before |= {key for key in partitions if parts.client.awaits_commit(key)}
        parts.assignment.take(partitions, parts.clock.now_s())
        parts.offsets.begin(partitions)
        parts.read_ahead.start_small()
        try:
            # First: what settling finds to be gone already is said to be lost after it.
            parts.emit(Assigned(tuple(partitions)))
        finally:
            self._flow_control.apply_pause_state(partitions)

    def revoked(self, partitions: list[Partition]) -> None:
        """Commit what is done, then drop the state: the next owner starts the strategy anew.

        A zombie is told so too, where it should be told of a loss (librdkafka #5604): any answer
        to this commit is tolerated.
        """
        parts = self._parts
        done = parts.offsets.uncommitted(partitions)
        if done:
            try:
                parts.client.commit_now(done)
            except KafkaException as error:
                parts.emit(CommitFailed(str(error), tuple(done)))
        self.drop(partitions)
        parts.emit(Revoked(tuple(partitions)))

    def lost(self, partitions: list[Partition]) -> None:
        """Another member may have them already: commit nothing."""
        self.drop(partitions)
        self._parts.emit(Lost(tuple(partitions), "the group has given them to others"))

    def drop(self, partitions: Sequence[Partition]) -> None:
        """These are not ours any more; nor are circuits with nothing left to probe."""
        self._flow_control.forget(partitions)
        self._asked_before.difference_update(partitions)
        parts = self._parts
        for scope, circuit in parts.circuits:
            # One that waits for its first message has had its time: nothing is left to probe.
            waits_on = circuit.state == "open" or circuit.held is not None
            if not waits_on and not any(map(scope.covers, parts.assignment.partitions)):
                open_s = parts.circuits.close(scope, parts.clock.now_s())
                parts.emit(CircuitClosed(scope, "dropped", open_s))

    def committed(self, offsets: Mapping[Partition, int]) -> None:
        """The broker has acknowledged these."""
        self._parts.offsets.committed(offsets)
        self._answered(list(offsets))

    def commit_failed(self, error: KafkaError, partitions: tuple[Partition, ...]) -> None:
        """There was nothing to commit; or it was refused (`DeliveryFilter.commit_refused`)."""
        ours = [key for key in partitions if key in self._parts.assignment]
        of_present = not self._asked_before.issuperset(ours)
        self._answered(list(partitions))
        if error.code() != KafkaError._NO_OFFSET:
            self._delivery_filter.commit_refused(error, partitions, of_present_member=of_present)

    def client_error(self, error: KafkaError) -> None:
        """librdkafka has a problem that is not about a message."""
        self._delivery_filter.report(error)

    def _answered(self, partitions: list[Partition]) -> None:
        """Where nothing from before its assignment is awaited, answers are about us as we are."""
        awaits = self._parts.client.awaits_commit
        self._asked_before.difference_update([key for key in partitions if not awaits(key)])
