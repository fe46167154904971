"""The permissions of docs/guides/acls.md are enough."""

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourceType  # type: ignore[attr-defined]  # exported by import only
from typer.testing import CliRunner

from docs.generators.acls import SCHEDULER, acls
from linear_retry import DeadLetters, Event, Journal, LinearConsumer, Listener, RetryTopics, events
from linear_retry.cli import app
from linear_retry.kafka import Message
from linear_retry.scheduler.service import SchedulerSettings
from linear_retry.store.database import Database
from linear_retry.store.migrations import migrate
from tests.dlq.guarded_kafka import GuardedKafka
from tests.docs.markdown import code, table
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S
from tests.scheduler.running import request, running

pytestmark = pytest.mark.broker

_KINDS = {
    "Topic": ResourceType.TOPIC,
    "Group": ResourceType.GROUP,
    "TransactionalId": ResourceType.TRANSACTIONAL_ID,
}
_CAPITAL = re.compile(r"\B(?=[A-Z])")
_JOURNAL, _CONTROL = "linear-retry.journal", "linear-retry.control"
_CONSUMER = ("consumer", "dead letters", "journal", "control")


def _rules(*parts: str) -> list[tuple[ResourceType, str, AclOperation]]:
    """What the page says of these, each by a word of its first column."""
    return [
        (_KINDS[kind], code(name)[0], AclOperation[_CAPITAL.sub("_", operation).upper()])
        for what, kind, name, operations in table(acls(), "for")
        if _is_for(what, parts)
        for operation in code(operations)
    ]


def _is_for(what: str, parts: tuple[str, ...]) -> bool:
    commands = [command.removeprefix("dlq ") for command in code(what)]
    return what in parts or any(command in parts for command in commands)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedKafka]:
    kafka = GuardedKafka(tmp_path_factory.mktemp("strict") / "kafka", strict=True)
    with kafka:
        for name in ("orders", "orders.dlq", _JOURNAL, _CONTROL):
            kafka.create_topic(name)
        kafka.produce("orders", [(0, b"key", b"value", [])])
        yield kafka


def _refuse(_: Message) -> None:
    raise ValueError("refused")


def test_the_page_is_enough(guarded: GuardedKafka, tmp_path: Path) -> None:
    """With these rights and no others messages are consumed and dead-lettered, either way, events
    and commands go to and fro, and letters are listed, sent back, dealt with and deleted."""
    for transactional in (False, True):
        more = ("transactional=True",) if transactional else ()
        guarded.allow_only(_rules(*_CONSUMER, *more))
        _dead_letter(guarded, transactional=transactional)
    keys = guarded.keys("reader")
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
    commands = {
        "list": ["dlq", "list", "orders.dlq"],
        "replay": ["dlq", "replay", "orders.dlq", "--yes"],
        "resolve": ["dlq", "resolve", "orders.dlq", "--yes"],
        "purge": ["dlq", "purge", "orders.dlq", "--yes"],
        "circuits list": ["circuits", "list", "--group", "billing"],
    }
    for name, arguments in commands.items():
        guarded.allow_only(_rules(name))
        _run(file, *arguments)


def test_the_page_is_enough_for_topics(guarded: GuardedKafka, tmp_path: Path) -> None:
    """With these rights and no others they are planned, created, and found to be right."""
    file, strategy = tmp_path / "client.properties", tmp_path / "retries.json"
    keys = guarded.keys("reader")
    file.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
    strategy.write_text('["5m", "30m"]')
    options = ["orders", "--group", "billing", "--strategy", str(strategy)]
    guarded.allow_only(_rules("topics plan"))
    assert "missing" in _run(file, "topics", "plan", *options)
    guarded.allow_only(_rules("topics plan", "topics create"))
    assert "orders.billing.retry.30m: created" in _run(file, "topics", "create", *options)
    guarded.allow_only(_rules("topics plan"))
    assert "error" not in _run(file, "topics", "check", *options)


