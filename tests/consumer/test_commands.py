"""Does a command from outside take effect in the right member, and is it on record what became?"""

from __future__ import annotations

from uuid import uuid4

from confluent_kafka import KafkaError

from linear_retry import events
from linear_retry.control import LIVES_MS, AnswerName, Command, CommandName
from tests.consumer.group import GROUP, TOPIC, FakeGroup, Member
from tests.consumer.test_requests import reasons, said, turn_until, waiting


def _command(
    group: FakeGroup, command: CommandName, offset: int = 0, *, partition: int = 0, age_ms: int = 0
) -> Command:
    at_ms = group.fake.clock.utc_ms() - age_ms
    return Command(str(uuid4()), command, GROUP, TOPIC, partition, offset, "ops@desk", at_ms)


def _answers(member: Member) -> list[AnswerName]:
    return [answer.answer for answer in member.assembly.commands.answers()]


def _on_record(member: Member) -> list[tuple[str, str, str]]:
    return [(one.command, one.by, one.answer) for one in said(member, events.Commanded)]


def test_a_held_message_is_retried() -> None:
    """In the next turn; answered, and on record with who sent it, as the attempt begins."""
    group, member = waiting()
    group.dependency.down = False
    command = _command(group, "retry")
    member.assembly.commands.post(command)
    group.turn()
    (answer,) = member.assembly.commands.answers()
    assert (command.command_id, "done") == (answer.command_id, answer.answer)
    (commanded,) = said(member, events.Commanded)
    assert commanded == events.Commanded(
        TOPIC, 0, 0, "retry", "ops@desk", "done", command.command_id
    )
    kinds = [type(event) for event in member.events]
    assert kinds.index(events.RetriedNow) < kinds.index(events.Commanded)
    assert 1 == len(said(member, events.RetriedNow))
    group.finish()
    assert [] == group.violations()


def test_a_held_message_is_given_up() -> None:
    """Once its letter is acknowledged."""
    group, member = waiting()
    member.assembly.commands.post(_command(group, "give-up"))
    group.turn()
    assert ["done"] == _answers(member)
    assert ["given-up"] == reasons(group)
    assert [("give-up", "ops@desk", "done")] == _on_record(member)
    group.dependency.down = False
    group.finish()
    assert [] == group.violations()


def test_a_give_up_is_pending_while_its_letter_cannot_be_sent() -> None:
    """Said once; another answer follows when it is sent."""
    group, member = waiting()
    group.fake.faults.fail_delivery(KafkaError._MSG_TIMED_OUT, 2)
    member.assembly.commands.post(_command(group, "give-up"))
    turn_until(group, member, events.DeadLettered)
    assert 2 == len(said(member, events.DeadLetterFailed))
    assert ["pending", "done"] == _answers(member)
    assert ["pending", "done"] == [answer for _, _, answer in _on_record(member)]
    group.dependency.down = False
    group.finish()
    assert [] == group.violations()


def test_what_is_pending_at_the_end_is_not_done() -> None:
    """The consumer stops: whoever waits for it hears so, and the record says it before its end."""
    group, member = waiting()
    group.fake.faults.fail_delivery(KafkaError._MSG_TIMED_OUT, 100)
    member.assembly.commands.post(_command(group, "give-up"))
    turn_until(group, member, events.DeadLetterFailed)
    group.leave(member)
    assert "not-held" == _answers(member)[-1]
    kinds = [type(event) for event in member.events]
    assert events.Stopped is kinds[-1]
    assert events.Commanded in kinds
    assert [] == reasons(group)


def test_an_unknown_message_is_refused() -> None:
    """By who has its partition: it is not held there."""
    group, member = waiting()
    for command in (_command(group, "retry", 2), _command(group, "give-up", 99)):
        member.assembly.commands.post(command)
    group.turn()
    assert ["not-held", "not-held"] == _answers(member)
    record = [("retry", "ops@desk", "not-held"), ("give-up", "ops@desk", "not-held")]
    assert record == _on_record(member)
    assert [] == said(member, events.RetriedNow)


def test_who_has_not_got_the_partition_is_silent() -> None:
    """Another member answers: no answer of ours may say that it is held by nobody."""
    group, member = waiting(partitions=1)
    member.assembly.commands.post(_command(group, "retry", partition=7))
    group.turn(2)
    assert [] == _answers(member)
    assert [] == _on_record(member)


def test_only_the_owner_acts() -> None:
    """Both members hear it; the one that holds the message does it, once."""
    group, owner = waiting()
    other = group.join()
    command = _command(group, "retry")
    for member in (owner, other):
        member.assembly.commands.post(command)
    group.turn(2)
    assert (["done"], []) == (_answers(owner), _answers(other))
    assert [] == _on_record(other)
    assert 1 == len(said(owner, events.RetriedNow))


def test_an_expired_command_does_nothing() -> None:
    """More than a minute old when it is looked at: said, and on record."""
    group, member = waiting(strategy=(3600,))
    member.assembly.commands.post(_command(group, "retry", age_ms=LIVES_MS + 1))
    member.assembly.commands.post(_command(group, "give-up", age_ms=-2 * LIVES_MS))
    group.turn()
    assert ["expired", "expired"] == _answers(member)
    assert [("retry", "ops@desk", "expired"), ("give-up", "ops@desk", "expired")] == _on_record(
        member
    )
    assert [] == said(member, events.RetriedNow)
    assert [] == reasons(group)


def test_a_command_that_waited_for_a_handler_expires_too() -> None:
    """It comes while the handler is busy, for longer than it lives."""
    group, member = waiting()

    def busy(_: float) -> None:
        member.assembly.commands.post(_command(group, "retry"))
        group.fake.clock.advance(LIVES_MS / 1000 + 1)

    group.dependency.advance = busy
    turn_until(group, member, events.ProbeFailed)
    group.turn()
    assert ["expired"] == _answers(member)
    assert [] == said(member, events.RetriedNow)


def test_a_flood_holds_up_no_turn() -> None:
    """Whoever may write to the topic may write any number: a turn takes some, memory has an end."""
    group, member = waiting(strategy=(3600,))
    for _ in range(2_000):
        member.assembly.commands.post(_command(group, "retry", 99))
    group.turn()
    assert ["not-held"] * 100 == _answers(member)
    group.turn(20)
    assert ["not-held"] * 900 == _answers(member)
    assert [] == group.violations(finished=False)


def test_what_is_given_up_nowhere_is_refused() -> None:
    """A consumer without a dead-letter topic cannot give up; it says so, whatever is held."""
    group, member = waiting()
    commands = type(member.assembly.commands)(
        member.assembly.parts, member.assembly.requests, "pod-1", gives_up=False
    )
    commands.post(_command(group, "give-up"))
    commands.look()
    assert [("pod-1", "no-dead-letters")] == [
        (answer.member, answer.answer) for answer in commands.answers()
    ]
    assert [("give-up", "ops@desk", "no-dead-letters")] == _on_record(member)


def test_a_partition_that_goes_away_ends_it() -> None:
    """Its letter was pending; the next owner begins anew."""
    group, member = waiting()
    group.fake.faults.fail_delivery(KafkaError._MSG_TIMED_OUT, 100)
    member.assembly.commands.post(_command(group, "give-up"))
    turn_until(group, member, events.DeadLetterFailed)
    group.join()
    group.share([1])
    for _ in range(20):
        group.turn()
    assert "not-held" == _answers(member)[-1]
