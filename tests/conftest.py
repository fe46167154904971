"""Fixtures of all tests."""

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import settings

from tests.kafka_jars import NoBrokerError
from tests.real_kafka import RealKafka

TopicFactory: TypeAlias = Callable[..., str]
"""`topic(partitions=1, config=None)`: the name of a new topic."""

settings.register_profile("default", print_blob=True, deadline=None)
# On CI the same examples each time: a red run must be about the change.
settings.register_profile("ci", derandomize=True, database=None, print_blob=True, deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "default")

_numbers = itertools.count(1)


def _started(directory: Path) -> Iterator[RealKafka]:
    try:
        with RealKafka(directory) as broker:
            yield broker
    except NoBrokerError as error:
        pytest.fail(str(error), pytrace=False)  # never a skip: green must mean tried


@pytest.fixture(scope="session", autouse=True)
def _no_cluster_of_ones_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test takes the cluster that whoever runs it has set for `linear-retry`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("LINEAR_RETRY_BOOTSTRAP", raising=False)
        patch.delenv("LINEAR_RETRY_CONFIG", raising=False)
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        yield


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKafka]:
    """The broker of the whole run, started when the first test asks; leave it running."""
    yield from _started(tmp_path_factory.mktemp("kafka"))


@pytest.fixture
def own_kafka(tmp_path: Path) -> Iterator[RealKafka]:
    """A broker of this test's own, to stop, kill and start."""
    yield from _started(tmp_path / "kafka")


@pytest.fixture
def topic(kafka: RealKafka) -> TopicFactory:
    """Makes topics with names of their own on the shared broker."""

    def new(partitions: int = 1, config: dict[str, str] | None = None) -> str:
        name = f"topic-{next(_numbers)}"
        kafka.create_topic(name, partitions, config)
        return name

    return new


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What the torture has played, with its seeds."""
    reports = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    lines = [text for report in reports for key, text in report.user_properties if key == "torture"]
    if lines:
        terminalreporter.section("torture")
    for line in lines:
        terminalreporter.line(str(line))
