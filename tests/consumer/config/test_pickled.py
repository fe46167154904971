"""A consumer that is not in use pickles as the arguments of its constructor."""

import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest

from linear_retry import ConfigurationError, Journal, LinearConsumer, RetryTopics, UsageError
from linear_retry.events import Event
from tests.consumer.group import consumer_on
from tests.fake.cluster import FakeKafka

_RETRIES = RetryTopics("orders.billing.retry", strategy=[1, 5])


def _note(_: Event) -> None:
    """A listener that can be imported."""


class _Locked:
    """A listener with a lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __call__(self, _: Event) -> None:
        """Does nothing."""

    def __repr__(self) -> str:
        return "<locked>"


def _retry_line(config: dict[str, Any] | None = None, **options: Any) -> LinearConsumer:
    keys = {"bootstrap.servers": "localhost:1", "group.id": "billing"}
    given: dict[str, Any] = {
        "strategy": [1],
        "transient": OSError,
        "dead_letters": "orders.dlq",
    } | options
    return LinearConsumer(keys | (config or {}), _RETRIES, **given)


def test_it_comes_back_with_its_arguments() -> None:
    """And with listeners of its own: a journal belongs to the new one."""
    retry = _retry_line({"group.instance.id": "one"}, listeners=[Journal("a-journal"), _note])
    found = pickle.loads(pickle.dumps(retry))
    assert isinstance(found, LinearConsumer)
    assert ("billing.retry", "one.retry") == (found.group_id, found.member)
    (journal,) = found.journals
    assert ("a-journal", "one.retry") == (journal.topic, journal.member)


@pytest.mark.parametrize(
    ("config", "options", "named"),
    [
        ({}, {"transient": lambda error: True}, "transient="),
        ({}, {"listeners": [_note, _Locked()]}, r"listeners\[1\]=<locked>: cannot be pickled"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
            | {"oauth_cb": lambda _: ("a-token", 1.0)},
            {},
            r"config\['oauth_cb'\]=",
        ),
    ],
)
def test_what_cannot_be_pickled_is_named(
    config: dict[str, Any], options: dict[str, Any], named: str
) -> None:
    """With what to do about it."""
    retry = _retry_line(config, **options)
    with pytest.raises(ConfigurationError, match=f"^{named}.*threads=True"):
        pickle.dumps(retry)


def _started(consumer: LinearConsumer) -> None:
    consumer.run(lambda _: consumer.stop())


@pytest.mark.parametrize("use", [_started, LinearConsumer.close])
def test_a_consumer_in_use(fake: FakeKafka, use: Callable[[LinearConsumer], None]) -> None:
    """Its clients cannot go to another process."""
    with consumer_on(fake) as consumer:
        use(consumer)
        with pytest.raises(UsageError, match="LinearConsumer"):
            pickle.dumps(consumer)
