"""docs/guides/batches.md is true."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from linear_retry import LinearConsumer, Strategy, events
from linear_retry.kafka import Message
from tests.consumer.group import LETTERS, TOPIC, consumer_on
from tests.docs.markdown import blocks, page
from tests.fake.cluster import FakeKafka

_STORE, _SEND = blocks(page("docs/guides/batches.md"), "python")
_COUNT = 30


@pytest.fixture
def fake() -> FakeKafka:
    """Thirty orders in one partition; the seventh has no body."""
    kafka = FakeKafka(balanced=True)
    kafka.create_topic(TOPIC, 1)
    kafka.create_topic(LETTERS, 1)
    for number in range(_COUNT):
        kafka.append(TOPIC, 0, None if number == 6 else b"%d" % number)
    return kafka


class _OnFake:
    """Takes the place of `LinearConsumer` in the page's program, and ends it after the last."""

    def __init__(self, fake: FakeKafka) -> None:
        self._fake = fake
        self.happened: list[events.Event] = []

    def __call__(self, _config: object, _topics: object, **options: Any) -> LinearConsumer:
        consumer = consumer_on(self._fake, **options, listeners=[self.happened.append])
        run_batches = consumer.run_batches

        def run(handler: Any, **limits: int) -> None:
            def handle(messages: list[Message]) -> None:
                handler(messages)
                if messages[-1].offset() == _COUNT - 1:
                    consumer.stop()

            run_batches(handle, **limits)

        consumer.run_batches = run  # type: ignore[method-assign]  # as the page calls it
        return consumer


def test_the_program_stores_each_order(
    fake: FakeKafka, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each once; the one that the table refuses is found, and is the only dead letter."""
    monkeypatch.chdir(tmp_path)
    made = _OnFake(fake)
    program = _STORE.replace("from linear_retry import LinearConsumer, Strategy", "")
    exec(program, {"LinearConsumer": made, "Strategy": Strategy})
    with sqlite3.connect("orders.sqlite3") as database:
        stored = [offset for (offset,) in database.execute("SELECT number FROM orders ORDER BY 1")]
    assert [*range(6), *range(7, _COUNT)] == stored
    letters = [event for event in made.happened if isinstance(event, events.DeadLettered)]
    assert [(6, "permanent")] == [(letter.offset, letter.reason) for letter in letters]
    assert any(isinstance(event, events.BatchTakenApart) for event in made.happened)


def test_send_says_which_one_failed(fake: FakeKafka) -> None:
    """What was sent is not sent again."""
    sent: list[bytes | None] = []
    down = [ConnectionError("down")]

    def post(value: bytes | None) -> None:
        if value == b"3" and down:
            raise down.pop()
        sent.append(value)
        if value == b"%d" % (_COUNT - 1):
            consumer.stop()

    names: dict[str, Any] = {"post": post}
    exec(_SEND, names)
    with consumer_on(fake, transient=ConnectionError) as consumer:
        consumer.run_batches(names["send"])
    assert _COUNT == len(sent) == len(set(sent))
