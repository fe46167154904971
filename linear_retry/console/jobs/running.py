"""Carries out what was planned, on the letters that were counted."""

from __future__ import annotations

from dataclasses import dataclass

from linear_retry.console.jobs.book import PlannedLetters
from linear_retry.console.jobs.job import Action, Job, JobError, Summary
from linear_retry.console.jobs.planning import id_of, planned
from linear_retry.dlq import DeadLetterTopic, Filter, Plan, Purge
from linear_retry.kafka.topics.reader import Progress


@dataclass(frozen=True, slots=True)
class Ended:
    """How a job ended, and how many letters a replay has sent, earlier runs of it included."""

    text: str
    sent: int | None = None


def run_job(
    topic: DeadLetterTopic, job: Job, summary: Summary, letters: PlannedLetters, progress: Progress
) -> Ended:
    """Runs a job that was planned; returns how it ended.

    It takes those of the planned letters that it has still to do with: after an interruption, the
    rest.
    Raises `JobError` if the topic is another one by now: other letters are where those were.
    """
    if id_of(topic) != summary.topic_id:
        raise JobError(
            f"{job.topic}: it was deleted and made again since these letters were counted; nothing "
            "was changed: plan it again"
        )

    def reading(*_: int) -> None:
        progress(0, 0)  # it may be cancelled here, and has done nothing more

    if job.action is Action.PURGE:
        return Ended(_purge(topic, job, summary, reading))

    def recorded(count: int) -> None:
        progress(job.done + count, summary.letters)

    states = job.action.states
    selected = Filter(chosen=letters, ranges=tuple(summary.ranges), states=states)
    if job.action is Action.RESOLVE:
        count = topic.resolve(
            selected, by=job.actor, why=job.why, progress=reading, recorded=recorded
        )
        return Ended(_outcome(count, "resolved", summary.letters - count))
    if job.action is Action.REOPEN:
        count = topic.reopen(selected, progress=reading, recorded=recorded)
        return Ended(_outcome(count, "reopened", summary.letters - count, "open already"))
    with planned(topic, selected, job.options, reading) as plan:
        count = _replay(topic, job, summary, plan, progress)
        unsent = plan.not_replayable.total()
    outcome = _outcome(count, "sent", summary.letters - count - unsent)
    text = f"{outcome}, {unsent} cannot be sent any more" if unsent else outcome
    return Ended(text, job.done + count)


def _replay(
    topic: DeadLetterTopic, job: Job, summary: Summary, plan: Plan, progress: Progress
) -> int:
    before = summary.letters - plan.letters

    def sent(count: int, _: int) -> None:
        progress(before + count, summary.letters)

    sent(0, 0)
    return topic.replay(plan, by=job.actor, why=job.why, rate=job.options.rate, progress=sent)


def _purge(topic: DeadLetterTopic, job: Job, summary: Summary, reading: Progress) -> str:
    within = Purge(before=dict(summary.before))
    everything = job.options.everything
    purge = topic.purge(everything=everything, within=within, progress=reading)
    left = f"{purge.remaining} left, {purge.remaining_open} of them open"
    return f"{_letters(purge.letters)} deleted; {left}"


def _outcome(count: int, done: str, others: int, why: str = "no longer open") -> str:
    passed = f", {others} {why} or no longer there" if others > 0 else ""
    return f"{_letters(count)} {done}{passed}"


def _letters(count: int) -> str:
    return "1 letter" if count == 1 else f"{count} letters"
