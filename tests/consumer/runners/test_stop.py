"""A stop is heard, whenever it is asked for."""

import math

from linear_retry.consumer.runners.stop import StopFlag
from linear_retry.kafka import Message
from tests.consumer.group import TOPIC, consumer_on
from tests.fake.cluster import FakeKafka


def test_a_stop_as_a_batch_begins() -> None:
    """Asked for between the loop's look at it and the first message: the batch ends all the same
    after that one. A thread, or a signal, may ask between any two instructions."""
    stop = StopFlag()
    stop.ask()
    stop.allow_until(1_000.0)
    assert -math.inf == stop.poll_by_s


def test_a_stop_in_a_batch() -> None:
    """The time to stop handing over has come at once."""
    stop = StopFlag()
    stop.allow_until(1_000.0)
    assert 1_000.0 == stop.poll_by_s
    stop.ask()
    assert -math.inf == stop.poll_by_s


def test_a_stop_as_a_message_comes(fake: FakeKafka) -> None:
    """In the very poll that brings a message: it is the next owner's to handle."""
    seen: list[Message] = []
    with consumer_on(fake) as consumer:

        def at_once() -> None:
            fake.append(TOPIC, 0, b"too late")
            consumer.stop()

        fake.clock.at(30, at_once)
        consumer.run(seen.append)
    assert 6 == len(seen)


def test_each_stop_is_passed_on() -> None:
    """To the retry line of a live line: the second one is for an async handler."""
    flag, told = StopFlag(), []
    flag.on_ask = lambda: told.append(flag.asked)
    flag.ask()
    flag.ask()
    assert [True, True] == told
