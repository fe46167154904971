"""The lag is asked of those groups alone that somebody looks at, with few clients."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, TopicPartition

from linear_retry.console.live.hub import Hub
from linear_retry.console.live.threads import StandingThread
from linear_retry.events import Assigned
from linear_retry.journal.entry import Entry
from linear_retry.journal.group_state import GroupStates, GroupView
from linear_retry.journal.standing import Clients, Lag
from linear_retry.scope import Partition
from tests.conftest import TopicFactory
from tests.kafka_operations import wait_until
from tests.real_kafka import RealKafka


@dataclass(slots=True)
class _Client:
    group: str
    closed: list[str] = field(default_factory=list)

    def ask_with_notes(self, _: Iterable[Partition], __: float) -> None: ...

    def close(self) -> None:
        self.closed.append(self.group)


def test_the_client_that_was_used_least_lately_makes_room() -> None:
    """However many groups are asked about, no more clients are open than that."""
    closed: list[str] = []
    clients = Clients(lambda group: _Client(group, closed), most=2)
    first = clients.of("a")
    clients.of("b")
    assert first is clients.of("a")
    clients.of("c")
    assert ["b"] == closed
    clients.keep(["c"])
    assert ["b", "a"] == closed


def _view(group: str, topic: str) -> GroupView:
    states = GroupStates()
    states.take(Entry(str(uuid4()), 1, 0, group, "member", Assigned(((topic, 0),))))
    return states.view(group)


def _commit(kafka: RealKafka, group: str, topic: str, offset: int) -> None:
    consumer = Consumer(kafka.client_settings() | {"group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


@pytest.mark.broker
def test_lag_that_nobody_looks_at_is_forgotten(kafka: RealKafka, topic: TopicFactory) -> None:
    """Else the first to look in the morning would be shown the lag of the evening."""
    orders, now_s = topic(), [0.0]
    hub = Hub(lambda: now_s[0])
    groups = [f"lag-{uuid4().hex[:8]}" for _ in range(2)]
    kafka.produce(orders, [(0, None, b"value", ()) for _ in range(5)])
    for offset, group in enumerate(groups, 1):
        _commit(kafka, group, orders, offset)
    hub.change(views=tuple(_view(group, orders) for group in groups))
    hub.look(groups[:1])
    thread = StandingThread(hub, kafka.client_settings(), every_s=0.1)
    try:
        wait_until(lambda: hub.newest.lags == {groups[0]: {(orders, 0): Lag(4, 4)}}, "one is known")
        hub.look(groups[1:])
        wait_until(lambda: hub.newest.lags.get(groups[1]) == {(orders, 0): Lag(3, 3)}, "both are")
        now_s[0] = 60.0
        wait_until(lambda: hub.newest.lags == {}, "none is")
        hub.look(groups)
        wait_until(lambda: groups[1] in hub.newest.lags, "both are again")
        hub.troubled("no answer about the journal")
        wait_until(lambda: hub.newest.lags == {}, "none is in trouble")
    finally:
        thread.close()
