"""Generates the table of permissions, with the names of the examples."""

from collections.abc import Iterator

from docs.generators.markdown import codes, table
from linear_retry.journal.entry import DEFAULT_TOPIC as JOURNAL
from linear_retry.records.control import DEFAULT_TOPIC as CONTROL
from linear_retry.records.dead_letter import resolutions_topic
from linear_retry.records.topics.names import retry_group
from linear_retry.records.topics.setup import (
    Acl,
    TopicSetup,
    live_acls,
    retry_acls,
    retry_topics,
    scheduler_acls,
    watch_acls,
)

SCHEDULER = "billing.scheduled"
_EXAMPLE = TopicSetup(
    sources=("orders",),
    group="billing",
    retry_topics=retry_topics("orders.billing.retry", (300_000,)),
    prefix="orders.billing.retry",
    dead_letters="orders.dlq",
    journal=JOURNAL,
    control=CONTROL,
    scheduler=SCHEDULER,
)


def acls() -> str:
    """Returns the permissions of each part of the examples' consumer, and of each command."""
    acls = (
        *live_acls(_EXAMPLE, transactional=True, back_to_source=True),
        *retry_acls(_EXAMPLE, transactional=True, back_to_source=True),
        *scheduler_acls(SCHEDULER, _EXAMPLE.sources),
        *_of_commands(_EXAMPLE, JOURNAL, CONTROL),
    )
    rows = ((acl.purpose, acl.resource, f"`{acl.name}`", codes(acl.operations)) for acl in acls)
    return table(("for", "resource", "name", "operations"), rows)


def _of_commands(setup: TopicSetup, journal: str, control: str) -> Iterator[Acl]:
    """Yields the permissions of the commands for a consumer with this set-up."""
    (source, *_), letters = setup.sources, setup.dead_letters
    resolutions = resolutions_topic(letters)
    yield from watch_acls(setup)
    operate = "`circuits retry`, `give-up`, `lift-limit`, `open`, `close`, `reload`"
    yield Acl(operate, "Topic", control, ("Read", "Write"))
    yield Acl(operate, "Topic", journal, ("Read",))
    read = "`dlq list`, `show`, `stats`, `export`"
    yield Acl(read, "Topic", letters, ("Read",))
    yield Acl(read, "Topic", resolutions, ("Read",))
    yield Acl("`dlq replay`", "Topic", source, ("Write",))
    yield Acl("`dlq replay`", "Group", setup.group, ("Describe",))
    for name in setup.retry_patterns:
        yield Acl("`dlq replay --to-retry`", "Topic", name, ("Write",))
    yield Acl("`dlq replay --to-retry`", "Group", retry_group(setup.group), ("Describe",))
    record = "`dlq replay`, `resolve`, `reopen`, `purge`"
    yield Acl(record, "Topic", letters, ("Read",))
    yield Acl(record, "Topic", resolutions, ("Read", "Write", "Create"))
    yield Acl(record, "TransactionalId", f"linear-retry.dlq.{letters}", ("Write",))
    yield Acl("`dlq purge`", "Topic", letters, ("Delete",))
    yield Acl("`spark ingest`", "Topic", letters, ("Read",))
    yield Acl("`spark ingest`", "Topic", journal, ("Read",))
    yield Acl("`spark ingest`", "Group", "linear-retry-spark*", ("Read",))
    look = "`topics plan`, `check`, `create`"
    yield Acl(look, "Topic", source, ("Describe", "DescribeConfigs"))
    names = (*setup.retry_patterns, *setup.other_names)
    for name in names:
        yield Acl(look, "Topic", name, ("Describe", "DescribeConfigs"))
    for name in names:
        yield Acl("`topics create`", "Topic", name, ("Create",))
    for name in setup.retry_patterns:
        yield Acl("`topics status`", "Topic", name, ("Read",))
    yield Acl("`topics status`", "Group", retry_group(setup.group), ("Describe",))
