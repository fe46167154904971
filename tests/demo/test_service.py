"""The payment service goes down as planned, and the handler records what it saw."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from linear_retry.demo.evidence import Answer, Receipt, Request
from linear_retry.demo.service import TRANSIENT, Outage, PaymentRejected, Payments, PaymentService
from linear_retry.retry.retry_after import RetryAfter


@dataclass(slots=True)
class Timers:
    """Time that goes by when the test says so."""

    waiting: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    cancelled: int = 0

    def later(self, delay_s: float, call: Callable[[], None]) -> Callable[[], None]:
        self.waiting.append((delay_s, call))
        return self._cancel

    def pass_time(self) -> None:
        for _, call in self.waiting:
            call()
        self.waiting.clear()

    def _cancel(self) -> None:
        self.cancelled += 1


@dataclass(frozen=True, slots=True)
class Message:
    """What the handler is given."""

    order_id: str

    def value(self) -> bytes:
        return self.order_id.encode()


@dataclass(slots=True)
class Desk:
    """A service and its client, and what each has noted."""

    service: PaymentService
    timers: Timers
    requests: list[Request]
    payments: Payments

    def pay(self, order_id: str) -> None:
        self.payments.pay(Message(order_id))

    def answers(self) -> list[Answer]:
        return [request.answer for request in self.requests]


@pytest.fixture
def desk() -> Any:
    """One that goes down after two payments, refusing, and after three, with 503."""
    timers, requests = Timers(), list[Request]()
    outages = (Outage(2, "refused", 2.5), Outage(3, "unavailable", 1.5))
    with (
        PaymentService(outages, frozenset({"bad"}), schedule=timers.later) as service,
        Payments(service.url, requests.append) as payments,
    ):
        yield Desk(service, timers, requests, payments)


def test_a_payment_is_taken_and_noted_on_both_sides(desk: Desk) -> None:
    """The service's receipt and the client's request name the order and the answer."""
    desk.pay("a")
    (receipt,) = desk.service.receipts
    assert Receipt(receipt.at_s, "a", 200) == receipt
    assert [Request("a", "paid")] == desk.requests


def test_a_rejected_order_is_rejected_every_time(desk: Desk) -> None:
    """422 is permanent: not among the transient errors, and not counted as a payment."""
    for _ in range(3):
        with pytest.raises(PaymentRejected):
            desk.pay("bad")
    assert ["rejected"] * 3 == desk.answers()
    assert [] == desk.timers.waiting
    assert not issubclass(PaymentRejected, TRANSIENT)


def test_it_refuses_connections_from_the_given_payment_on(desk: Desk) -> None:
    """That payment is answered, the next connection refused: nothing reaches the service."""
    desk.pay("a")
    desk.pay("b")
    with pytest.raises(TRANSIENT):
        desk.pay("c")
    assert ["paid", "paid", "refused"] == desk.answers()
    assert ["a", "b"] == [receipt.order_id for receipt in desk.service.receipts]
    assert [2.5] == [delay_s for delay_s, _ in desk.timers.waiting]


def test_it_comes_back_at_the_same_address(desk: Desk) -> None:
    """When its time has come it listens again where it listened before."""
    before = desk.service.url
    desk.pay("a")
    desk.pay("b")
    desk.timers.pass_time()
    desk.pay("c")
    assert before == desk.service.url
    assert ["paid"] * 3 == desk.answers()


def test_503_says_when_to_come_again(desk: Desk) -> None:
    """`Retry-After` becomes `RetryAfter`, whatever the order, until the outage ends."""
    desk.pay("a")
    desk.pay("b")
    desk.timers.pass_time()
    desk.pay("c")
    for order_id in ("d", "bad"):
        with pytest.raises(RetryAfter) as refused:
            desk.pay(order_id)
        assert 1.0 == refused.value.seconds
    desk.timers.pass_time()
    desk.pay("d")
    assert ["unavailable", "unavailable", "paid"] == desk.answers()[-3:]
    assert 1.0 == desk.requests[-2].retry_after_s


def test_an_outage_that_lasts_ends_with_the_service() -> None:
    """Closing while down cancels what would have listened again."""
    timers = Timers()
    outage = Outage(1, "refused", 60.0)
    with PaymentService((outage,), frozenset(), schedule=timers.later) as service:
        url = service.url
        httpx.post(url, json={"order": "a"}, trust_env=False)
    assert 1 == timers.cancelled
    with pytest.raises(httpx.ConnectError):
        httpx.post(url, trust_env=False)


def _raise_read_error(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadError("reset", request=request)


@pytest.mark.parametrize("reply", [_raise_read_error, lambda _: httpx.Response(500)])
def test_no_answer_and_a_strange_one_are_transient(
    reply: Callable[[httpx.Request], httpx.Response],
) -> None:
    """Whatever is neither a payment nor a rejection may go away, and is noted as broken."""
    requests: list[Request] = []
    transport = httpx.MockTransport(reply)
    with (
        Payments("http://nowhere", requests.append, transport=transport) as payments,
        pytest.raises(TRANSIENT),
    ):
        payments.pay(Message("a"))
    assert [Request("a", "broken")] == requests
