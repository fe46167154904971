"""What has been commanded from outside the process, and what became of it?"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from functools import partial

from linear_retry.consumer.parts import Parts
from linear_retry.consumer.requests import Requests
from linear_retry.control import Answer, AnswerName, Command
from linear_retry.events import Commanded

_EACH_TURN = 100
_WAITING = 1_000


class Commands:
    """Posted by the thread that follows the control topic; looked at and answered by the owner's.

    Each is on record (`Commanded`), as a listener hears it, before its answer is there to be sent.
    """

    def __init__(self, parts: Parts, requests: Requests, member: str, *, gives_up: bool) -> None:
        """`member` is what answers are signed with; `gives_up`: there is a dead-letter topic."""
        self._parts = parts
        self._requests = requests
        self._member = member
        self._gives_up = gives_up
        # No lock, as in `Requests`: an append and a popleft are atomic. Whoever may write to the
        # topic may write any number: neither memory nor a turn may grow with them.
        self._arrived: deque[Command] = deque(maxlen=_WAITING)
        self._answers: deque[Answer] = deque()
        self._begun: dict[str, Command] = {}
        self._pending: set[str] = set()

    # -- for the thread that follows the topic ---------------------------------------------------

    def post(self, command: Command) -> None:
        """To be looked at in a turn soon; of more than 1000 that wait, the last ones are."""
        self._arrived.append(command)

    def answers(self) -> list[Answer]:
        """What is to be sent. Each is given once."""
        return [self._answers.popleft() for _ in range(len(self._answers))]

    # -- for the owner ---------------------------------------------------------------------------

    def look(self) -> None:
        """Once a turn, before its requests are looked at: commands become requests, or answers."""
        if not (self._arrived or self._begun):
            return
        for command in tuple(self._begun.values()):
            if command.command_id not in self._pending:
                self._pending.add(command.command_id)
                self._answer(command, "pending")
        for _ in range(min(len(self._arrived), _EACH_TURN)):
            self._begin(self._arrived.popleft())

    # -- inside ----------------------------------------------------------------------------------

    def _begin(self, command: Command) -> None:
        partition = command.topic, command.partition
        if partition not in self._parts.ownership:
            return  # whoever has it says so
        if command.has_expired(self._parts.clock.utc_ms()):
            self._answer(command, "expired")
        elif command.command == "give-up" and not self._gives_up:
            self._answer(command, "no-dead-letters")
        else:
            self._begun[command.command_id] = command
            asked = self._requests.ask(command.command, partition, command.offset)
            # Requests are answered by the owner's thread, at its end too: so is the event told.
            asked.add_done_callback(partial(self._end, command))

    def _end(self, command: Command, asked: Future[bool]) -> None:
        self._begun.pop(command.command_id, None)
        self._pending.discard(command.command_id)
        self._answer(command, "done" if asked.result() else "not-held")

    def _answer(self, command: Command, answer: AnswerName) -> None:
        self._parts.emit(
            Commanded(
                command.topic,
                command.partition,
                command.offset,
                command=command.command,
                by=command.by,
                answer=answer,
                command_id=command.command_id,
            )
        )
        now_ms = self._parts.clock.utc_ms()
        self._answers.append(Answer(command.command_id, self._member, answer, now_ms))
