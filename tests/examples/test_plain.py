"""The plain examples wait for the payment service, and keep the order."""

import pytest

from tests.examples.conftest import SceneFactory
from tests.examples.running import Copy, Program
from tests.examples.scene import ORDERS, Scene, charging, free_port

pytestmark = pytest.mark.broker

_OPEN, _CLOSED = "circuit open", "circuit closed (consumer): recovered"


def _served(copy: Copy) -> None:
    copy.path("plain")


def test_it_waits_while_the_payment_service_is_down(scene: SceneFactory) -> None:
    """Orders that come before the service are charged once it is there: all, once, in order."""
    here = scene(free_port(), partitions=3)
    _served(here.copy)
    assert "orders sent: 10\n" == here.copy.run("python examples/plain/orders.py 10")
    with here.copy.running("python examples/plain/consumer.py") as consumer:
        consumer.wait_for(_OPEN)
        with here.copy.running("python examples/plain/payments.py") as payments:
            consumer.wait_for(_CLOSED)
            payments.wait_for("order ", times=10)
            here.wait_until_committed("billing")
            consumer.end()
            _is_each_once_in_order(here, payments)
            assert ["10"] == [words[-1] for words in payments.lines("declined")]
    (letter,) = here.dead_letters()
    assert ("permanent", 1) == (letter.reason, letter.failures)
    assert "HTTPStatusError" in consumer.output


def test_a_loop_of_ones_own_retries_in_order(scene: SceneFactory) -> None:
    """One order without an answer, one with 503 and one that is declined hold up the rest."""
    with charging() as (charges, port):
        here = scene(port)
        _served(here.copy)
        here.produce(*ORDERS)
        with here.copy.running("python examples/plain/loop.py") as loop:
            here.wait_until_committed("billing-loop")
            loop.end()
    here.assert_kept_order(charges)
    for offset in (1, 2):
        assert f"INFO:billing:attempt 2 of offset {offset}" in loop.output


def _is_each_once_in_order(here: Scene, payments: Program) -> None:
    charged = [words[0] for kind in ("charged", "declined") for words in payments.lines(kind)]
    assert len(charged) == len(set(charged))
    for number, end in here.kafka.end_offsets(here.orders).items():
        places = [f"{here.orders}/{number}/{offset}" for offset in range(end)]
        assert places == _of_partition(payments, f"{here.orders}/{number}/")


def _of_partition(payments: Program, place: str) -> list[str]:
    words = [line.split() for line in payments.output.splitlines()]
    return [each[1] for each in words if each[1].startswith(place)]


def test_what_is_not_an_order_is_no_outage(scene: SceneFactory) -> None:
    """The bug: the payment service hung up on `book`, an order of the first tutorial, and a reader
    who went on to the examples saw an outage that never ended."""
    here = scene(free_port())
    _served(here.copy)
    here.produce(b"book", b'{"order": 1, "cents": 5}', b"[]")
    with (
        here.copy.running("python examples/plain/payments.py") as payments,
        here.copy.running("python examples/plain/consumer.py") as consumer,
    ):
        here.wait_until_committed("billing")
        consumer.end()
    assert [b"book", b"[]"] == [letter.value for letter in here.dead_letters()]
    assert 2 == len(payments.lines("refused"))
