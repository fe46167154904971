"""The fake Kafka of a play: steps strike between a member's calls and callbacks."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

from linear_retry.consumer.letters.publisher import STOP_GRACE_S
from linear_retry.kafka import Message
from linear_retry.scope import Partition
from tests.fake.cluster import FakeKafka
from tests.fake.consumer import FakeConsumer
from tests.fake.membership import Callback
from tests.fake.producer import FakeProducer
from tests.torture.schedules.schedule import State

_TRANSACTIONAL = frozenset(
    {
        "init_transactions",
        "begin_transaction",
        "send_offsets_to_transaction",
        "commit_transaction",
        "abort_transaction",
    }
)
_GIVEN_BACK = frozenset({"assign", "incremental_assign"})
# A close is on a thread of its own; what is called back is not ours to disturb.
_UNDISTURBED = frozenset({"close", "on_assign", "on_revoke", "on_lost", "on_delivery"})


class Strike(Protocol):
    def __call__(self, state: State | None, *, midway: bool) -> None: ...


class PlayedKafka(FakeKafka):
    """The fake Kafka, which says when something may strike; it keeps no log of the calls."""

    def __init__(
        self, strike: Strike, share: Callable[[], None], waited: Callable[[float], None]
    ) -> None:
        """`strike` is called before each call of a client, and where a consumer's poll returns.

        With None where nothing is special, and whether it is in the midst of a turn. `share` is
        called where somebody has joined, who has nothing yet, and `waited` where one stood still
        since then for an answer that no broker gave.
        """
        super().__init__()
        self._strike = strike
        self._share = share
        self._waited = waited
        self._inside: list[State] = []
        self._called_back: list[FakeConsumer] = []
        self._later: list[Callable[[], None]] = []
        self._fenced: list[tuple[FakeConsumer, bool]] = []
        self._were_fenced: set[FakeConsumer] = set()

    def consumer(self, config: Mapping[str, Any]) -> FakeConsumer:
        on_commit = config.get("on_commit")
        if on_commit is None:  # it commits nothing, and is in no group
            return super().consumer(config)

        def reported(*arguments: Any) -> None:
            with self.inside("in a callback"):
                on_commit(*arguments)

        name = f"consumer-{len(self.consumers) + 1}"
        self.consumers.append(_PlayedConsumer(self, {**config, "on_commit": reported}, name))
        return self.consumers[-1]

    def producer(self, config: Mapping[str, Any]) -> FakeProducer:
        self.producers.append(_PlayedProducer(self, config, f"producer-{len(self.producers) + 1}"))
        return self.producers[-1]

    @contextmanager
    def inside(self, state: State) -> Iterator[None]:
        """Its body runs in a member that is in this state."""
        self._inside.append(state)
        try:
            yield
        finally:
            self._inside.pop()

    @contextmanager
    def calling_back(self, consumer: FakeConsumer) -> Iterator[None]:
        """Its body is a callback of this client's: what the group wants meanwhile waits."""
        self._called_back.append(consumer)
        try:
            with self.inside("in a callback"):
                yield
        finally:
            self._called_back.pop()

    def elsewhere(self, act: Callable[[], None]) -> None:
        """`act` runs in another member, who is in none of the present states."""
        inside, self._inside = self._inside, []
        try:
            act()
        finally:
            self._inside = inside

    def note(self, client: str, call: str, arguments: object) -> None:
        if call in _UNDISTURBED:
            return
        if call in _GIVEN_BACK and not self._called_back:
            return  # half of what it begins again is not assigned: no rebalance sees that
        if self._later:
            self.catch_up()
        if self._fenced and call in ("poll", "consume"):
            self._report_fences(client)
        if call == "poll" and client.startswith("consumer"):
            return  # how long it waits is decided: what strikes, strikes when it returns
        self._strike(self._state(client, call), midway=True)

    def polled(self) -> None:
        """A consumer's poll returns."""
        self._strike(self._inside[-1] if self._inside else None, midway=False)

    def assign(
        self, consumer: FakeConsumer, partitions: Iterable[Partition], *, after: int = 0
    ) -> None:
        if not (consumer.blind or consumer.refused):  # or nobody could tell it
            act = partial(super().assign, consumer, list(partitions), after=after)
            self._in_turn(consumer, act)

    def revoke(self, consumer: FakeConsumer, *, after: int = 0) -> None:
        self._in_turn(consumer, partial(super().revoke, consumer, after=after))

    def lose(self, consumer: FakeConsumer, *, after: int = 0) -> None:
        self._in_turn(consumer, partial(super().lose, consumer, after=after))

    def joined(self, consumer: FakeConsumer, topics: Iterable[str]) -> None:
        super().joined(consumer, topics)
        self._share()

    def require_brokers(self, timeout_s: float | None, *, blind: bool = False) -> None:
        with self.waiting():
            super().require_brokers(timeout_s, blind=blind)

    def wait_for_brokers(self, at_most_s: float) -> None:
        with self.waiting():
            super().wait_for_brokers(at_most_s)

    def fence(self, consumer: FakeConsumer, *, rejoins: bool = False) -> None:
        """It learns of that in its next poll."""
        self._fenced.append((consumer, rejoins))

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Meanwhile the one that acts can do nothing: it stands still, or waits for a broker."""
        since_s = self.clock.now_s()
        try:
            yield
        finally:
            self._waited(since_s)

    def was_fenced(self, consumer: FakeConsumer) -> bool:
        """Whether it has learned of that."""
        return consumer in self._were_fenced

    def overruns(self, consumer: FakeConsumer) -> int:
        """How often it was away from its polls, or asleep, for longer than its group allows."""
        assert isinstance(consumer, _PlayedConsumer)
        return consumer.overruns + consumer.is_overdue()

    def catch_up(self) -> None:
        """What has waited for the end of a callback is done, in its order."""
        while self._later and not self._called_back:
            self._later.pop(0)()

    def _report_fences(self, client: str) -> None:
        for fenced in [each for each in self._fenced if each[0].name == client]:
            self._fenced.remove(fenced)
            self._were_fenced.add(fenced[0])
            super().fence(fenced[0], rejoins=fenced[1])

    def _in_turn(self, consumer: FakeConsumer, act: Callable[[], None]) -> None:
        if consumer in self._called_back or self._later:
            self._later.append(act)
        else:
            act()

    def _state(self, client: str, call: str) -> State | None:
        if call == "commit":
            return "committing"
        if client.startswith("producer") and self._awaits_letter(client, call):
            return "waiting for a letter"
        return self._inside[-1] if self._inside else None

    def _awaits_letter(self, client: str, call: str) -> bool:
        if call == "poll":
            return len(self.producers[int(client.removeprefix("producer-")) - 1]) > 0
        return call in _TRANSACTIONAL


class _PlayedConsumer(FakeConsumer):
    """`overruns`: so many stretches between two polls were too long for the group."""

    def __init__(self, fake: FakeKafka, config: Mapping[str, Any], name: str) -> None:
        super().__init__(fake, config, name)
        self.overruns = 0
        self._max_poll_interval_s = float(config.get("max.poll.interval.ms", 300_000)) / 1000
        self._session_timeout_s = float(config.get("session.timeout.ms", 45_000)) / 1000
        self._polled_at_s = fake.clock.now_s()
        self._suspended_s = fake.clock.suspended_s()

    def is_overdue(self) -> bool:
        """Whether the stretch since the last poll is one of those."""
        clock = self._fake.clock
        slept_s = clock.suspended_s() - self._suspended_s
        away_s = clock.now_s() - self._polled_at_s
        return away_s > self._max_poll_interval_s or slept_s > self._session_timeout_s

    def poll(self, timeout: float | None = None) -> Message | None:
        overdue = self.is_overdue()
        message = super().poll(timeout)
        self._played().polled()
        self._back(overdue)
        return message

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        overdue = self.is_overdue()
        messages = super().consume(num_messages, timeout)
        self._back(overdue)
        return messages

    def subscribe(
        self,
        topics: list[str],
        on_assign: Callback | None = None,
        on_revoke: Callback | None = None,
        on_lost: Callback | None = None,
    ) -> None:
        called = [self._watched(callback) for callback in (on_assign, on_revoke, on_lost)]
        super().subscribe(topics, *called)

    def _watched(self, callback: Callback | None) -> Callback | None:
        if callback is None:
            return None

        def watched(consumer: Any, partitions: Any) -> None:
            with self._played().calling_back(self):
                callback(consumer, partitions)

        return watched

    def _back(self, overdue: bool) -> None:
        self.overruns += overdue
        self._polled_at_s = self._fake.clock.now_s()
        self._suspended_s = self._fake.clock.suspended_s()

    def _played(self) -> PlayedKafka:
        played = self._fake
        assert isinstance(played, PlayedKafka)
        return played


class _PlayedProducer(FakeProducer):
    """Of a letter that is another's by now, the answer is waited for a second longer."""

    def poll(self, timeout: float = -1) -> int:
        if timeout < STOP_GRACE_S:  # as part of its sending, which needs no excuse
            return super().poll(timeout)
        played = self._fake
        assert isinstance(played, PlayedKafka)
        with played.waiting():
            return super().poll(timeout)
