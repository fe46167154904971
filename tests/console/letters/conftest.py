"""The fixtures of tests of the index: scenes on a real broker, and indexes that follow them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from linear_retry.console.letters.index import Index
from linear_retry.console.letters.indexer import Indexer
from tests.dlq.conftest import scene as scene
from tests.dlq.scene import Scene
from tests.kafka_operations import wait_until

Follow = Callable[[Scene], Index]


@pytest.fixture
def follow(tmp_path: Path) -> Iterator[Follow]:
    """Indexes a scene until all that is in its topics is there, and follows it from then on."""
    with ExitStack() as stack:

        def start(given: Scene) -> Index:
            index = Index(tmp_path, given.letters)
            indexer = stack.enter_context(closing(Indexer(index, given.config, look_every_s=0.3)))
            indexer.start()
            wait_until(lambda: indexer.progress.is_complete, "all is indexed")
            return index

        yield start
