"""Polls, hands out one batch after another, and applies what came of it."""

from collections.abc import Generator

from linear_retry.consumer.attempts.hand_out import HandOut, Task
from linear_retry.consumer.attempts.housekeeping import Housekeeping
from linear_retry.consumer.operations.monitor import Monitor
from linear_retry.consumer.ownership.stop import StopFlag
from linear_retry.consumer.partitions.batches import BatchLimits
from linear_retry.consumer.partitions.read_ahead import ReadAhead
from linear_retry.consumer.runners.run_handler import Batch
from linear_retry.kafka import Message
from linear_retry.retry.circuits import Circuits


class Loop:
    """Runs the turns of a consumer, on one thread."""

    def __init__(
        self,
        housekeeping: Housekeeping,
        hand_out: HandOut,
        read_ahead: ReadAhead,
        circuits: Circuits[Message],
        monitor: Monitor,
        stop: StopFlag,
    ) -> None:
        self._housekeeping = housekeeping
        self._hand_out = hand_out
        self._read_ahead = read_ahead
        self._circuits = circuits
        self._now_s = housekeeping.now_s
        self._monitor = monitor
        self._stop = stop

    def turn(self, limits: BatchLimits | None = None) -> Generator[Batch]:
        """Polls once, then hands out what is due. A poll precedes every attempt.

        With `limits`, a batch is of one partition, for the handler of `run_batches`.
        A batch's outcome is applied when the next batch is requested, or at `close`. Raises what
        cannot be retried; nothing unhandled is committed.
        """
        try:
            yield from self._turn(limits)
        except BaseException:
            # A message may have been dropped on the way: the next turn must read from what is done.
            self._read_ahead.invalidate()
            raise

    def _turn(self, limits: BatchLimits | None) -> Generator[Batch]:
        housekeeping = self._housekeeping
        housekeeping.await_delivery()
        housekeeping.poll()
        for scope in housekeeping.scopes_to_probe():
            if self._stop.asked:  # each probe of a dependency that is down may take a full timeout
                return
            housekeeping.poll_if_late()
            yield from self._attempt(self._hand_out.probe(scope, is_whole=limits is not None))
        if self._read_ahead.messages and not self._stop.asked:
            housekeeping.poll_if_late()
            task = self._hand_out.next(limits)
            # Until a poll or a probe is due.
            self._stop.allow_until(min(self._read_ahead.deadline_s, self._circuits.next_retry_at_s))
            yield from self._attempt(task)

    def _attempt(self, task: Task | None) -> Generator[Batch]:
        """Hands out a batch, then applies its outcome; and sends what is leaving."""
        if task is not None:
            batch = task.batch
            self._monitor.handed_out = task.begun_s, batch.messages[0]
            try:
                yield batch
            finally:  # also if the runner leaves by an exception: what is done must be noted
                if not self._stop.forked and not self._too_slow(task):
                    self._hand_out.conclude(task)
                # Its traceback leads to this batch: a cycle, which would last for the whole wait.
                batch.error = None
        self._housekeeping.await_delivery()

    def _too_slow(self, task: Task) -> bool:
        """Ends a batch; whether the group has removed us meanwhile: then nothing is stored."""
        self._monitor.handed_out = None
        self._monitor.end_batch(self._now_s() - task.begun_s)
        return self._housekeeping.overran(task.batch.last_attempted)
