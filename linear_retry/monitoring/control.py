"""What operators may ask of running consumers: commands over the control topic, and the answers."""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

from linear_retry.errors import ConfigurationError
from linear_retry.kafka.producers.acknowledged import control_config, write_all
from linear_retry.kafka.topics.standalone_consumer import ANSWER_TIMEOUT_S
from linear_retry.kafka.topics.tail import TopicTail
from linear_retry.records.control import (
    COMMAND_TTL_MS,
    Answer,
    AnswerName,
    Command,
    Garbled,
    encode,
    read_control,
)
from linear_retry.records.printable import moment
from linear_retry.records.record import OutgoingRecord
from linear_retry.retry.clock import now_ms
from linear_retry.scope import Place

_WAIT_S = 0.25
_ALL_HEARD_S = 3.0
"""The time within which each member that follows the topic acknowledges a command."""


@dataclass(slots=True)
class SentCommand:
    """A command, and each member's last answer, for all or for one message."""

    command: Command
    last: dict[tuple[str, Place | None], Answer] = field(default_factory=dict)

    def add(self, answer: Answer) -> None:
        """Adds an answer. One about a message replaces earlier ones without a message."""
        if answer.place is not None:
            self.last.pop((answer.member, None), None)
        self.last[answer.member, answer.place] = answer

    def is_over(self, *, waits: bool, sent_at_s: float) -> bool:
        """Whether no more answers are expected. Without `waits`, started attempts are enough."""
        is_of_one = self.command.place is not None or self.command.member is not None
        if not self.last or not (is_of_one or time.monotonic() > sent_at_s + _ALL_HEARD_S):
            return False
        members = {member for member, _ in self.last}
        enough = {one.member for one in self.last.values() if one.is_final}
        if not waits:
            enough |= {one.member for one in self.last.values() if one.answer == "begun"}
        return members == enough

    def drop(self, answer: AnswerName) -> bool:
        """Removes these answers; returns whether there were any, and no others."""
        before = len(self.last)
        self.last = {key: one for key, one in self.last.items() if one.answer != answer}
        return before > 0 and not self.last

    def answers(self) -> list[Answer]:
        """The answers, sorted by member and message."""
        keys = sorted(self.last, key=lambda key: (key[0], str(key[1])))
        return [self.last[key] for key in keys]


@dataclass(frozen=True, slots=True)
class CommandSender:
    """Sends over one control topic. `config` has librdkafka's keys.

    With `waits` it waits for the outcome of retries, else until they have started.
    """

    config: Mapping[str, Any]
    topic: str
    timeout_s: int
    waits: bool = True

    def send(self, commands: Sequence[Command]) -> list[SentCommand]:
        """Sends commands, and waits for the answers. Raises `LinearRetryError`."""
        sent = {command.command_id: SentCommand(command) for command in commands}
        tail = TopicTail(self.config, self.topic, now_ms())
        deque(tail.backlog(), maxlen=0)  # only answers from now on
        with tail.follow():
            for one in sent.values():
                one.command = replace(one.command, at_ms=now_ms())
                key, value = one.command.command_id.encode(), encode(one.command)
                record = OutgoingRecord(self.topic, key, value, timestamp_ms=one.command.at_ms)
                write_all(
                    control_config(self.config, ANSWER_TIMEOUT_S), [record], ANSWER_TIMEOUT_S + 1
                )
            self._gather(tail, sent)
        return list(sent.values())

    def _gather(self, tail: TopicTail, sent: dict[str, SentCommand]) -> None:
        sent_at_s = time.monotonic()
        while time.monotonic() < sent_at_s + self.timeout_s:
            for record in tail.read(_WAIT_S):
                answer = read_control(record.value)
                if isinstance(answer, Answer) and answer.command_id in sent:
                    sent[answer.command_id].add(answer)
            if all(one.is_over(waits=self.waits, sent_at_s=sent_at_s) for one in sent.values()):
                return


