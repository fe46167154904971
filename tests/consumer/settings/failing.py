"""A consumer whose first attempts fail, as a test says."""

from collections.abc import Iterable, Sequence
from typing import Any

from linear_retry import events
from linear_retry.events import Event
from linear_retry.kafka import Message
from tests.consumer.group import consumer_on
from tests.fake.cluster import FakeKafka


def run_failing(fake: FakeKafka, errors: Iterable[Exception], **options: Any) -> list[Event]:
    """What happens where each attempt raises the next of these, until there is none."""
    happened, left = list[Event](), iter(errors)

    def handle(_: Message) -> None:
        error = next(left, None)
        if error is not None:
            raise error
        consumer.stop()

    with consumer_on(fake, listeners=[happened.append], **options) as consumer:
        consumer.run(handle)
    return happened


def delays(happened: Sequence[Event]) -> list[float]:
    """How long each wait was to be."""
    waits = events.CircuitOpened | events.ProbeFailed
    return [event.delay_s for event in happened if isinstance(event, waits)]
