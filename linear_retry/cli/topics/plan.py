"""Prints the topics and permissions that a consumer needs, creates the topics, and checks them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import typer

from linear_retry.cli.output.exit_codes import DONE, NEGATIVE, UNAVAILABLE, fail
from linear_retry.cli.output.rows import plural, write_json, write_table
from linear_retry.cli.topics.options import AclOptions
from linear_retry.errors import BrokerError, UnknownTopicError
from linear_retry.kafka.topics.description import Topics
from linear_retry.kafka.topics.groups import Groups
from linear_retry.kafka.topics.reader import TopicReader
from linear_retry.records.topics.check import TopicProblem, check_topic, unused_topic
from linear_retry.records.topics.description import NeededTopic, TopicDescription
from linear_retry.records.topics.names import colliding, delay_of, retry_group
from linear_retry.records.topics.setup import (
    Acl,
    TopicSetup,
    live_acls,
    needed_topics,
    retry_acls,
    scheduler_acls,
    scheduler_group,
    watch_acls,
)

_TOPIC_HEAD = ("topic", "purpose", "state", "partitions", "replicas")
_SETTINGS_HEAD = ("purpose", "settings")
_ACL_HEAD = ("group", "for", "resource", "name", "operations")
_NUMBERS = ("partitions", "replicas")


@dataclass(frozen=True, slots=True)
class FoundTopics:
    """The topics that are needed, the brokers' description of each, and all other topics' names."""

    needed: tuple[NeededTopic, ...]
    descriptions: Mapping[str, TopicDescription | None]
    names: frozenset[str]


def find_topics(
    config: Mapping[str, Any], setup: TopicSetup, replication: int | None
) -> FoundTopics:
    """Asks the brokers for all topics. Raises `UnknownTopicError` if a source is missing."""
    described = Topics(config).describe([*setup.sources, *setup.names])
    missing = [name for name in setup.sources if described[name] is None]
    if missing:
        raise UnknownTopicError(
            f"no such topic: {', '.join(missing)}; the others get as many partitions: create it "
            "first, or correct the name"
        )
    sources = [found for name in setup.sources if (found := described[name]) is not None]
    needed = needed_topics(setup, sources, replication)
    return FoundTopics(tuple(needed), described, TopicReader(config).topics())


def unused_topics(
    config: Mapping[str, Any], setup: TopicSetup, found: FoundTopics
) -> Iterator[TopicProblem]:
    """Yields a problem for each retry topic of the prefix that the strategy does not use."""
    for name in sorted(found.names):
        if delay_of(name, setup.prefix) is not None and name not in setup.retry_topics:
            left, is_exact = unread(config, setup.group, name)
            # Offsets, which transaction markers have too.
            records = sum(max(0, end - first) for first, end in left.values())
            yield unused_topic(name, records, is_exact=is_exact)


def unread(
    config: Mapping[str, Any], group: str, topic: str
) -> tuple[dict[int, tuple[int, int]], bool]:
    """Returns the first and the end of the offsets that the retry line has yet to read.

    For each partition; and whether that is exact: if nobody says what it has committed, all count.
    """
    bounds = TopicReader(config).bounds(topic)
    committed = Groups(config).committed(retry_group(group), [(topic, each) for each in bounds])
    known = committed or {}
    left = {
        number: (max(first, known.get((topic, number), first)), end)
        for number, (first, end) in bounds.items()
    }
    return left, committed is not None


def print_plan(
    setup: TopicSetup,
    config: Mapping[str, Any],
    replication: int | None,
    options: AclOptions,
    *,
    as_json: bool,
) -> None:
    """Prints the topics, then the ACLs."""
    found = find_topics(config, setup, replication)
    for warning in _collisions(found):
        typer.echo(warning, err=True)
    topics = [(topic, found.descriptions[topic.name] is not None) for topic in found.needed]
    acls = list(_acls(setup, options))
    if as_json:
        write_json(_topic_json(topic, exists=exists) for topic, exists in topics)
        write_json(_acl_json(*each) for each in acls)
        return
    rows = [_topic_cells(topic, exists=exists) for topic, exists in topics]
    write_table(_TOPIC_HEAD, rows, _NUMBERS)
    typer.echo()
    write_table(_SETTINGS_HEAD, _settings_cells(found.needed))
    typer.echo()
    write_table(_ACL_HEAD, [_acl_cells(*each) for each in acls])


def _acls(setup: TopicSetup, options: AclOptions) -> Iterator[tuple[str | None, Acl]]:
    """Yields each permission with the group that needs it; None: a user who looks at groups."""
    transactional, back = options.transactional, options.back_to_source
    for acl in live_acls(setup, transactional=transactional, back_to_source=back):
        yield setup.group, acl
    if setup.scheduler is not None:
        for acl in scheduler_acls(setup.scheduler, setup.sources):
            yield scheduler_group(setup.scheduler), acl
    else:
        for acl in retry_acls(setup, transactional=transactional, back_to_source=back):
            yield retry_group(setup.group), acl
    for acl in watch_acls(setup):
        yield None, acl


def _collisions(found: FoundTopics) -> Iterator[str]:
    planned = [topic.name for topic in found.needed]
    for name in planned:
        if found.descriptions[name] is None:
            for other in colliding(name, found.names.union(planned)):
                yield (
                    f"{name}: brokers do not create it beside {other}: in the names of metrics a "
                    "dot is an underscore; choose another name"
                )


def check_topics(
    setup: TopicSetup, config: Mapping[str, Any], replication: int | None, *, as_json: bool
) -> None:
    """Prints a line for each problem, or an object for each topic, and ends the command."""
    found = find_topics(config, setup, replication)
    checked = [
        (topic.name, topic.purpose, check_topic(topic, found.descriptions[topic.name]))
        for topic in found.needed
    ]
    checked += [(one.topic, "retry", [one]) for one in unused_topics(config, setup, found)]
    problems = list(chain.from_iterable(problems for _, _, problems in checked))
    if as_json:
        write_json(_checked_json(*each) for each in checked)
    else:
        _print(problems, len(checked))
    raise typer.Exit(NEGATIVE if any(one.is_error for one in problems) else DONE)


def _print(problems: Iterable[TopicProblem], topics: int) -> None:
    errors = [one.text for one in problems if one.is_error]
    warnings = [one.text for one in problems if not one.is_error]
    for text in errors:
        typer.echo(f"error: {text}")
    for text in warnings:
        typer.echo(f"warning: {text}")
    counts = f"{plural(len(errors), 'error')}, {plural(len(warnings), 'warning')}"
    typer.echo(f"{plural(topics, 'topic')} checked: {counts}", err=True)


def create_topics(
    setup: TopicSetup, config: Mapping[str, Any], replication: int | None, *, as_json: bool
) -> None:
    """Prints a line or an object for each topic as soon as its outcome is known."""
    found = find_topics(config, setup, replication)
    topics, failed = Topics(config), 0
    for topic in found.needed:
        outcome, error = "unchanged", None
        if found.descriptions[topic.name] is None:
            outcome, error = _create(topics, topic)
        failed += error is not None
        if as_json:
            write_json([{"topic": topic.name, "outcome": outcome, "error": error}])
        elif error is not None:
            typer.echo(error, err=True)
        else:
            typer.echo(_line(topic, outcome))
    if failed:
        fail(
            f"{plural(failed, 'topic')} of {len(found.needed)} not created; correct what is said "
            "above, and run it again",
            UNAVAILABLE,
        )


def _create(topics: Topics, topic: NeededTopic) -> tuple[str, str | None]:
    """Creates it; returns the outcome, and the error if it failed."""
    try:
        return ("created" if topics.create(topic) else "unchanged"), None
    except BrokerError as error:
        return "failed", str(error)


def _line(topic: NeededTopic, outcome: str) -> str:
    if outcome == "unchanged":
        return f"{topic.name}: exists, unchanged"
    partitions = plural(topic.partitions, "partition")
    return f"{topic.name}: created, {partitions}, replication factor {topic.replication}"


def _topic_cells(topic: NeededTopic, *, exists: bool) -> tuple[str, ...]:
    """Returns the cells of `_TOPIC_HEAD`."""
    state = "exists" if exists else "missing"
    return (topic.name, topic.purpose, state, str(topic.partitions), str(topic.replication))


def _settings_cells(topics: Iterable[NeededTopic]) -> list[tuple[str, ...]]:
    """Returns the cells of `_SETTINGS_HEAD`, one row for topics that share both."""
    rows = (
        (topic.purpose, " ".join(f"{key}={value}" for key, value in sorted(topic.settings.items())))
        for topic in topics
    )
    return list(dict.fromkeys(rows))


def _topic_json(topic: NeededTopic, *, exists: bool) -> dict[str, Any]:
    """Returns a planned topic as JSON."""
    return {
        "kind": "topic",
        "topic": topic.name,
        "purpose": topic.purpose,
        "exists": exists,
        "partitions": topic.partitions,
        "replication": topic.replication,
        "settings": dict(topic.settings),
        "delay_ms": topic.delay_ms,
    }


def _acl_cells(group: str | None, acl: Acl) -> tuple[str, ...]:
    """Returns the cells of `_ACL_HEAD`."""
    purpose = acl.purpose.replace("`", "")
    return (group or "-", purpose, acl.resource, acl.name, ", ".join(acl.operations))


def _acl_json(group: str | None, acl: Acl) -> dict[str, Any]:
    """Returns a permission as JSON."""
    return {
        "kind": "acl",
        "group": group,
        "for": acl.purpose.replace("`", ""),
        "resource": acl.resource,
        "name": acl.name.removesuffix("*"),
        "pattern": acl.pattern,
        "operations": acl.operations,
    }


def _checked_json(topic: str, purpose: str, problems: Iterable[TopicProblem]) -> dict[str, Any]:
    """Returns the problems of one topic as JSON. It is `ok` without any, or only with warnings."""
    found = list(problems)
    return {
        "topic": topic,
        "purpose": purpose,
        "ok": not any(problem.is_error for problem in found),
        "problems": [
            {"rule": problem.rule, "severity": problem.severity, "text": problem.text}
            for problem in found
        ],
    }
