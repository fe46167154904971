"""The consumer that waits in order: what does a user hold in hand?"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from linear_retry.consumer.assembly import Assembly, Outside, Plan
from linear_retry.consumer.checks import Transient, check_handler, plan
from linear_retry.consumer.circuits import Breaker, Circuits, CircuitView
from linear_retry.consumer.dead_letters import DeadLetters
from linear_retry.consumer.loop import Handler, StopFlag
from linear_retry.consumer.signals import stopping_on_signals
from linear_retry.decision import OnExhausted, OnPermanent
from linear_retry.errors import (
    ConfigurationError,
    FencedError,
    LinearRetryError,
    UsageError,
)
from linear_retry.events import Event, Listener
from linear_retry.log import log, log_listener_failure
from linear_retry.scope import Scope, ScopeKind
from linear_retry.strategy import Strategy


class LinearConsumer:
    """Consumes topics in order, at least once, and waits where a message fails for now.

    On a transient error the partitions in scope are paused, the failed message is held, and
    attempted again at `retry_at`, which the strategy gives for its number of failures. When the
    strategy is exhausted, or the error is permanent, the message goes to the dead-letter topic.

    One thread owns it, whichever calls `run` first; `stop`, `close`, `circuits` and `breaker` are
    for any thread. A context manager: leaving it closes.
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
        self._listeners: tuple[Listener, ...] = (log, *listeners)
        self._circuits = Circuits(self._plan.settings.group_id, _breaker_listener_failed)
        self._stop = StopFlag()
        self._assembly: Assembly | None = None
        self._owner: threading.Thread | None = None
        self._pid = os.getpid()
        self._commits = True
        self._final: LinearRetryError | None = None
        self._running = False
        self._joined = False
        self._closing = False
        self._close_after_run = False
        self._closed = threading.Event()
        self._lock = threading.Lock()

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
        self._take_over()
        try:
            with stopping_on_signals(self.stop):
                assembly = self._started()
                if assembly is not None:
                    self._run(assembly, handler)
        finally:
            self._running = False
            if self._close_after_run:
                self.close()

    def close(self) -> None:
        """Commit what is done and leave the group; at most `close_timeout_s`. Idempotent.

        From another thread than the owner's: `stop`, and wait as long for the owner to close.
        From within the handler or a listener: `stop`, and `run` closes at its end.
        """
        self.stop()
        if self._owned_elsewhere():
            self._closed.wait(self._plan.close_timeout_s)
            return
        if self._running:  # the loop is in the midst of it, and librdkafka may be too
            self._close_after_run = True
            return
        with self._lock:
            if self._closing:
                return
            self._closing = True
        try:
            if self._assembly is not None and os.getpid() == self._pid:
                self._assembly.close(commit=self._commits, timeout_s=self._plan.close_timeout_s)
        finally:
            self._closed.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- for any thread ----------------------------------------------------------------------

    def stop(self) -> None:
        """End `run` after the message in hand. For good; also for signal handlers."""
        self._stop.ask()

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

    def _run(self, assembly: Assembly, handler: Handler) -> None:
        try:
            assembly.loop.run(handler)
        except FencedError as error:
            # Whoever took our place has the partitions: even what is done is theirs to commit.
            self._commits = False
            self._final = error
            raise
        except ConfigurationError as error:
            # The group has given us what we must not read: no further run may read it either.
            self._final = error
            raise

    def _take_over(self) -> None:
        if os.getpid() != self._pid:
            raise UsageError(
                "this LinearConsumer was made before a fork: librdkafka's threads are not in the "
                "child; make it in the process that runs it"
            )
        if self._closing:
            raise UsageError("this LinearConsumer is closed; make a new one")
        if self._final is not None:
            raise self._final
        if self._owned_elsewhere():
            raise UsageError(
                f"this LinearConsumer belongs to the thread {self._owner!r}; only stop, close, "
                "circuits and breaker are for other threads"
            )
        if self._running:
            raise UsageError("run was called from within the handler; return from it instead")
        self._running = True
        self._owner = threading.current_thread()

    def _owned_elsewhere(self) -> bool:
        owner = self._owner
        return owner is not None and owner is not threading.current_thread() and owner.is_alive()

    def _started(self) -> Assembly | None:
        if self._assembly is None:
            self._assembly = Assembly(self._plan, self._circuits, self._emit, self._stop)
        if not self._joined:  # a start that raised is made good by the next `run`
            self._assembly.start()
            self._joined = True
        return None if self._stop.asked else self._assembly

    def _emit(self, event: Event) -> None:
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:  # noqa: BLE001  (a listener is the user's; it must not disturb us)
                log_listener_failure(listener)


def _breaker_listener_failed() -> None:
    log_listener_failure("of a pybreaker")
