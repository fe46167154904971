"""Commands of the control topic on a real broker."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from linear_retry import Journal, events
from linear_retry.cli import app
from linear_retry.journal.entry import Entry, read_entry
from linear_retry.records.control import Answer, Command, CommandName, encode, read_control
from linear_retry.scope import Scope
from tests.conftest import TopicFactory
from tests.kafka_operations import KafkaOperations, wait_until
from tests.patience import PATIENCE_S
from tests.real_kafka import RealKafka
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.handlers import Dependency
from tests.scenarios.scene import Member, Scene

pytestmark = pytest.mark.broker

_HOUR_S = 3600.0

_Typed: TypeAlias = Callable[..., tuple[int, str]]
"""`typed("retry", place, ...)`: exit code, and what was printed."""


def _typing(group: Scene, control: str) -> _Typed:
    def typed(command: CommandName, place: str, *more: str, of: str = "") -> tuple[int, str]:
        options = ["--group", of or group.group, "--control", control, "--by", "ops@desk"]
        given = ["circuits", command, place, *options, "--bootstrap", group.kafka.bootstrap, *more]
        done = CliRunner().invoke(app, given)
        return done.exit_code, done.output

    return typed


def _holding(group: Scene, control: str, dependency: Dependency, **options: Any) -> Member:
    """A member that would hold its first message for an hour."""
    dependency.down = True
    member = group.join("first", dependency, control=control, **options)
    group.wait_for(events.CircuitOpened)
    return member


def _command(group: Scene, command: CommandName, partition: int, offset: int) -> Command:
    now_ms = time.time_ns() // 1_000_000
    place = group.topic, partition, offset
    return Command(str(uuid4()), command, group.group, *place, "ops@desk", now_ms)


def _say(kafka: KafkaOperations, control: str, *values: bytes) -> None:
    kafka.produce(control, [(0, None, value, ()) for value in values])


def _answers(kafka: KafkaOperations, control: str, command: Command) -> list[Answer]:
    """What is in the topic for it."""
    emitted = [read_control(message.value()) for message in kafka.read(control)]
    return [
        one for one in emitted if isinstance(one, Answer) and one.command_id == command.command_id
    ]


def _final(kafka: KafkaOperations, control: str, command: Command) -> list[Answer]:
    return [one for one in _answers(kafka, control, command) if one.is_final]


def test_waits_are_ended_from_a_shell(
    kafka: RealKafka, scene: SceneFactory, topic: TopicFactory
) -> None:
    """A give-up, a retry, and what is refused: answered, and on record in the journal."""
    group, dependency, control = scene(strategy=[_HOUR_S]), Dependency(), topic()
    journal, typed = Journal(topic()), _typing(group, control)
    group.produce(3)
    member = _holding(group, control, dependency, listeners=[journal])
    first, second = f"{group.topic}[0]@0", f"{group.topic}:0@1"
    code, emitted = typed("retry", f"{group.topic}[0]@77")
    assert (1, True) == (code, "not held, or no longer" in emitted)
    code, emitted = typed("retry", first, "--timeout", "1", of="shipping")
    assert (3, True) == (code, "no answer from group 'shipping' within 1 s" in emitted)
    assert [] == group.emitted(events.RetriedNow)
    assert (0, True) == ((done := typed("give-up", first, "--yes"))[0], "dead letters" in done[1])
    group.wait_for(events.CircuitOpened, 2)
    dependency.down = False
    code, emitted = typed("retry", second, "--json", "--yes")
    assert (0, "recovered") == (code, json.loads(emitted)["answer"])
    group.wait_until_done()
    member.stop()
    (retried,) = group.emitted(events.RetriedNow)
    assert _HOUR_S - 120 < retried.remaining_s
    assert [("given-up", 0)] == [(one.reason, one.original_offset) for one in group.dead_letters()]
    entries = [read_entry(message.value()) for message in kafka.read(journal.topic)]
    written = [entry for entry in entries if isinstance(entry, Entry)]
    record = [entry.event for entry in written if isinstance(entry.event, events.CommandAnswered)]
    assert [("retry", 77, "not-held"), ("give-up", 0, "dead-lettered")] + [
        ("retry", 1, answer) for answer in ("begun", "recovered")
    ] == [(one.command, one.offset, one.answer) for one in record]
    assert {"ops@desk"} == {one.by for one in record}
    assert json.loads(emitted)["member"] == written[0].member
    assert json.loads(emitted)["command_id"] == record[-1].command_id
    assert [] == group.violations()


def test_a_restarted_member_repeats_nothing(
    kafka: RealKafka, scene: SceneFactory, topic: TopicFactory, caplog: pytest.LogCaptureFixture
) -> None:
    """It reads the last minute: what is answered, expired or garbled there changes nothing."""
    group = scene(strategy=[_HOUR_S] * 5)
    dependency, control = Dependency(), topic()
    group.produce(2)
    _holding(group, control, dependency)
    retry, unknown = _command(group, "retry", 0, 0), _command(group, "retry", 0, 99)
    _say(kafka, control, encode(retry))
    group.wait_for(events.ProbeFailed)
    wait_until(lambda: _final(kafka, control, retry), "it is answered")
    for_all = replace(_command(group, "retry", 0, 0), topic=None, partition=None, offset=None)
    _say(kafka, control, encode(for_all))
    wait_until(lambda: _final(kafka, control, for_all), "it is answered, too")
    group.end()
    late = replace(_command(group, "give-up", 0, 0), at_ms=retry.at_ms - 61_000)
    _say(kafka, control, b"\xff", b"{}", encode(late))
    second = group.join("second", dependency, control=control)
    group.wait_for(events.CircuitOpened, 2)
    _say(kafka, control, encode(unknown))
    wait_until(lambda: _answers(kafka, control, unknown), "the second answers")
    wait_until(lambda: _answers(kafka, control, late), "the late one is refused")
    second.stop()
    assert ["expired"] == [one.answer for one in _answers(kafka, control, late)]
    assert ["begun", "failed"] == [one.answer for one in _answers(kafka, control, retry)]
    said = [one.answer for one in _answers(kafka, control, for_all)]
    assert ["heard", "begun", "failed"] == said
    assert 2 == len(group.emitted(events.RetriedNow))
    assert 3 == len(group.attempts())
    assert [] == group.dead_letters()
    assert f"control: {control}[0]@" in caplog.text
    assert [] == group.violations(finished=False)


def test_a_group_is_paused_by_its_program_and_who_joins_obeys(
    scene: SceneFactory, topic: TopicFactory
) -> None:
    """A rebalance and a new member in a maintenance window call nobody; afterwards all is done."""
    group, control, dependency = scene(partitions=4), topic(), Dependency()
    first = group.join("first", dependency, control=control)
    group.produce(20)
    group.wait_until_done()
    pause = first.consumer.open_circuit(600, "the ledger moves", group=True)
    assert pause.result(timeout=PATIENCE_S)
    before = len(group.attempts())
    group.produce(20)
    second = group.join("second", dependency, control=control)
    group.wait_for(events.PausedByHand, 2)
    assert "pause" == second.consumer.circuits[Scope()].waits_for
    wait_until(lambda: len(group.emitted(events.Assigned)) >= 2, "the second has its share")
    assert before == len(group.attempts())
    assert second.consumer.close_circuit(group=True).result(timeout=PATIENCE_S)
    group.wait_until_done()
    assert 2 == len(group.emitted(events.PauseEnded))
    for member in (first, second):
        member.stop()
    assert [] == group.violations()
