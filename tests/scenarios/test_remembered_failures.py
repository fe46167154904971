"""How often a message has failed outlives its consumer, on a real broker."""

from typing import Any

import pytest

from linear_retry import DeadLetters, LinearConsumer, Strategy
from linear_retry.consumer.settings.consumer_config import Dependencies
from linear_retry.events import CircuitOpened, DeadLettered, Event
from linear_retry.kafka import Message
from tests.conftest import TopicFactory
from tests.kafka_operations import wait_until
from tests.living import QuickConsumer, living
from tests.real_kafka import RealKafka
from tests.scenarios.protocols import each_protocol

pytestmark = pytest.mark.broker


def _fail(_: Message) -> None:
    raise ConnectionError("down")


@pytest.mark.parametrize("transactional", [False, True])
@each_protocol
def test_a_restart_goes_on(
    kafka: RealKafka, topic: TopicFactory, protocol: dict[str, str], transactional: bool
) -> None:
    """It waits until the `retry_at` of before, and gives up after as many failures in all."""
    orders, letters = topic(1), topic(1)
    kafka.produce(orders, [(0, b"key", b"value", ())])
    events: list[Event] = []

    def consumer(*delays: Any) -> LinearConsumer:
        return LinearConsumer(
            {
                "bootstrap.servers": kafka.bootstrap,
                "group.id": f"{orders}-{transactional}",
                "auto.offset.reset": "earliest",
                **protocol,
            },
            [orders],
            strategy=Strategy(list(delays)),
            transient=ConnectionError,
            dead_letters=DeadLetters(letters, transactional=transactional),
            listeners=[events.append],
            _dependencies=Dependencies(consumer=QuickConsumer),
        )

    def held(one: LinearConsumer, failures: int) -> bool:
        return any(view.failures == failures for view in one.circuits.values())

    with living(consumer(0.1, "1h", "1h"), _fail) as first:
        wait_until(lambda: held(first, 2), "it has failed twice")
        (before,) = [view for view in first.circuits.values() if view.failures]
    events.clear()
    with living(consumer(0.1, "1h"), _fail) as second:
        wait_until(lambda: any(isinstance(event, CircuitOpened) for event in events), "held again")
        assert held(second, 2)
        (opened,) = [event for event in events if isinstance(event, CircuitOpened)]
        assert before.retry_at is not None
        assert abs((opened.retry_at - before.retry_at).total_seconds()) < 5
        assert 0 == second.counts.failed
        second.retry_now()
        wait_until(lambda: any(isinstance(event, DeadLettered) for event in events), "a letter")
    (letter,) = [event for event in events if isinstance(event, DeadLettered)]
    assert ("exhausted", 3) == (letter.reason, letter.failures)
    assert {0: 1} == kafka.committed(f"{orders}-{transactional}", orders)
