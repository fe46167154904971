"""A transactional letter is there exactly once, though its sender wakes up late."""

import random
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import KafkaException

from linear_retry import DeadLetters, events
from linear_retry.consumer.settings.consumer_config import Dependencies
from linear_retry.kafka import Message, Producer
from linear_retry.retry.clock import SystemClock
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S
from tests.real_kafka import RealKafka
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.handlers import Dependency
from tests.scenarios.protocols import EAGER, PROTOCOLS, each_protocol
from tests.torture.struck.points import TRANSACTION, Point
from tests.torture.struck.scene import TRANSACTION_MS, StruckScene, struck_scene

pytestmark = pytest.mark.broker

ZOMBIES = {
    # The group refuses it: its transaction would last on.
    "after the letter's report": 30_000,
    # The broker has ended its transaction, for the next owner waited for that.
    "after send_offsets_to_transaction": TRANSACTION_MS,
    "before commit_transaction": TRANSACTION_MS,
}
"""Where they are stopped, and how long their transactions may last."""


def test_zombies_wake_up(kafka: RealKafka) -> None:
    """Stopped past the session, and the next owner sends the letter: the zombie's is refused."""
    with ThreadPoolExecutor(len(ZOMBIES)) as pool:
        list(pool.map(lambda zombie: _woken(kafka, *zombie), ZOMBIES.items()))


def _woken(kafka: RealKafka, moment: str, transaction_ms: int) -> None:
    options: dict[str, Any] = {"config": EAGER, "transaction_ms": transaction_ms}
    with struck_scene(kafka, Point(moment, TRANSACTION), scope="consumer", **options) as group:
        first = group.strike(random.Random(1), by=signal.SIGSTOP)
        group.wait_until_struck(first)
        with group.disturbing("the first one stands still"):
            second = group.heir("second")
            group.wait_until_all_is_done()
            first.signal(signal.SIGCONT)
        _wait_until_lost(group)
        second.stop()
        first.signal(signal.SIGTERM)
        assert 0 == first.exit_code(30), group.report()
        assert [] == group.letters_amiss(lambda *_: False), group.report()
        assert [] == group.violations(), group.report()


def _wait_until_lost(group: StruckScene) -> None:
    wait_until(lambda: group.emitted(events.Lost, "first"), "it learns of it", detail=group.report)


class Refusals:
    """Makes real producers, and keeps what was refused to them."""

    def __init__(self) -> None:
        self.codes: list[str] = []

    def __call__(self, config: dict[str, Any]) -> Any:
        noted = self.codes

        class Noting(Producer):
            def send_offsets_to_transaction(self, *arguments: Any) -> None:
                try:
                    super().send_offsets_to_transaction(*arguments)
                except KafkaException as error:
                    noted.append(error.args[0].name())
                    raise

        return Noting(config)


@each_protocol
def test_another_member_joins(protocol: dict[str, str], scene: SceneFactory) -> None:
    """While a letter's message is in the handler: letters go out once, with nothing to wait for."""
    group = scene(4, strategy=[], config=protocol)
    freed = threading.Event()
    refused = Dependency()
    refused.refuses |= {(number, offset) for number in range(4) for offset in (1, 3)}
    refusals = Refusals()

    def handle(message: Message) -> None:
        if message.offset() == 1:
            freed.wait(PATIENCE_S)
        refused(message)

    letters = DeadLetters(group.letters, transactional=True)
    dependencies = Dependencies(producer=refusals)
    first = group.join("first", handle, dead_letters=letters, _dependencies=dependencies)
    group.wait_for(events.Assigned)
    for number in range(4):
        group.produce(6, number)
    group.wait_for_attempts(2)
    second = group.join("second", refused, dead_letters=letters)
    members = ["first", "second"]
    wait_until(lambda: members == group.kafka.group_members(group.group), "both are members")
    if protocol != PROTOCOLS["eager"]:
        _let_the_generation_change()
    freed.set()
    group.wait_until_done()
    first.stop()
    second.stop()
    found = sorted((one.original_partition, one.original_offset) for one in group.dead_letters())
    assert sorted(refused.refuses) == found
    assert [] == group.emitted(events.Lost)
    assert [] == [emitted.error for emitted in group.emitted(events.DeadLetterFailed)]
    assert [] == group.violations()
    # An eager member gives everything up before the group moves on: nothing of it is outdated.
    outdated = set() if protocol == PROTOCOLS["eager"] else {"ILLEGAL_GENERATION"}
    # A slow broker answers late: the call is repeated, and its answer is the same.
    assert outdated == set(refusals.codes) - {"_TIMED_OUT"}


def _let_the_generation_change() -> None:
    """The group is rebuilt without the first one's help, within a heartbeat or two."""
    now_s = SystemClock().now_s
    until_s = now_s() + 1.5
    wait_until(lambda: now_s() > until_s, "the group is rebuilt")
