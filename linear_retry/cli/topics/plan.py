"""Prints the topics and permissions that a consumer needs: `topics plan`."""

from collections.abc import Iterator, Mapping
from typing import Any

import typer

from linear_retry.cli.output.rows import write_json, write_table
from linear_retry.cli.topics import formats
from linear_retry.cli.topics.cluster import FoundTopics, find_topics
from linear_retry.cli.topics.options import AclOptions
from linear_retry.records.topics.acls import (
    Acl,
    live_acls,
    retry_acls,
    scheduler_acls,
    watch_acls,
)
from linear_retry.records.topics.names import colliding
from linear_retry.records.topics.retry_topics import retry_group
from linear_retry.records.topics.setup import TopicSetup, scheduler_group


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
        write_json(formats.topic_json(topic, exists=exists) for topic, exists in topics)
        write_json(formats.acl_json(*each) for each in acls)
        return
    rows = [formats.topic_cells(topic, exists=exists) for topic, exists in topics]
    write_table(formats.TOPIC_HEAD, rows, formats.NUMBERS)
    typer.echo()
    write_table(formats.SETTINGS_HEAD, formats.settings_cells(found.needed))
    typer.echo()
    write_table(formats.ACL_HEAD, [formats.acl_cells(*each) for each in acls])


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
