"""What has become of a command? `circuits retry` and `circuits give-up`."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import asdict, dataclass, replace
from typing import Any
from uuid import uuid4

import typer

from linear_retry.cli.ending import DONE, NO, NOT_THERE, PENDING, fail
from linear_retry.cli.rows import write_json
from linear_retry.control import (
    LIVES_MS,
    Answer,
    AnswerName,
    Command,
    CommandName,
    Garbled,
    encode,
    read_control,
)
from linear_retry.kafka.control_sender import send
from linear_retry.kafka.journal_producer import Record
from linear_retry.kafka.topic_since import Following, TopicSince

_WAIT_S = 0.25
_CODES: dict[AnswerName, int] = {
    "done": DONE,
    "not-held": NO,
    "no-dead-letters": NO,
    "expired": NO,
    "pending": PENDING,
}


@dataclass(frozen=True, slots=True)
class Sending:
    """By one control topic. `config` are librdkafka's keys."""

    config: dict[str, Any]
    topic: str
    timeout_s: int

    def order(
        self,
        command: CommandName,
        group: str,
        topic: str,
        partition: int,
        offset: int,
        *,
        by: str,
    ) -> Command:
        """A new one. Raises `typer.BadParameter` for what nobody would read."""
        order = Command(str(uuid4()), command, group, topic, partition, offset, by, _now_ms())
        read = read_control(encode(order))
        if isinstance(read, Garbled):
            raise typer.BadParameter(read.reason)
        return order

    def carry_out(self, order: Command, *, as_json: bool) -> None:
        """Send it, wait, and print what was answered. Raises `typer.Exit` where that is no yes."""
        with self._following() as stream:
            order = replace(order, at_ms=_now_ms())
            send(
                self.config,
                self.topic,
                Record(order.command_id.encode(), encode(order), order.at_ms),
            )
            answer = self._answer(stream, order.command_id)
        if as_json:
            told = {"member": None, "answer": None} if answer is None else asdict(answer)
            write_json([{**asdict(order), **told, "at_ms": order.at_ms}])
        code = NOT_THERE if answer is None else _CODES[answer.answer]
        text = self._nobody(order) if answer is None else _sentence(order, answer)
        if code and not as_json:
            fail(text, code)
        if code:
            raise typer.Exit(code)
        if not as_json:
            typer.echo(text)

    def _following(self) -> Following:
        """What is said from now on."""
        since = TopicSince(self.config, self.topic, _now_ms())
        deque(since.so_far(), maxlen=0)
        return since.following()

    def _answer(self, stream: Following, command_id: str) -> Answer | None:
        """The final answer; what there is at the end of the wait, if any."""
        last: Answer | None = None
        give_up_at_s = time.monotonic() + self.timeout_s
        while time.monotonic() < give_up_at_s:
            for record in stream.read(_WAIT_S):
                said = read_control(record.value)
                if isinstance(said, Answer) and said.command_id == command_id:
                    last = said
            if last is not None and last.is_final:
                break
        return last

    def _nobody(self, order: Command) -> str:
        left_s = (order.at_ms + LIVES_MS - _now_ms()) / 1000
        later = (
            f"; one that is busy in its handler, or starts, may still do it within {left_s:.0f} s"
            if left_s > 0
            else ""
        )
        return (
            f"{_place(order)}: nobody in group {order.group!r} has answered within "
            f"{self.timeout_s} s: no member of it has {order.topic}[{order.partition}] now, or "
            f"the one that has it was not made with control={self.topic!r}, or cannot reach that "
            f"topic{later}"
        )


def _sentence(order: Command, answer: Answer) -> str:
    place, member = _place(order), answer.member
    match answer.answer:
        case "done" if order.command == "retry":
            return f"{place}: its attempt has begun, by {member}"
        case "done":
            return f"{place}: it is in the dead letters, by {member}"
        case "not-held":
            return (
                f"{place}: not held, or not any more, by {member}, which has that partition; see "
                "`linear-retry circuits list`"
            )
        case "no-dead-letters":
            return f"{place}: {member} has no dead-letter topic to give it up to"
        case "expired":
            return (
                f"{place}: {member} has read it more than {LIVES_MS // 1000} s after it was sent, "
                "and has done nothing; send it again, and where that does not help compare the "
                "clocks"
            )
        case "pending":
            return (
                f"{place}: {member} is at it, and has not done it yet: its letter cannot be sent, "
                "or an attempt comes first; it is tried until it is done"
            )


def _place(order: Command) -> str:
    return f"{order.topic}[{order.partition}]@{order.offset}"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
