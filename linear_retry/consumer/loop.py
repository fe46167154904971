"""Read, attempt, decide, apply: the one way that every message goes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

from linear_retry import events
from linear_retry.consumer.operations.operator_actions import OperatorActions
from linear_retry.consumer.operations.remote_commands import RemoteCommands
from linear_retry.consumer.outcomes import Applying
from linear_retry.consumer.partitions.delivery_filter import DeliveryFilter
from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.consumer.partitions.read_ahead import partition_of
from linear_retry.consumer.runners.batch import Batch
from linear_retry.consumer.runners.stop import StopFlag
from linear_retry.consumer.session.startup import RetentionCheck
from linear_retry.consumer.state import Parts
from linear_retry.consumer.watchdogs.broker import BrokerWatchdog
from linear_retry.consumer.watchdogs.client_replacement import ClientReplacement
from linear_retry.consumer.watchdogs.slow_handler import SlowHandlerCount
from linear_retry.consumer.watchdogs.stalled_partition import StalledPartitionWatchdog
from linear_retry.consumer.watchdogs.unreadable_batches import UnreadableBatches
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import foreign_group, have_no_headers
from linear_retry.retry.circuits import Held
from linear_retry.scope import Partition, Scope

_SEARCHING_S = 0.01


class Loop:
    """Joins the owners. Called by one thread."""

    def __init__(
        self,
        parts: Parts,
        flow_control: FlowControl,
        delivery_filter: DeliveryFilter,
        unreadable: UnreadableBatches,
        stalled_partitions: StalledPartitionWatchdog,
        client_replacement: ClientReplacement,
        broker_watchdog: BrokerWatchdog,
        retention: RetentionCheck,
        applying: Applying,
        commands: RemoteCommands,
        operator_actions: OperatorActions,
        stop: StopFlag,
    ) -> None:
        self._parts = parts
        self._flow_control = flow_control
        self._delivery_filter = delivery_filter
        self._unreadable = unreadable
        self._stalled_partitions = stalled_partitions
        self._client_replacement = client_replacement
        self._broker_watchdog = broker_watchdog
        self._retention = retention
        self._applying = applying
        self._commands = commands
        self._operator_actions = operator_actions
        self._slow_handlers = SlowHandlerCount()
        self._stop = stop

    def turn(self) -> Generator[Batch]:
        """Poll once, then hand out what is due. Every attempt has a poll before it.

        What came of a piece of work is applied when the next is asked for, or at `close`. Raises
        what cannot be mended; nothing unhandled is committed.
        """
        try:
            yield from self._turn()
        except BaseException:
            # A message may be in nobody's hands now: whoever goes on reads from what is done.
            self._parts.read_ahead.invalidate()
            raise

    def read_along(self) -> None:
        """Poll while waiting for something else, so as to stay in the group."""
        self._admit(self._parts.read_ahead.touch)
        self._applying.keep_house()

    # -- read ------------------------------------------------------------------------------

    def _admit(self, read: Callable[[], list[Message]]) -> None:
        """Before and after: what we had may be another's if we were away for too long.

        librdkafka tells of that some polls later only, so what is held must not be attempted yet.
        """
        parts, owned = self._parts, self._parts.assignment
        if parts.read_ahead.overran(parts.clock.now_s()):
            self._flow_control.mark_lost(owned.partitions, "no poll for too long")
        if parts.read_ahead.is_invalid:
            self._flow_control.reposition()
        epoch = owned.epoch
        arrivals = read()
        if parts.read_ahead.overslept:
            before = [key for key in owned.partitions if (owned.epoch_of(key) or 0) <= epoch]
            self._flow_control.mark_lost(before, "the machine slept for too long")
        self._delivery_filter.accept(arrivals)

    # -- attempt ---------------------------------------------------------------------------

    def _turn(self) -> Generator[Batch]:
        parts = self._parts
        self._admit(lambda: parts.read_ahead.read(self._timeout_s()))
        self._delivery_filter.note_ends()
        self._keep_house()
        due = parts.circuits.due(parts.clock.now_s())
        for scope in dict.fromkeys([*self._operator_actions.tick(), *due]):
            if self._stop.asked:  # a dependency that is down may take its time to say so
                return
            self._read_along_if_late()
            yield from self._probe(scope)
        if parts.read_ahead.ahead and not self._stop.asked:
            self._read_along_if_late()
            yield from self._hand_over()

    def _read_along_if_late(self) -> None:
        """Probes, and what comes after them, may together take too long for the group."""
        if self._parts.clock.now_s() >= self._parts.read_ahead.deadline_s:
            self.read_along()

    def _hand_over(self) -> Generator[Batch]:
        """The read-ahead, until one fails, or the time for a poll or a probe has come."""
        parts = self._parts
        messages = self._up_to_a_foreign_one()
        if not messages:
            return
        self._stop.allow_until(min(parts.read_ahead.deadline_s, parts.circuits.next_retry_at_s()))
        begun_s = parts.clock.now_s()
        batch = Batch(messages, begin_by_s=parts.read_ahead.overruns_at_s)
        parts.counters.hand_out(messages[0], begun_s)
        try:
            yield batch
        finally:  # also where whoever attempts it leaves: what is done is done
            if not self._stop.forked and not self._too_slow(batch.last_attempted):
                self._note_done(batch, begun_s)
        batch.check_unchanged()

    def _note_done(self, batch: Batch, begun_s: float) -> None:
        """Once for all of them: a success has no bookkeeping of its own."""
        read_ahead = self._parts.read_ahead
        self._done(batch.messages[: batch.handled])
        del read_ahead.ahead[: batch.handled]
        read_ahead.note_speed(batch.handled, self._parts.clock.now_s() - begun_s)
        self._parts.counters.succeeded += batch.handled
        if batch.handled:
            self._applying.succeeded()
        if batch.error is not None:
            batch.check_unchanged()
            message = read_ahead.ahead.pop(0)
            partition = partition_of(message)
            epoch = self._parts.assignment.epoch_of(partition) or 0
            held = Held(message, partition, message.offset() or 0, epoch)
            self._applying.failed(held, batch.error)

    def _probe(self, scope: Scope) -> Generator[Batch]:
        """`retry_at` has come: the held message, and only it, is attempted, from memory.

        Or an operator wants it now; that is for this message only, not for one in its place.
        """
        circuit = self._parts.circuits.get(scope)
        if circuit is None:
            return  # closed meanwhile: a rebalance ran while another scope's letter was awaited
        if circuit.held is None and circuit.retry_at_s > self._parts.clock.now_s():
            return
        held = self._parts.circuits.half_open(scope).held
        if held is None:
            self._let_a_first_one_come(scope)
        elif held.letter is not None:
            self._applying.bury(held)
        elif self._is_passed_over(held.message):
            # It tells nothing about the dependency: the next one will.
            self._done([held.message])
            self._parts.circuits.drop_held([held.partition])
            self._parts.circuits.half_open(scope)
            self._let_a_first_one_come(scope)
        else:
            yield from self._attempt(held)

    def _attempt(self, held: Held) -> Generator[Batch]:
        self._operator_actions.begin(held)
        begin_by_s = self._parts.read_ahead.overruns_at_s
        batch = Batch([held.message], held.failures + 1, begin_by_s=begin_by_s)
        self._parts.counters.hand_out(held.message, self._parts.clock.now_s())
        try:
            yield batch
        finally:
            if not self._stop.forked and not self._too_slow(held.message):
                if batch.error is not None:
                    batch.check_unchanged()
                    self._applying.failed(held, batch.error)
                elif batch.handled:
                    self._applying.finish(held, "recovered")
        batch.check_unchanged()

    def _let_a_first_one_come(self, scope: Scope) -> None:
        """The held message was revoked: the first one delivered will be the probe."""
        parts = self._parts
        if any(map(scope.covers, parts.assignment.partitions)):
            parts.read_ahead.start_small()
            self._flow_control.resume(scope)
        else:
            open_s = parts.circuits.close(scope, parts.clock.now_s())
            parts.emit(events.CircuitClosed(scope, "dropped", open_s))

    def _up_to_a_foreign_one(self) -> list[Message]:
        """The read-ahead, as far as it is for this group; what is not, at its head, is passed over.

        A message without headers is no replay, and most have none.
        """
        ahead = self._parts.read_ahead.ahead
        if have_no_headers(ahead):
            return ahead
        while ahead and self._is_passed_over(ahead[0]):
            self._done(ahead[:1])
            del ahead[0]
        group_id = self._parts.settings.group_id
        for index, message in enumerate(ahead):
            if foreign_group(message, group_id) is not None:
                return ahead[:index]
        return ahead

    def _is_passed_over(self, message: Message) -> bool:
        """Whether it was replayed for another group; then that is said."""
        group_id = foreign_group(message, self._parts.settings.group_id)
        if group_id is not None:
            place = (*partition_of(message), message.offset() or 0)
            self._parts.emit(events.PassedOver(*place, retry_group_id=group_id))
        return group_id is not None

    # -- what is done ----------------------------------------------------------------------

    def _done(self, messages: Sequence[Message]) -> None:
        """Note the last of each partition. They come in runs, so most differ in nothing."""
        last: dict[Partition, int] = {}
        topic, number = None, None
        for message in reversed(messages):
            if message.partition() != number or message.topic() != topic:
                topic, number = partition_of(message)
                last.setdefault((topic, number), (message.offset() or 0) + 1)
        self._parts.offsets.done(last)

    def _too_slow(self, message: Message) -> bool:
        """It is back. Whether the group has given up on us meanwhile: then nothing is stored."""
        parts = self._parts
        now_s = parts.clock.now_s()
        parts.counters.take_back(now_s)
        if not parts.read_ahead.overran(now_s):
            return False
        partition, offset = partition_of(message), message.offset() or 0
        took_s, limit_s = now_s - parts.read_ahead.polled_at_s, parts.settings.max_poll_interval_s
        self._flow_control.mark_lost(parts.assignment.partitions, "no poll for too long")
        count = self._slow_handlers.count(partition, offset)
        parts.emit(events.HandlerTooSlow(*partition, offset, took_s, limit_s, count))
        self._slow_handlers.raise_if_fatal(partition, offset, took_s, limit_s)
        return True

    def _keep_house(self) -> None:
        parts = self._parts
        self._applying.keep_house()
        reclaimable = parts.assignment.reclaimable(parts.clock.now_s())
        # That nobody has taken it from us says nothing while nobody could. And a KIP-848 member
        # that is out, and begins anew with no broker there, never joins again.
        if reclaimable and self._broker_watchdog.sees():
            self._flow_control.reclaim(reclaimable)
        # With a full queue a partition may be silent for minutes, its messages behind the others';
        # begun anew, it would go to the end of that queue, again and again.
        if parts.read_ahead.dry and not parts.assignment.undisturbed:
            self._stalled_partitions.tick()
        self._unreadable.tick()
        self._client_replacement.tick()
        self._broker_watchdog.tick()
        self._retention.tick()
        self._commands.tick()

    def _timeout_s(self) -> float:
        """To the next deadline: no busy loop, no timer thread. The client bounds it to 1 s."""
        now_s = self._parts.clock.now_s()
        if self._parts.circuits.due(now_s):
            return 0.0
        if self._unreadable.is_searching:
            return _SEARCHING_S
        return self._parts.circuits.next_retry_at_s() - now_s
