"""The log of a test: the actions of a group's members, in the order of time."""

import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from linear_retry.errors import DeadLetterError
from linear_retry.events import Event
from linear_retry.kafka.consumer.messages import headers_of, timestamp_ms_of
from linear_retry.records import retry_headers as names
from linear_retry.records.retry_headers import read_headers
from linear_retry.retry.clock import NowS, SystemClock, now_ms
from linear_retry.retry.failed_attempt import BatchError
from linear_retry.scope import Partition, Place

AttemptOutcome: TypeAlias = Literal["done", "failed", "interrupted"]
"""It returned (`done`), raised an `Exception` (`failed`) or something else (`interrupted`)."""

_FIELDS = ("retry_id", "generation", "failures", "step", "replay_count")
_HEADERS = tuple(header for header in names.RETRY_HEADERS if header.field in _FIELDS)


@dataclass(frozen=True, slots=True)
class RetryHop:
    """One wait of a message in a retry topic; `step` is 0 where its record has none.

    `failures` are those before it, `waited_s` is how long the record had been in its topic when the
    attempt began: by the broker's clock and the reader's.
    """

    retry_id: str
    generation: int
    replay_count: int
    step: int
    failures: int
    waited_s: float


def hop_of(message: Any, utc_ms: Callable[[], int]) -> RetryHop | None:
    """The hop by which a message came that is attempted now; None: it is on no way through retries.

    That is so too where its headers do not say who it is: it is dead-lettered, and not attempted.
    """
    found = headers_of(message)  # made safe by the consumer before anybody gets the message
    if not found:
        return None
    contents = dict(found)
    if contents.get(names.SEND_TO) != names.RETRY.encode():
        return None
    try:
        fields = read_headers(contents, _HEADERS)
    except DeadLetterError:
        return None
    written_ms, read_ms = timestamp_ms_of(message), utc_ms()
    return RetryHop(
        fields["retry_id"],
        fields["generation"],
        fields["replay_count"] or 0,
        fields["step"] or 0,
        fields["failures"],
        0.0 if written_ms is None else (read_ms - written_ms) / 1000,
    )


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    """An attempt begins: the message was delivered to the handler.

    `hop` is what the headers say of a message that came through a retry topic; else None.
    """

    at_s: float
    member: str
    place: Place
    hop: RetryHop | None = None

    def __str__(self) -> str:
        return f"{_when(self)}: {self.place} is attempted"


@dataclass(frozen=True, slots=True)
class AttemptFinished:
    """The attempt is over."""

    at_s: float
    member: str
    place: Place
    outcome: AttemptOutcome

    def __str__(self) -> str:
        return f"{_when(self)}: {self.place} is {self.outcome}"


@dataclass(frozen=True, slots=True)
class EventEmitted:
    """The consumer emitted an event."""

    at_s: float
    member: str
    event: Event

    def __str__(self) -> str:
        return f"{_when(self)}: {self.event}"


@dataclass(frozen=True, slots=True)
class Committed:
    """The broker has these next offsets. `member` is the one that was answered; "" for a lookup."""

    at_s: float
    member: str
    offsets: Mapping[Partition, int]

    def __str__(self) -> str:
        offsets = ", ".join(
            f"{topic}[{n}]: {at}" for (topic, n), at in sorted(self.offsets.items())
        )
        return f"{_when(self)}: committed are {offsets or 'no offsets'}"


@dataclass(frozen=True, slots=True)
class Appended:
    """One more message can be read. `member` is ""."""

    at_s: float
    member: str
    place: Place

    def __str__(self) -> str:
        return f"{self.at_s:.3f}: {self.place} is there"


@dataclass(frozen=True, slots=True)
class Disturbed:
    """A disturbance from outside began, or is `over`. `member`: the disturbed one, "" for all."""

    at_s: float
    member: str
    what: str
    over: bool

    def __str__(self) -> str:
        return f"{_when(self)}: {self.what}{', over' if self.over else ''}"


@dataclass(frozen=True, slots=True)
class Idle:
    """The member could do nothing since `since_s`: another had its turn, or the machine hung."""

    at_s: float
    member: str
    since_s: float

    def __str__(self) -> str:
        return f"{_when(self)}: away since {self.since_s:.3f}"


@dataclass(frozen=True, slots=True)
class StateSize:
    """The member keeps so many `entries` of state; `limit` are allowed."""

    at_s: float
    member: str
    entries: int
    limit: int

    def __str__(self) -> str:
        return f"{_when(self)}: {self.entries} entries are kept, at most {self.limit} may be"


@dataclass(frozen=True, slots=True)
class Crashed:
    """The member's process was killed: its partitions have no owner."""

    at_s: float
    member: str

    def __str__(self) -> str:
        return f"{_when(self)}: died"


Entry: TypeAlias = (
    AttemptStarted
    | AttemptFinished
    | EventEmitted
    | Committed
    | Appended
    | Disturbed
    | Idle
    | StateSize
    | Crashed
)


