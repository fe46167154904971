"""What came of a batch is noted truly, wherever an interrupt comes."""

from collections.abc import Iterator

import pytest

from linear_retry.consumer.runners.results import Results
from linear_retry.consumer.runners.run_handler import Batch, attempt_all
from linear_retry.consumer.runners.stop import StopFlag
from linear_retry.kafka import Message
from tests.consumer.group import TOPIC, PoisonError
from tests.fake.cluster import FakeKafka


class _Interrupted(list[Message]):
    """A Ctrl-C comes as someone asks how many of them are still to be taken."""

    def __iter__(self) -> Iterator[Message]:
        return _Coming(self.copy())


class _Coming(Iterator[Message]):
    def __init__(self, messages: list[Message]) -> None:
        self._messages = messages

    def __next__(self) -> Message:
        if not self._messages:
            raise StopIteration
        return self._messages.pop(0)

    def __length_hint__(self) -> int:
        raise KeyboardInterrupt


def test_an_interrupt_as_a_failure_is_noted(fake: FakeKafka) -> None:
    """No message takes the blame for another's failure. The bug: the first of the batch, which had
    been handled, got a dead letter with the error of a later one."""
    batch = Batch(_Interrupted(Message(topic=TOPIC, partition=0, offset=n) for n in range(3)))
    stop = StopFlag()
    stop.allow_until(float("inf"))

    def handle(message: Message) -> None:
        if message.offset() == 1:
            raise PoisonError

    with pytest.raises(KeyboardInterrupt):
        attempt_all(batch, handle, stop, fake.clock.now_s, Results())
    assert (0, None) == (batch.handled, batch.error)


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), SystemExit(), GeneratorExit()])
def test_an_interrupt_in_the_handler(fake: FakeKafka, interrupt: BaseException) -> None:
    """What the handler has returned from is done; the message in hand is not, and has not failed:
    it is the program that ends."""
    batch = Batch([Message(topic=TOPIC, partition=0, offset=n) for n in range(3)])
    stop = StopFlag()
    stop.allow_until(float("inf"))

    def handle(message: Message) -> None:
        if message.offset() == 1:
            raise interrupt

    with pytest.raises(type(interrupt)):
        attempt_all(batch, handle, stop, fake.clock.now_s, Results())
    assert (2, 1, None) == (batch.taken, batch.handled, batch.error)
