"""A consumer on the fake Kafka, whose owner writes the loop; and what it did, watched."""

from collections.abc import Callable

from linear_retry.consumer.runners.own_loop import Attempt
from linear_retry.kafka import Message
from tests.consumer.runners.async_life import NAME, Life


def succeed(_: Message) -> None:
    """A handler that has nothing against any message."""


class OwnLife(Life):
    """One consumer, on `fake`, for a `for` of one's own. `options` are `LinearConsumer`'s."""

    def handle(self, message: Message, act: Callable[[Message], object] = succeed) -> None:
        """To be called in the body: `act`, watched."""
        self.witness.handler(NAME, act)(message)

    def stop_after(self, count: int) -> None:
        """To be called in the body: ask for a stop once so many attempts have begun."""
        if len(self.begun) >= count:
            self.consumer.stop()

    def loop(self, count: int, act: Callable[[Message], object] = succeed) -> list[Attempt]:
        """The loop as it is meant to be written, until `count` attempts have begun."""
        attempts = []
        for attempt in self.consumer:
            attempts.append(attempt)
            with attempt as message:
                self.handle(message, act)
                self.stop_after(count)
        return attempts


def raising(errors: dict[int, BaseException], life: OwnLife) -> Callable[[Message], None]:
    """Raises `errors[n]` in the n-th attempt, 1-based."""

    def act(_: Message) -> None:
        error = errors.get(len(life.begun))
        if error is not None:
            raise error

    return act
