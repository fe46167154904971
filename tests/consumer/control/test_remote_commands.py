"""A remote command takes effect in the right member, and is on record."""

from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import KafkaError

from linear_retry import Rule, Strategy, StrategyFile, events
from linear_retry.consumer.control.operator_actions import OperatorActions
from linear_retry.consumer.control.remote_commands import RemoteCommands
from linear_retry.records.control import COMMAND_TTL_MS, AnswerName, Command, CommandName
from linear_retry.records.lineage import Line
from linear_retry.retry.decision import Policy, RetrySettings
from tests.consumer.group import GROUP, TOPIC, FakeGroup, Member, OutageError
from tests.consumer.misbehaviours.misbehaving import emitted, turn_until
from tests.consumer.ownership.test_requests import reasons, waiting


def _command(
    group: FakeGroup, command: CommandName, offset: int = 0, *, partition: int = 0, age_ms: int = 0
) -> Command:
    at_ms = group.fake.clock.utc_ms() - age_ms
    return Command(str(uuid4()), command, GROUP, TOPIC, partition, offset, "ops@desk", at_ms)


def _to_all(group: FakeGroup, command: CommandName, **more: Any) -> Command:
    now_ms = group.fake.clock.utc_ms()
    return Command(str(uuid4()), command, GROUP, None, None, None, "ops@desk", now_ms, **more)


def _answers(member: Member) -> list[AnswerName]:
    return [answer.answer for answer in member.parts.commands.answers()]


def _on_record(member: Member) -> list[tuple[str, str, str]]:
    return [(one.command, one.by, one.answer) for one in emitted(member, events.CommandAnswered)]


def test_a_held_message_is_retried() -> None:
    """In the next turn; answered, and on record with who sent it, as the attempt begins."""
    group, member = waiting()
    group.dependency.down = False
    command = _command(group, "retry")
    member.parts.commands.post(command)
    group.turn()
    begun, recovered = member.parts.commands.answers()
    assert (command.command_id, "begun", False) == (begun.command_id, begun.answer, begun.is_final)
    assert ("recovered", True) == (recovered.answer, recovered.is_final)
    first, second = emitted(member, events.CommandAnswered)
    assert first == events.CommandAnswered(
        TOPIC, 0, 0, "retry", "ops@desk", "begun", command.command_id
    )
    assert "recovered" == second.answer
    kinds = [type(event) for event in member.events]
    assert kinds.index(events.RetriedNow) < kinds.index(events.CommandAnswered)
    assert 1 == len(emitted(member, events.RetriedNow))
    group.finish()
    assert [] == group.violations()


def test_a_retry_that_failed_is_answered_with_what_comes_next() -> None:
    """Whoever sent it was told that the attempt began, and had to find the rest in a log."""
    group, member = waiting(strategy=(30, 60, 90))
    member.parts.commands.post(_command(group, "retry"))
    group.turn()
    _, failed = member.parts.commands.answers()
    (probe,) = emitted(member, events.ProbeFailed)
    assert ("failed", True, 2, "OutageError()") == (
        failed.answer,
        failed.is_final,
        failed.failures,
        failed.error,
    )
    assert round(probe.retry_at.timestamp() * 1000) == failed.retry_at_ms
    assert group.fake.clock.utc_ms() + 60_000 == pytest.approx(failed.retry_at_ms, abs=20)


def test_the_last_attempt_needs_a_confirmation() -> None:
    """A failure more is a dead letter: it is not attempted for a plain retry, and the sender is
    told; with `last` it is, and he is told what became of it."""
    group, member = waiting(strategy=(3600,))
    member.parts.commands.post(_command(group, "retry"))
    group.turn(2)
    (answer,) = member.parts.commands.answers()
    assert ("last-attempt", True, 1, 0) == (
        answer.answer,
        answer.is_final,
        answer.failures,
        answer.offset,
    )
    assert [] == emitted(member, events.RetriedNow)
    member.parts.commands.post(replace(_command(group, "retry"), last=True))
    group.turn()
    assert ["begun", "dead-lettered"] == _answers(member)
    group.dependency.down = False
    group.finish()
    assert [] == group.violations()


