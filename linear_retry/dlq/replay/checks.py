"""Checks that a replay can be carried out, before anything is sent."""

from collections.abc import Iterable, Iterator, Mapping

from linear_retry.dlq.reading.reading import Cluster
from linear_retry.dlq.replay.order import InOrder
from linear_retry.dlq.replay.outgoing import largest_packed, unpacked
from linear_retry.dlq.replay.plan import PartitionPlan, Plan
from linear_retry.errors import BrokerError
from linear_retry.records.dead_letter import resolutions_topic
from linear_retry.records.retry_headers import GROUP_ID
from linear_retry.records.topics.check import check_topic
from linear_retry.records.topics.description import NeededTopic, TopicDescription
from linear_retry.records.topics.names import is_topic_name
from linear_retry.records.topics.setup import resolutions_needed
from linear_retry.scope import Partition

Facts = Mapping[str, TopicDescription | None]


class RefusedError(BrokerError):
    """The plan cannot be carried out. Nothing was sent; `problems` lists every reason."""

    __module__ = "linear_retry.dlq"  # its public name, for logs and dead letters

    def __init__(self, problems: list[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problems))


def facts_of(cluster: Cluster, dead_letters: str, targets: Iterable[str] = ()) -> Facts:
    """Describes all topics that are written to. Raises `RefusedError` if one cannot exist."""
    name = resolutions_topic(dead_letters)
    if not is_topic_name(name):
        raise RefusedError(
            [
                f"{dead_letters}: nothing can be recorded of its letters: the topic for that has "
                f"this name and .resolved at its end, {len(name)} characters, and Kafka takes at "
                "most 249; list and export them, or copy them to a topic with a shorter name"
            ]
        )
    return cluster.topics.describe([dead_letters, name, *targets])


def check(plan: Plan, facts: Facts, now_ms: int, *, compressed: bool) -> None:
    """Raises `RefusedError` with everything that prevents the replay.

    `compressed`: batches are compressed, so their size is not known before they are sent.
    """
    problems = [*_resolutions(plan.topic, facts), *_groups(plan)]
    for target in plan.targets:
        if target in (plan.topic, resolutions_topic(plan.topic)):
            problems.append(
                f"{target}: the dead letters would be sent into their own topic; name another one "
                "(--to), or leave them out"
            )
            continue
        fact = facts[target]
        if fact is None:
            problems.append(_not_there(plan, target))
            continue
        mine = {n: each for n, each in enumerate(plan.partitions) if each.to_topic == target}
        problems += _partitions(mine.values(), target, fact)
        problems += _permission(target, fact)
        if plan.is_to_retry:
            problems += _retry_topic(plan, target, fact)
        if not compressed:
            problems += _sizes(plan.order, mine, target, fact)
        if plan.keep_timestamp:
            problems += _times(mine.values(), target, fact, now_ms)
    if problems:
        raise RefusedError(problems)


def check_resolutions(topic: str, facts: Facts) -> None:
    """Raises `RefusedError` if resolutions cannot be recorded."""
    if problems := [*_resolutions(topic, facts)]:
        raise RefusedError(problems)


def absent_groups(cluster: Cluster, plan: Plan) -> tuple[str, ...]:
    """The groups of the plan's letters that seem to have no members."""
    wanted: dict[str, set[Partition]] = {}
    for planned in plan.partitions:
        for group in planned.groups - {""}:
            wanted.setdefault(plan.reader_of(group), set()).add(
                (planned.to_topic, planned.to_partition or 0)
            )
    if not wanted:
        return ()
    absent = []
    for group in sorted(wanted.keys() - cluster.groups.active()):
        has_committed = cluster.groups.has_committed(group, wanted[group])
        if has_committed is None:
            break  # a refusal looks like no answer: each further group would cost the full wait
        if not has_committed:
            absent.append(group)
    return tuple(absent)


