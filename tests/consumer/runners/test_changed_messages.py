"""A message that the handler changes is refused."""

from collections.abc import Callable

import pytest

from linear_retry import UsageError, events
from linear_retry.kafka import Message
from tests.consumer.group import OutageError, PoisonError
from tests.consumer.runners.async_life import awaiting
from tests.consumer.runners.own_life import OwnLife
from tests.fake.cluster import FakeKafka

_CHANGES: dict[str, Callable[[Message], object]] = {
    "value": lambda message: message.set_value(b"decoded"),
    "key": lambda message: message.set_key(b"other"),
    "headers": lambda message: message.set_headers([("seen", b"1")]),
    "what is no header": lambda message: message.set_headers(7),  # type: ignore[arg-type]
}


def _run(life: OwnLife, act: Callable[[Message], object]) -> None:
    life.consumer.run(lambda message: life.handle(message, act))


def _own_loop(life: OwnLife, act: Callable[[Message], object]) -> None:
    for attempt in life.consumer:
        with attempt as message:
            life.handle(message, act)


def _run_async(life: OwnLife, act: Callable[[Message], object]) -> None:
    async def handle(message: Message) -> None:
        life.handle(message, act)

    awaiting(life.consumer.run_async(handle))


@pytest.mark.parametrize("error", [None, OutageError(), PoisonError()], ids=repr)
@pytest.mark.parametrize("change", _CHANGES.values(), ids=_CHANGES)
@pytest.mark.parametrize("run", [_run, _own_loop, _run_async])
def test_a_handler_that_changes_messages(
    fake: FakeKafka,
    run: Callable[[OwnLife, Callable[[Message], object]], None],
    change: Callable[[Message], object],
    error: Exception | None,
) -> None:
    """Refused at the first message, whatever became of it. The bug: the second attempt decoded what
    the first had decoded already, and the letter had neither what came nor why it failed."""
    life = OwnLife(fake)

    def act(message: Message) -> None:
        change(message)
        if error is not None:
            raise error

    with life.consumer, pytest.raises(UsageError, match=r"orders\[0\]@0: the handler has changed"):
        run(life, act)
    assert (1, 1 if error is None else 0, 0) == (len(life.begun), life.committed, life.letters)
    assert [] == life.emitted(events.CircuitOpened)


def test_a_handler_that_changes_a_message_that_is_attempted_again(fake: FakeKafka) -> None:
    """It is looked at in each further attempt, wherever in a batch the first one was."""
    life = OwnLife(fake)

    def act(message: Message) -> None:
        if len(life.begun) == 4:
            message.set_value(b"decoded")
            raise PoisonError
        if len(life.begun) >= 3:
            raise OutageError

    with life.consumer, pytest.raises(UsageError, match="has changed the message"):
        life.consumer.run(lambda message: life.handle(message, act))
    assert (4, 2, 0) == (len(life.begun), life.committed, life.letters)
    assert [] == life.violations()


def test_what_is_only_read_is_not_changed(fake: FakeKafka) -> None:
    """Reading headers makes objects, and changes nothing."""
    fake.append("orders", 0, b"6", headers=[("trace", b"1")])
    life = OwnLife(fake)

    def act(message: Message) -> None:
        assert [message.headers(), message.headers(), message.value(), message.key()]
        life.stop_after(7)

    with life.consumer:
        life.consumer.run(lambda message: life.handle(message, act))
    assert 7 == life.committed
    assert [] == life.violations(finished=True)