def test_the_last_attempt_within_max_elapsed_needs_a_confirmation() -> None:
    """There are delays left, and no time: it is the last attempt, which an early one is not."""
    group, member = waiting(strategy=Strategy([30, 60, 90], max_elapsed=80))
    member.parts.commands.post(_command(group, "retry"))
    group.turn()
    assert ["begun", "failed"] == _answers(member)
    member.parts.commands.post(_command(group, "retry"))
    group.turn()
    assert ["last-attempt"] == _answers(member)
    turn_until(group, member, events.DeadLettered)
    (letter,) = emitted(member, events.DeadLettered)
    assert ("exhausted", 3) == (letter.reason, letter.failures)


def test_a_blocked_key_is_retried_without_a_confirmation() -> None:
    """Nothing is given up if that fails: it is blocked again, and has no next attempt."""
    group = FakeGroup(partitions=1, scope="key", on_exhausted="block", strategy=[1])
    group.produce_keys(0, [b"a", b"b"])
    group.dependency.down_for_keys = {b"a"}
    member = group.join()
    group.share([0])
    turn_until(group, member, events.KeyBlocked)
    member.parts.commands.post(_command(group, "retry"))
    group.turn(3)
    begun, blocked = member.parts.commands.answers()
    assert ("begun", "blocked", True) == (begun.answer, blocked.answer, blocked.is_final)
    assert (3, None) == (blocked.failures, blocked.retry_at_ms)


def test_no_attempt_is_the_last_where_the_limit_holds_letters_back() -> None:
    """A failure more makes no letter: it is held again, which is what is answered."""
    group = FakeGroup(partitions=1, letter_limit=1)
    group.produce(0, 3)
    group.dependency.refuses = {(0, 0), (0, 1)}
    member = group.join()
    group.share([0])
    turn_until(group, member, events.LimitReached)
    member.parts.commands.post(_command(group, "retry", 1))
    group.turn()
    assert ["begun", "held-back"] == _answers(member)
    member.parts.commands.post(_to_all(group, "lift-limit", reason="a bad batch"))
    group.turn(2)
    assert ["lifted"] == _answers(member)
    assert [0, 1] == [letter.offset for letter in emitted(member, events.DeadLettered)]
    assert [events.LimitLifted(None, "a bad batch")] == emitted(member, events.LimitLifted)
    group.finish()
    assert [] == group.violations()


def test_every_open_circuit_is_retried() -> None:
    """Each message's outcome is answered; with the last of them the member has said all."""
    group, member = waiting(strategy=(100_000, 5, 5), scope="partition", partitions=2)
    group.produce(1, 1)
    turn_until(group, member, events.CircuitOpened, 2)
    group.dependency.down, group.dependency.down_for = False, {(TOPIC, 1)}
    member.parts.commands.post(_to_all(group, "retry"))
    group.turn()
    answers = [(one.answer, one.partition) for one in member.parts.commands.answers()]
    assert {("begun", 0), ("recovered", 0), ("begun", 1), ("failed", 1)} == set(answers)
    member.parts.commands.post(_to_all(group, "retry"))
    group.turn()
    *rest, final = member.parts.commands.answers()
    assert [False] == [one.is_final for one in rest]
    assert ("failed", True) == (final.answer, final.is_final)


def test_a_circuit_without_a_message_is_retried_with_all() -> None:
    """After a rebalance no message could be named, and the circuit was open for days."""
    group, member = waiting(strategy=(100_000, 5), remember_failures=False)
    group.fake.lose(member.consumer)
    group.share([0])
    group.turn(3)
    member.parts.commands.post(_to_all(group, "retry"))
    group.turn()
    assert ["no-message"] == _answers(member)
    assert 1 == len(emitted(member, events.WaitEnded))
    assert [None] == [one.topic for one in emitted(member, events.CommandAnswered)]
    group.dependency.down = False
    group.finish()
    assert [] == group.violations()


def test_where_nothing_is_open_that_is_answered() -> None:
    """By each member: whoever sent it need not wait."""
    group = FakeGroup(partitions=1)
    member = group.join()
    group.share([0])
    member.parts.commands.post(_to_all(group, "retry"))
    group.turn(2)
    assert ["none-open"] == _answers(member)


