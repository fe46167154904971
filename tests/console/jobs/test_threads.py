"""Whatever happens to the threads of jobs, their topics are free afterwards; with work made up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest

from linear_retry.console.jobs import jobs as under_test
from linear_retry.console.jobs.book import JobBook
from linear_retry.console.jobs.job import Action, JobError, Options, Stage, Summary
from linear_retry.console.jobs.jobs import Jobs
from linear_retry.console.jobs.running import Ended
from linear_retry.console.state.audit import Audit
from linear_retry.console.state.state import State, StateError, Statement
from linear_retry.dlq import EVERYTHING
from linear_retry.errors import BrokerError
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S

_TOPIC = "orders.dlq"
_BEGUN = "begun; it has not ended, or the console was stopped meanwhile"


class Disk(State):
    """A state whose disk may be full."""

    is_full = False

    def change_all(self, statements: object) -> None:
        if self.is_full:
            raise StateError("database or disk is full")
        super().change_all(statements)  # type: ignore[arg-type]  # what it was given


class Console:
    """Jobs of which `leave` and `work` say how far a thread may go."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.leave, self.work, self.sent = Event(), Event(), Event()
        self.disk = Disk(directory)
        self.audit = Audit(self.disk)
        self.jobs = Jobs(self.disk, self.audit, {})
        monkeypatch.setattr(under_test, "DeadLetterTopic", self._topic)
        monkeypatch.setattr(under_test, "plan_job", self._plan)
        monkeypatch.setattr(under_test, "run_job", self._run)
        self.leave.set()
        self.work.set()

    def _topic(self, *_: object) -> Console:
        return self

    def __enter__(self) -> Console:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.leave.wait(PATIENCE_S)

    def _plan(self, *_: object) -> Summary:
        assert self.work.wait(PATIENCE_S)
        return Summary(letters=10, ranges=[(0, 0, 9)])

    def _run(self, *given: object) -> Ended:
        progress: Callable[[int, int], None] = given[-1]  # type: ignore[assignment]  # the last
        progress(4, 10)
        self.sent.set()
        assert self.work.wait(PATIENCE_S)
        progress(5, 10)
        return Ended("10 letters sent")

    def plan(self, topic: str = _TOPIC) -> int:
        return self.jobs.plan(topic, Action.REPLAY, EVERYTHING, Options(), actor="ada")

    def start(self, job_id: int) -> None:
        self.jobs.start(job_id, actor="ada", why="payments is back")

    def ended(self, job_id: int) -> tuple[Stage, str]:
        self.jobs.wait(job_id, PATIENCE_S)
        job = self.jobs.get(job_id)
        assert job is not None
        return job.stage, job.outcome

    def stage(self, job_id: int) -> Stage:
        job = self.jobs.get(job_id)
        assert job is not None
        return job.stage

    def outcomes(self) -> list[str]:
        return [each.outcome for each in self.audit.read(limit=9)]


@pytest.fixture
def console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Console]:
    opened = Console(tmp_path, monkeypatch)
    yield opened
    opened.jobs.close()
    opened.disk.close()


