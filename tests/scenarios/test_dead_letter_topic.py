"""The dead-letter topic refuses a letter."""

import threading

import pytest
from confluent_kafka import Producer

from linear_retry import DeadLetters, events
from linear_retry.kafka import Message
from linear_retry.records.dead_letter import REFERENCE, DeadLetter
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.handlers import PoisonError
from tests.scenarios.scene import Scene

pytestmark = pytest.mark.broker

_BROKERS_LIMIT_BYTES = 1_048_588
# What a batch of one record without key and headers adds to its value.
_BATCH_BYTES = 75

both_ways = pytest.mark.parametrize("transactional", [False, True], ids=["plain", "transactional"])


def _set_max_message_bytes(group: Scene, size_bytes: int) -> None:
    group.kafka.set_topic(group.letters, {"max.message.bytes": str(size_bytes)})


def _produce_large(group: Scene, value: bytes) -> None:
    """One message in the first partition, by a producer that has no limit of its own."""
    more = {"message.max.bytes": 10 * _BROKERS_LIMIT_BYTES}
    producer = Producer(group.kafka.client_settings(**more))
    producer.produce(group.topic, value, partition=0)
    assert 0 == producer.flush(PATIENCE_S)


def _refuse_at_length(message: Message) -> None:
    """The first message is poison, and the error has more to say than a letter takes."""
    if message.offset() == 0:
        raise PoisonError("x" * 2000)


def _only_letter(group: Scene) -> DeadLetter:
    (letter,) = group.dead_letters()
    return letter


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_gone_then_back(scene: SceneFactory, protocol: str) -> None:
    """While it is gone nothing is handled, and nobody creates it; then the letter goes, and on."""
    group = scene(2, config={"group.protocol": protocol})
    group.produce(5, partition=1)
    gone = threading.Event()

    def handle(message: Message) -> None:
        # The first letter makes the producer know the topic; the second must learn the truth.
        if message.offset() in (1, 3):
            raise PoisonError
        if message.offset() == 2:
            gone.wait()

    short = DeadLetters(group.letters, config={"message.timeout.ms": 1000})
    member = group.join("first", handle, dead_letters=short)
    group.wait_for_attempts(3)
    group.kafka.delete_topic(group.letters)
    gone.set()

    def failed() -> list[events.DeadLetterFailed]:
        # Of the first letter a slow machine may let a second pass, too.
        return [event for event in group.emitted(events.DeadLetterFailed) if event.offset == 3]

    wait_until(lambda: len(failed()) >= 2, "it failed twice", detail=group.story)
    assert [1, 2] == [event.attempts for event in failed()][:2]
    assert group.letters in failed()[1].error
    assert [0, 1, 2, 3] == [offset for _, _, offset in group.attempts()]
    group.kafka.create_topic(group.letters, 2)  # refused, had anybody created it
    group.wait_until_done()
    member.stop()
    assert [1.0, 2.0] == [event.delay_s for event in failed()][:2]
    assert [(1, 3)] == [(x.original_partition, x.original_offset) for x in group.dead_letters()]
    assert [] == group.violations()


@pytest.mark.parametrize(
    ("limit_bytes", "has_stack", "has_message", "transactional"),
    [(10_000, True, True, False), (3_500, False, True, True), (2_400, False, False, True)],
)
def test_smaller_forms(
    scene: SceneFactory, limit_bytes: int, has_stack: bool, has_message: bool, transactional: bool
) -> None:
    """Of a letter that is too large the stack is left out, then the message; never the value.

    In a transaction no form of it ever got out: librdkafka refused the next record of a producer
    whose last one had been refused for its size.
    """
    group = scene()
    _set_max_message_bytes(group, limit_bytes)
    value = bytes(1000)
    _produce_large(group, value)
    letters = DeadLetters(group.letters, transactional=transactional)
    member = group.join("first", _refuse_at_length, dead_letters=letters)
    group.wait_until_done()
    member.stop()
    letter = _only_letter(group)
    assert letter.error is not None
    assert "tests.scenarios.handlers.PoisonError" == letter.error.type
    assert (has_stack, has_message) == (
        letter.error.stack is not None,
        letter.error.message is not None,
    )
    assert value == letter.value
    assert [] == group.emitted(events.DeadLetterFailed)
    assert [] == group.violations()


@both_ways
def test_too_large_until_the_topic_takes_more(scene: SceneFactory, transactional: bool) -> None:
    """The letter of a message as large as a broker takes waits until the topic takes more."""
    group = scene()
    value = bytes(_BROKERS_LIMIT_BYTES - _BATCH_BYTES)
    _produce_large(group, value)
    group.produce(1)
    letters = DeadLetters(group.letters, transactional=transactional)
    member = group.join("first", _refuse_at_length, dead_letters=letters)
    failed = group.wait_for(events.DeadLetterFailed, 2)
    assert "SIZE" in failed.error
    assert 1 == len(group.attempts())
    _set_max_message_bytes(group, _BROKERS_LIMIT_BYTES + 2000)
    group.wait_until_done()
    member.stop()
    assert value == _only_letter(group).value
    assert [] == group.violations()


@both_ways
def test_too_large_and_referred_to(scene: SceneFactory, transactional: bool) -> None:
    """`oversized="reference"`: an envelope says where the value is, and the consumer goes on."""
    group = scene()
    _produce_large(group, bytes(_BROKERS_LIMIT_BYTES - _BATCH_BYTES))
    group.produce(1)
    references = DeadLetters(group.letters, transactional=transactional, oversized="reference")
    member = group.join("first", _refuse_at_length, dead_letters=references)
    group.wait_until_done()
    member.stop()
    letter = _only_letter(group)
    assert REFERENCE == letter.oversized
    assert [] == group.emitted(events.DeadLetterFailed)
    assert [] == group.violations()