def test_an_attempt_whose_partition_goes_is_answered() -> None:
    """Its outcome is nobody's any more: the next owner begins again."""
    group, member = waiting(strategy=(3600, 5))
    member.parts.commands.post(_command(group, "retry"))
    group.dependency.advance = lambda _: group.fake.clock.advance(301)
    group.turn(2)
    assert ["begun", "dropped"] == _answers(member)


def test_a_held_message_is_given_up() -> None:
    """Once its letter is acknowledged."""
    group, member = waiting()
    member.parts.commands.post(_command(group, "give-up"))
    group.turn()
    assert ["dead-lettered"] == _answers(member)
    assert ["given-up"] == reasons(group)
    assert [("give-up", "ops@desk", "dead-lettered")] == _on_record(member)
    group.dependency.down = False
    group.finish()
    assert [] == group.violations()


def test_a_give_up_is_pending_while_its_letter_cannot_be_sent() -> None:
    """Reported once; another answer follows when it is sent."""
    group, member = waiting()
    group.fake.faults.fail_delivery(KafkaError._MSG_TIMED_OUT, 2)
    member.parts.commands.post(_command(group, "give-up"))
    turn_until(group, member, events.DeadLettered)
    assert 2 == len(emitted(member, events.DeadLetterFailed))
    assert ["pending", "dead-lettered"] == _answers(member)
    assert ["pending", "dead-lettered"] == [answer for _, _, answer in _on_record(member)]
    group.dependency.down = False
    group.finish()
    assert [] == group.violations()


@pytest.mark.parametrize("stops", [True, False])
def test_what_is_pending_at_the_end_is_not_done(stops: bool) -> None:
    """The consumer stops, or the partition goes: whoever waits for it learns so, and the record
    says it before the end."""
    group, member = waiting()
    group.fake.faults.fail_delivery(KafkaError._MSG_TIMED_OUT, 100)
    member.parts.commands.post(_command(group, "give-up"))
    turn_until(group, member, events.DeadLetterFailed)
    if stops:
        group.leave(member)
    else:
        group.join()
        group.share([1])
        group.turn(20)
    assert "not-held" == _answers(member)[-1]
    assert stops == isinstance(member.events[-1], events.Stopped)
    assert ("give-up", "ops@desk", "not-held") == _on_record(member)[-1]
    assert [] == reasons(group)


def test_an_unknown_message_is_refused() -> None:
    """By who has its partition: it is not held there."""
    group, member = waiting()
    for command in (_command(group, "retry", 2), _command(group, "give-up", 99)):
        member.parts.commands.post(command)
    group.turn()
    assert ["not-held", "not-held"] == _answers(member)
    record = [("retry", "ops@desk", "not-held"), ("give-up", "ops@desk", "not-held")]
    assert record == _on_record(member)
    assert [] == emitted(member, events.RetriedNow)


def test_only_the_owner_acts() -> None:
    """Both members learn it; the one that holds the message does it, once."""
    group, owner = waiting()
    other = group.join()
    command = _command(group, "retry")
    for member in (owner, other):
        member.parts.commands.post(command)
    group.turn(2)
    assert (["begun", "failed"], []) == (_answers(owner), _answers(other))
    assert [] == _on_record(other)
    assert 1 == len(emitted(owner, events.RetriedNow))


def test_an_expired_command_does_nothing() -> None:
    """More than a minute old when it is looked at: said, and on record."""
    group, member = waiting(strategy=(3600,))
    member.parts.commands.post(_command(group, "retry", age_ms=COMMAND_TTL_MS + 1))
    member.parts.commands.post(_command(group, "give-up", age_ms=-2 * COMMAND_TTL_MS))
    group.turn()
    assert ["expired", "expired"] == _answers(member)
    assert [("retry", "ops@desk", "expired"), ("give-up", "ops@desk", "expired")] == _on_record(
        member
    )
    assert [] == emitted(member, events.RetriedNow)
    assert [] == reasons(group)


def test_a_flood_holds_up_no_turn() -> None:
    """Whoever may write to the topic may write any number: a turn takes some, memory has an end."""
    group, member = waiting(strategy=(3600,))
    for _ in range(2_000):
        member.parts.commands.post(_command(group, "retry", 99))
    group.turn()
    assert ["not-held"] * 100 == _answers(member)
    group.turn(20)
    assert ["not-held"] * 900 == _answers(member)
    assert [] == group.violations(finished=False)


