"""A client that has lost all brokers is replaced, and nothing is lost."""

from typing import Any

import pytest

from linear_retry import events
from linear_retry.consumer.operations import client_replacement
from linear_retry.kafka.consumer.client import Client
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.handlers import Dependency
from tests.scenarios.protocols import COOPERATIVE, EAGER, KIP_848, soon_missed

pytestmark = pytest.mark.broker


@pytest.mark.parametrize(
    ("protocol", "is_open"),
    [
        (EAGER, True),
        (COOPERATIVE, False),
        (KIP_848, True),
        (KIP_848 | {"group.instance.id": "one"}, False),
    ],
    ids=["eager-open", "cooperative-closed", "consumer-open", "static-closed"],
)
def test_a_new_client_goes_on_where_the_group_is(
    scene: SceneFactory, monkeypatch: pytest.MonkeyPatch, protocol: dict[str, Any], is_open: bool
) -> None:
    """Once a client had lost sight of all brokers, it stayed outside its group, or inside and
    deaf, for ever, and nobody was told (librdkafka #5301). Here it is only said to be blind: what
    comes after that is real. A dependency that is down meanwhile is not asked before its time."""
    monkeypatch.setattr(client_replacement, "CHECK_EVERY_S", 0.1)
    monkeypatch.setattr(client_replacement, "_UNSEEN_S", 0.2)
    config = soon_missed({"reconnect.backoff.max.ms": 200, **protocol})
    group = scene(2, config=config, strategy=[0.3] * 50)
    dependency = Dependency()
    group.produce(5, 0)
    member = group.join("first", dependency)
    group.wait_until_done()
    dependency.down = is_open
    group.produce(5, 1)
    if is_open:
        group.wait_for(events.CircuitOpened)
    with monkeypatch.context() as blind:
        blind.setattr(Client, "sees_brokers", lambda *_: False)
        group.wait_for(events.ClientReplaced)
    dependency.down = False
    group.produce(5, 0)
    group.wait_until_done()
    member.stop()
    assert [] == group.violations()
