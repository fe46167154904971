"""Sorts the client's errors: fatal, in need of a new client, or only reported."""

import math
from collections.abc import Callable

from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.errors import BrokerError
from linear_retry.events import ClientError, CommitFailed, Event
from linear_retry.kafka import KafkaError
from linear_retry.kafka.consumer.client import Client
from linear_retry.kafka.consumer.fatal_errors import (
    is_name_taken,
    is_retriable_commit,
    is_unexplained,
    needs_new_client,
    raise_if_fatal,
)
from linear_retry.log.error_throttle import ErrorThrottle
from linear_retry.retry.clock import NowS
from linear_retry.scope import Partition

_REASON_WITHIN_S = 2.0


class ClientErrors:
    """Handles the client's errors. `useless` is why the client must be replaced; None if not.

    `due_at_s` is then at once. `unexplained`: when a commit's answer reported a fatal error
    without saying which.
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
        if unexplained or error.code() == KafkaError.UNKNOWN_MEMBER_ID:
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
