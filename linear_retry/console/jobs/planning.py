"""Counts what a job will do, without changing anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeAlias

from linear_retry.console.jobs.job import Action, Lane, Newer, Options, Summary
from linear_retry.dlq import DeadLetterTopic, Filter, NewerMessages, PartitionPlan, Plan
from linear_retry.dlq.replay.outgoing import place_of
from linear_retry.kafka.topics.description import Topics
from linear_retry.kafka.topics.reader import Progress
from linear_retry.scope import Place

Keep: TypeAlias = Callable[[Iterable[str]], int]
"""Keeps the resolution keys of the letters that are counted; returns how many there are."""

_SHOWN = 20


def plan_job(
    topic: DeadLetterTopic,
    action: Action,
    selected: Filter,
    options: Options,
    keep: Keep,
    progress: Progress,
) -> Summary:
    """Returns the plan of a job. Raises `RefusedError` and what else the topic raises."""
    topic_id = id_of(topic)
    if action is Action.PURGE:
        summary = _purge(topic, options, progress)
    elif action is Action.REPLAY:
        summary = _replay(topic, selected, options, keep, progress)
    else:
        summary = _counted(topic, replace(selected, states=action.states), keep, progress)
    return replace(summary, topic_id=topic_id)


def id_of(topic: DeadLetterTopic) -> str | None:
    """Returns the id that no other topic has, of the same name neither; None: it has none."""
    return Topics(topic.config).id_of(topic.topic)


@dataclass(slots=True)
class _Counted:
    """Passes the names of letters on, and notes where they lie."""

    ranges: dict[int, tuple[int, int]] = field(default_factory=dict)

    def names(self, found: Iterable[tuple[str, int, int]]) -> Iterator[str]:
        for name, partition, offset in found:
            first, last = self.ranges.get(partition, (offset, offset))
            self.ranges[partition] = min(first, offset), max(last, offset)
            yield name

    def summary(self, letters: int) -> Summary:
        ranges = [(number, *ends) for number, ends in sorted(self.ranges.items())]
        return Summary(letters=letters, ranges=ranges)


def _counted(topic: DeadLetterTopic, selected: Filter, keep: Keep, progress: Progress) -> Summary:
    counted = _Counted()
    found = topic.letters(selected, progress)
    names = counted.names(
        (letter.resolution_key, letter.partition, letter.offset) for letter, _ in found
    )
    return counted.summary(keep(names))


def _purge(topic: DeadLetterTopic, options: Options, progress: Progress) -> Summary:
    planned = topic.plan_purge(everything=options.everything, progress=progress)
    return Summary(
        letters=planned.letters,
        before=sorted(planned.before.items()),
        remaining=planned.remaining,
        remaining_open=planned.remaining_open,
    )


def _replay(
    topic: DeadLetterTopic, selected: Filter, options: Options, keep: Keep, progress: Progress
) -> Summary:
    with planned(topic, selected, options, progress) as plan:
        counted = _Counted()
        names = counted.names((entry.name, *place_of(entry.content)) for entry in plan.order)
        letters = keep(names)
        newer, keys = _newer(topic, plan, progress) if options.check_newer else ([], None)
        return replace(
            counted.summary(letters),
            lanes=[_lane(each) for each in plan.partitions],
            left_open=dict(plan.not_replayable.most_common()),
            earlier_open=plan.earlier_open,
            absent_groups=list(topic.absent_groups(plan)),
            newer=newer,
            newer_keys=keys,
            mark=topic.mark(plan).as_json(),
        )


def planned(topic: DeadLetterTopic, selected: Filter, options: Options, progress: Progress) -> Plan:
    """Returns the plan of a replay with these options."""
    return topic.plan_replay(
        selected,
        to=options.to,
        to_retry=options.to_retry,
        keep_timestamp=options.keep_timestamp,
        for_group=options.for_group,
        progress=progress,
    )


def _newer(
    topic: DeadLetterTopic, plan: Plan, progress: Progress
) -> tuple[list[Newer], int | None]:
    found = topic.newer_messages(plan, progress)
    shown = [_newer_of(each) for each in islice(found, _SHOWN)]
    return shown, len(shown) + sum(1 for _ in found)


def _newer_of(each: NewerMessages) -> Newer:
    place = (each.topic, each.partition)
    return Newer(str(Place(*place, each.letter)), each.messages, str(Place(*place, each.newest)))


def _lane(planned: PartitionPlan) -> Lane:
    topic, partition, _ = planned.source
    has_offsets = planned.first is not None
    return Lane(
        "-" if topic is None else _shown(topic, partition),
        _shown(planned.to_topic, planned.to_partition),
        sorted(planned.groups),
        planned.letters,
        f"{planned.first} to {planned.last}" if has_offsets else "as they arrived",
        -1 if planned.oldest_ms is None else planned.oldest_ms,
        -1 if planned.newest_ms is None else planned.newest_ms,
    )


def _shown(topic: str, partition: int | None) -> str:
    return topic if partition is None else f"{topic}[{partition}]"
