"""The consumer that waits in order: what does a user hold in hand?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager
from types import TracebackType
from typing import Any, Self

from linear_retry.consumer.assembly import Assembly, Outside, Plan
from linear_retry.consumer.async_attempting import AsyncHandler
from linear_retry.consumer.async_signals import stopping_async_on_signals
from linear_retry.consumer.attempting import Handler, run
from linear_retry.consumer.attempts import Attempt, Attempts
from linear_retry.consumer.awaiting import Awaiting, HandOver
from linear_retry.consumer.checks import Transient, check_async_handler, check_handler, plan
from linear_retry.consumer.circuits import Breaker, Circuits, CircuitView
from linear_retry.consumer.dead_letters import DeadLetters
from linear_retry.consumer.listeners import Listeners, breaker_listener_failed
from linear_retry.consumer.loop import Loop
from linear_retry.consumer.requests import RequestKind, checked_place, denied
from linear_retry.consumer.signals import deferring_interrupts, stopping_on_signals
from linear_retry.consumer.stop import StopFlag
from linear_retry.consumer.tenure import Tenure
from linear_retry.decision import OnExhausted, OnPermanent
from linear_retry.errors import LinearRetryError, UsageError
from linear_retry.events import Listener
from linear_retry.scope import Scope, ScopeKind
from linear_retry.strategy import Strategy


class LinearConsumer:
    """Consumes topics in order, at least once, and waits where a message fails for now.

    On a transient error the partitions in scope are paused, the failed message is held, and
    attempted again at `retry_at`, which the strategy gives for its number of failures. When the
    strategy is exhausted, or the error is permanent, the message goes to the dead-letter topic.

    One thread owns it: whichever calls `run` or `next` first, or that of `run_async`; `stop`,
    `close`, `retry_now`, `give_up`, `circuits` and `breaker` are for any thread. A context manager:
    leaving it closes.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        topics: Sequence[str],
        *,
        strategy: Strategy,
        transient: Transient,
        dead_letters: str | DeadLetters | None = None,
        scope: ScopeKind = "consumer",
        on_exhausted: OnExhausted = "dead-letter",
        on_permanent: OnPermanent = "dead-letter",
        listeners: Sequence[Listener] = (),
        start_timeout_s: float = 30.0,
        close_timeout_s: float = 10.0,
        _outside: Outside | None = None,
    ) -> None:
        """Checks everything that can be checked without I/O.

        `config` holds librdkafka's keys, as they are. `topics` are names, or patterns that begin
        with ^. `transient` says which exceptions may go away: types, or a predicate on the
        exception. `scope` says what an open circuit stops: all that is assigned, the message's
        topic, or its partition. `listeners` are called with each event on the owner thread, after
        the state is safe; one that raises is logged. `start_timeout_s` bounds the wait for a first
        broker, `close_timeout_s` that of `close`.

        Raises `ConfigurationError` with key, value, rule and remedy.
        """
        self._plan: Plan = plan(
            config,
            topics,
            strategy=strategy,
            transient=transient,
            dead_letters=dead_letters,
            scope=scope,
            on_exhausted=on_exhausted,
            on_permanent=on_permanent,
            start_timeout_s=start_timeout_s,
            close_timeout_s=close_timeout_s,
            outside=_outside or Outside(),
        )
        self._listeners = Listeners(listeners)
        self._circuits = Circuits(self._plan.settings.group_id, breaker_listener_failed)
        self._stop = StopFlag()
        self._tenure = Tenure()
        self._assembly: Assembly | None = None
        self._attempts: Attempts | None = None
        self._ready: Iterator[Attempt] = iter(())

    # -- for the owner thread ----------------------------------------------------------------

    def run(self, handler: Handler) -> None:
        """Hand every message to `handler`, in order: what returns is done, what raises has failed.

        Ends on `stop`, or on the first SIGINT or SIGTERM where this is the main thread (the second
        acts as it would without us). The message in hand is finished first.

        Raises `UsageError` for a handler that cannot work, `ConfigurationError` for a topic that
        does not exist, `BrokerError` for unreachable brokers, `ExhaustedError` and
        `PermanentError` where `"stop"` was chosen, `HandlerTooSlowError`, `FencedError` and
        `DataLossError`. Nothing unhandled is committed then.
        """
        check_handler(handler)
        with self._use(), stopping_on_signals(self.stop):
            self._put_down()
            loop = self._started()
            if not self._stop.asked:
                run(loop, handler, self._stop, self._plan.outside.clock.now_s)

    def __iter__(self) -> Self:
        """Your own loop in place of `run`: `for attempt in consumer: with attempt as message: ...`.

        Leaving the `with` is success, or, with an exception, failure; the next attempt is the
        next message, or the same one when its time has come. Ends on `stop`; raises what `run`
        raises. All state is the consumer's: a second loop goes on where the first has ended.
        """
        self._tenure.check_open()
        if self._attempts is not None and not self._tenure.elsewhere:
            self._attempts.begin()
        return self

    def __next__(self) -> Attempt:
        """Apply what the last attempt came to, and wait for the next one.

        Raises `UsageError` where the last was not entered or not left: it is never a success.
        """
        for attempt in self._ready:
            return attempt
        return self._next_attempt()

    async def run_async(self, handler: AsyncHandler) -> None:
        """`run` for an `async def` handler, awaited for one message at a time, in order.

        Handlers run in the task that awaits this, on its loop, which stays alive; a thread started
        for the call owns the consumer until it ends, and calls the listeners.

        Ends on the first `stop`, SIGINT or SIGTERM, after the message in hand; the second cancels
        the handler, and nothing is stored for its message. So does cancelling the task, whose
        `asyncio.CancelledError` then goes on. Signals that the program handles itself are left to
        it. At its end the consumer is closed, by that thread.

        Raises what `run` raises, and `UsageError` where the handler gives nothing to await, or
        raises a `CancelledError` though nobody has cancelled the task.
        """
        check_async_handler(handler)
        awaiting = Awaiting(handler, self._stop, self._plan.outside.clock.now_s)
        with self._tenure.lent(), stopping_async_on_signals(self.stop):
            await awaiting.run(self._own)

    def close(self) -> None:
        """Commit what is done and leave the group; at most `close_timeout_s`. Idempotent.

        From another thread than the owner's: `stop`, and wait as long for the owner to close.
        From within a handler or a listener: `stop`, and `run` closes at its end. With an attempt
        of your own loop open, its message is not done.

        Raises what the last attempt of your own loop came to, where that ends a consumer
        (`ExhaustedError`, `PermanentError`, or anything else that `run` raises); closed it is all
        the same.
        """
        if not self._stop.asked:
            self.stop()
        match self._tenure.whose_close():
            case "ours":
                self._close()
            case "another's":
                self._tenure.closed.wait(self._plan.close_timeout_s)
            case "later" | "done":
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except LinearRetryError as last:
            if error is None:
                raise
            error.add_note(f"and at close: {last}")

    # -- for any thread ----------------------------------------------------------------------

    def stop(self) -> None:
        """End `run` after the message in hand. For good; also for signal handlers."""
        self._stop.ask()

    def retry_now(self, topic: str, partition: int, offset: int) -> Future[bool]:
        """For an operator: attempt this held message now, and not at `retry_at`.

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
        return self._ask("retry", topic, partition, offset)

    def give_up(self, topic: str, partition: int, offset: int) -> Future[bool]:
        """For an operator: send this held message to the dead letters now, reason `given-up`.

        True once the letter is acknowledged; still pending while the sending is tried again. False
        if the message is not held (any more), is revoked or lost, or the consumer stops before.
        One in the handler is given up after that, if it has failed and is held again. With a
        `retry_now` that was asked for before and is not answered yet, the attempt comes first.

        All else is as with `retry_now`. Raises `UsageError` also where there is no dead-letter
        topic.
        """
        if self._plan.dead_letters is None:
            raise UsageError("give_up: there are no dead letters; name a topic with dead_letters=")
        return self._ask("give-up", topic, partition, offset)

    @property
    def circuits(self) -> Mapping[Scope, CircuitView]:
        """An immutable snapshot. `Scope()` is the whole consumer's."""
        return self._circuits.views

    def breaker(self, scope: Scope | None = None) -> Breaker:
        """The pybreaker of a scope (the whole consumer's, unless given), for its listeners.

        It follows the circuit. Do not call through it, and do not open or close it.
        """
        return self._circuits.breaker(scope or Scope())

    # -- inside ------------------------------------------------------------------------------

    def _ask(self, kind: RequestKind, topic: str, partition: int, offset: int) -> Future[bool]:
        self._tenure.check_process()
        place = checked_place(topic, partition, offset)
        if self._assembly is None or not self._tenure.joined or self._stop.asked:
            return denied()
        return self._assembly.requests.ask(kind, *place)

    @contextmanager
    def _use(self) -> Iterator[None]:
        try:
            with self._tenure.use():
                try:
                    yield
                finally:
                    if self._stop.asked and self._assembly is not None:
                        self._assembly.requests.close()
        finally:
            if self._tenure.closes_after:
                self.close()

    def _started(self) -> Loop:
        if self._assembly is None:
            self._assembly = Assembly(self._plan, self._circuits, self._listeners.tell, self._stop)
        if not self._tenure.joined:  # a start that raised is made good by the next use
            self._assembly.start()
            self._tenure.joined = True
        return self._assembly.loop

    def _next_attempt(self) -> Attempt:
        if self._tenure.closing:
            raise StopIteration
        attempts, attempt = self._attempts or self._own_loop(), None
        self._stop.hurried = False
        try:
            # KeyboardInterrupt in the midst of a turn could leave a partition paused for ever.
            with deferring_interrupts(self._stop.hurry, self._tenure.cut_short), self._use():
                attempt = attempts.next()
        except BaseException:
            if attempt is not None:
                attempts.take_back()
            raise
        if attempt is None or self._tenure.closing:
            raise StopIteration
        self._ready = attempts.ready
        return attempt

    def _own_loop(self) -> Attempts:
        with self._use():
            now_s = self._plan.outside.clock.now_s
            self._attempts = Attempts(self._started().turn, self._stop, now_s)
            return self._attempts

    def _put_down(self) -> None:
        """What the user's own loop left behind: applied, before another way of running goes on."""
        self._stop.hurried = False
        if self._attempts is not None:
            self._attempts.check_left()
            self._attempts.settle()

    def _own(self, hand_over: HandOver) -> None:
        """In the thread of `run_async`."""
        with self._use():
            self._put_down()
            try:
                loop = self._started()
                while not self._stop.asked:
                    with closing(loop.turn()) as turn:
                        for work in turn:
                            hand_over(work)
            finally:  # but for a start that raised: another use makes that good
                self._tenure.closes_after |= self._tenure.joined

    def _close(self) -> None:
        try:
            with self._tenure.minding_what_is_final():
                if self._attempts is not None and not self._tenure.forked:
                    self._attempts.settle()
        finally:
            if self._assembly is not None and not self._tenure.forked:
                timeout_s = self._plan.close_timeout_s
                self._assembly.close(commit=self._tenure.commits, timeout_s=timeout_s)
            self._tenure.closed.set()
