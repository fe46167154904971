"""The jobs of a server: each is planned, then started, in a thread of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from threading import Event, Lock, Thread
from typing import Any, TypeAlias

from linear_retry.console.jobs.book import JobBook
from linear_retry.console.jobs.job import Action, Job, JobError, Options, Stage, Summary
from linear_retry.console.jobs.planning import plan_job
from linear_retry.console.jobs.running import run_job
from linear_retry.console.state.audit import Audit
from linear_retry.console.state.state import State, StateError, Statement
from linear_retry.dlq import DeadLetterTopic, Filter, Mark, Outcome
from linear_retry.errors import LinearRetryError
from linear_retry.kafka.topics.reader import Progress

_WRITTEN_EVERY_S = 1.0


class CancelledError(Exception):
    """Leaves the work of a job that is cancelled, between two transactions."""


class Active:
    """Belongs to one thread; others read it, and may cancel it."""

    def __init__(self, job: Job) -> None:
        self.job = job
        """As it was when the thread began."""
        self.done, self.total = job.done, job.total
        self.cancelled_by: str | None = None
        """Who has; None: the server ends."""
        self.ended = Event()
        self._cancelled = Event()
        self._written_s = 0.0

    def cancel(self, actor: str | None) -> None:
        """Lets the next call of its progress raise `CancelledError`. The first one counts."""
        if not self._cancelled.is_set():
            self.cancelled_by = actor
            self._cancelled.set()

    def progress(self, write: Callable[[int], None]) -> Progress:
        """Returns what the work calls after each part; `write` is called once a second."""

        def progress(done: int, total: int) -> None:
            if total:
                self.done, self.total = done, total
            now_s = time.monotonic()
            if now_s - self._written_s > _WRITTEN_EVERY_S:
                self._written_s = now_s
                write(self.done)
            if self._cancelled.is_set():
                raise CancelledError

        return progress

    def how_far(self) -> str:
        """Returns by whom it was cancelled, and after how much."""
        by = "" if self.cancelled_by is None else f"by {self.cancelled_by} "
        if not self.job.total:
            return f"{by}before it was planned"
        return f"{by}after {self.done} of {self.job.total} letters"

    def at_least(self) -> str:
        """Returns after how much it has failed: what was done last may not be known."""
        return f"after {self.done} of {self.job.total} letters or more"


_PLANNED_AT_ONCE = 4
_ENDED_WITHIN_S = 10.0
_WRITTEN_AGAIN_S = 1.0
_KILLED = "the console was stopped while it ran; what is done is recorded: continue it"
_UNPLANNED = "the console was stopped before it was planned; nothing was changed: plan it again"
_BUG = "an unexpected error, which is in the console's output; what is done is recorded"

_Ending: TypeAlias = Callable[[], None]
"""Records how the work of a thread has ended."""
_Work: TypeAlias = Callable[[DeadLetterTopic, Active], _Ending]


class Jobs:
    """Plans, starts, cancels and continues jobs. `config` holds librdkafka's keys.

    Of each dead-letter topic only one runs at a time; what runs elsewhere, as on a shell, is
    fenced by the newer one, which this one then says.
    """

    def __init__(
        self,
        state: State,
        audit: Audit,
        config: Mapping[str, Any],
        check_targets: Callable[[Iterable[str]], None] = lambda _: None,
    ) -> None:
        """Says of jobs that were active when the last server was killed that they have stopped.

        `check_targets` raises a `LinearRetryError` for topics that nothing may be sent to.
        """
        self._book = JobBook(state)
        self._audit = audit
        self._config = dict(config)
        self._check_targets = check_targets
        self._lock = Lock()
        self._closing = Event()
        self._active: dict[int, Active] = {}
        self._busy: dict[str, str] = {}
        for job in self._book.active():
            is_running = job.stage is Stage.RUNNING
            self._fail(Active(job), Stage.INTERRUPTED, _KILLED if is_running else _UNPLANNED)

    def plan(
        self, topic: str, action: Action, selected: Filter, options: Options, *, actor: str
    ) -> int:
        """Begins to count what the job will do; returns its id. Changes nothing in Kafka.

        Raises `JobError` if too many are being planned.
        """

        def work(letters: DeadLetterTopic, active: Active) -> _Ending:
            job_id = active.job.id
            keep = partial(self._book.add_letters, job_id)
            progress = active.progress(lambda _: None)
            summary = plan_job(letters, action, selected, options, keep, progress)
            self._check_targets(summary.targets)
            return lambda: self._book.plan(job_id, summary)

        with self._lock:
            self._check_plans(topic)
            job_id = self._book.add(topic, action, options, actor)
            self._begin(self._known(job_id), work)
        return job_id

    def start(self, job_id: int, *, actor: str, why: str, rate: float | None = None) -> None:
        """Starts a job that is planned, or continues one. Raises `JobError`."""
        with self._lock:
            job = self._known(job_id)
            if not job.may_start or job.plan is None:
                raise JobError(f"job {job_id} is {job.stage}: it cannot be started")
            summary = job.plan
            self._check_free(job.topic)
            line = self._audit.begun(actor, job.action, job.topic, why=why, form=_form(job_id))
            self._book.run(job_id, line, actor=actor, why=why, rate=rate)
            self._busy[job.topic] = f"job {job_id} ({job.action})"
            self._begin(self._known(job_id), partial(self._run, summary))

    def cancel(self, job_id: int, *, actor: str) -> None:
        """Asks a job to end after its current transaction. Raises `JobError`."""
        with self._lock:
            active = self._active.get(job_id)
            if active is None:
                raise JobError(f"job {job_id} is {self._known(job_id).stage}: it does not run")
            active.cancel(actor)

    def get(self, job_id: int) -> Job | None:
        """Returns the job as it is now; None if no job has this id."""
        job = self._book.get(job_id)
        return None if job is None else self._as_it_is_now(job)

    def outcome(self, job: Job, timeout_s: float) -> Outcome | None:
        """What became of what a replay has sent; None: it is not followed, or no longer.

        Raises `BrokerError`.
        """
        plan = job.plan
        if job.stage is not Stage.DONE or plan is None or plan.mark is None or not plan.sent:
            return None
        names = self._book.letters(job.id)
        if not names:
            return None
        with DeadLetterTopic(job.topic, self._config, timeout_s=timeout_s) as letters:
            return letters.outcome(Mark.from_json(plan.mark), names, plan.sent)

    def recent(self, limit: int = 100) -> list[Job]:
        """Returns jobs, the newest first."""
        return [self._as_it_is_now(job) for job in self._book.recent(limit)]

    def wait(self, job_id: int, timeout_s: float) -> None:
        """Waits until no thread works on the job."""
        active = self._active.get(job_id)
        if active is not None:
            active.ended.wait(timeout_s)

    @contextmanager
    def reserved(self, topic: str, what: str) -> Iterator[None]:
        """Keeps jobs from the topic meanwhile: they would fence each other. Raises `JobError`."""
        with self._lock:
            self._check_free(topic)
            self._busy[topic] = what
        try:
            yield
        finally:
            self._busy.pop(topic)

    def close(self) -> None:
        """Ends all threads between two transactions; their jobs can be continued."""
        self._closing.set()
        with self._lock:
            active = list(self._active.values())
        for each in active:
            each.cancel(None)
        for each in active:
            each.ended.wait(_ENDED_WITHIN_S)

    def _check_free(self, topic: str) -> None:
        if (other := self._busy.get(topic)) is not None:
            raise JobError(
                f"{topic}: {other} is running, and two at once would end each other; wait until it "
                "has ended, or cancel it"
            )

    def _check_plans(self, topic: str) -> None:
        planning = [j for a in self._active.values() if (j := a.job).stage is Stage.PLANNING]
        same = next((job.id for job in planning if job.topic == topic), None)
        if same is not None:
            raise JobError(f"{topic}: job {same} is being planned; wait until it is, or cancel it")
        if len(planning) >= _PLANNED_AT_ONCE:
            raise JobError(f"{len(planning)} jobs are being planned, the most at once; wait")

    def _run(self, summary: Summary, letters: DeadLetterTopic, active: Active) -> _Ending:
        job = active.job
        progress = active.progress(partial(self._book.progress, job.id))
        ended = run_job(letters, job, summary, self._book.letters(job.id), progress)
        active.done = summary.letters
        others = [self._book.sent(job.id, ended.sent)] if ended.sent else []
        return lambda: self._end(active, Stage.DONE, ended.text, *others)

    def _begin(self, job: Job, work: _Work) -> None:
        active = self._active[job.id] = Active(job)
        name = f"console job {job.id}"
        Thread(target=self._work, args=(active, work), name=name, daemon=True).start()

    def _work(self, active: Active, work: _Work) -> None:
        ending: _Ending = partial(self._fail, active, Stage.FAILED, _BUG)
        try:
            with DeadLetterTopic(active.job.topic, self._config) as letters:
                ending = work(letters, active)
        except CancelledError:
            is_closing = active.cancelled_by is None
            stage = Stage.INTERRUPTED if is_closing else Stage.CANCELLED
            ending = partial(self._end, active, stage, f"{stage} {active.how_far()}")
        except LinearRetryError as error:
            ending = partial(self._fail, active, Stage.FAILED, str(error))
        finally:  # what else was raised is a bug: the thread's hook prints it
            self._leave(active, ending)

    def _leave(self, active: Active, ending: _Ending) -> None:
        """Records the ending, for as long as it takes, and frees the topic whatever happens."""
        try:
            while not self._is_recorded(ending):
                pass
        finally:
            with self._lock:
                # A plan may be started before its thread gets here: then the entry is the run's.
                if self._active.get(active.job.id) is active:
                    del self._active[active.job.id]
                if active.job.stage is Stage.RUNNING:
                    del self._busy[active.job.topic]
            active.ended.set()

    def _is_recorded(self, ending: _Ending) -> bool:
        try:
            ending()
        except StateError:  # such as a full disk: if it stays, the next server says that it stopped
            if self._closing.wait(_WRITTEN_AGAIN_S):
                raise
            return False
        return True

    def _fail(self, active: Active, stage: Stage, text: str) -> None:
        is_running = active.job.stage is Stage.RUNNING
        self._end(active, stage, f"{text}; it ended {active.at_least()}" if is_running else text)

    def _end(self, active: Active, stage: Stage, outcome: str, *others: Statement) -> None:
        job = active.job
        if job.stage is not Stage.RUNNING:
            self._book.end(job.id, stage, outcome)
            return
        line = self._audit.ended(_form(job.id), outcome)
        self._book.end(job.id, stage, outcome, active.done, line, *others)

    def _known(self, job_id: int) -> Job:
        job = self._book.get(job_id)
        if job is None:
            raise JobError(f"there is no job {job_id}")
        return job

    def _as_it_is_now(self, job: Job) -> Job:
        active = self._active.get(job.id)
        if active is None or not job.stage.is_active:
            return job
        return replace(job, done=active.done, total=active.total)


def _form(job_id: int) -> str:
    """Its line of the audit has it while the job runs: so the next server finds it too."""
    return f"job {job_id}"
