"""Lists the permissions that a consumer and the commands need."""

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from linear_retry.records.dead_letter import resolutions_topic
from linear_retry.records.topics.retry_topics import retry_group
from linear_retry.records.topics.setup import TopicSetup

Resource: TypeAlias = Literal["Topic", "Group", "TransactionalId"]

_OPTIONS: dict[Resource, str] = {
    "Topic": "--topic",
    "Group": "--group",
    "TransactionalId": "--transactional-id",
}


@dataclass(frozen=True, slots=True)
class Acl:
    """Operations on a resource that must be permitted. A name that ends in * is a prefix.

    `purpose` says why, in Markdown.
    """

    purpose: str
    resource: Resource
    name: str
    operations: tuple[str, ...]

    @property
    def pattern(self) -> str:
        """Kafka's pattern type for the name."""
        return "prefixed" if self.name.endswith("*") else "literal"


def live_acls(
    setup: TopicSetup, *, transactional: bool, back_to_source: bool = False
) -> Iterator[Acl]:
    """Yields the permissions of the live line."""
    for source in setup.sources:
        yield Acl("consumer", "Topic", source, ("Read",))
        if back_to_source:
            purpose = "retry topics with `back_to_source=True`"
            yield Acl(purpose, "Topic", source, ("DescribeConfigs",))
    yield Acl("consumer", "Group", setup.group, ("Read",))
    yield Acl("dead letters", "Topic", setup.dead_letters, ("Write",))
    if transactional:
        yield _transactions("dead letters with `transactional=True`", setup.group)
    if setup.journal is not None:
        yield Acl("journal", "Topic", setup.journal, ("Write",))
    if setup.control is not None:
        yield Acl("control", "Topic", setup.control, ("Read", "Write"))
    for name in setup.retry_patterns:
        yield Acl("retry topics", "Topic", name, ("Write", "DescribeConfigs"))


def retry_acls(setup: TopicSetup, *, transactional: bool, back_to_source: bool) -> Iterator[Acl]:
    """Yields the permissions of the retry line, which reads and writes the retry topics."""
    line, group = "retry line", retry_group(setup.group)
    for name in setup.retry_patterns:
        yield Acl(line, "Topic", name, ("Read", "Write", "DescribeConfigs"))
    yield Acl(line, "Group", group, ("Read",))
    yield Acl(line, "Topic", setup.dead_letters, ("Write",))
    if transactional or back_to_source:
        yield _transactions("retry line with `transactional=True` or `back_to_source=True`", group)
    if back_to_source:
        for source in setup.sources:
            yield Acl("retry line with `back_to_source=True`", "Topic", source, ("Write",))
    if setup.journal is not None:
        yield Acl(line, "Topic", setup.journal, ("Write",))
    if setup.control is not None:
        yield Acl(line, "Topic", setup.control, ("Read", "Write"))


def command_acls(setup: TopicSetup) -> Iterator[Acl]:
    """Yields the permissions of the commands for a consumer with this set-up."""
    (source, *_), letters = setup.sources, setup.dead_letters
    resolutions = resolutions_topic(letters)
    if setup.journal is not None:
        yield Acl("`circuits list`, `watch`", "Topic", setup.journal, ("Read",))
    operate = "`circuits retry`, `give-up`, `lift-limit`"
    if setup.control is not None:
        yield Acl(operate, "Topic", setup.control, ("Read", "Write"))
    if setup.journal is not None:
        yield Acl(operate, "Topic", setup.journal, ("Read",))
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
    if setup.journal is not None:
        yield Acl("`spark ingest`", "Topic", setup.journal, ("Read",))
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


def acl_commands(acls: Iterable[Acl], bootstrap: str, principal: str) -> Iterator[str]:
    """Yields the commands of `kafka-acls.sh` that grant all of them to one principal."""
    granted: dict[tuple[Resource, str], dict[str, None]] = {}
    for acl in acls:
        granted.setdefault((acl.resource, acl.name), {}).update(dict.fromkeys(acl.operations))
    for (resource, name), operations in granted.items():
        words = ["kafka-acls.sh", "--bootstrap-server", bootstrap, "--add"]
        words += ["--allow-principal", principal]
        words += [word for each in operations for word in ("--operation", each)]
        words += [_OPTIONS[resource], name.removesuffix("*")]
        words += ["--resource-pattern-type", "prefixed"] if name.endswith("*") else []
        yield shlex.join(words)


def _transactions(purpose: str, group: str) -> Acl:
    """The permission for transactional ids: each consumer has its own, with its group as prefix."""
    return Acl(purpose, "TransactionalId", f"{group}-*", ("Write",))
