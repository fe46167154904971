"""The read-ahead: messages that have arrived but are not handled yet."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from linear_retry.kafka import KafkaError, Message
from linear_retry.kafka.consumer.client import Client
from linear_retry.kafka.consumer.messages import offset_of, partition_of
from linear_retry.kafka.topics.batch_end import is_unreadable
from linear_retry.retry.clock import Clock
from linear_retry.scope import Partition, Scope

LARGEST_BATCH = 500
BATCH_S = 0.2
TOUCH_S = 1.0
_WAITED_S = 0.001
_BATCHES_AHEAD = 4
_ABOUT_ONE_PARTITION = (KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET)


@dataclass(frozen=True, slots=True)
class Progress:
    """What is done of one partition, where more is than what is below the first undone offset.

    Below `frontier` all is done but what the lanes have from their `firsts` on; nothing is known
    of what begins at `read_to`.
    """

    read_to: int
    frontier: int
    firsts: Mapping[Scope, Message]


class ReadAhead:
    """The read-ahead: messages in order of arrival, each partition's in offset order.

    `dry`: librdkafka's queue was empty, so silent partitions have nothing in it either.
    `deadline_s` is when the loop must poll again, even with messages left: a handler's past speed
    guarantees nothing. `overruns_at_s` is when the group reassigns our partitions unless we poll;
    before `doubtful_at_s` it cannot have done so. `overslept`: the machine was suspended beyond the
    session timeout inside the last poll. `in_hand`: the message, by partition and offset, whose
    letter is awaited while we poll: it is neither read ahead nor done.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        epoch: Callable[[], int],
        *,
        max_poll_interval_s: float,
        session_timeout_s: float,
    ) -> None:
        """`epoch` returns a number that changes with every rebalance."""
        self._client = client
        self._clock = clock
        self._epoch = epoch
        self._max_poll_interval_s = max_poll_interval_s
        self._session_timeout_s = session_timeout_s
        self.touch_s = min(TOUCH_S, max_poll_interval_s / 10)
        self._batch_size = 1
        self._enough = 0
        self.messages: list[Message] = []
        self.in_hand: tuple[Partition, int] | None = None
        self.is_invalid = False
        self.dry = False
        self.overslept = False
        self.polled_at_s = clock.now_s()
        self.deadline_s = self.polled_at_s
        self.overruns_at_s = self.polled_at_s + max_poll_interval_s
        self.doubtful_at_s = self.polled_at_s
        self._awake_at_s = clock.awake_s()

    def overran(self, now_s: float) -> bool:
        """Whether the group may have reassigned our partitions since the last poll.

        Because of `max.poll.interval.ms`, or because the machine was suspended for too long.
        """
        return now_s > self.doubtful_at_s and (
            now_s > self.overruns_at_s or self._slept_s(now_s) > self._session_timeout_s
        )

    def last_of(self, partition: Partition) -> int | None:
        """Returns the offset of its last unhandled message in memory; None without one."""
        ahead = [(partition_of(message), offset_of(message)) for message in self.messages]
        known = ahead if self.in_hand is None else [self.in_hand, *ahead]
        return max((offset for key, offset in known if key == partition), default=None)

    @property
    def waiting_messages(self) -> int:
        """How many messages in memory may not be handed over before they are due."""
        return 0

    @property
    def next_due_at_s(self) -> float:
        """When a message comes due that may not be handed over before; infinity: none waits."""
        return math.inf

    def last_kept(self, partition: Partition) -> int | None:  # noqa: ARG002  (none waits here)
        """The last message that stays in memory over a seek, which then goes behind it."""
        return None

    def restart_at(self, partition: Partition, offset: int | None) -> int | None:  # noqa: ARG002  (in order)
        """Where it begins if it is assigned again at this offset: behind what stays in memory."""
        return offset

    def read(self, timeout_s: float) -> list[Message]:
        """Polls for messages and errors; the caller must `keep` what is to be handled.

        Waits only for the first: waiting for a full batch would delay a single message by up to the
        timeout (p50 594 ms, measured). With messages left to handle it polls without waiting.
        """
        missing = max(self._enough - len(self.messages), 1)
        return self._polled(
            lambda: self._consume(missing) if self.messages else self._batch(timeout_s)
        )

    def touch(self) -> list[Message]:
        """Polls without waiting, taking one message at most, to stay in the group."""
        return self._polled(lambda: self._consume(1))

    def keep(self, messages: list[Message]) -> None:
        self.messages += messages

    def drop(self, covers: Callable[[Partition], bool]) -> None:
        """Drops partitions that will be fetched again."""
        self.messages = [message for message in self.messages if not covers(partition_of(message))]

    def forget(self, covers: Callable[[Partition], bool]) -> None:
        """Drops partitions that are not ours any more, with whatever a handler has of them."""
        self.drop(covers)

    def take_out(self, messages: Sequence[Message]) -> None:
        """Takes out the first messages, which are handled or held."""
        del self.messages[: len(messages)]

    def done(self, messages: Sequence[Message]) -> Mapping[Partition, int]:
        """Returns the first undone offset of each partition after these, which are done."""
        return next_offsets(messages)

    def pass_over(self, message: Message) -> Mapping[Partition, int]:
        """As `done`, of one that has arrived and is not to be attempted."""
        return self.done([message])

    def next_once_done(self, partition: Partition, offset: int) -> int:  # noqa: ARG002  (in order)
        """Returns the first offset that is not done once the message at `offset` is."""
        return offset + 1

    def progress(
        self,
        partition: Partition,  # noqa: ARG002  (in order)
        done: int | None = None,  # noqa: ARG002
        noted: int = 0,  # noqa: ARG002
    ) -> Progress | None:
        """Returns what is done of a partition in another order than that of its offsets.

        `done` is the offset of a message that will be done with the commit, and `noted` the
        frontier of an earlier owner's note.
        """
        return None

    def count_beyond(self, partition: Partition, base: int) -> tuple[int, int]:  # noqa: ARG002  (in order)
        """Counts the offsets above `base` that are done, and what waits behind held messages.

        Thread-safe.
        """
        return 0, 0

    def count_behind(self, scope: Scope) -> int:  # noqa: ARG002  (what is held back is dropped)
        """Counts the messages that wait behind the held one of a key."""
        return 0

    def holds_before(self, message: Message) -> bool:  # noqa: ARG002  (it is the first of all)
        """Whether a message in memory comes before this one, in its lane."""
        return False

    def let_go(self, scope: Scope) -> None:
        """Does nothing: what a circuit has held back is fetched again once it closes."""

    def drop_through(self, partition: Partition, offset: int) -> None:
        """Drops messages up to `offset`: they are done, but were fetched again meanwhile."""
        self.messages = [
            message
            for message in self.messages
            if partition_of(message) != partition or offset_of(message) > offset
        ]

    def start_small(self) -> None:
        """Makes the next batch of size 1, after an assignment or a failure."""
        self._batch_size = 1
        self._enough = 0

    def note_speed(self, handled: int, took_s: float) -> None:
        """Adapts the next batch to the handler's speed, so that it takes about `BATCH_S`."""
        fits = int(BATCH_S * handled / took_s) if took_s > 0 else LARGEST_BATCH
        self._batch_size = max(1, min(fits, 4 * self._batch_size, LARGEST_BATCH))

    def grow(self, most: int) -> None:
        """Adapts to batches of `most` messages of one partition, whatever the handler's speed.

        Reads several ahead, as the partitions' messages arrive mixed.
        """
        self._batch_size = max(1, min(most, 4 * self._batch_size))
        self._enough = _BATCHES_AHEAD * self._batch_size

    def restored(self) -> None:
        """Notes that every partition has been sought to its next offset."""
        self.is_invalid = False

    def _polled(self, fetch: Callable[[], list[Message]]) -> list[Message]:
        try:
            arrivals = fetch()
        except BaseException:
            # An exception raised inside may have lost messages (4,378 of 4,809, measured).
            self.invalidate()
            raise
        now_s = self._clock.now_s()
        self.overslept = self._slept_s(now_s) > self._session_timeout_s
        self.polled_at_s = now_s
        self.deadline_s = self.polled_at_s + self.touch_s
        self.overruns_at_s = now_s + self._max_poll_interval_s
        self.doubtful_at_s = now_s + min(self._max_poll_interval_s, self._session_timeout_s)
        self._awake_at_s = self._clock.awake_s()
        return arrivals

    def _slept_s(self, now_s: float) -> float:
        """How long the machine has been suspended since the last poll."""
        return now_s - self.polled_at_s - (self._clock.awake_s() - self._awake_at_s)

    def _batch(self, timeout_s: float) -> list[Message]:
        asked_at_s = self._clock.now_s()
        first = self._client.poll(timeout_s)
        self.dry = first is None or self._clock.now_s() - asked_at_s >= _WAITED_S
        if first is None:
            return []
        rest = self._consume(self._batch_size - 1) if self._batch_size > 1 else []
        arrivals = [first, *rest]
        return list(filter(is_about_client, arrivals)) if self.is_invalid else arrivals

    def _consume(self, count: int) -> list[Message]:
        epoch = self._epoch()
        messages = self._client.consume(count)
        self.dry = len(messages) < count
        if self._epoch() != epoch:
            # We cannot tell which of them came before the rebalance that ran inside. A prototype
            # that kept them skipped offset 0 within a minute of members joining and leaving.
            self.invalidate()
            # Errors of the client are reported only once: dropped here, they would never be seen.
            return list(filter(is_about_client, messages))
        return messages

    def invalidate(self) -> None:
        """Notes that positions are unknown, so everything must be fetched again."""
        self.messages = []  # a new list, not cleared: a runner may be iterating over the old one
        self.is_invalid = True


def is_about_client(message: Message) -> bool:
    """Whether it is an error of the client, not a partition's that a seek would repeat."""
    error = message.error()
    return error is not None and not (error.code() in _ABOUT_ONE_PARTITION or is_unreadable(error))


def next_offsets(messages: Sequence[Message]) -> dict[Partition, int]:
    """The next offset of each partition after these. They come in runs: most need no lookup."""
    last: dict[Partition, int] = {}
    topic, number = None, None
    for message in reversed(messages):
        if message.partition() != number or message.topic() != topic:
            topic, number = partition_of(message)
            last.setdefault((topic, number), offset_of(message) + 1)
    return last
