"""docs/operations/held-messages.md is true."""

import json
import shlex
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from confluent_kafka import Message
from typer.testing import CliRunner

from linear_retry.cli import app
from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from linear_retry.kafka.topics.reader import TopicReader
from linear_retry.records.control import AnswerName, Command, encode, read_control
from linear_retry.scope import Scope
from tests.docs.markdown import blocks, code, page, table
from tests.kafka_operations import wait_until
from tests.living import broker_of_orders, living, patient_consumer
from tests.patience import PATIENCE_S

_PAGE = page("docs/operations/held-messages.md")
_CODE = "\n".join(blocks(_PAGE, "python"))
_COMMANDS = [line for block in blocks(_PAGE, "sh") for line in block.splitlines()]


class Dependency:
    """Down until it is up."""

    def __init__(self) -> None:
        self.is_up = False
        self.took: list[bytes | None] = []

    def __call__(self, message: Message) -> None:
        if not self.is_up:
            raise ConnectionError("down")
        self.took.append(message.value())


@pytest.fixture
def broker() -> Iterator[EmbeddedKafka]:
    with broker_of_orders(b"first", b"second") as kafka:
        yield kafka


def test_the_code_operates_a_consumer(broker: EmbeddedKafka) -> None:
    """One message is given up, the next retried, and what is held is seen: as the page says."""
    names: dict[str, Any] = {}
    exec(compile(_CODE, "operating.md", "exec"), names)
    handler = Dependency()
    made = patient_consumer(broker.bootstrap, dead_letters=names["dead_letters"])
    with living(made, handler) as consumer:
        first, second = ("orders", 0, 0), ("orders", 0, 1)
        wait_until(lambda: first in names["held"](consumer), "the first is held")
        assert {first: "ConnectionError('down')"} == names["held"](consumer)
        assert names["give_up"](consumer, *first)
        wait_until(lambda: second in names["held"](consumer), "the second is held")
        assert not names["give_up"](consumer, *first)
        assert names["maintain"](consumer)
        assert "pause" == consumer.circuits[Scope()].waits_for
        assert consumer.close_circuit().result(timeout=PATIENCE_S)
        handler.is_up = True
        assert [second] == names["retry_all"](consumer)
        wait_until(lambda: [b"second"] == handler.took, "the second is handled")
        wait_until(lambda: {} == names["held"](consumer), "nothing is held")
    (letter,) = TopicReader({"bootstrap.servers": broker.bootstrap}).read_all("orders.dlq")
    assert (b"first", b"given-up") == (letter.value, dict(letter.headers)["retry-reason"])


def test_what_is_typed_takes_effect(broker: EmbeddedKafka) -> None:
    """The page's consumer, and each of the page's commands, in their order."""
    names: dict[str, Any] = {}
    exec(compile(_CODE, "operating.md", "exec"), names)
    handler = Dependency()
    consumer = names["operated"]({"bootstrap.servers": broker.bootstrap, "group.id": "billing"})
    list_, give_up, retry, retry_all, lift_limit, pause, end_pause, reload, _ = _COMMANDS
    with living(consumer, handler):
        wait_until(lambda: ("orders", 0, 0) in names["held"](consumer), "the first is held")
        wait_until(lambda: "orders[0]@0" in _typed(list_, broker), "it is in the journal")
        assert "now in the dead letters" in _typed(give_up, broker)
        wait_until(lambda: ("orders", 0, 1) in names["held"](consumer), "the second is held")
        handler.is_up = True
        assert "recovered" == json.loads(_typed(retry, broker))["answer"]
        wait_until(lambda: [b"second"] == handler.took, "the second is handled")
        assert "no circuit is open" in _typed(retry_all, broker)
        lifted = "the limit is lifted until a success, or for 5000 messages"
        assert lifted in _typed(lift_limit, broker)
        assert "paused until 20" in _typed(pause, broker)
        assert "paused by" in str(consumer.circuits[Scope()].error)
        assert "the pause is ended" in _typed(end_pause, broker)
        assert "is not read from a file (StrategyFile)" in _typed(reload, broker, says_no=True)
    (letter,) = TopicReader({"bootstrap.servers": broker.bootstrap}).read_all("orders.dlq")
    assert (b"first", b"given-up") == (letter.value, dict(letter.headers)["retry-reason"])


def _typed(command: str, broker: EmbeddedKafka, *, says_no: bool = False) -> str:
    """What a person reads who types it, and says yes."""
    program, *arguments = shlex.split(command.replace("localhost:9092", broker.bootstrap))
    assert "linear-retry" == program
    done = CliRunner().invoke(app, arguments, input="y\n")
    # No event yet: the group is not known.
    assert done.exit_code == says_no or "has no entries" in done.output, done.output
    return done.stderr if says_no else done.stdout


def test_every_answer_is_there() -> None:
    """And that there may be none."""
    answers = {name for row in table(_PAGE, "answer") for name in code(row[0])}
    assert set(get_args(AnswerName)) == answers


def test_the_example_is_a_command() -> None:
    """What the page shows is what is sent."""
    (example,) = blocks(_PAGE, "json")
    command = read_control(example.encode())
    assert isinstance(command, Command)
    assert json.loads(example) == json.loads(encode(command))
