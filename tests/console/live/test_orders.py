"""What an operator orders on the console comes about as from the command line."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from linear_retry import LinearConsumer, Scope
from linear_retry.console.live import orders as module
from linear_retry.console.live.orders import Order, Orders
from linear_retry.console.state.audit import Audit
from linear_retry.console.state.settings import Settings
from linear_retry.console.state.state import State
from linear_retry.errors import BrokerError
from linear_retry.kafka import Message
from linear_retry.kafka.topics.reader import TopicReader
from linear_retry.scope import Place
from linear_retry.testing import EmbeddedKafka
from linear_retry.web.security.authentication import RefusedError
from tests.kafka_operations import wait_until
from tests.living import broker_of_orders, living, patient_consumer

_HELD = Place("orders", 0, 0)


@pytest.mark.parametrize(
    "fields",
    [
        [],
        [("command", "retry")],
        [("command", "purge"), ("group", "billing")],
        [("command", "give-up"), ("group", "billing")],
        [("command", "retry"), ("group", "billing"), ("message", "orders")],
    ],
)
def test_an_order_that_is_incomplete(fields: list[tuple[str, str]]) -> None:
    """Is refused; of all, nothing is given up."""
    with pytest.raises(RefusedError, match="this order is incomplete"):
        Order.of(fields)


def test_an_order() -> None:
    """About messages, or about all circuits of a group or of one of its members."""
    group = ("group", "billing")
    assert Order("retry", "billing") == Order.of([("command", "retry"), group])
    two = [("message", "orders[0]@0"), ("message", "orders:1@7")]
    expected = Order("give-up", "billing", (_HELD, Place("orders", 1, 7)))
    assert expected == Order.of([("command", "give-up"), group, *two])
    lifting = [("command", "lift-limit"), group, ("member", "till-7"), ("letters", "50")]
    of_one = Order("lift-limit", "billing", member="till-7", letters=50)
    assert of_one == Order.of(lifting)
    assert "member till-7 of group billing, for 50 dead letters" in of_one.subject
    with pytest.raises(RefusedError, match="'0': it must be a whole number from 1"):
        Order.of([*lifting[:2], ("letters", "0")])


def _fail(_: Message) -> None:
    raise ConnectionError("down")


@pytest.fixture
def broker() -> Iterator[EmbeddedKafka]:
    """With one order."""
    with broker_of_orders(b"first") as kafka:
        yield kafka


@pytest.fixture
def consumer(broker: EmbeddedKafka) -> Iterator[LinearConsumer]:
    """It holds a message whose next attempt is its last."""
    made = patient_consumer(broker.bootstrap, control="linear-retry.control")
    with living(made, _fail) as consumer:
        wait_until(lambda: consumer.circuits[Scope()].state == "open", "it is held")
        yield consumer


@pytest.fixture
def audit(tmp_path: Path) -> Iterator[Audit]:
    """An empty one."""
    with State(tmp_path) as state:
        yield Audit(state)


def _settings(broker: EmbeddedKafka, directory: Path) -> Settings:
    return Settings(
        kafka={"bootstrap.servers": broker.bootstrap},
        state=directory,
        journal="linear-retry.journal",
        control="linear-retry.control",
    )


def test_the_last_attempt_is_asked_about(
    broker: EmbeddedKafka, consumer: LinearConsumer, audit: Audit, tmp_path: Path
) -> None:
    """It is made when it is ordered as such, and the audit has both orders."""
    orders = Orders(_settings(broker, tmp_path), audit)
    given = orders.give(Order("retry", "billing", (_HELD,)), "ann", "the bank is back")
    assert (_HELD,) == given.last
    assert 1 == consumer.circuits[Scope()].failures
    given = orders.give(Order("retry", "billing", given.last, is_last=True), "ann", "try it")
    assert () == given.last
    last, first = audit.read(limit=5)
    assert ("ann", "retry now", "orders[0]@0 of group billing", "the bank is back") == (
        first.actor,
        first.action,
        first.subject,
        first.why,
    )
    assert (given.change, "try it") == (last.id, last.why)


def test_an_order_for_one_member_is_for_no_other(
    broker: EmbeddedKafka,
    consumer: LinearConsumer,
    audit: Audit,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other members do not answer, and attempt nothing."""
    monkeypatch.setattr(module, "_ANSWER_S", 3)
    orders = Orders(_settings(broker, tmp_path), audit)
    given = orders.give(Order("retry", "billing", member="another"), "ann", "")
    change = audit.change(given.change)
    assert change is not None
    assert "no member 'another' follows" in change.outcome
    mine = orders.give(Order("retry", "billing", member=consumer.member), "ann", "")
    assert ((), (_HELD,)) == (given.last, mine.last)
    assert 1 == consumer.circuits[Scope()].failures


def test_a_message_is_given_up(
    broker: EmbeddedKafka, consumer: LinearConsumer, audit: Audit, tmp_path: Path
) -> None:
    """It is in the dead letters when the answer is there."""
    orders = Orders(_settings(broker, tmp_path), audit)
    given = orders.give(Order("give-up", "billing", (_HELD,)), "ann", "a test order")
    change = audit.change(given.change)
    assert change is not None
    assert change.outcome.startswith("orders[0]@0, ")
    assert change.outcome.endswith(": now in the dead letters")
    assert 1 == len(TopicReader({"bootstrap.servers": broker.bootstrap}).read_all("orders.dlq"))


def test_what_cannot_be_sent_is_in_the_audit_too(
    broker: EmbeddedKafka, audit: Audit, tmp_path: Path
) -> None:
    """With the reason why it came to nothing; without a control topic nothing is tried."""
    settings = replace(_settings(broker, tmp_path), control="missing")
    with pytest.raises(BrokerError):
        Orders(settings, audit).give(Order("retry", "billing"), "ann", "")
    (change,) = audit.read(limit=5)
    assert "topic 'missing' does not exist" in change.outcome
    with pytest.raises(RefusedError, match="started without --control"):
        Orders(replace(settings, control=None), audit).give(Order("retry", "billing"), "ann", "")
