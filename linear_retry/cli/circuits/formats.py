"""Formats circuits and members for tables and as JSON."""

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

from linear_retry.cli.output.rows import plural
from linear_retry.journal.group_state import GroupStates, GroupView, Member, OpenCircuit
from linear_retry.journal.standing import Liveness, Standing
from linear_retry.records.printable import in_one_line, moment, one_line
from linear_retry.records.topics.names import RETRY_SUFFIX
from linear_retry.scope import Partition

HEAD = (
    *("group", "member", "process", "scope", "message", "state", "failures"),
    *("behind", "since", "retry_at", "last_event", "error", "liveness"),
)


def cells(
    group: str, circuit: OpenCircuit, now_ms: int, liveness: Liveness = "unknown"
) -> tuple[str, ...]:
    """Returns the cells of `HEAD`, each in one line without control characters; `-`: unknown."""
    waits_for = "" if circuit.waits_for == "failed" else f", {circuit.waits_for}"
    row = (
        group,
        circuit.member,
        circuit.process,
        circuit.scope,
        circuit.held,
        f"{circuit.state(now_ms)}{waits_for}",
        circuit.failures,
        circuit.behind,
        moment(circuit.since_ms),
        None if circuit.retry_at_ms is None else moment(circuit.retry_at_ms),
        moment(circuit.last_event_ms),
        one_line(circuit.error) or None,
        liveness,
    )
    return tuple("-" if each is None else in_one_line(str(each)) for each in row)


def troubles(states: GroupStates, views: Iterable[GroupView]) -> Iterable[str]:
    """Yields a sentence for each reason why the view is incomplete."""
    views = list(views)
    if missing := sum(view.missing for view in views):
        members = [
            f" by {in_one_line(one.member)} before {moment(one.missing_ms)}"
            for view in views
            for one in view.members
            if one.missing_ms is not None
        ]
        many = plural(missing, "event is", "events are")
        yield f"{many} not in the journal: dropped{','.join(members)}"
    if states.unreadable:
        many = plural(
            states.unreadable, "record is not a journal entry", "records are not journal entries"
        )
        yield f"{many} of a journal ({one_line(states.trouble)})"


def standing_text(group: str, standing: Standing) -> str | None:
    """Says that nobody reads for the group, or that this is not known; None: a member lives."""
    return None if standing.liveness == "live" else f"{one_line(group)}: {standing}"


def no_such_group(group: str, states: GroupStates, topic: str) -> str:
    """Returns the message about a group without entries."""
    there = ", ".join(map(one_line, states.groups))
    if (live := group.removesuffix(RETRY_SUFFIX)) != group and live in states.groups:
        there = f"those of its retry line are in {one_line(live)!r}"
        return f"group {one_line(group)!r} has no entries of its own in {topic}: {there}"
    return f"group {one_line(group)!r} has no entries in {topic} in this time; " + (
        f"groups with entries: {there}" if there else "nor has any other group"
    )


def amiss(states: GroupStates, group: str, topic: str, trouble: str | None) -> list[str]:
    """Returns the problems of watching one group; `trouble` is why nothing can be read."""
    found = [] if group in states.groups else [no_such_group(group, states, topic)]
    found += troubles(states, [states.view(group)])
    if trouble is not None:
        found.append(in_one_line(f"{trouble}; it continues once they are back"))
    return found


def circuit_json(
    group: str, circuit: OpenCircuit, now_ms: int, liveness: Liveness
) -> dict[str, Any]:
    """All of it."""
    held = None if circuit.held is None else circuit.held._asdict()
    state = circuit.state(now_ms)
    return {"group": group, **asdict(circuit), "held": held, "state": state, "liveness": liveness}


def member_json(member: Member) -> dict[str, Any]:
    """All of it."""
    return {
        **asdict(replace(member, taken={})),  # a mapping proxy cannot be copied
        "partitions": [_partition(one) for one in member.partitions],
        "taken": [{**_partition(one), "by": by} for one, by in member.taken.items()],
    }


def view_json(view: GroupView, now_ms: int, standing: Standing) -> dict[str, Any]:
    """Returns the state of a group as JSON."""
    liveness = standing.liveness
    return {
        "group": view.group,
        "at_ms": now_ms,
        "liveness": liveness,
        "waiting": standing.waiting,
        "waiting_is_least": standing.is_least,
        "members": [member_json(member) for member in view.members],
        "circuits": [
            circuit_json(view.group, circuit, now_ms, liveness) for circuit in view.circuits
        ],
        "counts": asdict(view.counts),
        "missing": view.missing,
    }


def _partition(partition: Partition) -> dict[str, str | int]:
    topic, number = partition
    return {"topic": topic, "partition": number}
