"""Which misbehaviour of librdkafka or of the broker comes next? None unless a test says so."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from confluent_kafka import KafkaError

from linear_retry.scope import Partition


@dataclass(frozen=True, slots=True)
class TransactionFault:
    """A call that says this error; `acts`: all the same it was done."""

    call: str
    error: KafkaError
    acts: bool = False
    takes_s: float = 0.0


@dataclass(slots=True)
class Faults:
    """Switches, all off. Those with `times` or a queue are used up, one by one."""

    brokers_down: bool = False
    late_resume_s: float = 0.0
    commit_answer_s: float = 0.0
    commits_land_late: bool = False
    """An asynchronous commit reaches the broker only when it is answered."""
    admin_answer_s: float | None = 0.0
    lost_as_revoked: bool = False
    delivery_s: float = 0.0
    _leaks: dict[Partition, int] = field(default_factory=dict)
    _dead: set[Partition] = field(default_factory=set)
    _jumps: dict[Partition, int] = field(default_factory=dict)
    _stale: set[Partition] = field(default_factory=set)
    _seeks: deque[KafkaError] = field(default_factory=deque)
    _commits: deque[KafkaError] = field(default_factory=deque)
    _deliveries: deque[KafkaError] = field(default_factory=deque)
    _produces: deque[BaseException] = field(default_factory=deque)
    _polls: deque[BaseException] = field(default_factory=deque)
    _ignored_pauses: int = 0
    _echoes: set[Partition] = field(default_factory=set)
    _transactions: list[TransactionFault] = field(default_factory=list)

    # -- tests switch on ----------------------------------------------------------------------

    def leak(self, partition: Partition, count: int = 1) -> None:
        """A paused partition delivers `count` messages all the same (librdkafka #5591)."""
        self._leaks[partition] = self._leaks.get(partition, 0) + count

    def ignore_pause(self, times: int = 1) -> None:
        """The next calls of `pause` have no effect and say nothing."""
        self._ignored_pauses += times

    def kill(self, partition: Partition) -> None:
        """At the next assign, pause, resume or seek it dies: nothing comes, position is -1001.

        Resume and seek do not help; assigning anew does.
        """
        self._dead.add(partition)

    def jump(self, partition: Partition, to_offset: int) -> None:
        """The first message after the next assign or seek is a later one, once."""
        self._jumps[partition] = to_offset

    def echo(self, partition: Partition) -> None:
        """That no offset is committed is said once more, when messages have come already."""
        self._echoes.add(partition)

    def stale(self, partition: Partition) -> None:
        """The first message after the next seek is the one before, once."""
        self._stale.add(partition)

    def fail_seek(self, code: int, times: int = 1) -> None:
        self._seeks.extend(KafkaError(code, "Failed to seek to offset") for _ in range(times))

    def fail_commit(self, code: int, times: int = 1) -> None:
        """A synchronous commit raises, an asynchronous one is answered with the error."""
        self._commits.extend(KafkaError(code, "Commit failed") for _ in range(times))

    def fail_delivery(self, code: int, times: int = 1) -> None:
        """The delivery report says the error, and the record is not there."""
        self._deliveries.extend(KafkaError(code, "Delivery failed") for _ in range(times))

    def raise_in_produce(self, error: BaseException, times: int = 1) -> None:
        self._produces.extend([error] * times)

    def raise_in_poll(self, error: BaseException) -> None:
        """The next poll or consume takes messages as ever, drops them, and raises."""
        self._polls.append(error)

    def fail_transaction(
        self,
        call: str,
        error: KafkaError,
        times: int = 1,
        *,
        acts: bool = False,
        takes_s: float = 0,
    ) -> None:
        """The next such calls (init, begin, send_offsets, commit, abort) say this error.

        `acts`: what was asked for is done, and only the answer, after `takes_s`, says otherwise.
        """
        self._transactions += [TransactionFault(call, error, acts, takes_s)] * times

    def forget_transactions(self) -> None:
        """From here on calls about transactions do not fail."""
        self._transactions.clear()

    def clear(self) -> None:
        """Everything works again from here on."""
        fresh = Faults()
        for name in self.__slots__:
            setattr(self, name, getattr(fresh, name))

    # -- the fake asks ------------------------------------------------------------------------

    def takes_leak(self, partition: Partition) -> bool:
        left = self._leaks.get(partition, 0)
        if left:
            self._leaks[partition] = left - 1
        return left > 0

    def has_leak(self, partition: Partition) -> bool:
        return self._leaks.get(partition, 0) > 0

    def takes_ignored_pause(self) -> bool:
        ignored = self._ignored_pauses > 0
        self._ignored_pauses -= ignored
        return ignored

    def takes_death(self, partition: Partition) -> bool:
        dies = partition in self._dead
        self._dead.discard(partition)
        return dies

    def takes_jump(self, partition: Partition) -> int | None:
        return self._jumps.pop(partition, None)

    def takes_echo(self, partition: Partition) -> bool:
        comes = partition in self._echoes
        self._echoes.discard(partition)
        return comes

    def takes_stale(self, partition: Partition) -> bool:
        comes = partition in self._stale
        self._stale.discard(partition)
        return comes

    def takes_seek_error(self) -> KafkaError | None:
        return self._seeks.popleft() if self._seeks else None

    def takes_commit_error(self) -> KafkaError | None:
        return self._commits.popleft() if self._commits else None

    def takes_delivery_error(self) -> KafkaError | None:
        return self._deliveries.popleft() if self._deliveries else None

    def takes_produce_error(self) -> BaseException | None:
        return self._produces.popleft() if self._produces else None

    def takes_poll_error(self) -> BaseException | None:
        return self._polls.popleft() if self._polls else None

    def takes_transaction_fault(self, call: str) -> TransactionFault | None:
        found = next((one for one in self._transactions if one.call == call), None)
        if found is not None:
            self._transactions.remove(found)
        return found
