"""Each command of the control topic is handed over once."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import pytest

from linear_retry import Strategy
from linear_retry.consumer.control.control_topic import ControlTopicFollower
from linear_retry.consumer.control.remote_commands import RemoteCommands
from linear_retry.consumer.ownership.requests import OperatorRequest, PauseWish
from linear_retry.errors import UnknownTopicError
from linear_retry.records.control import Answer, Command, CommandName, encode, read_control
from linear_retry.records.record import OutgoingRecord, Record
from linear_retry.retry.decision import Policy
from linear_retry.scope import Scope
from tests.consumer.joined_parts import Joined
from tests.kafka_operations import wait_until

_TOPIC = "linear-retry.control"
_Said = Command | Answer | bytes
_SENT_MS = Joined().clock.utc_ms() - 61_000
"""Expired a moment ago."""


def _command(group: str = "billing", partition: int = 0) -> Command:
    return Command(str(uuid4()), "retry", group, "orders", partition, 812, "ops@desk", _SENT_MS)


def _records(emitted: Iterable[_Said]) -> list[Record]:
    values = [one if isinstance(one, bytes) else encode(one) for one in emitted]
    return [Record(_TOPIC, 0, offset, 17, None, value, ()) for offset, value in enumerate(values)]


@dataclass
class Topic:
    """What the follower is told: the past, then one batch for each read, then its end."""

    past: list[_Said] = field(default_factory=list)
    missed: list[_Said] = field(default_factory=list)
    """What is in the past of the second reading only."""
    batches: list[list[_Said]] = field(default_factory=list)
    missing: int = 0
    begun_ms: list[int] = field(default_factory=list)
    written: list[Answer] = field(default_factory=list)
    announced: list[tuple[bytes | None, Command]] = field(default_factory=list)
    trouble: str | None = None
    joined: Joined = field(default_factory=Joined)
    groups: tuple[str, ...] = ("billing",)

    def __post_init__(self) -> None:
        parts = self.joined
        parts.assignment.take([("orders", 0)])
        self.commands = RemoteCommands(
            "pod-1",
            parts.assignment,
            parts.operator_actions(Policy(Strategy([1]))),
            parts.monitor,
            gives_up=True,
        )
        topic: Any = self
        self.follower = ControlTopicFollower(
            _TOPIC,
            self.groups,
            self.commands,
            parts.clock,
            topic.since,
            topic,
            group_pause_max_s=3600.0,
            again_after_s=0,
        )

    def follow_all(self) -> list[Answer]:
        """All of it; what was answered, of which the owner looks at everything in between."""
        self.follower.follow()
        return self.written

    def since(self, at_ms: int) -> Topic:
        self.begun_ms.append(at_ms)
        return self

    def backlog(self) -> Iterator[list[Record]]:
        if self.missing:
            self.missing -= 1
            self.joined.clock.advance(5.0)
            raise UnknownTopicError(f"topic {_TOPIC!r} does not exist; check its name")
        for one in [*self.past, *(self.missed if self.begun_ms[1:] else [])]:
            yield _records([one])
            self.commands.tick()  # would answer what was handed over too early

    @contextmanager
    def follow(self) -> Iterator[Topic]:
        yield self

    def read(self, wait_s: float) -> list[Record]:
        self.commands.tick()
        self.joined.clock.advance(wait_s)
        if not self.batches:
            self.follower.close(0)
            return []
        return _records(self.batches.pop(0))

    def send(self, record: OutgoingRecord) -> None:
        emitted = read_control(record.value)
        if isinstance(emitted, Answer):
            self.written.append(emitted)
        elif isinstance(emitted, Command):
            self.announced.append((record.key, emitted))

    def flush(self, timeout_s: float) -> None:
        """Nothing is on its way."""


def test_a_command_is_handed_over_and_answered() -> None:
    """Under its own id, signed by the member."""
    command = _command()
    (answer,) = Topic(batches=[[command], [], []]).follow_all()
    assert (command.command_id, "pod-1") == (answer.command_id, answer.member)
    assert "expired" == answer.answer


def test_it_begins_two_minutes_ago() -> None:
    """What was said of one message while it started, or was away, is for it still. A command may be
    stamped a minute ahead of this clock, and its answer a minute behind that."""
    topic = Topic(past=[_command()], batches=[[], []])
    now_ms = topic.joined.clock.utc_ms()
    assert 1 == len(topic.follow_all())
    assert [now_ms - 3_600_000] == topic.begun_ms


def test_what_expired_longer_ago_is_dropped() -> None:
    """An hour of the topic is read, for the sake of pauses: nobody waits for these answers."""
    old = replace(_command(), at_ms=_SENT_MS - 65_000)
    assert [] == Topic(past=[old], batches=[[], []]).follow_all()


def _pause(for_s: int, command: CommandName = "open", topic: str | None = None) -> Command:
    made = replace(_to_all(), command=command, for_s=for_s, only_topic=topic)
    return replace(made, reason="the ledger moves")


def test_a_pause_is_for_whoever_joins_before_it_is_over() -> None:
    """A deployment in a maintenance window began to call what was being maintained. It may even
    have been answered: by an earlier life of this member."""
    over, last = _pause(60), _pause(300)
    earlier = Answer(last.command_id, "pod-1", "paused", 18)
    asked = _asked(over, _pause(200), last, earlier)
    assert [PauseWish(Scope(), last.until_ms, "ops@desk", "the ledger moves")] == asked


def test_a_pause_that_was_ended_is_for_nobody() -> None:
    """That of everything, or of its topic; that of another topic is."""
    of_topic, of_another = _pause(300, topic="orders"), _pause(300, topic="refunds")
    assert [] == _asked(_pause(300), of_topic, _pause(0, "close"))
    wish = PauseWish(Scope("refunds"), of_another.until_ms, "ops@desk", "the ledger moves")
    assert [wish] == _asked(of_topic, of_another, _pause(0, "close", "orders"))


def _says(name: CommandName, ago_s: int) -> Command:
    """What a member has said to its group."""
    command = replace(_to_all(), command=name, at_ms=_SENT_MS - 1000 * ago_s, by="pod-2")
    return replace(command, for_s=30) if name == "outage" else command


def test_what_members_say_to_each_other_is_a_history() -> None:
    """Who starts reads all of it, in order: which of several outages counts follows from those
    before. Nobody answers, and nobody says that it has heard."""
    said = [_says("outage", 600), _says("outage", 590), _says("recovery", 580), _says("outage", 5)]
    topic = Topic(past=list(said), batches=[[said[0], last := _says("recovery", 0)], [], []])
    heard = list[Command]()
    topic.commands.on_announcement = heard.append
    assert [] == topic.follow_all()
    assert [*said, last] == heard


def test_what_members_say_is_in_one_partition() -> None:
    """Whose order says who was first: by the group's name, where each command has its own."""
    topic, said = Topic(batches=[[], []]), [_says("outage", 5), _says("recovery", 0)]
    for command in said:
        topic.commands.announce(command)
    topic.follow_all()
    assert [(b"billing", command) for command in said] == topic.announced


