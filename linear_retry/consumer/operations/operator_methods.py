"""What operators may ask of a consumer, from any thread."""

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
    """The part of `LinearConsumer` that operators' tools call; for any thread."""

    _gives_up: bool
    _limit: int | None

    def _ask(self, wish: OperatorRequest) -> Future[bool]:
        raise NotImplementedError

    def retry_now(
        self, topic: str | None = None, partition: int | None = None, offset: int | None = None
    ) -> Future[bool]:
        """For an operator: attempt this held message now, and not at `retry_at`.

        Without coordinates: end the wait of every open circuit. Where one holds no message, since
        that went to another member, the first to come is attempted. True once the waits have ended,
        False where no circuit is open.

        True the moment its attempt starts, which is before its outcome is known; where only its
        dead letter waits to be sent, the moment that starts. False if it is not held (any more),
        and where the consumer has not started, is stopped or closed; after a `run` that raised, and
        between two loops of your own, the next one answers, or `close`. A message in the handler is
        not attempted twice: it is True or False after that, as the message is held again or not.

        A failure counts as any, and the strategy goes on from there. Two that are asked for at
        once are one attempt. Looked at once a second or so, between two messages. Do not wait for
        it in the handler or in a listener: it is answered by their thread, which also runs what is
        hung on to the future. A future that is cancelled in time has no effect.

        Raises `UsageError` for what can be no coordinates, and after a fork.
        """
        if topic is None and partition is None and offset is None:
            return self._ask(Retry(None))
        return self._ask(Retry(checked_place(topic, partition, offset)))

    def give_up(self, topic: str, partition: int, offset: int) -> Future[bool]:
        """For an operator: send this held message to the dead letters now, reason `given-up`.

        True once the letter is acknowledged; still pending while the sending is tried again. False
        if the message is not held (any more), is revoked or lost, or the consumer stops before.
        One in the handler is given up after that, if it has failed and is held again. With a
        `retry_now` that was asked for before and is not answered yet, the attempt comes first.

        All else is as with `retry_now`. Raises `UsageError` also where there is no dead-letter
        topic.
        """
        if not self._gives_up:
            raise UsageError("give_up: there are no dead letters; name a topic with dead_letters=")
        return self._ask(GiveUp(checked_place(topic, partition, offset)))

    def lift_limit(self, letters: int | None = None, *, reason: str) -> Future[bool]:
        """For an operator: let dead letters go beyond `DeadLetters(limit=...)`.

        Until a handler succeeds; with `letters`, for so many at most. What the limit holds is
        attempted at once. `reason` goes on record (`LimitLifted`). True once it is lifted; all else
        is as with `retry_now`. Raises `UsageError` also where there is no limit.
        """
        if self._limit is None:
            raise UsageError("lift_limit: there is no limit; DeadLetters(limit=...) sets one")
        return self._ask(checked_lift(letters, reason))

    def skip_unreadable(self, topic: str, partition: int, offset: int) -> Future[bool]:
        """For an operator: step over the batch at which this partition stands still, for good.

        `offset` is what `PartitionUnreadable` says. Everything in its batch from there on is lost,
        and said to be (`DataLost`). Where the batch ends is asked of the brokers, which takes a
        moment.

        True once the partition goes on behind it. False if it does not stand still there (any
        more), if it can be read after all, and where no broker says within 30 s where it ends.
        All else is as with `retry_now`.
        """
        return self._ask(SkipUnreadable(checked_place(topic, partition, offset)))
