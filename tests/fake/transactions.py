"""Transactions on the fake, in the producer and in the broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from linear_retry.scope import Partition
from tests.fake.topic import PartitionLog

if TYPE_CHECKING:
    from tests.fake.cluster import FakeKafka

Call = Literal["init", "begin", "send_offsets", "commit", "abort"]

_NEVER_S = 60.0


@dataclass(slots=True, eq=False)
class _Open:
    """What waits for the end of one transaction."""

    epoch: int
    records: list[tuple[PartitionLog, int]] = field(default_factory=list)
    offsets: list[tuple[str, Partition, TopicPartition]] = field(default_factory=list)


class Coordinator:
    """The broker's side: who may write under a `transactional.id`, and what is not decided yet."""

    def __init__(self, fake: FakeKafka) -> None:
        self._fake = fake
        self._epochs: dict[str, int] = {}
        self._open: dict[str, _Open] = {}

    def initialise(self, name: str) -> int:
        """A new producer: the older are fenced, and what they have left open is aborted."""
        self.end(name, commit=False)
        self._epochs[name] = self._epochs.get(name, 0) + 1
        return self._epochs[name]

    def knows(self, name: str, epoch: int) -> bool:
        return self._epochs.get(name) == epoch

    def add_record(self, name: str, log: PartitionLog, offset: int, timeout_s: float) -> None:
        self._transaction(name, timeout_s).records.append((log, offset))

    def add_offsets(
        self, name: str, group: str, items: list[TopicPartition], timeout_s: float
    ) -> None:
        self._transaction(name, timeout_s).offsets.extend(
            (group, (item.topic, item.partition), item) for item in items
        )

    def end(self, name: str, *, commit: bool) -> None:
        """Every partition it wrote to gets a marker; offsets count from here on, if committed."""
        transaction = self._open.pop(name, None)
        if transaction is None:
            return
        for log, offset in transaction.records:
            log.settle(offset, commit=commit)
        for log in {id(log): log for log, _ in transaction.records}.values():
            log.mark(1)
        if commit:
            for group, _, item in transaction.offsets:
                self._fake.store(group, [item])

    def overtake(self, group: str, committed: Iterable[Partition]) -> None:
        """These were committed by themselves: what was written before them does not count."""
        later = {(group, partition) for partition in committed}
        for transaction in self._open.values():
            transaction.offsets = [one for one in transaction.offsets if one[:2] not in later]

    def awaits(self, group: str, partition: Partition) -> bool:
        """Whether an offset of it is written and neither committed nor aborted."""
        return any(
            (group, partition) == pending[:2]
            for transaction in self._open.values()
            for pending in transaction.offsets
        )

    def _transaction(self, name: str, timeout_s: float) -> _Open:
        if name not in self._open:
            begun = _Open(self._epochs[name])
            self._open[name] = begun
            self._fake.clock.at(timeout_s, lambda: self._time_out(name, begun))
        return self._open[name]

    def _time_out(self, name: str, begun: _Open) -> None:
        """It lasted too long: aborted, and its producer fenced."""
        if self._open.get(name) is begun:
            self.end(name, commit=False)
            self._epochs[name] += 1