def test_without_a_breaker_for_the_group_nobody_listens() -> None:
    """Members with and without the option may be in one group."""
    topic = Topic(batches=[[_says("outage", 5)], [], []])
    assert [] == topic.follow_all()


def _asked(*past: _Said) -> list[OperatorRequest]:
    """What a member that starts is asked to do by what is in the topic."""
    topic = Topic(past=list(past), batches=[[], [], []])
    requests, asked = topic.commands._requests, list[OperatorRequest]()
    submit = requests.submit

    def submitted(wish: OperatorRequest) -> Future[bool]:
        asked.append(wish)
        return submit(wish)

    requests.submit = submitted  # type: ignore[method-assign]  # watched
    topic.follow_all()
    return asked


def test_what_all_were_to_do_before_it_started() -> None:
    """Only members that were there do it. The bug: a member that started within a minute lifted its
    limit too, although the others had answered: after a roll-back all was dead-lettered."""
    lift = replace(_to_all(), command="lift-limit", reason="a bad batch")
    answered, ours = _to_all(), _to_all("pod-1")
    done = Answer(answered.command_id, "pod-2", "none-open", 18)
    new = _to_all()
    topic = Topic(past=[lift, answered, ours, done], batches=[[lift], [], [new], []])
    assert {new.command_id} == {answer.command_id for answer in topic.follow_all()}


def test_what_all_were_to_do_while_it_could_not_read() -> None:
    """It was there: it does it when it reads again, once, and what was before its start never."""
    before, missed = _to_all(), _to_all()
    trouble: list[list[_Said]] = [[] for _ in range(130)]
    topic = Topic(past=[before], missed=[missed], batches=trouble, trouble="nobody is there")
    assert {missed.command_id} == {answer.command_id for answer in topic.follow_all()}
    assert 2 == len(topic.begun_ms)


def test_what_is_answered_is_not_done_again() -> None:
    """A restarted member reads the last minute: all of it, before anything is carried out."""
    command, open_ = _command(), _command()
    emitted = [
        Answer(command.command_id, "pod-2", "recovered", 18),
        Answer(open_.command_id, "pod-1", "pending", 18, is_final=False),
    ]
    topic = Topic(past=[command, open_, *emitted], batches=[[], []])
    assert [open_.command_id] == [answer.command_id for answer in topic.follow_all()]


