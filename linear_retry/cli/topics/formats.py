"""Formats planned topics, permissions and problems, for tables and as JSON."""

from collections.abc import Iterable
from typing import Any

from linear_retry.records.topics.acls import Acl
from linear_retry.records.topics.check import TopicProblem
from linear_retry.records.topics.description import NeededTopic

TOPIC_HEAD = ("topic", "purpose", "state", "partitions", "replicas")
SETTINGS_HEAD = ("purpose", "settings")
ACL_HEAD = ("group", "for", "resource", "name", "operations")
NUMBERS = ("partitions", "replicas")


def topic_cells(topic: NeededTopic, *, exists: bool) -> tuple[str, ...]:
    """Returns the cells of `TOPIC_HEAD`."""
    state = "exists" if exists else "missing"
    return (topic.name, topic.purpose, state, str(topic.partitions), str(topic.replication))


def settings_cells(topics: Iterable[NeededTopic]) -> list[tuple[str, ...]]:
    """Returns the cells of `SETTINGS_HEAD`, one row for topics that share both."""
    rows = (
        (topic.purpose, " ".join(f"{key}={value}" for key, value in sorted(topic.settings.items())))
        for topic in topics
    )
    return list(dict.fromkeys(rows))


def topic_json(topic: NeededTopic, *, exists: bool) -> dict[str, Any]:
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


def acl_cells(group: str | None, acl: Acl) -> tuple[str, ...]:
    """Returns the cells of `ACL_HEAD`."""
    purpose = acl.purpose.replace("`", "")
    return (group or "-", purpose, acl.resource, acl.name, ", ".join(acl.operations))


def acl_json(group: str | None, acl: Acl) -> dict[str, Any]:
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


def checked_json(topic: str, purpose: str, problems: Iterable[TopicProblem]) -> dict[str, Any]:
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
