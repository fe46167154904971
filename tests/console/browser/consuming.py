"""A consumer whose dependency is down, and a console that shows it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from linear_retry import Journal, LinearConsumer, Strategy
from linear_retry.console.state.settings import Settings
from linear_retry.consumer.settings.consumer_config import Dependencies
from linear_retry.kafka import Message
from tests.console.browser.serving import serving
from tests.living import QuickConsumer, living
from tests.real_kafka import RealKafka


class Dependency:
    """Down until it is mended."""

    is_down = True

    def call(self, _: Message) -> None:
        """Fails while it is down."""
        if self.is_down:
            raise ConnectionError("<b>the bank</b> refuses")


@dataclass(frozen=True, slots=True)
class Line:
    """The topics of a consumer; its orders have two partitions."""

    kafka: RealKafka
    orders: str
    letters: str
    journal: str
    control: str

    @classmethod
    def on(cls, kafka: RealKafka) -> "Line":
        """Makes topics with names of their own."""
        name = f"line-{uuid4().hex[:8]}"
        line = cls(kafka, *(f"{name}.{each}" for each in ("orders", "dlq", "journal", "control")))
        kafka.create_topic(line.orders, 2)
        for topic in (line.letters, line.journal, line.control):
            kafka.create_topic(topic)
        return line

    def add_orders(self, *partitions: int) -> None:
        """One to each of these partitions."""
        self.kafka.produce(self.orders, [(each, b"key", b"value", ()) for each in partitions])

    @contextmanager
    def console(self, directory: Path) -> Iterator[str]:
        """Serves a console over its journal; gives the address."""
        settings = Settings(
            kafka={"bootstrap.servers": self.kafka.bootstrap},
            state=directory,
            journal=self.journal,
            control=self.control,
        )
        with serving(settings) as address:
            yield address

    @contextmanager
    def consumed(
        self, handler: Callable[[Message], object], group: str = "", **options: Any
    ) -> Iterator[str]:
        """Lets a consumer read the orders, in a thread; gives its group, by default a new one.

        Unless the options say otherwise, it waits for an hour after each failure.
        """
        group = group or f"billing-{uuid4().hex[:8]}"
        consumer = LinearConsumer(
            self.kafka.client_settings() | {"group.id": group, "client.id": "till-7"},
            [self.orders],
            **{
                "strategy": Strategy(["1h"] * 3),
                "transient": ConnectionError,
                "scope": "partition",
                "dead_letters": self.letters,
                "control": self.control,
                "listeners": [Journal(self.journal)],
                "_dependencies": Dependencies(consumer=QuickConsumer),
                **options,
            },
        )
        with living(consumer, handler):
            yield group
