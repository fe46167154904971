"""Sends commands over the control topic, and gathers what the members answer."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from uuid import uuid4

import typer

from linear_retry.cli.circuits.outcomes import code_of, nobody, sentence
from linear_retry.cli.output.exit_codes import DONE, NEGATIVE, PENDING, UNAVAILABLE
from linear_retry.cli.output.rows import write_json
from linear_retry.kafka.producers.acknowledged import control_config, write_all
from linear_retry.kafka.topics.standalone_consumer import PATIENCE_S
from linear_retry.kafka.topics.tail import TopicTail
from linear_retry.records.control import Answer, AnswerName, Command, Garbled, encode, read_control
from linear_retry.records.record import OutgoingRecord
from linear_retry.retry.clock import now_ms
from linear_retry.scope import Place

_WAIT_S = 0.25
_ROSTER_S = 3.0
"""Within this each member that follows the topic has said that it has heard a command."""
_WORST_FIRST = (UNAVAILABLE, PENDING, NEGATIVE, DONE)


@dataclass(slots=True)
class Told:
    """A command that was sent, and what each member last answered: for all, or for a message."""

    order: Command
    last: dict[tuple[str, Place | None], Answer] = field(default_factory=dict)

    def take(self, answer: Answer) -> None:
        """An answer about messages takes the place of those before it about none."""
        if answer.place is not None:
            self.last.pop((answer.member, None), None)
        self.last[answer.member, answer.place] = answer

    def is_over(self, *, waits: bool, sent_at_s: float) -> bool:
        """Whether nobody has anything to say any more. Without `waits` a beginning is enough."""
        whole = self.order.place is not None or self.order.member is not None
        if not self.last or not (whole or time.monotonic() > sent_at_s + _ROSTER_S):
            return False
        members = {member for member, _ in self.last}
        enough = {one.member for one in self.last.values() if one.is_final}
        if not waits:
            enough |= {one.member for one in self.last.values() if one.answer == "begun"}
        return members == enough

    def drop(self, answer: AnswerName) -> bool:
        """Leave out those that say this; whether there were some, and nothing else."""
        before = len(self.last)
        self.last = {key: one for key, one in self.last.items() if one.answer != answer}
        return before > 0 and not self.last

    def answers(self) -> list[Answer]:
        """In the order of members and messages."""
        keys = sorted(self.last, key=lambda key: (key[0], str(key[1])))
        return [self.last[key] for key in keys]


@dataclass(frozen=True, slots=True)
class Sending:
    """By one control topic. `config` are librdkafka's keys; `waits`: for what comes of retries."""

    config: dict[str, Any]
    topic: str
    timeout_s: int
    waits: bool = True

    def carry_out(self, orders: Sequence[Command]) -> list[Told]:
        """Send them, and wait for the answers. Raises `LinearRetryError`."""
        told = {order.command_id: Told(order) for order in orders}
        tail = TopicTail(self.config, self.topic, now_ms())
        deque(tail.backlog(), maxlen=0)  # only what is answered from now on
        with tail.follow():
            for one in told.values():
                one.order = replace(one.order, at_ms=now_ms())
                key = one.order.command_id.encode()
                value, at_ms = encode(one.order), one.order.at_ms
                record = OutgoingRecord(self.topic, key, value, timestamp_ms=at_ms)
                write_all(control_config(self.config, PATIENCE_S), [record], PATIENCE_S + 1)
            self._gather(tail, told)
        return list(told.values())

    def _gather(self, tail: TopicTail, told: dict[str, Told]) -> None:
        sent_at_s = time.monotonic()
        while time.monotonic() < sent_at_s + self.timeout_s:
            for record in tail.read(_WAIT_S):
                said = read_control(record.value)
                if isinstance(said, Answer) and said.command_id in told:
                    told[said.command_id].take(said)
            if all(one.is_over(waits=self.waits, sent_at_s=sent_at_s) for one in told.values()):
                return

    def write(self, told: Sequence[Told], *, as_json: bool) -> int:
        """Print what was answered, what is no yes on stderr; the exit code: the worst."""
        codes = []
        for order, answer in _rows(told):
            code = UNAVAILABLE if answer is None else code_of(order, answer, waits=self.waits)
            codes.append(code)
            if as_json:
                said = {"member": None, "answer": None} if answer is None else _json(answer)
                write_json([{**asdict(order), **said, "at_ms": order.at_ms}])
            elif answer is None:
                typer.echo(nobody(order, self.topic, self.timeout_s, now_ms()), err=True)
            else:
                typer.echo(sentence(order, answer), err=bool(code))
        return min(codes, key=_WORST_FIRST.index)


def order_of(command: Command) -> Command:
    """Made now, and as it will be read. Raises `typer.BadParameter` for what nobody would."""
    command = replace(command, command_id=str(uuid4()), at_ms=now_ms())
    read = read_control(encode(command))
    if isinstance(read, Garbled):
        raise typer.BadParameter(read.reason)
    return command


def _rows(told: Sequence[Told]) -> Iterator[tuple[Command, Answer | None]]:
    for one in told:
        if not one.last:
            yield one.order, None
        yield from ((one.order, answer) for answer in one.answers())


def _json(answer: Answer) -> dict[str, Any]:
    """Without the coordinates that a command has and its answer has not."""
    return {name: value for name, value in asdict(answer).items() if value is not None}