def test_what_is_given_up_nowhere_is_refused() -> None:
    """A consumer without a dead-letter topic cannot give up; it says so, whatever is held."""
    group, member = waiting()
    parts, emit = member.parts, member.events.append
    settings = RetrySettings(Policy(Strategy([1])), lambda _: True, "consumer")
    operator_actions = OperatorActions(
        parts.circuits, parts.clock, parts.requests, settings, Line("billing"), emit
    )
    commands = RemoteCommands(
        "pod-1", parts.assignment, operator_actions, member.monitor, gives_up=False
    )
    commands.post(_command(group, "give-up"))
    commands.post(_to_all(group, "lift-limit", reason="a bad batch"))
    commands.tick()
    assert [("pod-1", "no-dead-letters"), ("pod-1", "no-limit")] == [
        (answer.member, answer.answer) for answer in commands.answers()
    ]
    assert [
        ("give-up", "ops@desk", "no-dead-letters"),
        ("lift-limit", "ops@desk", "no-limit"),
    ] == _on_record(member)


def test_a_reload_says_what_is_in_force(tmp_path: Path) -> None:
    """Before any message fails by it: the labels, or why the file is not in force."""
    path = tmp_path / "pay.json"
    path.write_text("[60, 600]")
    group, member = waiting(given=StrategyFile(path))

    def answered() -> tuple[AnswerName, str | None, str | None]:
        member.parts.commands.post(_to_all(group, "reload"))
        group.turn()
        (answer,) = member.parts.commands.answers()
        return answer.answer, answer.strategy, answer.error

    before, after = (Strategy(each, name="pay").label for each in ([60, 600], [60, 601]))
    assert ("unchanged", before, None) == answered()
    path.write_text("[60, 601]")
    assert ("reloaded", after, None) == answered()
    path.write_text("[60, ]")
    for _ in range(2):
        name, label, error = answered()
        assert ("refused", after) == (name, label)
        assert "this is not JSON" in (error or "")
    assert 1 == len(emitted(member, events.StrategyReloaded))
    assert 1 == len(emitted(member, events.StrategyRefused))


def test_a_reload_without_a_file_is_answered() -> None:
    """The strategy is in the program."""
    group, member = waiting()
    member.parts.commands.post(_to_all(group, "reload"))
    group.turn()
    assert ["no-file"] == _answers(member)


def test_the_last_attempt_is_that_of_the_rule_for_the_failure_before() -> None:
    """Another rule's longer array said that there was time, and the message was given up."""
    rules = [Rule([60], errors=OutageError), Rule([1] * 9, errors=KeyError)]
    group, member = waiting(given=rules)
    member.parts.commands.post(_command(group, "retry"))
    group.turn(2)
    assert ["last-attempt"] == _answers(member)


def test_a_pause_is_answered_as_it_begins_and_as_it_ends() -> None:
    """And on record with who sent it."""
    group, member = waiting()
    pause = {"for_s": 60, "reason": "the ledger moves"}
    member.parts.commands.post(_to_all(group, "open", **pause))
    group.turn()
    assert ["paused"] == _answers(member)
    (began,) = emitted(member, events.PausedByHand)
    assert ("ops@desk", "the ledger moves") == (began.by, began.reason)
    for _ in range(2):
        member.parts.commands.post(_to_all(group, "close"))
        group.turn()
    assert ["ended", "not-paused"] == _answers(member)
    assert 1 == len(emitted(member, events.PauseEnded))
    group.dependency.down = False
    group.finish()
    assert [] == group.violations()


def test_a_pause_counts_from_when_it_was_sent() -> None:
    """A member that reads it late pauses for what is left, or not at all."""
    group, member = waiting()
    sent_ms = group.fake.clock.utc_ms() - 50_000
    late = replace(_to_all(group, "open", for_s=60, reason="r"), at_ms=sent_ms)
    member.parts.commands.post(late)
    group.turn()
    (began,) = emitted(member, events.PausedByHand)
    assert sent_ms + 60_000 == pytest.approx(began.until.timestamp() * 1000, abs=20)
    member.parts.commands.post(replace(late, at_ms=sent_ms - 11_000, command_id=str(uuid4())))
    group.turn()
    assert ["paused", "expired"] == _answers(member)
