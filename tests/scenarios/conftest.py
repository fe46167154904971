"""Fixtures of all scenarios."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from linear_retry import RetryTopics
from tests.conftest import TopicFactory, started
from tests.real_kafka import RealKafka
from tests.scenarios.retry_scene import RetryScene, RetrySceneFactory
from tests.scenarios.scene import Scene
from tests.scenarios.wide_scene import WideScene, WideSceneFactory

SceneFactory: TypeAlias = Callable[..., Scene]
"""`scene(partitions=1, **options)`: a `Scene` with topics of its own on the shared broker."""

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def disturbed_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKafka]:
    """The broker of all scenarios in which one is stopped, killed and started."""
    yield from started(tmp_path_factory.mktemp("disturbed"))


@pytest.fixture
def own_kafka(disturbed_kafka: RealKafka) -> Iterator[RealKafka]:
    """A broker that this test alone has for now, to stop, kill and start."""
    yield disturbed_kafka
    if disturbed_kafka.pid is None:
        disturbed_kafka.start()


@pytest.fixture
def scene(kafka: RealKafka, topic: TopicFactory, tmp_path: Path) -> Iterator[SceneFactory]:
    """Makes scenes on the shared broker, and ends whoever takes part in them."""
    made: list[Scene] = []

    def new(partitions: int = 1, **options: Any) -> Scene:
        made.append(Scene(kafka, topic(partitions), topic(partitions), tmp_path, **options))
        return made[-1]

    yield new
    for each in made:
        each.end()


@pytest.fixture
def own_scene(own_kafka: RealKafka, tmp_path: Path) -> Iterator[SceneFactory]:
    """Makes a scene on a broker that this test may stop; `topic` is one that is there."""
    made: list[Scene] = []

    def new(partitions: int = 1, topic: str | None = None, **options: Any) -> Scene:
        source = topic or new_topic(own_kafka, partitions)
        letters = new_topic(own_kafka, partitions)
        made.append(Scene(own_kafka, source, letters, tmp_path, **options))
        return made[-1]

    yield new
    for each in made:
        each.end()


def new_topic(kafka: RealKafka, partitions: int = 1) -> str:
    """Makes a topic with a name of its own on the broker that is disturbed."""
    name = f"disturbed-{next(_numbers)}"
    kafka.create_topic(name, partitions)
    return name


@pytest.fixture
def wide_scene(kafka: RealKafka, topic: TopicFactory, tmp_path: Path) -> Iterator[WideSceneFactory]:
    """Makes scenes with several source topics on the shared broker."""
    made: list[WideScene] = []

    def new(protocol: dict[str, Any], *partitions: int, **options: Any) -> WideScene:
        first, *more = [topic(count) for count in partitions or (1, 1)]
        options |= {"config": protocol, "more_topics": more}
        made.append(WideScene(kafka, first, topic(1), tmp_path, **options))
        return made[-1]

    yield new
    for each in made:
        each.end()


@pytest.fixture
def retry_scene(
    kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> Iterator[RetrySceneFactory]:
    """Makes scenes with retry topics on the shared broker.

    `source` is another scene's topic; `creates=False`: the retry topics are another's, too.
    """
    made: list[RetryScene] = []

    def new(retries: Callable[[str], RetryTopics], **options: Any) -> RetryScene:
        source = options.pop("source", None) or topic(2)
        chosen = retries(f"{source}.retry")
        if options.pop("creates", True):
            for each in chosen.topics:
                kafka.create_topic(each, 2, {"message.timestamp.type": "LogAppendTime"})
        made.append(RetryScene(kafka, source, topic(2), tmp_path, retries=chosen, **options))
        return made[-1]

    yield new
    for each in made:
        each.end()
