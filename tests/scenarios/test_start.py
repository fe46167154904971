"""Something is missing at the start."""

from pathlib import Path

import pytest

from linear_retry import BrokerError, ConfigurationError, events
from tests.kafka_operations import KafkaOperations
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.handlers import Scripted
from tests.scenarios.scene import Scene

pytestmark = pytest.mark.broker

_NOBODY = "127.0.0.1:1"


def test_no_broker(tmp_path: Path) -> None:
    """After `start_timeout_s` there is an error that names the address; `close` is quick then."""
    group = Scene(KafkaOperations(_NOBODY), "orders", "orders.dlq", tmp_path)
    member = group.join("first", Scripted({}), start_timeout_s=0.5)
    with pytest.raises(BrokerError, match=_NOBODY):
        member.result()
    assert [] == group.attempts()
    assert "_TRANSPORT" in {event.code for event in group.emitted(events.ClientError)}


def test_missing_sources(scene: SceneFactory) -> None:
    """Every source that does not exist is named, none is created, and nobody joins the group."""
    group = scene()
    missing = [f"{group.topic}-absent", f"{group.topic}-gone"]
    member = group.join("first", Scripted({}), topics=[group.topic, *missing])
    with pytest.raises(ConfigurationError, match=f"no such topic: {', '.join(missing)};"):
        member.result()
    assert [] == group.kafka.group_members(group.group)
    for name in missing:
        group.kafka.create_topic(name)  # refused, had anybody created it


def test_missing_dead_letter_topic(scene: SceneFactory) -> None:
    """A dead-letter topic that does not exist is named before anything is consumed."""
    group = scene()
    group.produce(1)
    member = group.join("first", Scripted({}), dead_letters=f"{group.topic}-letters")
    with pytest.raises(ConfigurationError, match=f"no such topic: {group.topic}-letters;"):
        member.result()
    assert [] == group.attempts()
    assert {} == group.committed()
    group.kafka.create_topic(f"{group.topic}-letters")  # refused, had anybody created it
    assert [] == group.violations(finished=False)
