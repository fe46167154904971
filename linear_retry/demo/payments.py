"""The orders, and the handler that pays one and records what its HTTP client saw."""

from collections.abc import Callable
from typing import Protocol, Self

import httpx

from linear_retry.demo.evidence import ANSWER_OF_STATUS, Answer, Request
from linear_retry.retry.retry_after import RetryAfter

PARTITIONS = 4
ORDERS = tuple(f"order-{number:03d}" for number in range(1, 401))
REJECTED = frozenset({"order-062", "order-291"})  # an expired card stays expired
TRANSIENT: tuple[type[Exception], ...] = (httpx.TransportError,)


class PaymentRejected(Exception):  # noqa: N818  (what the service says, in its own words)
    """The service will never take this payment: permanent."""


class Message(Protocol):
    """What the handler asks of a Kafka message: its value, the order's id."""

    def value(self) -> bytes | None: ...


class Payments:
    """Pays one order for each message; every request, however it ends, goes to `record`."""

    def __init__(
        self,
        url: str,
        record: Callable[[Request], object],
        *,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        # trust_env: a proxy from the environment would stand between us and the loopback.
        self._http = httpx.Client(base_url=url, timeout=5.0, trust_env=False, transport=transport)
        self._record = record

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def pay(self, message: Message) -> None:
        """Pays the order. Raises httpx.TransportError, RetryAfter (503), PaymentRejected (422)."""
        order_id = (message.value() or b"").decode()
        answer: Answer = "broken"
        retry_after_s = 0.0
        try:
            response = self._http.post("/payments", json={"order": order_id})
            answer = ANSWER_OF_STATUS.get(response.status_code, "broken")
            retry_after_s = float(response.headers.get("Retry-After", 0))
        except httpx.ConnectError:
            answer = "refused"
            raise
        finally:
            self._record(Request(order_id, answer, retry_after_s))
        match answer:
            case "rejected":
                raise PaymentRejected("422: the card has expired")
            case "unavailable":
                raise RetryAfter(retry_after_s, "503 Service Unavailable")
            case "broken":
                raise httpx.RemoteProtocolError(f"unexpected answer: {response.status_code}")
