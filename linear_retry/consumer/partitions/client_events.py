"""Handles what the client reports inside `poll`: errors, rebalances, commits."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping

from linear_retry.consumer.partitions.commit_notes import CommitNotes
from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.consumer.partitions.offsets import OffsetCommits
from linear_retry.errors import BrokerError, ConfigurationError
from linear_retry.events import ClientError, CommitFailed, Event, Lost, PassedOver, Revoked
from linear_retry.kafka import KafkaError
from linear_retry.kafka.consumer.client import Client
from linear_retry.kafka.consumer.fatal_errors import (
    is_name_taken,
    is_retriable_commit,
    is_unexplained,
    needs_new_client,
    raise_if_fatal,
)
from linear_retry.log.lines import log_topic_problem
from linear_retry.log.repeating import ErrorThrottle
from linear_retry.records.topics.names import is_retry_topic
from linear_retry.retry.clock import NowS
from linear_retry.scope import Partition

_REASON_WITHIN_S = 2.0
_NO_MEMBER = (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.GROUP_ID_NOT_FOUND)
# Not that others have them: it may be the only member, and the brokers may be away.
_REMOVED = "the group did not hear from this member in time, or has removed it"


class OtherGroupsRetries:
    """Listens on a retry line. Logs the first of them only: there may be thousands."""

    def __init__(self, group_id: str) -> None:
        """`group_id` is that of the live line."""
        self._group_id = group_id
        self._has_warned = False

    def __call__(self, event: Event) -> None:
        if self._has_warned or not isinstance(event, PassedOver):
            return
        self._has_warned = True
        log_topic_problem(
            event.topic,
            f"the retry line of group {self._group_id} passes over what other groups have sent "
            f"here, first {event.place} of group {event.retry_group_id}: if that is its live "
            "line's group.id, give it the same; else give each group retry topics of its own",
        )


class NewRetryTopics:
    """Warns, on a live line, of what was created since its start and matches a pattern.

    At its start it is refused. Later it is not, or another group's new topic would end this one.
    """

    def __init__(self, sources: Collection[str]) -> None:
        """`sources` are names and patterns; what is named is meant."""
        self._known = {*sources}

    def note(self, topics: Iterable[str]) -> None:
        """Notes topics that were assigned; logs each retry topic among them once."""
        for topic in sorted({*topics} - self._known):
            self._known.add(topic)
            if is_retry_topic(topic):
                log_topic_problem(
                    topic,
                    f"{topic} has the name of a retry topic, and matches a pattern of this "
                    "consumer: what waits there is handled at once, as new messages; exclude it "
                    "by topic.blacklist, without which the next start is refused",
                )


class ClientErrors:
    """Sorts the client's errors: fatal, in need of a new client, or only reported.

    `useless` is why the client must be replaced; None if not. `due_at_s` is then at once.
    `unexplained`: when a commit's answer reported a fatal error without saying which.
    """

    def __init__(
        self,
        client: Client,
        now_s: NowS,
        group_id: str,
        flow_control: FlowControl,
        emit: Callable[[Event], None],
    ) -> None:
        self._client = client
        self._now_s = now_s
        self._group_id = group_id
        self._flow_control = flow_control
        self._emit = emit
        self._reported = ErrorThrottle()
        self._refused_commits = ErrorThrottle()
        self.unexplained: tuple[KafkaError, float] | None = None
        self.useless: KafkaError | None = None
        self.due_at_s = math.inf

    def report(self, error: KafkaError, topic: str | None = None) -> None:
        """Raises a fatal error; emits any other at its 1st, 10th, 100th ... occurrence.

        With a broker down the same error comes hundreds of times. If only this client cannot
        continue, none of its messages is handled any more. If it never became a member, another
        client would not either, unless only its name is taken (`InstanceIdWait`).
        """
        if needs_new_client(error) and self._client.member.was_member:
            self.useless, self.due_at_s = error, -math.inf
            self._flow_control.mark_all_lost("the client cannot continue")
            return
        if is_name_taken(error) and not self._client.member.was_member:
            self.useless, self.due_at_s = error, -math.inf
            return
        raise_if_fatal(error, group=self._group_id, topic=topic)
        count = self._reported.count(error.code(), self._now_s())
        if count is not None:
            self._emit(ClientError(error.name(), error.str(), count))

    def commit_refused(self, error: KafkaError, partitions: tuple[Partition, ...]) -> None:
        """Handles a refused commit: the next one covers it, unless we are no member any more."""
        unexplained = is_unexplained(error)
        if not unexplained:
            raise_if_fatal(error, group=self._group_id)
        elif self.unexplained is None:
            self.unexplained = error, self._now_s()
        if self._refused_commits.count(error.code(), self._now_s()) is not None:
            self._emit(CommitFailed(error_text(error), partitions))
        if unexplained or error.code() in _NO_MEMBER:
            self._flow_control.mark_all_lost("no longer a member")
        elif not is_retriable_commit(error):
            raise BrokerError(f"a commit was refused: {error_text(error)}")

    def forget(self) -> None:
        """Forgets the old client's errors."""
        self.unexplained = self.useless = None
        self.due_at_s = math.inf

    def raise_if_unexplained(self) -> None:
        """Raises a fatal error whose cause did not arrive in time.

        A commit's answer reports only that there is a fatal error; a later poll reports which. We
        wait for that, and handle nothing meanwhile: a fenced member must not be told to restart.
        """
        if self.unexplained is not None and self.useless is None:
            error, since_s = self.unexplained
            if self._now_s() >= since_s + _REASON_WITHIN_S:
                raise_if_fatal(error)