@pytest.mark.parametrize("options", [(), ("transactional=True", "back_to_source=True")])
def test_the_page_is_enough_for_both_lines(
    guarded: GuardedKafka, options: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """With these rights and no others a message leaves the line, comes back or is returned to its
    source, and is dead-lettered; and all settings can be checked."""
    back = "back_to_source=True" in options
    retries = RetryTopics("orders.billing.retry", strategy=["300ms"], back_to_source=back)
    if not options:
        stamped = {"message.timestamp.type": "LogAppendTime"}
        guarded.create_topic(retries.topics[0], 1, stamped)
    guarded.allow_only(set(_rules(*_CONSUMER, "retry topics", "retry line", *options)))
    seen: list[str] = []
    ended = threading.Event()

    def on_event(event: Event) -> None:
        seen.append(type(event).__name__)
        if isinstance(event, events.DeadLettered | events.DeadLetterFailed):
            ended.set()

    def fail(_: Message) -> None:
        raise OSError("down")

    shared: dict[str, Any] = {
        "strategy": [],
        "transient": OSError,
        "dead_letters": DeadLetters("orders.dlq", transactional=bool(options)),
        "control": _CONTROL,
    }
    config = guarded.keys("reader") | {"group.id": "billing", "session.timeout.ms": 6000}
    listeners: list[list[Listener]] = [[on_event, Journal()] for _ in range(2)]
    live = LinearConsumer(
        config, ["orders"], on_exhausted=retries, listeners=listeners[0], **shared
    )
    retry = LinearConsumer(config, retries, listeners=listeners[1], **shared)
    errors: list[BaseException] = []

    def run(line: LinearConsumer) -> None:
        try:
            with line:
                line.run(fail)
        except BaseException as error:  # noqa: BLE001  (shown below)
            errors.append(error)
            ended.set()

    threads = [threading.Thread(target=run, args=(line,)) for line in (live, retry)]
    for thread in threads:
        thread.start()
    assert ended.wait(PATIENCE_S), seen
    for line in (live, retry):
        line.stop()
    for thread in threads:
        thread.join()
    assert [] == errors
    assert {"SentToRetry", "DeadLettered"} <= {*seen}
    assert back == ("ReturnedToSource" in seen)
    assert "DeadLetterFailed" not in seen
    assert [] == [each for each in caplog.messages if "DescribeConfigs" in each]
    guarded.produce("orders", [(0, b"key", b"value", [])])


def _run(file: Path, *arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments, "--config", str(file)])
    assert result.exit_code == 0, f"{arguments[:2]}: {result.output}"
    assert "liveness unknown" not in result.output
    return result.stdout


def _dead_letter(guarded: GuardedKafka, *, transactional: bool) -> None:
    """The one message becomes a letter."""
    dead_lettered: list[Event] = []

    def on_event(event: Event) -> None:
        if isinstance(event, events.DeadLettered | events.DeadLetterFailed):
            dead_lettered.append(event)
            consumer.stop()

    journal = Journal()
    consumer = LinearConsumer(
        guarded.keys("reader") | {"group.id": "billing", "session.timeout.ms": 6000},
        ["orders"],
        strategy=[1],
        transient=OSError,
        dead_letters=DeadLetters("orders.dlq", transactional=transactional),
        listeners=[on_event, journal],
        control=_CONTROL,
    )
    with consumer:
        consumer.run(_refuse)
    assert [events.DeadLettered] == [type(event) for event in dead_lettered]
    assert 0 == journal.dropped
    guarded.produce("orders", [(0, b"key", b"value", [])])


def test_the_page_is_enough_for_the_scheduler(guarded: GuardedKafka, tmp_path: Path) -> None:
    """With these rights and no others it stores a record, and sends it when it is due."""
    guarded.create_topic(SCHEDULER)
    guarded.produce(SCHEDULER, [(0, b"key", b"later", request("orders"))])
    guarded.allow_only(_rules("scheduler run"))
    database = Database(f"sqlite:///{tmp_path}/store.sqlite3")
    migrate(database)
    config = guarded.keys("reader") | {"session.timeout.ms": 6000}
    wanted = SchedulerSettings(config=config, topic=SCHEDULER, allow=["orders"])
    with running(guarded, database, wanted) as scheduler:
        wait_until(
            lambda: scheduler.ended.done() or scheduler.service.sent,
            "it is sent",
            lambda: scheduler.ended,
        )
    database.close()
    assert b"later" == guarded.read("orders")[-1].value()
