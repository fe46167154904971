"""The methods of a consumer that operators use, from any thread."""

from concurrent.futures import Future

from linear_retry.consumer.operations.requests import (
    GiveUp,
    OperatorRequest,
    Retry,
    SkipUnreadable,
    checked_lift,
    checked_place,
)
from linear_retry.errors import UsageError


class OperatorMethods:
    """The methods of `LinearConsumer` for operators' tools. Thread-safe."""

    _gives_up: bool
    _has_limit: bool

    def _ask(self, wish: OperatorRequest) -> Future[bool]:
        raise NotImplementedError

    def retry_now(
        self, topic: str | None = None, partition: int | None = None, offset: int | None = None
    ) -> Future[bool]:
        """Attempts this held message now, without waiting for `retry_at`. For operators.

        Without coordinates: ends the wait of every open circuit. If a circuit holds no message,
        since that went to another member, the next message to arrive is attempted. True once the
        waits have ended, False if no circuit is open.

        True as soon as the attempt starts, before its outcome is known; if only the dead letter
        waits to be sent, as soon as that starts. False if the message is not (or no longer) held,
        and if the consumer has not started, is stopped or closed; after a `run` that raised, and
        between two loops of your own, the next one answers, or `close`. A message in the handler is
        not attempted twice: the answer comes afterwards, True if the message is held again, else
        False.

        A failure counts as usual, and the strategy continues from there. Two requests at the same
        time make one attempt. Requests are taken about once a second, between two messages. Do not
        wait for the future in the handler or in a listener: it is completed by their thread, which
        also runs its callbacks. A future that is cancelled in time has no effect.

        Raises `UsageError` for invalid coordinates, and after a fork.
        """
        if topic is None and partition is None and offset is None:
            return self._ask(Retry(None))
        return self._ask(Retry(checked_place(topic, partition, offset)))

    def give_up(self, topic: str, partition: int, offset: int) -> Future[bool]:
        """Sends this held message to the dead letters now, reason `given-up`. For operators.

        True once the letter is acknowledged; pending while the sending is retried. False if the
        message is not (or no longer) held, is revoked or lost, or the consumer stops first. A
        message in the handler is given up afterwards, if it failed and is held again. If a
        `retry_now` was requested before and is not answered yet, the attempt comes first.

        Otherwise as `retry_now`. Also raises `UsageError` if there is no dead-letter topic.
        """
        if not self._gives_up:
            raise UsageError(
                "give_up: the consumer has no dead-letter topic; name one with dead_letters="
            )
        return self._ask(GiveUp(checked_place(topic, partition, offset)))

    def lift_limit(self, letters: int | None = None, *, reason: str) -> Future[bool]:
        """Lets messages leave beyond the `limit` of `DeadLetters` or `RetryTopics`. For operators.

        Until a handler succeeds; with `letters`, for at most that many. Messages that the limit
        holds are attempted at once. `reason` is recorded (`LimitLifted`). True once the limit is
        lifted; otherwise as `retry_now`. Also raises `UsageError` if there is no limit.
        """
        if not self._has_limit:
            raise UsageError(
                "lift_limit: the consumer has no limit; set one with DeadLetters(limit=...) or "
                "RetryTopics(limit=...)"
            )
        return self._ask(checked_lift(letters, reason))

    def skip_unreadable(self, topic: str, partition: int, offset: int) -> Future[bool]:
        """Skips the batch at which this partition is blocked, for good. For operators.

        `offset` is that of `PartitionUnreadable`. Everything in its batch from there on is lost,
        and reported as `DataLost`. The brokers are asked where the batch ends, which takes a
        moment.

        True once the partition continues after the batch. False if it is not (or no longer) blocked
        there, if it turns out to be readable, and if no broker reports the end of the batch within
        30 s. Otherwise as `retry_now`.
        """
        return self._ask(SkipUnreadable(checked_place(topic, partition, offset)))
