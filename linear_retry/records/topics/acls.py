"""Lists the permissions of a consumer with retry topics, and of the scheduler."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from linear_retry.records.topics.names import retry_group
from linear_retry.records.topics.setup import TopicSetup, scheduler_group

Resource: TypeAlias = Literal["Topic", "Group", "TransactionalId"]


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
    yield from _operations(setup, "journal", "control")
    for name in setup.retry_patterns:
        yield Acl("retry topics", "Topic", name, ("Write", "DescribeConfigs"))
    if setup.scheduler is not None:
        yield Acl("scheduler", "Topic", setup.scheduler, ("Write", "DescribeConfigs"))
        for source in setup.sources:
            yield Acl("scheduler", "Topic", source, ("DescribeConfigs",))


def scheduler_acls(topic: str, destinations: Iterable[str]) -> Iterator[Acl]:
    """Yields the permissions of `scheduler run`."""
    purpose = "`scheduler run`"
    yield Acl(purpose, "Topic", topic, ("Read",))
    yield Acl(purpose, "Group", scheduler_group(topic), ("Read",))
    for name in destinations:
        yield Acl(purpose, "Topic", name, ("Write",))
    yield Acl(purpose, "TransactionalId", "linear-retry-*", ("Write",))


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
    yield from _operations(setup, line, line)


def watch_acls(setup: TopicSetup) -> Iterator[Acl]:
    """Yields the permissions of a user who looks at the groups, and asks whether they live."""
    purpose = "`circuits list`, `watch`, console"
    if setup.journal is not None:
        yield Acl(purpose, "Topic", setup.journal, ("Read",))
    groups = [setup.group]
    if setup.retry_patterns:
        groups.append(retry_group(setup.group))
    for group in groups:
        yield Acl(purpose, "Group", group, ("Describe",))
    for name in (*setup.sources, *setup.retry_patterns):
        yield Acl(purpose, "Topic", name, ("Describe",))


def _operations(setup: TopicSetup, journal: str, control: str) -> Iterator[Acl]:
    """The permissions for both topics, where it uses them, for these purposes."""
    if setup.journal is not None:
        yield Acl(journal, "Topic", setup.journal, ("Write",))
    if setup.control is not None:
        yield Acl(control, "Topic", setup.control, ("Read", "Write"))


def _transactions(purpose: str, group: str) -> Acl:
    """The permission for transactional ids: each consumer has its own, with its group as prefix."""
    return Acl(purpose, "TransactionalId", f"{group}-*", ("Write",))
