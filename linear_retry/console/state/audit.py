"""The audit of the console: changes, sign-ins, exports and refusals, with who, when and how."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from linear_retry.console.state.state import State, StateError, Statement
from linear_retry.errors import LinearRetryError
from linear_retry.retry.clock import now_ms

_COLUMNS = "id, at_ms, actor, action, subject, why, outcome"
_LONGEST = 2_000
_ONE_ENTRY_MS = 60_000
_SEARCHED = 1_000
_BEGUN = "begun; it has not ended, or the console was stopped meanwhile"


class RepeatedError(LinearRetryError):
    """A form was sent twice."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change as the audit has it. It never holds keys or values."""

    id: int
    at_ms: int
    actor: str
    action: str
    """What was done, as `replay` or `retry now`."""
    subject: str
    """What it was done to, as `orders.dlq` or `orders[3]@1042`."""
    why: str
    outcome: str
    """How it ended, as `12 letters sent`."""


@dataclass(slots=True)
class Recording:
    """A change that is being made: its number, and how it ended, once that is known."""

    change: int
    outcome: str = ""


class Audit:
    """Writes changes, and reads them."""

    def __init__(self, state: State) -> None:
        self._state = state

    @contextmanager
    def recording(
        self, actor: str, action: str, subject: str, *, why: str, form: str | None = None
    ) -> Iterator[Recording]:
        """Writes a change before it is made, and then its `outcome`, or the error that ended it.

        With `form`, the number of a form that was shown, its change is made once. Raises
        `RepeatedError` the second time, and `StateError`.
        """
        statement, *values = self.begun(actor, action, subject, why=why, form=form)
        found = self._state.rows(f"{statement} ON CONFLICT (form) DO NOTHING RETURNING id", *values)
        if not found:
            raise RepeatedError("this form was sent before: the audit says what came of it")
        recording = Recording(found[0][0])
        try:
            yield recording
        except Exception as error:
            recording.outcome = f"ended by an error: {error or type(error).__name__}"
            raise
        finally:
            if recording.outcome:
                self._write(recording)

    def note(self, actor: str, action: str, subject: str, outcome: str) -> None:
        """Writes what is over already: a sign-in, an export, something that was refused.

        The same within a minute is one entry, which counts: who tries passwords fills no disk.
        """
        since_ms = now_ms() - _ONE_ENTRY_MS
        same = (actor[:_LONGEST], action[:_LONGEST], subject[:_LONGEST], outcome[:_LONGEST])
        query = (
            "SELECT id, outcome FROM audit WHERE id > (SELECT coalesce(max(id), 0) FROM audit) - ?"
            " AND at_ms > ? AND actor = ? AND action = ? AND subject = ?"
            " AND (outcome = ? OR outcome LIKE ? || ', % times') ORDER BY id DESC LIMIT 1"
        )
        found = self._state.rows(query, _SEARCHED, since_ms, *same, same[-1])
        if not found:
            statement, *values = self.begun(*same[:3], why="")
            number = self._state.change(statement, *values)
            self._state.change("UPDATE audit SET outcome = ? WHERE id = ?", same[-1], number)
            return
        number, text = found[0]
        times = text.removeprefix(f"{same[-1]}, ").removesuffix(" times")
        count = int(times) + 1 if times.isdecimal() else 2
        counted = f"{same[-1]}, {count} times"
        self._state.change("UPDATE audit SET outcome = ? WHERE id = ?", counted, number)

    def _write(self, recording: Recording) -> None:
        """Writes how a change has ended; it is done, or has failed, even if that cannot be."""
        ended = (recording.outcome[:_LONGEST], recording.change)
        try:
            self._state.change("UPDATE audit SET outcome = ? WHERE id = ?", *ended)
        except StateError as error:
            raise StateError(
                f"{recording.outcome}; but the audit does not say so: {error}"
            ) from error

    @staticmethod
    def begun(
        actor: str, action: str, subject: str, *, why: str, form: str | None = None
    ) -> Statement:
        """Returns what writes a change before it is made, for a transaction with others."""
        return (
            "INSERT INTO audit (at_ms, actor, action, subject, why, outcome, form)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            *(now_ms(), actor[:_LONGEST], action[:_LONGEST], subject[:_LONGEST]),
            *(why[:_LONGEST], _BEGUN, form),
        )

    @staticmethod
    def ended(form: str, outcome: str) -> Statement:
        """Returns what writes how the change of this form has ended, and frees the form."""
        statement = "UPDATE audit SET outcome = ?, form = NULL WHERE form = ?"
        return statement, outcome[:_LONGEST], form

    def change(self, number: int) -> Change | None:
        """Returns the change with this number, or None."""
        rows = self._state.rows(f"SELECT {_COLUMNS} FROM audit WHERE id = ?", number)
        return Change(*rows[0]) if rows else None

    def read(self, *, limit: int, before_id: int | None = None) -> list[Change]:
        """Reads changes, the latest first; with `before_id`, those that came before that one."""
        before = "" if before_id is None else "WHERE id < ?"
        arguments = () if before_id is None else (before_id,)
        query = f"SELECT {_COLUMNS} FROM audit {before} ORDER BY id DESC LIMIT ?"
        return [Change(*row) for row in self._state.rows(query, *arguments, limit)]
