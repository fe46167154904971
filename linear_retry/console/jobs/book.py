"""The jobs on disk: what is left of one after a restart."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from itertools import islice
from typing import Any

from linear_retry.console.jobs.job import Action, Job, Options, Stage, Summary
from linear_retry.console.state.state import State, Statement
from linear_retry.records.durations import DAY_MS
from linear_retry.retry.clock import now_ms

_COLUMNS = (
    "id, topic, action, stage, actor, why, created_ms, changed_ms, done, total, outcome, options,"
    " plan"
)
_BATCH = 5_000
_PLAN_KEPT_MS = DAY_MS
_UNFINISHED_KEPT_MS = 30 * _PLAN_KEPT_MS


class JobBook:
    """Reads and writes jobs, and the names of the letters that each was planned with."""

    def __init__(self, state: State) -> None:
        self._state = state

    def add(self, topic: str, action: Action, options: Options, actor: str) -> int:
        """Adds a job that is being planned; returns its id. Forgets old ones that are not done."""
        self._drop_old()
        at_ms = now_ms()
        return self._state.change(
            "INSERT INTO job (topic, action, stage, actor, why, created_ms, changed_ms, done,"
            " total, outcome, options, plan) VALUES (?, ?, ?, ?, '', ?, ?, 0, 0, '', ?, '')",
            topic,
            action.value,
            Stage.PLANNING.value,
            actor,
            at_ms,
            at_ms,
            json.dumps(asdict(options)),
        )

    def get(self, job_id: int) -> Job | None:
        """Returns the job; None if no job has this id."""
        rows = self._state.rows(f"SELECT {_COLUMNS} FROM job WHERE id = ?", job_id)
        return _job(rows[0]) if rows else None

    def recent(self, limit: int) -> list[Job]:
        """Returns jobs, the newest first."""
        query = f"SELECT {_COLUMNS} FROM job ORDER BY id DESC LIMIT ?"
        return [_job(row) for row in self._state.rows(query, limit)]

    def active(self) -> list[Job]:
        """Returns those that are being planned, or run."""
        stages = (Stage.PLANNING.value, Stage.RUNNING.value)
        query = f"SELECT {_COLUMNS} FROM job WHERE stage IN (?, ?) ORDER BY id"
        return [_job(row) for row in self._state.rows(query, *stages)]

    def plan(self, job_id: int, summary: Summary) -> None:
        """Records that the job is planned."""
        self._state.change(
            "UPDATE job SET stage = ?, plan = ?, done = 0, total = ?, changed_ms = ? WHERE id = ?",
            Stage.PLANNED.value,
            json.dumps(summary.as_json()),
            summary.letters,
            now_ms(),
            job_id,
        )

    def run(
        self, job_id: int, *others: Statement, actor: str, why: str, rate: float | None
    ) -> None:
        """Records that the job runs, who has started it and why.

        Executes the `others` in the same transaction.
        """
        begun: Statement = (
            "UPDATE job SET stage = ?, actor = ?, why = ?, outcome = '', changed_ms = ?,"
            " options = json_set(options, '$.rate', ?) WHERE id = ?",
            *(Stage.RUNNING.value, actor, why, now_ms(), rate, job_id),
        )
        self._state.change_all([begun, *others])

    def progress(self, job_id: int, done: int) -> None:
        """Records how far it is."""
        self._state.change(
            "UPDATE job SET done = ?, changed_ms = ? WHERE id = ?", done, now_ms(), job_id
        )

    def end(
        self, job_id: int, stage: Stage, outcome: str, done: int = 0, *others: Statement
    ) -> None:
        """Records how it ended; forgets the letters if nothing is left to be done with them.

        Those of a replay are kept for a day, to say what became of them.

        Executes the `others` in the same transaction.
        """
        ended: Statement = (
            "UPDATE job SET stage = ?, outcome = ?, done = ?, changed_ms = ? WHERE id = ?",
            *(stage.value, outcome, done, now_ms(), job_id),
        )
        forget: Statement = (
            "DELETE FROM job_letter WHERE job = ? AND"
            " (SELECT action FROM job WHERE id = job) != 'replay'",
            job_id,
        )
        self._state.change_all([ended, *([forget] if stage is Stage.DONE else []), *others])

    def sent(self, job_id: int, count: int) -> Statement:
        """Returns what records how many letters a replay has sent."""
        return "UPDATE job SET plan = json_set(plan, '$.sent', ?) WHERE id = ?", count, job_id

    def add_letters(self, job_id: int, names: Iterable[str]) -> int:
        """Records the letters that the job is planned with, by their resolution keys; counts them.

        A letter that was written twice counts once.
        """
        rows = ((job_id, _bytes(name)) for name in names)
        # Collected first: while they are read from Kafka, the pages need the database.
        while batch := list(islice(rows, _BATCH)):
            self._state.change_many("INSERT OR IGNORE INTO job_letter VALUES (?, ?)", batch)
        query = "SELECT count(*) FROM job_letter WHERE job = ?"
        return int(self._state.rows(query, job_id)[0][0])

    def letters(self, job_id: int) -> PlannedLetters:
        """Returns the letters that the job was planned with."""
        return PlannedLetters(self._state, job_id)

    def _drop_old(self) -> None:
        # Their letters may be millions; what they did is in the audit.
        old = (
            "SELECT id FROM job WHERE stage = 'planned' AND changed_ms < ?"
            " OR stage IN ('cancelled', 'interrupted', 'failed') AND changed_ms < ?"
        )
        before_ms = (now_ms() - _PLAN_KEPT_MS, now_ms() - _UNFINISHED_KEPT_MS)
        self._state.change_all(
            [
                (f"DELETE FROM job_letter WHERE job IN ({old})", *before_ms),
                (f"DELETE FROM job WHERE id IN ({old})", *before_ms),
                (
                    "DELETE FROM job_letter WHERE job IN"
                    " (SELECT id FROM job WHERE stage = 'done' AND changed_ms < ?)",
                    before_ms[0],
                ),
            ]
        )


class PlannedLetters:
    """The resolution keys of a job's letters, which may be too many for memory."""

    def __init__(self, state: State, job_id: int) -> None:
        self._state = state
        self._job_id = job_id

    def __bool__(self) -> bool:
        """Whether there are any left."""
        query = "SELECT 1 FROM job_letter WHERE job = ? LIMIT 1"
        return bool(self._state.rows(query, self._job_id))

    def __contains__(self, name: object) -> bool:
        query = "SELECT 1 FROM job_letter WHERE job = ? AND name = ?"
        return isinstance(name, str) and bool(self._state.rows(query, self._job_id, _bytes(name)))


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "replace")


def _job(row: tuple[Any, ...]) -> Job:
    values = dict(zip(_COLUMNS.split(", "), row, strict=True))
    plan = values["plan"]
    return Job(
        **values
        | {
            "action": Action(values["action"]),
            "stage": Stage(values["stage"]),
            "options": Options(**json.loads(values["options"])),
            "plan": Summary.from_json(json.loads(plan)) if plan else None,
        }
    )