def _resolutions(dead_letters: str, facts: Facts) -> Iterator[str]:
    name = resolutions_topic(dead_letters)
    fact = facts[name]
    if fact is None:  # it will be created
        return
    yield from _permission(name, fact)
    yield from _errors(resolutions_needed(dead_letters, fact.partitions, fact.replication), fact)


def _not_there(plan: Plan, target: str) -> str:
    letters = sum(planned.letters for planned in plan.partitions if planned.to_topic == target)
    return (
        f"{target}: no such topic in this cluster, and {letters} dead letters would go there; a "
        "replay stays within one cluster: create the topic, name another one (--to), or leave "
        "these letters out (--origin)"
    )


def _partitions(
    planned: Iterable[PartitionPlan], target: str, fact: TopicDescription
) -> Iterator[str]:
    missing = [each for each in planned if (each.to_partition or 0) >= fact.partitions]
    if missing:
        letters = sum(each.letters for each in missing)
        highest = max(each.to_partition or 0 for each in missing)
        yield (
            f"{target}: it has {fact.partitions} partitions, and {letters} dead letters come from "
            f"partitions up to {highest}; add partitions, name another topic (--to), or leave "
            "these letters out (--origin)"
        )


def _groups(plan: Plan) -> Iterator[str]:
    groups = sorted({group for planned in plan.partitions for group in planned.groups})
    if plan.is_to_retry and len(groups) > 1:
        yield (
            f"{plan.to}: dead letters of {len(groups)} groups ({', '.join(groups)}) would go "
            "there, and a retry topic is one group's; select those of one (--header "
            f"{GROUP_ID}={groups[0]}), or name one for all (--for-group)"
        )


def _retry_topic(plan: Plan, target: str, fact: TopicDescription) -> Iterator[str]:
    if any(planned.source.topic == target for planned in plan.partitions):
        yield (
            f"{target}: dead letters come from there, so it is no retry topic; name one of the "
            "group's retry topics, or leave out --to-retry"
        )
    needed = NeededTopic(target, "retry", fact.partitions, fact.replication, delay_ms=plan.delay_ms)
    yield from _errors(needed, fact)


def _errors(needed: NeededTopic, fact: TopicDescription) -> Iterator[str]:
    return (problem.text for problem in check_topic(needed, fact) if problem.is_error)


def _permission(topic: str, fact: TopicDescription) -> Iterator[str]:
    if fact.may_write is False:
        yield f"{topic}: no permission to write; ask for WRITE and DESCRIBE on it"


def _sizes(
    order: InOrder, planned: Mapping[int, PartitionPlan], target: str, fact: TopicDescription
) -> Iterator[str]:
    limit = fact.max_message_bytes
    if limit is None:
        return
    sizes = [
        size
        for number, each in planned.items()
        if each.longest > largest_packed(limit)
        for content in order.longer_than(largest_packed(limit), number)
        if (size := unpacked(content).size_bytes()) > limit
    ]
    if sizes:
        yield (
            f"{target}: its max.message.bytes is {limit}, and {len(sizes)} dead letters need more, "
            f"up to {max(sizes)} with the headers of a replay; raise it, or leave these letters out"
        )


def _times(
    planned: Iterable[PartitionPlan], target: str, fact: TopicDescription, now_ms: int
) -> Iterator[str]:
    known = [each.oldest_ms for each in planned if each.oldest_ms is not None]
    if fact.stamps_by_broker:
        yield (
            f"{target}: message.timestamp.type=LogAppendTime: the broker stamps what is sent; "
            "leave out --keep-timestamp"
        )
    elif known and fact.retention_ms is not None and now_ms - min(known) >= fact.retention_ms:
        yield (
            f"{target}: its retention.ms is {fact.retention_ms}, and the oldest message is "
            f"{now_ms - min(known)} ms old: it would be removed at once; leave out "
            "--keep-timestamp, or the old letters"
        )
