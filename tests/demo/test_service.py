"""The payment service goes down as planned, and the handler records what it saw."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from linear_retry.demo.evidence import Answer, Attempt, Receipt
from linear_retry.demo.payments import (
    COUNT,
    PARTITIONS,
    REJECTED,
    TRANSIENT,
    Order,
    PaymentRejected,
    Payments,
    order_id_of,
    orders,
)
from linear_retry.demo.service import Outage, PaymentService
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
    at: tuple[int, int] = (1, 7)

    def partition(self) -> int:
        return self.at[0]

    def offset(self) -> int:
        return self.at[1]

    def value(self) -> bytes:
        return Order(self.order_id, 1, 500).encode()


@dataclass(slots=True)
class Desk:
    """A service and its client, and what each has noted."""

    service: PaymentService
    timers: Timers
    attempts: list[Attempt]
    payments: Payments

    def pay(self, order_id: str) -> None:
        self.payments.pay(Message(order_id))

    def answers(self) -> list[Answer]:
        return [attempt.answer for attempt in self.attempts]


@pytest.fixture
def desk() -> Any:
    """One that goes down after two payments, refusing, and after three, with 503."""
    timers, attempts = Timers(), list[Attempt]()
    outages = (Outage(2, "refused", 2.5), Outage(3, "unavailable", 1.5))
    with (
        PaymentService(outages, frozenset({"bad"}), schedule=timers.later) as service,
        Payments(service.url, attempts.append) as payments,
    ):
        yield Desk(service, timers, attempts, payments)


def test_a_payment_is_taken_and_noted_on_both_sides(desk: Desk) -> None:
    """The service's receipt lies within the client's attempt, on one clock."""
    desk.pay("a")
    (receipt,), (attempt,) = desk.service.receipts, desk.attempts
    assert Receipt(receipt.at_s, "a", 1, 7, 200) == receipt
    assert Attempt("a", 1, 7, attempt.started_s, attempt.ended_s, "paid") == attempt
    assert attempt.started_s <= receipt.at_s <= attempt.ended_s


def test_a_rejected_order_is_rejected_every_time(desk: Desk) -> None:
    """422 is permanent: not among the transient errors, and not counted as a payment."""
    for _ in range(3):
        with pytest.raises(PaymentRejected):
            desk.pay("bad")
    assert ["rejected"] * 3 == desk.answers()
    assert [] == desk.timers.waiting
    assert not issubclass(PaymentRejected, TRANSIENT)


def test_it_refuses_connections_from_the_payment_on_that_is_said(desk: Desk) -> None:
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
    assert 1.0 == desk.attempts[-2].retry_after_s


def test_an_outage_that_lasts_ends_with_the_service() -> None:
    """Closing while down cancels what would have listened again."""
    timers = Timers()
    outage = Outage(1, "refused", 60.0)
    with PaymentService((outage,), frozenset(), schedule=timers.later) as service:
        url = service.url
        httpx.post(url, json={"order": "a", "partition": 0, "offset": 0}, trust_env=False)
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
    attempts: list[Attempt] = []
    ticks = itertools.count()
    transport = httpx.MockTransport(reply)
    with (
        Payments(
            "http://nowhere",
            attempts.append,
            clock=lambda: float(next(ticks)),
            transport=transport,
        ) as payments,
        pytest.raises(TRANSIENT),
    ):
        payments.pay(Message("a"))
    assert [Attempt("a", 1, 7, 0.0, 1.0, "broken")] == attempts


def test_there_are_400_orders_and_two_of_them_are_bad() -> None:
    """Each id once, a hundred on each partition, the rejected among them on two partitions."""
    all_orders = orders()
    assert COUNT == len({order.order_id for order in all_orders})
    assert {100} == {
        sum(order.partition == number for order in all_orders) for number in range(PARTITIONS)
    }
    assert 2 == len({order.partition for order in all_orders if order.order_id in REJECTED})


@pytest.mark.parametrize("order", orders(8))
def test_an_order_is_read_as_it_was_written(order: Order) -> None:
    """`order_id_of` is the inverse of `encode` as far as the id goes."""
    assert order.order_id == order_id_of(order.encode())
