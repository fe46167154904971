"""The public consumer: consumes in order, and waits when a message fails temporarily."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Never, Self, overload
from uuid import uuid4

from linear_retry.consumer.operations.health import Health
from linear_retry.consumer.operations.lag import Backlog
from linear_retry.consumer.operations.monitor import Counts, Monitor, bind_listeners
from linear_retry.consumer.ownership.requests import (
    EndPause,
    GiveUp,
    PauseWish,
    Retry,
    SkipUnreadable,
    checked_lift,
    checked_pause,
    checked_place,
)
from linear_retry.consumer.partitions.batches import BatchLimits
from linear_retry.consumer.partitions.commit_notes import OnUnreadableNote
from linear_retry.consumer.runners.async_hand_over import AnyAsyncHandler
from linear_retry.consumer.runners.background import Background, Consume
from linear_retry.consumer.runners.own_loop import Attempt
from linear_retry.consumer.runners.run_handler import (
    BatchHandler,
    Handler,
    TransactionHandler,
    check_async_handler,
    check_handler,
)
from linear_retry.consumer.session import Session
from linear_retry.consumer.settings.by_key import ByKey
from linear_retry.consumer.settings.checks import Strategies, check_listeners, plan
from linear_retry.consumer.settings.consumer_config import Dependencies
from linear_retry.consumer.settings.dead_letters import DeadLetters
from linear_retry.consumer.settings.inbox import Inbox
from linear_retry.consumer.settings.line import Topics, WhenExhausted
from linear_retry.consumer.settings.values import Errors
from linear_retry.errors import LinearRetryError, UsageError
from linear_retry.events import Listener
from linear_retry.journal.journal import Journal
from linear_retry.kafka import Message
from linear_retry.records.control import Command, CommandName
from linear_retry.retry.circuits import Breaker, Circuits, CircuitView
from linear_retry.retry.decision import OnPermanent, RetrySettings
from linear_retry.scope import AnyScope, Partition, Scope


class LinearConsumer:
    """Consumes topics in order, at least once, and waits when a message fails temporarily.

    On a transient error the partitions in scope are paused, and the failed message is held and
    attempted again at `retry_at`, which the strategy gives for its number of failures. When the
    strategy is exhausted, or the error is permanent, the message goes to the dead-letter topic.

    One thread owns the consumer: the one that first calls `run` or `next`, or the thread of
    `run_async`. `stop`, `close`, `retry_now`, `give_up`, `lift_limit`, `open_circuit`,
    `close_circuit`, `skip_unreadable`, `circuits`, `breaker`, `health`, `counts` and `lag` are for
    any thread. It is a context manager, for `with` and `async with`: leaving it closes the
    consumer. `group_id` is the name of its group; `member` is its `group.instance.id`, else a name
    made for this instance; `journals` are the journals among its listeners.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        topics: Topics,
        *,
        strategy: Strategies,
        transient: Errors | None = None,
        dead_letters: str | DeadLetters | None = None,
        scope: AnyScope | ByKey = "consumer",
        concurrency: int = 1,
        on_exhausted: WhenExhausted = "dead-letter",
        on_permanent: OnPermanent = "dead-letter",
        listeners: Sequence[Listener] = (),
        control: str | None = None,
        remember_failures: bool = True,
        on_unreadable_note: OnUnreadableNote = "refuse",
        inbox: Inbox | None = None,
        start_timeout_s: float = 30.0,
        close_timeout_s: float = 10.0,
        group_pause_max_s: float = 3600.0,
        group_breaker: bool = False,
        group_breaker_max_s: float = 60.0,
        _dependencies: Dependencies | None = None,
    ) -> None:
        """Checks everything that can be checked without I/O.

        `config` holds librdkafka's keys, unchanged. `topics` are names, or patterns that begin with
        ^. `strategy` may be a list of delays, for `Strategy(list)`, or of rules (`Rule`), each with
        the strategy for some errors and topics; or a file of these (`StrategyFile`). `transient`
        selects the exceptions that are retried: types, or a predicate on the exception; it may be
        left out where rules name them. `scope` says what an open circuit pauses: all assigned
        partitions, the message's topic, or its partition; or, with `"key"` or `ByKey(...)`, that
        only later messages of its key wait. `concurrency`, with `scope="partition"` or `"key"`, is
        how many partitions or keys are handled side by side, each in its order: 1 to 256 threads
        call the handler, which must be thread-safe, or so many tasks of `run_async` await it.
        `listeners` are called with each event on the owner thread, after the state is safe; one
        that raises is logged. `control` names the topic over which operators may retry a held
        message or give it up (`linear-retry circuits`); without it they cannot.

        `remember_failures`: how often a held message has failed, and when, is committed beside its
        offset, so that after a restart, a kill or a rebalance its wait and its strategy continue.
        False: the next owner starts with the first delay. `on_unreadable_note` is about such a note
        of a newer release: `"refuse"` to run, or `"handle-again"`. `start_timeout_s` limits the
        wait for the first broker, `close_timeout_s` that of `close`, `group_pause_max_s` each pause
        by an operator.

        `inbox`: each message comes with an open transaction of the application's own database, as
        `handler(message, transaction)`; a list of `run_batches` too. What the handler writes with
        it happens once for each message (`linear_retry.inbox`).

        `group_breaker`: in an outage one member attempts its messages, and all others of the group
        hold theirs (`HeldByGroup`) until it has succeeded. They tell each other by the `control`
        topic, which must be given. `group_breaker_max_s` is how long one member may attempt for
        all; then it is another's turn.

        Raises `ConfigurationError` with key, value, rule and remedy.
        """
        listeners = check_listeners(listeners)
        journals = [listener for listener in listeners if isinstance(listener, Journal)]
        wanted = plan(
            config,
            topics,
            strategy=strategy,
            transient=transient,
            dead_letters=dead_letters,
            scope=scope,
            concurrency=concurrency,
            on_exhausted=on_exhausted,
            on_permanent=on_permanent,
            start_timeout_s=start_timeout_s,
            close_timeout_s=close_timeout_s,
            group_pause_max_s=group_pause_max_s,
            group_breaker=group_breaker,
            group_breaker_max_s=group_breaker_max_s,
            remember_failures=remember_failures,
            on_unreadable_note=on_unreadable_note,
            inbox=inbox,
            dependencies=_dependencies or Dependencies(),
            journals=journals,
            control=control,
        )
        context = wanted.dependencies.journal_context(
            wanted.settings,
            wanted.instance,
            wanted.process,
            close_timeout_s,
            wanted.line.group_id,
        )
        bind_listeners(listeners, context)
        self._circuits: Circuits[Message] = Circuits(
            wanted.settings.group_id, pauses=wanted.by_key is None
        )
        self.group_id = wanted.settings.group_id
        self.member = wanted.member
        self.journals = tuple(journals)
        self._monitor = Monitor(listeners, wanted.dependencies.clock.utc_ms)
        self._config = wanted
        self._session = Session(wanted, self._circuits, self._monitor)

    # -- for the owner thread ----------------------------------------------------------------

    @overload
    def run(  # type: ignore[overload-overlap]  # a function that only raises is a handler
        self, handler: Callable[[Message], Never]
    ) -> None: ...

    @overload  # rejected: the type checker reports that this is never awaited; run_async awaits it
    def run(  # type: ignore[overload-overlap]
        self, handler: Callable[[Message], Coroutine[Any, Any, Any]]
    ) -> Coroutine[Any, Any, Never]: ...

    @overload
    def run(self, handler: Handler | TransactionHandler) -> None: ...

    def run(self, handler: Handler | TransactionHandler) -> Any:
        """Calls `handler` with every message, in order: returning is success, raising is failure.

        Ends on `stop`, or, on the main thread, on the first SIGINT or SIGTERM; a second one has its
        usual effect. The current message is finished first.

        Raises `UsageError` for a handler that cannot work, `ConfigurationError` for a topic that
        does not exist, `BrokerError` for unreachable brokers, `ExhaustedError` and `PermanentError`
        if `"stop"` was chosen, `HandlerTooSlowError`, `FencedError` and `DataLossError`; and
        `StoreError` and `StoreVersionError` for the database of an inbox, at the start. Nothing
        unhandled is committed then.
        """
        check_handler(handler, self._takes("one message"))
        self._session.run(handler)

    def run_batches(
        self,
        handler: BatchHandler | TransactionHandler,
        *,
        max_messages: int = 500,
        max_bytes: int = 16_000_000,
    ) -> None:
        """`run` for a handler of lists: messages of one partition, in order, at least one.

        A list has at most `max_messages`, and `max_bytes` of keys, values and headers; a larger
        message comes alone. It never waits to be full. Returning is success of all of them.

        A transient error holds the whole batch, at its first message, and the same messages are
        attempted again; failures count for all of them at once. `BatchError(index, cause)` says
        that those before `index` are done, and that only the one there has failed. If the error is
        permanent or the strategy exhausted, and it is not known which message has failed, each of
        the batch is handed over alone, once and in order, and those that fail are given up.

        Ends as `run` does, and raises what `run` raises; `ConfigurationError` for a limit below 1.
        """
        check_handler(handler, self._takes("one list of messages"))
        self._session.run_batches(handler, BatchLimits(max_messages, max_bytes))

    def __iter__(self) -> Iterator[Attempt]:
        """Your own loop in place of `run`: `for attempt in consumer: with attempt as message: ...`.

        Leaving the `with` normally is success, with an exception failure; the next attempt is of
        the next message, or of the same one when its wait is over. Ends on `stop`; raises what
        `run` raises. The consumer keeps all state: a second loop continues where the first ended.
        """
        self._session.begin()
        return self._session.attempts()

    def __next__(self) -> Attempt:
        """Applies the outcome of the last attempt, and waits for the next one.

        Raises `UsageError` if the last attempt was not entered or not left: it never counts as
        success.
        """
        return next(self._session.attempts())

    async def run_async(self, handler: AnyAsyncHandler) -> None:
        """`run` for an `async def` handler, awaited for one message at a time, in order.

        Handlers run in the task that awaits this, on its event loop, which is never blocked; a
        thread started for this call owns the consumer until the call ends, and calls the listeners.
        Side by side (`concurrency`, `scope="key"`), each runs in a task of its own, with a copy of
        the context; what cancels this task cancels all of them.

        The first `stop`, SIGINT or SIGTERM ends it after the current message; the second cancels
        the handler, and nothing is stored for its message. Cancelling the task does the same, and
        its `asyncio.CancelledError` is raised again. Signals that the program handles itself are
        left to it. When the call ends, that thread closes the consumer.

        Raises what `run` raises, and `UsageError` if the handler returns nothing to await, or
        raises `CancelledError` though the task was not cancelled.
        """
        check_async_handler(handler, self._takes("one message"))
        await self._session.run_async(handler)

    def running(self, handler: AnyAsyncHandler) -> AbstractAsyncContextManager[Self]:
        """`run_async` beside a block: `async with consumer.running(handler): ...`.

        Entering it waits until the brokers are reached and the topics checked, and raises what
        fails until then. Leaving it stops the consumer, waits for the current message and closes
        the consumer; where the block is cancelled, the handler is too.

        The block lasts no longer than the consumer. If that ends first, the block is cancelled as
        `asyncio.timeout` does it: an error of the consumer is raised at the end of the block, or
        added to the block's own as a note; after a stop the program continues after the block.
        """
        check_async_handler(handler, self._takes("one message"))
        return self._beside(partial(self._session.run_async, handler))

    @asynccontextmanager
    async def _beside(self, consume: Consume) -> AsyncIterator[Self]:
        async with self, Background(consume, self.stop):
            yield self

    def close(self) -> None:
        """Commits what is done and leaves the group, within `close_timeout_s`. Idempotent.

        From another thread than the owner's: calls `stop`, and waits up to that time for the owner
        to close. From within a handler or a listener: calls `stop`, and `run` closes when it ends.
        The message of an attempt of your own loop that is still open is not done.

        If the last attempt of your own loop ends the consumer, raises that error (`ExhaustedError`,
        `PermanentError`, or anything else that `run` raises); the consumer is closed all the same.
        """
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close_after(error)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Waits off the event loop, which `run_async` in another task needs in order to end.
        # A coroutine that is being garbage-collected cannot await anything.
        if self._session.is_here or isinstance(error, GeneratorExit):
            self._close_after(error)
        else:
            await asyncio.to_thread(self._close_after, error)

    def _close_after(self, error: BaseException | None) -> None:
        try:
            self.close()
        except LinearRetryError as last:
            if error is None:
                raise
            error.add_note(f"and at close: {last}")

    def _takes(self, what: str) -> str:
        """Names the arguments of a handler."""
        return what if self._config.inbox is None else f"{what} and its transaction"

    # -- for any thread ----------------------------------------------------------------------

    def stop(self) -> None:
        """Ends `run` after the current message, for good. Safe in signal handlers."""
        self._session.stop.ask()

    @property
    def circuits(self) -> Mapping[Scope, CircuitView]:
        """An immutable snapshot. `Scope()` is the circuit of the whole consumer."""
        return self._circuits.views

    def health(self) -> Health:
        """The current health: alive, ready, and whether it consumes, waits, hangs or has ended."""
        return self._session.health()

    @property
    def counts(self) -> Counts:
        """Totals since the consumer was created: attempts, their time, waits, and each event."""
        return self._monitor.counts()

    def lag(self, timeout_s: float = 2.0) -> dict[Partition, int]:
        """The number of offsets that the group has yet to read in each assigned partition.

        Asks the brokers, so it is correct even while everything is paused: it counts from the
        group's committed offset to the last one that it may read. Offsets at the end that the
        consumer knows are not messages (transaction markers) do not count; others do. Negative: the
        log ends before the committed offset, as a broker has lost its end, or the topic was deleted
        and created again. Partitions without an answer within `timeout_s` are left out. Blocks for
        up to that time, but never waits for a handler or a listener.
        """
        return {key: backlog.lag for key, backlog in self.backlog(timeout_s).items()}

    def backlog(self, timeout_s: float = 2.0) -> dict[Partition, Backlog]:
        """The lag of each assigned partition, with how much of it is done, or waits for held keys.

        For `scope="key"`: the lag counts from the first message that is not done. Asks the brokers
        as `lag` does.
        """
        return self._session.backlog(timeout_s)

    @property
    def _retry_settings(self) -> RetrySettings:
        """How failures are judged, for who attempts messages elsewhere. For any thread."""
        return self._config.retry

    def _rehearsed(self, handler: Callable[..., Any]) -> Callable[[Any], Any]:
        """The handler for who calls it elsewhere, to see what it does: an inbox takes that back."""
        return self._session.rehearsed(handler)

    def _on_batch(self, told: Callable[[float], object]) -> None:
        """Lets `told` have the seconds of each batch at the handler, on the owner thread."""
        self._monitor.on_batch(told)

    def breaker(self, scope: Scope | None = None) -> Breaker:
        """The pybreaker of a scope (by default the whole consumer's), for its listeners.

        It follows the circuit. Do not call through it, and do not open or close it.
        """
        return self._circuits.breaker(scope or Scope())

    # -- for operators, from any thread --------------------------------------------------------

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
            return self._session.submit(Retry(None))
        return self._session.submit(Retry(checked_place(topic, partition, offset)))

    def give_up(self, topic: str, partition: int, offset: int) -> Future[bool]:
        """Sends this held message to the dead letters now, reason `given-up`. For operators.

        True once the letter is acknowledged; pending while the sending is retried. False if the
        message is not (or no longer) held, is revoked or lost, or the consumer stops first. A
        message in the handler is given up afterwards, if it failed and is held again. If a
        `retry_now` was requested before and is not answered yet, the attempt comes first.

        Otherwise as `retry_now`. Also raises `UsageError` if there is no dead-letter topic.
        """
        if self._config.dead_letters is None:
            raise UsageError(
                "give_up: the consumer has no dead-letter topic; name one with dead_letters="
            )
        return self._session.submit(GiveUp(checked_place(topic, partition, offset)))

    def lift_limit(self, letters: int | None = None, *, reason: str) -> Future[bool]:
        """Lets messages leave beyond the `limit` of `DeadLetters` or `RetryTopics`. For operators.

        Until a handler succeeds; with `letters`, for at most that many. Messages that the limit
        holds are attempted at once. `reason` is recorded (`LimitLifted`). True once the limit is
        lifted; otherwise as `retry_now`. Also raises `UsageError` if there is no limit.
        """
        if not self._config.retry.policy.has_limit:
            raise UsageError(
                "lift_limit: the consumer has no limit; set one with DeadLetters(limit=...) or "
                "RetryTopics(limit=...)"
            )
        return self._session.submit(checked_lift(letters, reason))

    def open_circuit(
        self, for_s: float, reason: str, *, topic: str | None = None, group: bool = False
    ) -> Future[bool]:
        """Pauses this consumer, or one `topic` of it, for `for_s` seconds. For operators.

        For a maintenance window: after the message in hand nothing is attempted until it is over,
        or `close_circuit` ends it. It is no failure: what is held keeps its failures, and the time
        does not count towards `max_elapsed`. A second call replaces the first. `reason` is recorded
        (`PausedByHand`). True once it has begun; otherwise as `retry_now`. `group`: all members, by
        the control topic, as `linear-retry circuits open` does, and who joins meanwhile; it is true
        once this member has paused too.

        Also raises `UsageError` for `for_s` above `group_pause_max_s`, without a reason, and for a
        `group` without `control`.
        """
        for_ms = checked_pause(for_s, reason, self._config.group_pause_max_s)
        if group:
            # Rounded up: a command has whole seconds.
            return self._order("open", topic, for_s=-(-for_ms // 1000), reason=reason)
        until_ms = self._config.dependencies.clock.utc_ms() + for_ms
        return self._session.submit(PauseWish(Scope(topic), until_ms, "the program", reason))

    def close_circuit(self, *, topic: str | None = None, group: bool = False) -> Future[bool]:
        """Ends the pauses by operators, or that of one `topic`; of all the `group`. For operators.

        True if there was one here; otherwise as `open_circuit`.
        """
        if group:
            return self._order("close", topic)
        return self._session.submit(EndPause(Scope(topic)))

    def _order(self, name: CommandName, topic: str | None, **more: Any) -> Future[bool]:
        if self._config.control is None:
            raise UsageError("group=True: the consumer follows no control topic; give it control=")
        place = None, None, None
        now_ms, group = self._config.dependencies.clock.utc_ms(), self._config.line.group_id
        command = Command(str(uuid4()), name, group, *place, self.member, now_ms)
        return self._session.order(replace(command, only_topic=topic, **more))

    def skip_unreadable(self, topic: str, partition: int, offset: int) -> Future[bool]:
        """Skips the batch at which this partition is blocked, for good. For operators.

        `offset` is that of `PartitionUnreadable`. Everything in its batch from there on is lost,
        and reported as `DataLost`. The brokers are asked where the batch ends, which takes a
        moment.

        True once the partition continues after the batch. False if it is not (or no longer) blocked
        there, if it turns out to be readable, and if no broker reports the end of the batch within
        30 s. Otherwise as `retry_now`.
        """
        return self._session.submit(SkipUnreadable(checked_place(topic, partition, offset)))