class Transactions:
    """The producer's side: its state, and what librdkafka refuses."""

    def __init__(self, fake: FakeKafka, name: str, timeout_s: float) -> None:
        self.name = name
        self.timeout_s = timeout_s
        self.failed: KafkaError | None = None
        self._missing: set[Partition] = set()
        self._fake = fake
        self._epoch: int | None = None
        self._ready = False
        self._in_one = False
        self._fatal: KafkaError | None = None

    @property
    def is_fenced(self) -> bool:
        return self._epoch is None or not self._fake.transactions.knows(self.name, self._epoch)

    def break_off(self, fatal: KafkaError) -> None:
        """Every call says this from here on."""
        self._fatal = fatal

    def skip_number(self, topic: str, partition: int) -> None:
        """The broker has refused a record for its size, and misses its number from here on."""
        self._missing.add((topic, partition))

    def misses(self, topic: str, partition: int) -> bool:
        """Whether the broker misses a number before the next record there.

        Then librdkafka purges that record, and begins to count again ("requires epoch bump").
        """
        if (topic, partition) not in self._missing:
            return False
        self._missing.clear()
        return True

    def require_one(self) -> None:
        """Raises where `produce` is called outside of a transaction."""
        self._require(self._in_one, "Unable to produce message: Local: Erroneous state")

    def initialise(self, timeout_s: float) -> None:
        def act() -> None:
            self._epoch = self._fake.transactions.initialise(self.name)

        self._require(not self._ready, "init: Operation not valid in state Ready")
        self._call("init", act, timeout_s, needs_one=False)
        self._ready = True

    def begin(self) -> None:
        ready = self._epoch is not None and not self._in_one
        self._require(ready, "Operation not valid in state Init")

        def act() -> None:
            self._in_one, self.failed = True, None

        self._act("begin", act)

    def send_offsets(self, items: list[TopicPartition], member: bytes, timeout_s: float) -> None:
        def act() -> None:
            self._require_epoch()
            group, refusal = self._fake.check_member(member)
            if refusal is not None:
                raise abortable(refusal, f"Broker: {refusal}")
            self._fake.transactions.add_offsets(self.name, group, items, self.timeout_s)

        self._call("send_offsets", act, timeout_s)

    def commit(self, timeout_s: float, flush: Callable[[], object]) -> None:
        def act() -> None:
            flush()
            if self.failed is not None:
                raise abortable(self.failed.code(), "1 message(s) failed delivery")
            self._require_epoch()
            self._fake.transactions.end(self.name, commit=True)
            self._in_one = False

        self._call("commit", act, timeout_s)

    def abort(self, timeout_s: float, purge: Callable[[], object]) -> None:
        def act() -> None:
            purge()
            self._require_epoch()
            self._fake.transactions.end(self.name, commit=False)
            self._in_one = False

        self._call("abort", act, timeout_s)

    def _call(
        self, call: Call, act: Callable[[], None], timeout_s: float, *, needs_one: bool = True
    ) -> None:
        if needs_one:
            self._require(self._in_one, f"{call}: Operation not valid in state Ready")
        if self._fake.faults.brokers_down:
            self._fake.clock.advance(timeout_s if timeout_s >= 0 else _NEVER_S)
            text = f"{call}: Local: Timed out"
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, text, False, True))
        self._act(call, act)

    def _act(self, call: Call, act: Callable[[], None]) -> None:
        if self._fatal is not None:
            raise KafkaException(self._fatal)
        fault = self._fake.faults.takes_transaction_fault(call)
        if fault is None or fault.acts:
            act()
        if fault is not None:
            if fault.lands_s is not None:
                self._fake.clock.at(fault.lands_s, lambda: self._land(act))
            if fault.error.fatal():
                self._fatal = fault.error
            self._fake.clock.advance(fault.takes_s)
            raise KafkaException(fault.error)

    def _land(self, act: Callable[[], None]) -> None:
        """The request arrives late: the broker knows producer and epoch, and asks for no more."""
        if not self.is_fenced:
            with suppress(KafkaException):  # nobody waits for the answer
                act()

    def _require_epoch(self) -> None:
        if self.is_fenced:
            text = "Local: This instance has been fenced by a newer instance"
            self._fatal = KafkaError(KafkaError._FENCED, text, True)
            raise KafkaException(self._fatal)

    @staticmethod
    def _require(allowed: bool, text: str) -> None:
        if not allowed:
            raise KafkaException(KafkaError(KafkaError._STATE, text))


def abortable(code: int, text: str) -> KafkaException:
    """The transaction must be aborted; the next may succeed."""
    return KafkaException(KafkaError(code, text, False, False, True))
