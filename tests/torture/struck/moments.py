"""The moments of a member's life, and how it is struck at one of them."""

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, TopicPartition

from linear_retry.consumer.partitions.offsets import Offsets
from linear_retry.consumer.settings.consumer_config import Dependencies
from linear_retry.events import CircuitClosed, CircuitOpened, DeadLettered, Event, SentToRetry
from linear_retry.kafka import Consumer, Message, Producer
from linear_retry.retry.clock import SystemClock
from linear_retry.scope import Partition, Scope

_LOOKS_S = 0.005


@dataclass(frozen=True, slots=True)
class Blow:
    """What happens to the process when it comes to `moment` for the `nth` time.

    It makes the file `struck` right before: when, and what the broker had acknowledged by then.
    Without a signal its thread stands still until there is a file `go`; its client's go on.
    """

    moment: str
    struck: str
    go: str
    nth: int = 1
    signal: int | None = signal.SIGKILL
    into_commit_s: float = 0.0


class Moments:
    """Told what the member does, it knows at which moment it is. Strikes once."""

    def __init__(self, blow: Blow, witnessed: Callable[[Mapping[Partition, int]], object]) -> None:
        """`witnessed` is called with what the broker has acknowledged."""
        self._blow = blow
        self._witnessed = witnessed
        self._left = blow.nth
        self._callback = ""
        self._held: dict[Scope, tuple[str, int, int]] = {}
        self._last_steered = ""
        self._letter = False
        self._acknowledged: dict[Partition, int] = {}
        self.leaving = False
        # A transaction of a store holds it, and a blow: of one that is suspended amid a transaction
        # of another thread SQLite's lock stays, and nobody goes on until it is woken.
        self.alone = threading.RLock()

    @property
    def where(self) -> str:
        return self._callback or ("close" if self.leaving else "the loop")

    def come(self, moment: str) -> None:
        """This is the moment."""
        if moment != self._blow.moment:
            return
        self._left -= 1
        if self._left == 0:
            self._strike()

    @contextmanager
    def around(self, what: str) -> Iterator[None]:
        """Before it, and after it where it succeeds."""
        self.come(f"before {what}")
        yield
        self.come(f"after {what}")

    @contextmanager
    def inside(self, callback: str) -> Iterator[None]:
        """librdkafka calls us back."""
        self.come(f"{callback} begins")
        self._callback = callback
        try:
            yield
        finally:
            self._callback = ""
        self.come(f"{callback} ends")

    def steering(self, what: str) -> str:
        """Pause, resume and seek; a seek belongs to what came before it."""
        if what == "seek":
            return f"the seek that follows a {self._last_steered} in {self.where}"
        self._last_steered = what
        return f"{what} in {self.where}"

    def reading(self) -> str:
        return f"a poll while {'open' if self._held else 'closed'}"

    def handling(self, message: Message) -> str:
        self._letter = False
        place = (message.topic(), message.partition(), message.offset())
        return "the probe" if place in self._held.values() else "the handler"

    def watching(self, handler: Callable[[Message], object]) -> Callable[[Message], None]:
        """The handler, and the moments after each of its calls."""

        def watched(message: Message) -> None:
            what = self.handling(message)
            try:
                handler(message)
            except Exception:
                self.come(f"after the failure of {what}")
                raise
            self.come(f"after {what}")

        return watched

    def storing(self) -> str:
        return f"the store after {'a letter' if self._letter else 'the handler'}"

    def reported(self) -> None:
        """A letter is acknowledged."""
        self._letter = True

    def acknowledged(self, offsets: Mapping[Partition, int]) -> None:
        """The broker has them."""
        if offsets:
            self._acknowledged |= offsets
            self._witnessed(offsets)

    def on_event(self, event: Event) -> None:
        """For `listeners=`."""
        if isinstance(event, CircuitOpened):
            self._held[event.scope] = (event.topic, event.partition, event.offset)
        self.come(f"at {type(event).__name__}")
        if isinstance(event, CircuitClosed):
            self._held.pop(event.scope, None)
        if isinstance(event, DeadLettered | SentToRetry):
            self._letter = False

    def late_in(self, moment: str) -> threading.Timer:
        """`moment` comes some milliseconds from now, in another thread."""
        timer = threading.Timer(self._blow.into_commit_s, self.come, [moment])
        timer.start()
        return timer

    def _strike(self) -> None:
        blow = self._blow
        known = [[*partition, offset] for partition, offset in self._acknowledged.items()]
        witnessed = {"at_s": SystemClock().now_s(), "acknowledged": known}
        unnamed = Path(f"{blow.struck}.tmp")
        unnamed.write_text(json.dumps(witnessed))
        unnamed.rename(blow.struck)
        if blow.signal is not None:
            with self.alone:
                os.kill(os.getpid(), blow.signal)
        while blow.signal is None and not Path(blow.go).exists():
            threading.Event().wait(_LOOKS_S)


