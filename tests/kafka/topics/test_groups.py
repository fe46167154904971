"""What is said of consumer groups where the brokers do not answer, or must not."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException

from linear_retry.kafka.topics.groups import Groups

_STATES = {
    "waiting": ConsumerGroupState.EMPTY,
    "gone": ConsumerGroupState.DEAD,
    "reading": ConsumerGroupState.STABLE,
    "joining": ConsumerGroupState.PREPARING_REBALANCING,
}


def _groups(answer: Any) -> Groups:
    listed: Future[Any] = Future()
    if isinstance(answer, BaseException):
        listed.set_exception(answer)
    else:
        listed.set_result(SimpleNamespace(valid=answer, errors=[]))
    handle = SimpleNamespace(list_consumer_groups=lambda **_: listed)
    return Groups({"bootstrap.servers": "127.0.0.1:9"}, 0.1, lambda _: handle)


def test_a_group_with_members_is_active() -> None:
    """Also while it rebalances; one that only has offsets is not."""
    found = [SimpleNamespace(group_id=name, state=state) for name, state in _STATES.items()]
    assert {"reading", "joining"} == _groups(found).active()


@pytest.mark.parametrize(
    "error", [KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED)), TimeoutError()]
)
def test_no_answer_is_no_group(error: Exception) -> None:
    """A plan is not worth less because groups may not be listed."""
    assert set() == _groups(error).active()


def test_offsets_that_cannot_be_asked_for_are_not_missing() -> None:
    """Else a group that may not be asked would be called absent."""
    silent = Groups({"bootstrap.servers": "127.0.0.1:9"}, 0.1)
    assert silent.has_committed("billing", [("orders", 0)]) is None
