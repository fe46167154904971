"""The broker dies and comes back."""

import threading

import pytest

from linear_retry import DeadLetters, events
from linear_retry.kafka import Message
from tests.real_kafka import RealKafka
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.handlers import Dependency, PoisonError
from tests.scenarios.protocols import soon_missed

pytestmark = pytest.mark.broker


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_killed_while_open(own_kafka: RealKafka, own_scene: SceneFactory, protocol: str) -> None:
    """The held message comes next, the member is one again, and everything is committed."""
    group = own_scene(2, strategy=[0.5] * 100, config={"group.protocol": protocol})
    for partition in range(2):
        group.produce(10, partition)
    outage = Dependency()

    def fail_at_five(message: Message) -> None:
        if message.offset() == 5:
            outage(message)

    outage.down = True
    member = group.join("first", fail_at_five)
    opened = group.wait_for(events.CircuitOpened)
    with group.disturbing("no broker"):
        own_kafka.kill()
        before = len(group.attempts())
        own_kafka.start()
    outage.down = False
    group.wait_until_done()
    assert (group.topic, opened.partition, 5) == group.attempts()[before]
    member.stop()
    assert [] == group.dead_letters()
    complaints = [(event.code, event.count) for event in group.emitted(events.ClientError)]
    assert len(set(complaints)) == len(complaints)
    assert [] == group.violations()


def test_killed_before_a_letter(own_kafka: RealKafka, own_scene: SceneFactory) -> None:
    """A letter that nobody takes is held; once it is acknowledged, and not before, it goes on."""
    group = own_scene()
    group.produce(5)
    killed = threading.Event()

    def handle(message: Message) -> None:
        if message.offset() == 2:
            killed.wait()
            raise PoisonError

    short = DeadLetters(group.letters, config={"message.timeout.ms": 1000})
    member = group.join("first", handle, dead_letters=short)
    group.wait_for_attempts(3)
    with group.disturbing("no broker"):
        own_kafka.kill()
        killed.set()
        group.wait_for(events.DeadLetterFailed)
        own_kafka.start()
    group.wait_until_done()
    member.stop()
    assert {2} == {letter.original_offset for letter in group.dead_letters()}
    assert [] == group.violations()


def test_killed_amid_letters(own_kafka: RealKafka, own_scene: SceneFactory) -> None:
    """Of many letters none is missing, and one that is there twice has the same retry-id."""
    group = own_scene()
    group.produce(200)

    def refuse_odd(message: Message) -> None:
        if (message.offset() or 0) % 2:
            raise PoisonError

    short = DeadLetters(group.letters, config={"message.timeout.ms": 1000})
    member = group.join("first", refuse_odd, dead_letters=short)
    group.wait_for(events.DeadLettered, 30)
    with group.disturbing("no broker"):
        own_kafka.kill()
        own_kafka.start()
    group.wait_until_done()
    member.stop()
    ids = {letter.retry_id: letter.original_offset for letter in group.dead_letters()}
    assert list(range(1, 200, 2)) == sorted(ids.values())
    assert [] == group.violations()


def test_killed_while_closing(own_kafka: RealKafka, own_scene: SceneFactory) -> None:
    """`close` returns in its time though nobody takes the commit; the next life does it again."""
    group = own_scene(config=soon_missed({}))
    group.produce(5)
    killed = threading.Event()

    def handle(message: Message) -> None:
        if message.offset() == 4:
            killed.wait()

    first = group.join("first", handle, close_timeout_s=1)
    group.wait_for_attempts(5)
    with group.disturbing("no broker"):
        own_kafka.kill()
        first.consumer.stop()
        killed.set()
        first.result()
        own_kafka.start()
    second = group.join("second", Dependency())
    group.wait_for_attempts(5, "second")
    second.stop()
    assert [] == group.violations()