def test_a_plan_may_be_started_as_soon_as_it_is_there(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread of the plan took the entry of the run away, which broke, and kept its topic."""
    began, go_on = Event(), Event()
    plan = JobBook.plan

    def slow(book: JobBook, job_id: int, summary: Summary) -> None:
        plan(book, job_id, summary)
        began.set()
        assert go_on.wait(PATIENCE_S)

    monkeypatch.setattr(JobBook, "plan", slow)
    console.work.clear()
    job_id = console.plan()
    planning = console.jobs._active[job_id]
    console.work.set()
    assert began.wait(PATIENCE_S)
    console.work.clear()
    console.start(job_id)
    go_on.set()
    assert planning.ended.wait(PATIENCE_S)
    console.work.set()
    assert (Stage.DONE, "10 letters sent") == console.ended(job_id)
    assert ["10 letters sent"] == console.outcomes()
    with console.jobs.reserved(_TOPIC, "resolve"):
        pass


def test_a_disk_that_is_full_as_a_job_ends_delays_its_end(console: Console) -> None:
    """Its topic stayed locked until the next start, and the audit did not have what was sent."""
    job_id = console.plan()
    assert (Stage.PLANNED, "") == console.ended(job_id)
    other = console.plan()
    console.ended(other)
    console.work.clear()
    console.start(job_id)
    assert console.sent.wait(PATIENCE_S)
    console.disk.is_full = True
    console.work.set()
    with pytest.raises(JobError, match=rf"job {job_id} \(replay\) is running"):
        console.start(other)
    assert [_BEGUN] == console.outcomes()
    console.disk.is_full = False
    assert (Stage.DONE, "10 letters sent") == console.ended(job_id)
    assert ["10 letters sent"] == console.outcomes()


def test_stage_and_audit_are_written_together(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that was done was said to have failed, its letters forgotten: the audit had no room."""

    def unwritable(*_: object, **__: object) -> Statement:
        return ("INSERT INTO nowhere VALUES (1)",)

    job_id = console.plan()
    console.ended(job_id)
    with monkeypatch.context() as patch:
        patch.setattr(console.audit, "ended", unwritable)
        console.start(job_id)
        wait_until(lambda: console.jobs._active[job_id].done == 10, "it is at its end")
        assert Stage.RUNNING is console.stage(job_id)
    assert (Stage.DONE, "10 letters sent") == console.ended(job_id)


def test_the_outcome_names_who_has_cancelled(console: Console) -> None:
    """The first one, and after how many letters."""
    job_id = console.plan()
    console.ended(job_id)
    console.work.clear()
    console.start(job_id)
    assert console.sent.wait(PATIENCE_S)
    console.jobs.cancel(job_id, actor="bob")
    console.jobs.cancel(job_id, actor="eve")
    console.work.set()
    assert (Stage.CANCELLED, "cancelled by bob after 5 of 10 letters") == console.ended(job_id)
    assert ["cancelled by bob after 5 of 10 letters"] == console.outcomes()


@pytest.mark.parametrize("error", [BrokerError("no broker answers"), ZeroDivisionError()])
def test_the_outcome_of_a_failure_says_how_many_were_sent(
    error: Exception, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The audit had the error alone, though the letters before it were sent."""

    def failing(*given: object) -> str:
        progress: Callable[[int, int], None] = given[-1]  # type: ignore[assignment]  # the last
        progress(4, 10)
        raise error

    monkeypatch.setattr(under_test, "run_job", failing)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    job_id = console.plan()
    console.ended(job_id)
    console.start(job_id)
    stage, outcome = console.ended(job_id)
    assert stage is Stage.FAILED
    assert outcome.endswith("; it ended after 4 of 10 letters or more")
    assert [outcome] == console.outcomes()


def test_few_plans_at_a_time(console: Console) -> None:
    """One for each topic, and four in all: each has its own clients and reads its topic."""
    console.work.clear()
    planned = [console.plan(f"{number}.dlq") for number in range(4)]
    with pytest.raises(JobError, match=f"0.dlq: job {planned[0]} is being planned"):
        console.plan("0.dlq")
    with pytest.raises(JobError, match="4 jobs are being planned"):
        console.plan("another.dlq")
    console.work.set()
    assert {Stage.PLANNED} == {console.ended(job_id)[0] for job_id in planned}


def test_old_jobs_that_are_not_done_are_forgotten_with_their_letters(console: Console) -> None:
    """Letters of cancelled jobs stayed for good."""
    day_ms = 24 * 3_600_000
    ages = {"planned": (0, 2), "cancelled": (2, 31), "failed": (2, 31), "done": (0, 2)}
    for stage, days in ages.items():
        for age in days:
            job_id = console.plan()
            console.ended(job_id)
            console.disk.change("INSERT INTO job_letter VALUES (?, 'x')", job_id)
            statement = "UPDATE job SET stage = ?, changed_ms = changed_ms - ? WHERE id = ?"
            console.disk.change(statement, stage, age * day_ms, job_id)
    console.plan()
    left = console.disk.rows("SELECT stage FROM job JOIN job_letter ON job = id ORDER BY id")
    assert ["planned", "cancelled", "failed", "done"] == [stage for (stage,) in left]
