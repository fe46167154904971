"""The clients that a consumer makes reach its cluster as it does."""

from collections.abc import Callable
from threading import Event
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from linear_retry import Journal, LinearConsumer
from linear_retry.consumer.settings.consumer_config import Dependencies
from linear_retry.kafka.topics import standalone_consumer
from tests.consumer.group import GROUP, LETTERS, TOPIC
from tests.fake.cluster import FakeKafka
from tests.kafka.login import SECURITY, logs_in
from tests.patience import PATIENCE_S


class _Made:
    """The configuration of every client that is made."""

    def __init__(self, fake: FakeKafka) -> None:
        self.configs: list[tuple[str, dict[str, Any]]] = []
        self.follows = Event()
        self.dependencies = Dependencies(
            self._noting("consumer", fake.consumer),
            self._noting("producer", fake.producer),
            self._noting("admin", fake.admin),
            fake.clock,
            lambda: 0.0,
        )

    def _noting(self, kind: str, make: Callable[..., Any]) -> Callable[..., Any]:
        def made(config: dict[str, Any]) -> Any:
            self.configs.append((kind, dict(config)))
            return make(config)

        return made

    def follower(self, config: dict[str, Any]) -> Any:
        """The control topic's consumer, in a thread of its own: not for the virtual clock."""
        self.configs.append(("control", dict(config)))
        self.follows.set()
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, "not here"))


def test_every_client_logs_in_as_the_consumer_does(
    fake: FakeKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without `https.*` or `oauth_cb` letters, journal and commands went nowhere, for ever."""
    made = _Made(fake)
    fake.create_topic("linear-retry.journal")
    fake.create_topic("linear-retry.control")
    monkeypatch.setattr(standalone_consumer, "Consumer", made.follower)
    consumer = LinearConsumer(
        {"bootstrap.servers": "fake:9092", "group.id": GROUP} | SECURITY,
        [TOPIC],
        strategy=[1],
        transient=OSError,
        dead_letters=LETTERS,
        listeners=[Journal("linear-retry.journal")],
        control="linear-retry.control",
        _dependencies=made.dependencies,
    )

    def handle(_: object) -> None:
        consumer.lag()
        consumer.stop()

    consumer.run(handle)
    assert made.follows.wait(PATIENCE_S)
    consumer.close()
    # Messages and what is committed; letters and journal; rights, letters and watchdogs.
    kinds = [kind for kind, _ in made.configs]
    expected = {"consumer": 2, "producer": 2, "admin": 3, "control": 1}
    assert expected == {kind: kinds.count(kind) for kind in expected}
    assert [] == [(kind, config) for kind, config in made.configs if not logs_in(config)]
