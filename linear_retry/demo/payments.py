"""The orders, and the handler that pays one and records what its HTTP client saw."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self

import httpx

from linear_retry.demo.evidence import ANSWER_OF_STATUS, Answer, Attempt
from linear_retry.retry.retry_after import RetryAfter

COUNT = 400
PARTITIONS = 4
REJECTED = frozenset({"order-062", "order-291"})  # an expired card stays expired
TRANSIENT: tuple[type[Exception], ...] = (httpx.TransportError,)


@dataclass(frozen=True, slots=True)
class Order:
    """One order, and the partition that keeps it in order with its neighbours."""

    order_id: str
    partition: int
    cents: int

    def encode(self) -> bytes:
        """The message's value."""
        return json.dumps({"order": self.order_id, "cents": self.cents}).encode()


def orders(count: int = COUNT, partitions: int = PARTITIONS) -> tuple[Order, ...]:
    """`count` orders, dealt out to the partitions in turn."""
    return tuple(
        Order(f"order-{number:03d}", number % partitions, 500 + 37 * number)
        for number in range(1, count + 1)
    )


def order_id_of(value: bytes | None) -> str:
    """The id in a message's value; ValueError or KeyError where it is no order."""
    return str(json.loads(value or b"")["order"])


class PaymentRejected(Exception):  # noqa: N818  (what the service says, in its own words)
    """The service will never take this payment: permanent."""


class Message(Protocol):
    """What the handler asks of a Kafka message."""

    def partition(self) -> int | None: ...
    def offset(self) -> int | None: ...
    def value(self) -> bytes | None: ...


class Payments:
    """Pays one order for each message; every attempt, however it ends, goes to `record`."""

    def __init__(
        self,
        url: str,
        record: Callable[[Attempt], object],
        *,
        clock: Callable[[], float] = time.monotonic,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        # trust_env: a proxy from the environment would stand between us and the loopback.
        self._http = httpx.Client(base_url=url, timeout=5.0, trust_env=False, transport=transport)
        self._record = record
        self._clock = clock

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def pay(self, message: Message) -> None:
        """Pays the order. Raises httpx.TransportError, RetryAfter (503), PaymentRejected (422)."""
        order_id = order_id_of(message.value())
        partition, offset = message.partition() or 0, message.offset() or 0
        payment = {"order": order_id, "partition": partition, "offset": offset}
        answer: Answer = "broken"
        retry_after_s = 0.0
        started_s = self._clock()
        try:
            response = self._http.post("/payments", json=payment)
            answer = ANSWER_OF_STATUS.get(response.status_code, "broken")
            retry_after_s = float(response.headers.get("Retry-After", 0))
        except httpx.ConnectError:
            answer = "refused"
            raise
        finally:
            # Recorded before the consumer learns of it: its delay can only begin later than this.
            self._record(
                Attempt(
                    order_id, partition, offset, started_s, self._clock(), answer, retry_after_s
                )
            )
        _raise_for(response, retry_after_s)


def _raise_for(response: httpx.Response, retry_after_s: float) -> None:
    match response.status_code:
        case 200:
            return
        case 422:
            raise PaymentRejected("422: the card has expired")
        case 503:
            raise RetryAfter(retry_after_s, "503 Service Unavailable")
        case status:
            raise httpx.RemoteProtocolError(f"unexpected answer: {status}")
