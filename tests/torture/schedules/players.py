"""The members of a play: `run`, a loop of one's own, or `run_async`."""

import asyncio
from collections.abc import Generator
from contextlib import closing

from linear_retry.consumer.lanes.lane_loop import LaneLoop
from linear_retry.consumer.partitions.batches import BatchLimits
from linear_retry.consumer.runners.async_hand_over import AsyncAttempting
from linear_retry.consumer.runners.own_loop import Attempts
from linear_retry.consumer.runners.run_handler import Batch, Results, attempt_all, attempt_batch
from linear_retry.kafka import Message
from tests.consumer.group import FakeGroup, Member, Protocol

PLAYED_WORKERS = 2
PLAYED_BATCHES = BatchLimits(max_messages=4, max_bytes=1_000_000)


class Player(Member):
    """A member that may be killed in the midst of anything. This one attempts as `run` does.

    `ends`: its program wants to end, and closes it after the turn. `interrupted`: by a Ctrl-C
    in the midst of a turn. `sends`: it may be waiting for a letter in this turn.
    """

    def __init__(self, group: FakeGroup, name: str, protocol: Protocol) -> None:
        self.killed = False
        self.ends = False
        self.commits = True
        self.leaves_after = 100
        self.interrupted = False
        self.sends = False
        super().__init__(group, name, protocol)

    def turn(self) -> None:
        """One turn of the loop."""
        now_s = self.parts.clock.now_s
        self._witness.idle(self.name, self._rests_since_s)
        try:
            self._attempt_some()
        finally:
            self._rests_since_s = now_s()

    def leave(self) -> None:
        """A clean end, as `LinearConsumer.close` makes it."""
        self.stop.ask()
        self.parts.close(commit=self.commits, timeout_s=10)

    def _attempt_some(self) -> None:
        now_s = self.parts.clock.now_s
        with closing(self.parts.loop.turn()) as turn:
            for batch in turn:
                attempt_all(batch, self.handler, self.stop, now_s, Results())


class BatchPlayer(Player):
    """Its handler is given lists."""

    def _attempt_some(self) -> None:
        with closing(self.parts.loop.turn(PLAYED_BATCHES)) as turn:
            for batch in turn:
                attempt_batch(batch, self.batch_handler, Results())


class WorkersPlayer(Player):
    """Its partitions are attempted side by side, each by one of its workers."""

    def leave(self) -> None:
        self.stop.ask()
        try:
            self._lanes.finish()
        finally:
            super().leave()

    def _attempt_some(self) -> None:
        self.turn_side_by_side(self._lanes)

    def _is_killed(self) -> bool:
        return self.killed

    @property
    def _lanes(self) -> LaneLoop:
        if self.parts.lanes is None:
            raise AssertionError("it has no workers")
        return self.parts.lanes


class OwnLoopPlayer(Player):
    """Attempts what comes in a loop of its own, and leaves that after `leaves_after` attempts.

    What it left is applied when it goes on: whatever the schedule does, it may do in the midst of
    a batch.
    """

    def __init__(self, group: FakeGroup, name: str, protocol: Protocol) -> None:
        super().__init__(group, name, protocol)
        self.attempts = Attempts(self._one_turn, self.stop, group.fake.clock.now_s)

    def leave(self) -> None:
        self.stop.ask()
        try:
            self.attempts.finish()
            self.parts.housekeeping.await_delivery()
        finally:
            super().leave()

    def _one_turn(self) -> Generator[Batch]:
        """A stop is asked for after each, so that other members have theirs."""
        yield from self.parts.loop.turn()
        self.stop.ask()

    def _attempt_some(self) -> None:
        self.stop.asked = self.ends
        for _ in range(self.leaves_after):
            attempt = next(self.attempts.ready, None) or self.attempts.next()
            if attempt is None:
                return
            with attempt as message:
                self.handler(message)


class AsyncPlayer(Player):
    """Its handler is awaited, in a task of `loop`."""

    def __init__(
        self, group: FakeGroup, name: str, protocol: Protocol, loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__(group, name, protocol)
        self._loop = loop

        async def ask(message: Message) -> None:
            group.dependency(message)

        self._awaited = group.witness.async_handler(name, ask)

    def _attempt_some(self) -> None:
        with closing(self.parts.loop.turn()) as turn:
            for batch in turn:
                self._loop.run_until_complete(self._attempt_all(batch))

    async def _attempt_all(self, batch: Batch) -> None:
        now_s = self.parts.clock.now_s
        attempting = AsyncAttempting(self._awaited, self.stop, now_s, Results())
        await attempting.attempt_all(batch)
