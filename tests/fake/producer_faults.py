"""Faults of records, their delivery reports and transactions."""

from collections import deque
from dataclasses import dataclass, field
from itertools import repeat

from confluent_kafka import KafkaError


@dataclass(frozen=True, slots=True)
class DeliveryFault:
    """What the report says; None: it never comes. `lands`: all the same the record is there."""

    error: KafkaError | None
    lands: bool = False


@dataclass(frozen=True, slots=True)
class TransactionFault:
    """A call that says this error; `acts`: all the same it was done, or will be (`lands_s`)."""

    call: str
    error: KafkaError
    acts: bool = False
    takes_s: float = 0.0
    lands_s: float | None = None


@dataclass
class ProducerFaults:
    """Switches about producers and the admin client."""

    delivery_s: float = 0.0
    """How long a record takes; longer than its timeout is ambiguous: reported so, and there."""
    admin_answer_s: float | None = 0.0
    """How long the admin client's answers take; None: no broker answers in time."""
    _deliveries: deque[DeliveryFault] = field(default_factory=deque)
    _produces: deque[BaseException] = field(default_factory=deque)
    _breaks: deque[KafkaError] = field(default_factory=deque)
    _transactions: list[TransactionFault] = field(default_factory=list)

    def fail_delivery(self, code: int, times: int = 1, *, lands: bool = False) -> None:
        """The delivery report says the error. The record is not there, unless it `lands`."""
        fault = DeliveryFault(KafkaError(code, "Delivery failed"), lands)
        self._deliveries.extend(repeat(fault, times))

    def lose_report(self, times: int = 1, *, lands: bool = False) -> None:
        """No report ever comes."""
        self._deliveries.extend(repeat(DeliveryFault(None, lands), times))

    def raise_in_produce(self, error: BaseException, times: int = 1) -> None:
        """`produce` raises: a BufferError where the queue is full."""
        self._produces.extend(repeat(error, times))

    def break_producer(self, error: KafkaError, times: int = 1) -> None:
        """The next record is refused for good, and `error_cb` learns of this fatal error."""
        self._breaks.extend(repeat(error, times))

    def fail_transaction(
        self,
        call: str,
        error: KafkaError,
        times: int = 1,
        *,
        acts: bool = False,
        takes_s: float = 0,
        lands_s: float | None = None,
    ) -> None:
        """The next such calls (init, begin, send_offsets, commit, abort) say this error.

        `acts`: what was asked for is done, and only the answer, after `takes_s`, says otherwise.
        `lands_s`: it is done so much later, whatever its producer does then, unless that has been
        succeeded by another.
        """
        fault = TransactionFault(call, error, acts, takes_s, lands_s)
        self._transactions += [fault] * times

    def forget_transactions(self) -> None:
        """From here on calls about transactions do not fail."""
        self._transactions.clear()

    def transactions_to_fail(self, call: str) -> list[TransactionFault]:
        """What the next such calls will say."""
        return [one for one in self._transactions if one.call == call]

    def takes_delivery_fault(self) -> DeliveryFault | None:
        return self._deliveries.popleft() if self._deliveries else None

    def takes_produce_error(self) -> BaseException | None:
        return self._produces.popleft() if self._produces else None

    def takes_break(self) -> KafkaError | None:
        return self._breaks.popleft() if self._breaks else None

    def takes_transaction_fault(self, call: str) -> TransactionFault | None:
        found = next((one for one in self._transactions if one.call == call), None)
        if found is not None:
            self._transactions.remove(found)
        return found
