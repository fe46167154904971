"""The fixture of tests of dead letters on a real broker."""

import itertools

import pytest

from tests.dlq.scene import NewScene, Scene
from tests.real_kafka import RealKafka

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def scene(kafka: RealKafka) -> NewScene:
    """Makes scenes with topics of their own: `scene(partitions=1, config=None)`."""
    return scenes_on(kafka)


def scenes_on(kafka: RealKafka) -> NewScene:
    """Makes them on this broker."""

    def new(partitions: int = 1, config: dict[str, str] | None = None) -> Scene:
        source = f"source-{next(_numbers)}"
        kafka.create_topic(source, partitions, config)
        kafka.create_topic(f"{source}.dlq", partitions)
        return Scene(kafka, source, f"{source}.dlq")

    return new