def test_a_command_that_is_there_twice_is_done_once() -> None:
    """A producer may write a record twice; a new reading sees the last minute again."""
    command = _command()
    topic = Topic(batches=[[command, command], [], [command], []])
    assert 1 == len(topic.follow_all())


def test_another_groups_are_not_ours() -> None:
    """Many groups may share one control topic."""
    assert (
        [] == Topic(past=[_command("shipping")], batches=[[_command("shipping")], []]).follow_all()
    )


def test_a_retry_line_has_two_names() -> None:
    """It is in the group that Kafka, its log and its metrics name, and the journal names the live
    one: either reaches it. The bug: who took the name from the log had no answer."""
    line, group, other = _command("billing.retry"), _command(), _command("billing.retry.retry")
    batches: list[list[_Said]] = [[line, group, other], [], []]
    answers = Topic(batches=batches, groups=("billing", "billing.retry")).follow_all()
    assert [line.command_id, group.command_id] == [answer.command_id for answer in answers]


def test_garbled_records_are_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    """Reported once a minute, with their number; what comes after them is heard."""
    empty: list[list[_Said]] = [[b""] for _ in range(400)]
    batches: list[list[_Said]] = [[b"\xff", b"{}"], *empty, [_command()], []]
    with caplog.at_level(logging.WARNING, logger="linear_retry"):
        assert 1 == len(Topic(batches=batches).follow_all())
    emitted = [text for text in caplog.messages if text.startswith("control: ")]
    assert f"control: {_TOPIC}[0]@0 is not a valid command (not JSON: " in emitted[0]
    assert [True, True] == ["; ignored, " in text for text in emitted]


def test_a_missing_topic_is_reported_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """It is tried again every few seconds, and heard once it is there."""
    with caplog.at_level(logging.WARNING, logger="linear_retry"):
        command = replace(_command(), at_ms=_SENT_MS + 61_000)
        assert 1 == len(Topic(missing=14, past=[command], batches=[[], []]).follow_all())
    missing = [text for text in caplog.messages if "cannot read commands" in text]
    assert 2 == len(missing)
    assert "topic 'linear-retry.control' does not exist" in missing[0]


def test_trouble_that_lasts_begins_a_new_reading(caplog: pytest.LogCaptureFixture) -> None:
    """A client that has lost sight of all brokers would never find them again."""
    topic = Topic(batches=[[] for _ in range(130)], trouble="nobody is there")
    with caplog.at_level(logging.WARNING, logger="linear_retry"):
        topic.follow_all()
    assert 2 == len(topic.begun_ms)
    assert "(nobody is there); the consumer continues" in caplog.text


def _to_all(member: str | None = None) -> Command:
    place = None, None, None
    return Command(str(uuid4()), "retry", "billing", *place, "ops@desk", _SENT_MS, member)


def test_what_all_carry_out_is_acknowledged_at_once() -> None:
    """Whoever sent it learns for whom to wait, also where a handler is busy."""
    command = _to_all()
    received, expired = Topic(batches=[[command], [], []]).follow_all()
    assert (command.command_id, "heard", False) == (
        received.command_id,
        received.answer,
        received.is_final,
    )
    assert ("expired", True) == (expired.answer, expired.is_final)


def test_anothers_answer_ends_nothing_that_all_carry_out() -> None:
    """Each member does its part; its own answer is the one that says so."""
    done, open_ = _to_all(), _to_all()
    emitted = [
        Answer(done.command_id, "pod-1", "none-open", 18),
        Answer(open_.command_id, "pod-2", "none-open", 18),
    ]
    answers = Topic(batches=[[done, open_, *emitted], [], []]).follow_all()
    assert {open_.command_id} == {answer.command_id for answer in answers}


def test_what_is_for_another_member_is_not_ours() -> None:
    """Nothing is done, and nothing is reported."""
    ours, anothers = _to_all("pod-1"), _to_all("pod-2")
    answers = Topic(batches=[[ours, anothers], [], []]).follow_all()
    assert {ours.command_id} == {answer.command_id for answer in answers}


def test_a_bug_in_its_thread_does_not_end_it(caplog: pytest.LogCaptureFixture) -> None:
    """The bug: the thread ended in silence with any error that is not Kafka's, and no command was
    carried out or answered any more. It is logged with its traceback, and the topic read again."""
    topic = Topic(batches=[[_command()], [], []])
    read, bugs = topic.follow, [RuntimeError("bug")]

    @contextmanager
    def follow() -> Iterator[Topic]:
        if bugs:
            raise bugs.pop()
        with read() as stream:
            yield stream

    topic.follow = follow  # type: ignore[method-assign]  # as a part that has a bug
    topic.follower.start()
    wait_until(lambda: len(topic.written) == 1, "it is answered")
    assert "control: an unexpected error; it begins again" in caplog.messages