def error_text(error: KafkaError) -> str:
    """The name of the error and librdkafka's text."""
    return f"{error.name()}: {error.str()}"


class Rebalance:
    """Listens to the client. No handler runs during these callbacks, or its workers are drained.

    So everything finished is already in `Offsets` and can be committed.
    """

    drain: Callable[[Collection[Partition]], None] | None = None
    """Waits for what workers have of these partitions, and notes what is done."""

    def __init__(
        self,
        flow_control: FlowControl,
        commits: OffsetCommits,
        notes: CommitNotes,
        errors: ClientErrors,
        own_topics: frozenset[str],
        emit: Callable[[Event], None],
        new_retry_topics: NewRetryTopics | None = None,
    ) -> None:
        """`own_topics` are those that we write to: consuming them would cause a loop."""
        self._flow_control = flow_control
        self._commits = commits
        self._notes = notes
        self._errors = errors
        self._own_topics = own_topics
        self._emit = emit
        self._new_retry_topics = new_retry_topics

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
        if self._new_retry_topics is not None:
            self._new_retry_topics.note(topic for topic, _ in partitions)

    def revoked(self, partitions: list[Partition]) -> None:
        """Commits what is done, with its notes, then drops the state."""
        if self.drain is not None:
            self.drain(partitions)
        self._commits.commit_revoked(partitions)
        self._flow_control.drop(partitions)
        self._emit(Revoked(tuple(partitions)))

    def lost(self, partitions: list[Partition]) -> None:
        """Drops the state without a commit: another member may own them already."""
        self._flow_control.drop(partitions)
        self._emit(Lost(tuple(partitions), _REMOVED))

    def committed(self, offsets: Mapping[Partition, tuple[int, str]]) -> None:
        self._flow_control.offsets.committed(offsets)

    def note_refused(self, partition: Partition, characters: int) -> None:
        self._notes.shorten(partition, characters)

    def commit_failed(self, error: KafkaError, partitions: tuple[Partition, ...]) -> None:
        """Handles a refused or empty commit (`ClientErrors.commit_refused`)."""
        if error.code() != KafkaError._NO_OFFSET:
            self._errors.commit_refused(error, partitions)

    def client_error(self, error: KafkaError) -> None:
        """Handles an error of librdkafka that is not about a message."""
        self._errors.report(error)