def checked_command(command: Command) -> Command:
    """Checks that members will accept the command. Raises `ConfigurationError`."""
    command = replace(command, command_id=str(uuid4()), at_ms=now_ms())
    read = read_control(encode(command))
    if isinstance(read, Garbled):
        raise ConfigurationError(read.reason)
    return command


def sentence(command: Command, answer: Answer) -> str:
    """Describes an answer in one line."""
    where = answer.place or command.place
    subject = answer.member if where is None else f"{where}, {answer.member}"
    return f"{subject}: {_outcome(command, answer)}"


def nobody(command: Command, topic: str, timeout_s: int) -> str:
    """Explains why there may be no answer."""
    place, about = command.place, "none of its members follows"
    late = "a member that is busy in its handler"
    if place is not None:
        about = f"no member that has {place.topic}[{place.partition}] now follows"
        late = "a member that is starting, or busy in its handler,"
    elif command.member is not None:
        about = f"no member {command.member!r} follows"
    start = "" if place is None else f"{place}: "
    return (
        f"{start}no answer from group {command.group!r} within {timeout_s} s: {about} this topic "
        f"(control={topic!r}), or the topic is unreachable; {late} may still do it until "
        f"{COMMAND_TTL_MS // 1000} s after it was sent"
    )


def _outcome(command: Command, answer: Answer) -> str:
    texts: dict[AnswerName, str] = {
        "heard": "read, but not carried out yet: its handler is busy",
        "pending": "not done yet: its letter cannot be sent, or an attempt comes first; it is "
        "retried until it is done",
        "begun": "the attempt has begun",
        "recovered": "recovered",
        "failed": f"failed again{_again(answer)}",
        "held-back": f"failed again, and is held by the limit{_again(answer)}",
        "blocked": f"failed again, and waits for an operator{_again(answer)}",
        "not-sent": f"it cannot be sent on{_again(answer)}",
        "dead-lettered": "failed again, and is in the dead letters"
        if command.command == "retry"
        else "now in the dead letters",
        "sent-to-retry": "failed again, and waits in a retry topic now",
        "returned": "returned to its source topic",
        "handed-over": "failed again, and is handed over to the recovery callback",
        "skipped": 'failed again, and is skipped for good (on_permanent="skip")',
        "dropped": "its partition went to another member, or the consumer stopped, before the end",
        "no-message": "the wait is over; the next message is attempted",
        "last-attempt": "not attempted: one more failure would be its last; --yes attempts it",
        "lifted": _lifted(command),
        "paused": _paused(command, answer),
        "ended": "the pause is ended",
        "not-paused": "not paused, or no longer",
        "reloaded": f"reloaded: {answer.strategy} is in force",
        "unchanged": f"the file has not changed: {answer.strategy} is in force",
        "refused": f"not reloaded, {answer.strategy} remains in force: {answer.error}",
        "no-file": "its strategy is not read from a file (StrategyFile)",
        "not-held": "not held, or no longer; see `linear-retry circuits list`",
        "none-open": "no circuit is open",
        "no-dead-letters": "the consumer has no dead-letter topic",
        "no-limit": "the consumer has no limit",
        "expired": f"read more than {COMMAND_TTL_MS // 1000} s after it was sent, so nothing was "
        "done; send it again, and if that does not help compare the clocks",
    }
    return texts[answer.answer]


def _again(answer: Answer) -> str:
    facts = []
    if answer.failures is not None:
        facts.append(f"; failures so far: {answer.failures}")
    if answer.retry_at_ms is not None:
        facts.append(f"; again at {moment(answer.retry_at_ms)}")
    if answer.error is not None:
        facts.append(f"; {answer.error}")
    return "".join(facts)


def _paused(command: Command, answer: Answer) -> str:
    until_ms = answer.retry_at_ms or 0
    is_cut = until_ms < command.until_ms - 1000
    return f"paused until {moment(until_ms)}" + is_cut * ", as it allows no more: group_pause_max_s"


def _lifted(command: Command) -> str:
    many = "" if command.letters is None else f", or for {command.letters} messages"
    return f"the limit is lifted until a success{many}"