class EventLog:
    """Records what all members of a group do, on one clock.

    `entries` is the log, in the order of time. Its methods may be called from any thread.
    """

    def __init__(
        self,
        now_s: NowS = SystemClock.now_s,
        entries: list[Entry] | None = None,
        utc_ms: Callable[[], int] = now_ms,
    ) -> None:
        """`now_s`: seconds that never decrease, on the same clock for all members.

        `utc_ms`: the clock that is compared with the broker's, for messages in retry topics.
        """
        self.now_s = now_s
        self._utc_ms = utc_ms
        self.entries: list[Entry] = [] if entries is None else entries
        self._watchers: list[Callable[[Entry], object]] = []
        # Members are threads: without it entries may be out of order, and two threads inside one
        # watcher. Reentrant, as a watcher may write entries.
        self._lock = threading.RLock()

    def watch(self, watcher: Callable[[Entry], object]) -> None:
        """Calls `watcher` with each entry from now on, in the thread that writes the entry.

        One at a time, in the order of the log. It must not wait for another member, which may be
        waiting to write.
        """
        with self._lock:
            self._watchers.append(watcher)

    def listener(self, member: str) -> Callable[[Event], None]:
        """A listener for `listeners=` of the consumer that is called `member` here."""
        return lambda event: self._write(EventEmitted, member, event)

    def handler(self, member: str, inner: Callable[[Any], object]) -> Callable[[Any], object]:
        """Wraps `inner`, a handler, and records each of its calls."""

        def watched(message: Any) -> object:
            with self.attempting(member, message):
                return inner(message)  # the consumer rejects work that would not run

        return watched

    def async_handler(
        self, member: str, inner: Callable[[Any], Awaitable[object]]
    ) -> Callable[[Any], Awaitable[object]]:
        """The same for `run_async`: each call is recorded until its awaitable is done."""

        async def watched(message: Any) -> object:
            with self.attempting(member, message):
                return await inner(message)

        return watched

    def batch_handler(
        self, member: str, inner: Callable[[list[Any]], object]
    ) -> Callable[[list[Any]], object]:
        """The same for `run_batches`: a batch is an attempt of its first message.

        It ends for all of the batch: each is done or failed, or what `BatchError` says of it.
        """

        def watched(messages: list[Any]) -> object:
            hop = hop_of(messages[0], self._utc_ms)
            with _BatchAttempt(self._write, member, [*map(_place_of, messages)], hop):
                return inner(messages)

        return watched

    def attempting(self, member: str, message: Any) -> AbstractContextManager[None]:
        """Records its body as an attempt of `message`, in a loop of your own."""
        hop = hop_of(message, self._utc_ms)
        return _Attempt(self._write, member, _place_of(message), hop)

    def on_commit(self, member: str) -> Callable[[Any, Sequence[Any]], None]:
        """A callback for the configuration key `on_commit`: records acknowledged commits.

        Only asynchronous ones: librdkafka does not report the synchronous commit at a revoke.
        """

        def told(error: Any, partitions: Sequence[Any]) -> None:
            stored = [one for one in partitions if error is None and one.error is None]
            offsets = {(one.topic, one.partition): one.offset for one in stored if one.offset >= 0}
            if offsets:
                self.committed(offsets, member)

        return told

    def appended(self, partition: Partition, offsets: Iterable[int]) -> None:
        """Records that these messages exist from now on."""
        for offset in offsets:
            self._write(Appended, "", Place(*partition, offset))

    def committed(self, offsets: Mapping[Partition, int], member: str = "") -> None:
        """Records that the broker now has these next offsets."""
        self._write(Committed, member, dict(offsets))

    @contextmanager
    def disturbing(self, what: str, member: str = "") -> Iterator[None]:
        """Records its body as a disturbance, of all members or of this one."""
        self._write(Disturbed, member, what, False)
        try:
            yield
        finally:
            self._write(Disturbed, member, what, True)

    def idle(self, member: str, since_s: float) -> None:
        """Records that the member continues now, and could do nothing since `since_s`."""
        if self.now_s() > since_s:
            self._write(Idle, member, since_s)

    def state_size(self, member: str, entries: int, limit: int) -> None:
        """Records the number of entries of state it keeps: of partitions, circuits and messages."""
        self._write(StateSize, member, entries, limit)

    def crashed(self, member: str) -> None:
        """Records that the member was killed, which nothing else does."""
        self._write(Crashed, member)

    def _write(self, kind: Callable[..., Entry], member: str, *content: object) -> None:
        with self._lock:
            entry = kind(self.now_s(), member, *content)
            self.entries.append(entry)
            for watcher in self._watchers:
                watcher(entry)


class _Attempt:
    """A class, for speed: a test has millions, and a generator's context takes thrice as long."""

    __slots__ = ("_hop", "_member", "_place", "_write")

    def __init__(
        self, write: Callable[..., None], member: str, place: Place, hop: RetryHop | None
    ) -> None:
        self._write = write
        self._member = member
        self._place = place
        self._hop = hop

    def __enter__(self) -> None:
        self._write(AttemptStarted, self._member, self._place, self._hop)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        outcome: AttemptOutcome = "done"
        if kind is not None:
            outcome = "failed" if issubclass(kind, Exception) else "interrupted"
        self._write(AttemptFinished, self._member, self._place, outcome)


class _BatchAttempt:
    """The first message stands for the batch: a circuit holds the batch at it."""

    def __init__(
        self, write: Callable[..., None], member: str, places: list[Place], hop: RetryHop | None
    ) -> None:
        self._write = write
        self._member = member
        self._places = places
        self._hop = hop

    def __enter__(self) -> None:
        self._write(AttemptStarted, self._member, self._places[0], self._hop)

    def __exit__(self, kind: type[BaseException] | None, error: object, _: object) -> None:
        places = self._places
        match error:
            case None:
                self._finish(places, "done")
            case BatchError(index=int(index)) if 0 <= index < len(places):
                self._finish(places[:index], "done")
                self._finish(places[index : index + 1], "failed")
            case Exception() if not isinstance(error, BatchError):
                self._finish([*reversed(places)], "failed")
            case _:
                self._finish(places[:1], "interrupted")

    def _finish(self, places: list[Place], outcome: AttemptOutcome) -> None:
        for place in places:
            self._write(AttemptFinished, self._member, place, outcome)


def _place_of(message: Any) -> Place:
    return Place(message.topic(), message.partition(), message.offset())


def _when(entry: Entry) -> str:
    return f"{entry.at_s:.3f}{entry.member and ' '}{entry.member}"
