"""Fixtures of the examples' tests."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.conftest import TopicFactory
from tests.examples.scene import Scene, make_scene
from tests.real_kafka import RealKafka

SceneFactory: TypeAlias = Callable[..., Scene]
"""`scene(port, partitions=1, probe_port=0)`: a `Scene` whose payment service is on `port`."""


@pytest.fixture
def scene(kafka: RealKafka, topic: TopicFactory, tmp_path: Path) -> SceneFactory:
    """Makes scenes with topics of their own on the shared broker."""

    def new(port: int, partitions: int = 1, probe_port: int = 0) -> Scene:
        orders = topic(partitions)
        kafka.create_topic(f"{orders}.dlq", partitions)
        return make_scene(kafka, orders, tmp_path, port, probe_port)

    return new
