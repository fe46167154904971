"""Handles rebalances and commit answers, which arrive inside `poll` and `consume`."""

from collections.abc import Callable, Mapping

from linear_retry.consumer.partitions.client_errors import ClientErrors
from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.consumer.partitions.offsets import OffsetCommits
from linear_retry.errors import ConfigurationError
from linear_retry.events import Event, Lost, Revoked
from linear_retry.kafka import KafkaError
from linear_retry.scope import Partition

_REMOVED = "the group did not hear from this member in time, or has removed it"
"""Not that others have them: it may be the only member, and the brokers may be away."""


class Rebalance:
    """Listens to the client. No handler runs during these callbacks.

    So everything finished is already in `Offsets` and can be committed.
    """

    def __init__(
        self,
        flow_control: FlowControl,
        commits: OffsetCommits,
        errors: ClientErrors,
        own_topics: frozenset[str],
        emit: Callable[[Event], None],
    ) -> None:
        """`own_topics` are those that we write to: consuming them would cause a loop."""
        self._flow_control = flow_control
        self._commits = commits
        self._errors = errors
        self._own_topics = own_topics
        self._emit = emit

    def assigned(self, partitions: list[Partition]) -> None:
        """Starts a new epoch for each, paused if its circuit is open."""
        matched = sorted({topic for topic, _ in partitions} & self._own_topics)
        if matched:
            raise ConfigurationError(
                f"the subscription matches {', '.join(matched)}, to which this consumer writes its "
                "dead letters, retries, journal or answers: it would consume them; narrow the "
                "pattern"
            )
        self._flow_control.assign(partitions)

    def revoked(self, partitions: list[Partition]) -> None:
        """Commits what is done, then drops the state: the next owner counts from zero."""
        self._commits.commit_revoked(partitions)
        self._flow_control.drop(partitions)
        self._emit(Revoked(tuple(partitions)))

    def lost(self, partitions: list[Partition]) -> None:
        """Drops the state without a commit: another member may own them already."""
        self._flow_control.drop(partitions)
        self._emit(Lost(tuple(partitions), _REMOVED))

    def committed(self, offsets: Mapping[Partition, int]) -> None:
        self._flow_control.offsets.committed(offsets)

    def commit_failed(self, error: KafkaError, partitions: tuple[Partition, ...]) -> None:
        """Handles a refused or empty commit (`ClientErrors.commit_refused`)."""
        if error.code() != KafkaError._NO_OFFSET:
            self._errors.commit_refused(error, partitions)

    def client_error(self, error: KafkaError) -> None:
        """Handles an error of librdkafka that is not about a message."""
        self._errors.report(error)