class StruckConsumer:
    """The real consumer, and the moments before and after what is asked of it."""

    def __init__(self, config: dict[str, Any], moments: Moments) -> None:
        self._moments = moments
        self._witnessed = config["on_commit"]
        self._consumer = Consumer(config | {"on_commit": self._on_commit})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    def subscribe(self, topics: list[str], **callbacks: Callable[..., None]) -> None:
        watched = {name: self._watched(name, call) for name, call in callbacks.items()}
        with self._moments.around("subscribe"):
            self._consumer.subscribe(topics, **watched)

    def poll(self, timeout_s: float) -> Message | None:
        with self._moments.around(self._moments.reading()):
            return self._consumer.poll(timeout_s)

    def pause(self, partitions: list[TopicPartition]) -> None:
        with self._moments.around(self._moments.steering("pause")):
            self._consumer.pause(partitions)

    def resume(self, partitions: list[TopicPartition]) -> None:
        with self._moments.around(self._moments.steering("resume")):
            self._consumer.resume(partitions)

    def seek(self, place: TopicPartition) -> None:
        with self._moments.around(self._moments.steering("seek")):
            self._consumer.seek(place)

    def assign(self, partitions: list[TopicPartition]) -> None:
        with self._moments.around(f"assign in {self._moments.where}"):
            self._consumer.assign(partitions)

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        with self._moments.around(f"assign in {self._moments.where}"):
            self._consumer.incremental_assign(partitions)

    def unassign(self) -> None:
        with self._moments.around(f"unassign in {self._moments.where}"):
            self._consumer.unassign()

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        with self._moments.around(f"unassign in {self._moments.where}"):
            self._consumer.incremental_unassign(partitions)

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> Any:
        kind = "the commit" if asynchronous else "the synchronous commit"
        with self._moments.around(f"{kind} in {self._moments.where}"):
            answers = self._consumer.commit(offsets=offsets, asynchronous=asynchronous)  # type: ignore[call-overload]  # for each value one
            self._note(None, answers or [])
        return answers

    def close(self) -> None:
        with self._moments.around("the client's close"):
            self._consumer.close()

    def _on_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        with self._moments.around(f"the answer to the commit in {self._moments.where}"):
            self._note(error, partitions)
            self._witnessed(error, partitions)

    def _note(self, error: KafkaError | None, answers: list[TopicPartition]) -> None:
        if error is None:
            taken = [item for item in answers if item.error is None]
            self._moments.acknowledged({(i.topic, i.partition): i.offset for i in taken})

    def _watched(self, name: str, callback: Callable[..., None]) -> Callable[..., None]:
        def watched(consumer: object, partitions: list[TopicPartition]) -> None:
            with self._moments.inside(name):
                callback(consumer, partitions)

        return watched


class StruckProducer:
    """The real producer, and the moments before and after what is asked of it."""

    def __init__(self, config: dict[str, Any], moments: Moments) -> None:
        self._producer = Producer(config)
        self._moments = moments

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def init_transactions(self, timeout_s: float) -> None:
        self._producer.init_transactions(timeout_s)
        self._moments.come("after init_transactions")

    def begin_transaction(self) -> None:
        self._producer.begin_transaction()
        self._moments.come("after begin_transaction")

    def produce(self, *arguments: Any, on_delivery: Callable[..., None], **named: Any) -> None:
        def report(error: KafkaError | None, *more: Any) -> None:
            with self._moments.around("the letter's report"):
                on_delivery(error, *more)
                if error is None:
                    self._moments.reported()

        with self._moments.around("the letter's produce"):
            self._producer.produce(*arguments, **named, on_delivery=report)  # type: ignore[misc]  # as the caller gives them

    def send_offsets_to_transaction(self, *arguments: Any) -> None:
        with self._moments.around("send_offsets_to_transaction"):
            self._producer.send_offsets_to_transaction(*arguments)

    def commit_transaction(self, timeout_s: float) -> None:
        self._moments.come("before commit_transaction")
        timer = self._moments.late_in("amid commit_transaction")
        self._producer.commit_transaction(timeout_s)
        timer.join()  # the blow may come after the answer: that is one moment of many
        self._moments.come("after commit_transaction")


def struck_dependencies(moments: Moments) -> Dependencies:
    """Clients that come to these moments."""
    return Dependencies(
        consumer=lambda config: StruckConsumer(config, moments),
        producer=lambda config: StruckProducer(config, moments),
    )


@contextmanager
def stores_watched(moments: Moments) -> Iterator[None]:
    """Of all that a member does, its own note of what is done is the one thing not brought in."""
    done = Offsets.done

    def watched(self: Offsets, next_offsets: Mapping[Partition, int]) -> None:
        with moments.around(moments.storing()):
            done(self, next_offsets)

    Offsets.done = watched  # type: ignore[method-assign]  # in a process that does nothing else
    try:
        yield
    finally:
        Offsets.done = done  # type: ignore[method-assign]
