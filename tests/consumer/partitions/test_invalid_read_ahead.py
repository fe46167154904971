"""An invalid read-ahead is fetched again, from what is done."""

import pytest

from linear_retry import UsageError
from linear_retry.kafka import Message
from tests.consumer.group import TOPIC, FakeGroup, OutageError, consumer_on
from tests.consumer.misbehaviours.misbehaving import ends_well, reading
from tests.fake.cluster import FakeKafka


def _seeks(group: FakeGroup) -> list[tuple[str, int, int]]:
    return [given[0][0] for _, _, name, given in group.fake.log if name == "seek"]


def test_everything_is_sought_after_an_exception_out_of_a_poll() -> None:
    """Before the next poll, each partition to its own next offset: librdkafka has dropped what the
    poll had taken, and nobody knows of which partition it was."""
    group = reading("eager")
    before = len(_seeks(group))
    group.fake.faults.raise_in_poll(OSError("a signal's handler"))
    with pytest.raises(OSError, match="signal"):
        group.turn()
    group.turn()
    assert {(TOPIC, 0, 1), (TOPIC, 1, 1)} == set(_seeks(group)[before:])
    ends_well(group)


def test_a_turn_that_ends_with_a_message_in_hand(fake: FakeKafka) -> None:
    """Neither done nor held, as nothing could be decided about it: the next run begins with it."""
    asked: list[BaseException] = []
    seen: list[tuple[int | None, int | None]] = []

    def is_transient(error: BaseException) -> bool:
        asked.append(error)
        if len(asked) == 1:
            raise KeyError("a bug in here")
        return True

    def handler(message: Message) -> None:
        seen.append((message.partition(), message.offset()))
        if len(asked) < 1:
            raise OutageError

    with consumer_on(fake, transient=is_transient) as consumer:
        with pytest.raises(UsageError):
            consumer.run(handler)
        fake.clock.at(30, consumer.stop)
        consumer.run(handler)
    assert 2 == seen.count(seen[0])
    assert {(number, offset) for number in (0, 1) for offset in range(3)} == set(seen)
