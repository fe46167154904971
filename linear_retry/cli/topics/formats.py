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
    """What `TOPIC_HEAD` names."""
    state = "exists" if exists else "missing"
    return (topic.name, topic.purpose, state, str(topic.partitions), str(topic.replication))


def settings_cells(topics: Iterable[NeededTopic]) -> list[tuple[str, ...]]:
    """What `SETTINGS_HEAD` names, once for topics that have both in common."""
    rows = (
        (topic.purpose, " ".join(f"{key}={value}" for key, value in sorted(topic.settings.items())))
        for topic in topics
    )
    return list(dict.fromkeys(rows))


def topic_json(topic: NeededTopic, *, exists: bool) -> dict[str, Any]:
    """A planned topic."""
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


def acl_cells(group: str, acl: Acl) -> tuple[str, ...]:
    """What `ACL_HEAD` names."""
    purpose = acl.purpose.replace("`", "")
    return (group, purpose, acl.resource, acl.name, ", ".join(acl.operations))


def acl_json(group: str, acl: Acl) -> dict[str, Any]:
    """A permission."""
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
    """What is wrong with one topic. It is `ok` where nothing is, or only a warning is given."""
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
