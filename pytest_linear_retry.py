"""The pytest plugin: fixtures with embedded brokers.

Outside the package: pytest loads its plugins at each start, also where no test asks for a broker,
and whatever is inside `linear_retry` would bring confluent-kafka along.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from linear_retry.testing import EmbeddedKafka


@pytest.fixture
def embedded_kafka() -> Iterator[EmbeddedKafka]:
    """A running `linear_retry.testing.EmbeddedKafka` with one broker, for this test alone."""
    from linear_retry.testing import EmbeddedKafka

    with EmbeddedKafka() as kafka:
        yield kafka


@pytest.fixture
def embedded_kafka_factory() -> Iterator[Callable[..., EmbeddedKafka]]:
    """Makes running ones: `embedded_kafka_factory(brokers=3)`; arguments are `EmbeddedKafka`'s.

    They end with the test.
    """
    from linear_retry.testing import EmbeddedKafka

    with ExitStack() as stack:

        def new(**options: int) -> EmbeddedKafka:
            return stack.enter_context(EmbeddedKafka(**options))

        yield new
