"""docs/guides/loops.md is true."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from linear_retry import Attempt, LinearConsumer
from linear_retry.inbox import Inbox
from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from tests.consumer.group import GROUP, LETTERS, TOPIC, consumer_on
from tests.docs.markdown import blocks, code, page, table
from tests.fake.cluster import FakeKafka
from tests.inbox.effects import effects_in, write
from tests.patience import PATIENCE_S

_PAGE = page("docs/guides/loops.md")
_RUN, _PROGRAM, _NUMBER_AND_FAIL, _WRONG, _WITH_AN_INBOX = blocks(_PAGE, "python")
_ROWS = table(_PAGE, "the body of the `with` is left by")
_MEANING = {
    "done": {"done"},
    "failed": {"failed"},
    "undecided": {"interrupted", "withdrawn"},
}


@pytest.fixture
def fake() -> FakeKafka:
    """Three messages in one partition."""
    kafka = FakeKafka(balanced=True)
    kafka.create_topic(TOPIC, 1)
    kafka.create_topic(LETTERS, 1)
    for value in (b"1", b"2", b"3"):
        kafka.append(TOPIC, 0, value)
    return kafka


def _consumer(fake: FakeKafka, **options: Any) -> LinearConsumer:
    return consumer_on(fake, transient=ConnectionError, **options)


@pytest.mark.parametrize(
    ("number", "exit_code"), [(signal.SIGTERM, 0), (signal.SIGINT, -signal.SIGINT)]
)
def test_the_program_ends_as_the_page_says(number: signal.Signals, exit_code: int) -> None:
    """SIGTERM stops it, Ctrl-C is KeyboardInterrupt; what is done is committed either way."""
    with EmbeddedKafka() as broker:
        broker.create_topic("orders", 1)
        broker.create_topic("orders.dlq", 1)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        for order in ("1", "2", "3"):
            producer.produce("orders", order)
        assert 0 == producer.flush(PATIENCE_S)
        program = _PROGRAM.replace("localhost:9092", broker.bootstrap)
        assert program != _PROGRAM
        printed = _run(program, number, exit_code, "charged 3")
        committed = _committed(broker)
    assert ["charged 1", "charged 2", "charged 3"] == printed
    # Ctrl-C may come before the body has been left: that message is undecided.
    assert committed in ({3} if exit_code == 0 else {2, 3})


def _committed(broker: EmbeddedKafka) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "billing"})
    (place,) = consumer.committed([TopicPartition("orders", 0)], 10)
    consumer.close()
    return place.offset


def _run(program: str, number: int, exit_code: int, last: str) -> list[str]:
    """What the program prints until `last`, after which it gets the signal."""
    printed = []
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    ) as child:
        assert child.stdout is not None
        try:
            for line in child.stdout:
                printed.append(line.strip())
                if line.strip() == last:
                    child.send_signal(number)
            assert exit_code == child.wait(PATIENCE_S)
        finally:
            child.kill()
    return printed


def test_run_calls_the_function(fake: FakeKafka) -> None:
    """The first block hands every message over."""
    seen: list[bytes | None] = []

    def charge(message: Message) -> None:
        seen.append(message.value())
        if len(seen) == 3:
            consumer.stop()

    with _consumer(fake) as consumer:
        exec(_RUN, {"consumer": consumer, "charge": charge})
    assert [b"1", b"2", b"3"] == seen


def test_number_and_fail(fake: FakeKafka, capsys: pytest.CaptureFixture[str]) -> None:
    """`fail` is a failure that is waited for, and the attempt after it says that it is another."""
    answers = iter(["ok", "busy", "busy", "ok", "ok"])

    def charge(message: Message) -> str:
        answer = next(answers)
        if message.value() == b"3":
            consumer.stop()
        return answer

    with _consumer(fake) as consumer:
        exec(_NUMBER_AND_FAIL, {"consumer": consumer, "charge": charge})
    assert "attempt 2 of 1\nattempt 3 of 1\n" == capsys.readouterr().out
    assert {(TOPIC, 0): 3} == fake.group(GROUP)


def test_what_is_wrong_is_wrong(fake: FakeKafka) -> None:
    """An error behind the `with` ends the loop, and the message counts as done."""

    def save(order: str) -> None:
        raise ConnectionError(order)

    with pytest.raises(ConnectionError, match="1"), _consumer(fake) as consumer:
        exec(_WRONG, {"consumer": consumer, "save": save})
    assert {(TOPIC, 0): 1} == fake.group(GROUP)


def test_with_an_inbox(fake: FakeKafka, sqlite_url: str) -> None:
    """What each attempt writes is committed as its block is left."""
    with effects_in(sqlite_url) as effects:

        def book(message: Message, transaction: Any) -> None:
            write(message, transaction)
            if message.value() == b"3":
                consumer.stop()

        with _consumer(fake, inbox=Inbox(effects.engine)) as consumer:
            exec(_WITH_AN_INBOX, {"consumer": consumer, "book": book})
        assert [0, 1, 2] == effects.of()


def _leaving(statement: str) -> Callable[[LinearConsumer, list[Attempt]], None]:
    """A loop whose body is left so in its second attempt; it ends after its third."""
    body = f"""
        def loop(consumer, attempts):
            for attempt in consumer:
                attempts.append(attempt)
                with attempt as message:
                    if len(attempts) == 3:
                        consumer.stop()
                    if len(attempts) == 2:
                        {statement}
    """
    names: dict[str, Any] = {}
    exec(textwrap.dedent(body), names)
    loop: Callable[[LinearConsumer, list[Attempt]], None] = names["loop"]
    return loop


def _statements(cell: str) -> list[str]:
    if cell == "its end":
        return ["pass"]
    return [f"raise {one}" if one == "SystemExit" else one for one in code(cell)]


@pytest.mark.parametrize(
    ("statement", "meaning", "then"),
    [(one, row[1], row[2]) for row in _ROWS for one in _statements(row[0])],
)
def test_leaving_means_what_the_table_says(
    fake: FakeKafka, statement: str, meaning: str, then: str
) -> None:
    """Each way of leaving, tried: what the message is then, and how the loop continues."""
    attempts: list[Attempt] = []
    passed: list[BaseException] = []
    with _consumer(fake) as consumer:
        try:
            _leaving(statement)(consumer, attempts)
        except (KeyboardInterrupt, SystemExit) as error:
            passed.append(error)
    assert attempts[1].state in _MEANING[meaning]
    assert ("passes through;" in then) == bool(passed)
    continues = meaning == "failed" or "the loop continues" in then
    assert (3 if continues else 2) == len(attempts)
    waited_for = meaning == "failed" and "Connection" in statement
    letters = fake.topics[LETTERS].partitions[0].end
    assert [2 if waited_for else 1] == [one.number for one in attempts[2:]] or not continues
    assert (1 if "ValueError" in statement else 0) == letters
    assert (1 if meaning == "undecided" else len(attempts) - waited_for) == sum(
        fake.group(GROUP).values()
    )


def test_the_table_has_every_way(fake: FakeKafka) -> None:
    """Every state that an attempt may end in has its row."""
    assert {*_MEANING} == {row[1] for row in _ROWS}


def test_close_never_masks_an_exception(fake: FakeKafka) -> None:
    """What `close` has to raise is a note of the exception that is on its way."""
    consumer = _consumer(fake, on_permanent="stop")
    for attempt in consumer:
        with attempt:
            raise ValueError
        break
    with pytest.raises(LookupError) as caught, consumer:
        raise LookupError
    (note,) = caught.value.__notes__
    assert "on_permanent" in note
