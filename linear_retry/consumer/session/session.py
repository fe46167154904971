"""How do `run`, a loop of one's own and `run_async` take turns at one consumer, and end it?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from dataclasses import replace

from linear_retry.consumer.loop import Loop
from linear_retry.consumer.monitoring.counters import Tally
from linear_retry.consumer.monitoring.health import Health, Signs, Vitals, judge
from linear_retry.consumer.operations.requests import Wish, denied
from linear_retry.consumer.runners.async_hand_over import Awaiting, HandOver
from linear_retry.consumer.runners.async_handler import AsyncHandler
from linear_retry.consumer.runners.async_signals import stopping_async_on_signals
from linear_retry.consumer.runners.own_loop import Attempt, Attempts
from linear_retry.consumer.runners.run_handler import Handler, run
from linear_retry.consumer.runners.signals import deferring_interrupts, stopping_on_signals
from linear_retry.consumer.runners.stop import StopFlag
from linear_retry.consumer.session.owner_thread import Tenure
from linear_retry.consumer.wiring import Assembly, Plan
from linear_retry.events import Event
from linear_retry.kafka.consumer.fatal_errors import as_our_errors
from linear_retry.retry.circuits import Circuits
from linear_retry.scope import Partition


class Owning:
    """What `LinearConsumer` promises, for whichever way its owner has chosen now.

    The parts are made at the first use, by the owner thread: here I/O begins. `ready` has the next
    attempts of the owner's own loop, as long as that needs nothing else.
    """

    def __init__(
        self,
        plan: Plan,
        circuits: Circuits,
        emit: Callable[[Event], None],
        vitals: Vitals,
        tally: Tally,
    ) -> None:
        """`vitals` and `tally` hear what `emit` says."""
        self._plan = plan
        self._circuits = circuits
        self._emit = emit
        self._vitals = vitals
        self._tally = tally
        self._now_s = plan.outside.clock.now_s
        self._tenure = Tenure()
        self._attempts: Attempts | None = None
        self.assembly: Assembly | None = None
        self.stop = StopFlag()
        self.ready: Iterator[Attempt] = iter(())

    # -- for any thread ----------------------------------------------------------------------

    def wish(self, wish: Wish) -> Future[bool]:
        """An operator's. False at once where no turn will look at it."""
        self._tenure.check_process()
        if self.assembly is None or not self._tenure.joined or self.stop.asked:
            return denied()
        return self.assembly.requests.wish(wish)

    def health(self) -> Health:
        """As it is now."""
        clock, handed_out = self._plan.outside.clock, self._tally.handed_out
        polled_s, joined = None, self._vitals.joined
        if self.assembly is not None and self._tenure.joined:
            parts = self.assembly.parts
            polled_s = max(clock.now_s() - parts.reading.polled_at_s, 0.0)
            joined = joined or parts.client.has_joined_unheard
        health = judge(
            Signs(
                utc_ms=clock.utc_ms(),
                limit_s=self._plan.settings.max_poll_interval_s,
                polled_s=polled_s,
                handed_out=None if handed_out is None else handed_out[1],
                joined=joined,
                stopping=self.stop.asked,
                end=self._vitals.end,
                circuits=self._circuits.views,
                errors=self._vitals.errors,
                unreadable=self._vitals.unreadable,
            )
        )
        return replace(health, member=self._plan.member, process=self._plan.process)

    def lag(self, timeout_s: float) -> dict[Partition, int]:
        """Nothing before the start, and after the end."""
        if self.assembly is None or not self._tenure.joined or self._vitals.end is not None:
            return {}
        return self.assembly.lag.ask(timeout_s)

    def close(self) -> None:
        """By the owner, or waited for; from within, on its way out."""
        if not self.stop.asked:
            self.stop.ask()
        match self._tenure.whose_close():
            case "ours":
                self._close()
            case "another's":
                self._tenure.closed.wait(self._plan.close_timeout_s)
            case "later" | "done":
                return

    @property
    def is_here(self) -> bool:
        """Whether `close` is the present thread's to do, and not waited for."""
        return self._tenure.here

    # -- the three ways ----------------------------------------------------------------------

    def run(self, handler: Handler) -> None:
        """Until a stop, which the first signal is too."""
        with self._use(), stopping_on_signals(self.stop.ask):
            self._put_down()
            loop = self._started()
            if not self.stop.asked:
                run(loop, handler, self.stop, self._now_s)
        self._vitals.finish()

    async def run_async(self, handler: AsyncHandler) -> None:
        """In a thread of ours, which closes at its end; `handler` in the present task."""
        awaiting = Awaiting(handler, self.stop, self._now_s)
        with self._tenure.lent(), stopping_async_on_signals(self.stop.ask), self._vitals:
            await awaiting.run(self._own)

    def begin(self) -> None:
        """A loop of one's own is begun."""
        self._tenure.check_open()
        if self._attempts is not None and not self._tenure.elsewhere:
            self._attempts.begin()

    def next_attempt(self) -> Attempt:
        """A turn of that loop. Raises `StopIteration` at its end."""
        if self._tenure.closing:
            raise StopIteration
        attempts, attempt = self._attempts or self._own_loop(), None
        self.stop.hurried = False
        try:
            # KeyboardInterrupt in the midst of a turn could leave a partition paused for ever.
            with deferring_interrupts(self.stop.hurry, self._tenure.cut_short), self._use():
                attempt = attempts.next()
        except BaseException:
            if attempt is not None:
                attempts.take_back()
            raise
        if attempt is None or self._tenure.closing:
            if self.stop.asked:
                self._vitals.finish()
            raise StopIteration
        self.ready = attempts.ready
        return attempt

    # -- inside ------------------------------------------------------------------------------

    @contextmanager
    def _use(self) -> Iterator[None]:
        try:
            with self._tenure.use():
                self._vitals.begin()
                try:
                    with self._vitals, as_our_errors():
                        yield
                finally:
                    if self.stop.asked and self.assembly is not None:
                        self.assembly.requests.close()
        finally:
            if self._tenure.closes_after:
                self.close()

    def _started(self) -> Loop:
        if self.assembly is None:
            self.assembly = Assembly(self._plan, self._circuits, self._emit, self.stop, self._tally)
            self.stop.watch_forks()
        if not self._tenure.joined:  # a start that raised is made good by the next use
            self.assembly.start()
            self._tenure.joined = True
        return self.assembly.loop

    def _own_loop(self) -> Attempts:
        with self._use():
            self._attempts = Attempts(self._started().turn, self.stop, self._now_s)
            return self._attempts

    def _put_down(self) -> None:
        """What the user's own loop left behind: applied, before another way of running goes on."""
        self.stop.hurried = False
        if self._attempts is not None:
            self._attempts.check_left()
            self._attempts.settle()

    def _own(self, hand_over: HandOver) -> None:
        """In the thread of `run_async`."""
        with self._use():
            self._put_down()
            try:
                loop = self._started()
                while not self.stop.asked:
                    with closing(loop.turn()) as turn:
                        for work in turn:
                            hand_over(work)
            finally:  # but for a start that raised: another use makes that good
                self._tenure.closes_after |= self._tenure.joined

    def _close(self) -> None:
        try:
            with self._tenure.minding_what_is_final(), self._vitals, as_our_errors():
                if self._attempts is not None and not self._tenure.forked:
                    self._attempts.settle()
        finally:
            if self.assembly is not None and not self._tenure.forked:
                timeout_s = self._plan.close_timeout_s
                with as_our_errors():
                    self.assembly.close(commit=self._tenure.commits, timeout_s=timeout_s)
            self._vitals.finish()
            self._tenure.closed.set()
