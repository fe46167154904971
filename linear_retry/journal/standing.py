"""Says how the groups of a journal stand in Kafka: whether a member lives, and what waits."""

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self, TypeAlias

from linear_retry.errors import BrokerError
from linear_retry.journal.group_state import GroupView
from linear_retry.kafka.consumer.committed import Committed
from linear_retry.kafka.consumer.settings import connection
from linear_retry.kafka.topics.description import Topics
from linear_retry.kafka.topics.groups import Groups
from linear_retry.records.commit_note import note_beside
from linear_retry.records.topics.names import is_topic_name
from linear_retry.scope import Partition

Liveness: TypeAlias = Literal["live", "no-member", "past", "unknown"]
"""Kafka's answer about a group: it has members; it has none; it is known no more; no answer."""

GroupStatus: TypeAlias = Literal[
    "no-member", "open", "silent", "unknown", "idle", "closed", "stopped", "past"
]
"""The most urgent first."""


@dataclass(frozen=True, slots=True)
class Lag:
    """How many offsets are after a group's commit in one partition, and after all that is done.

    Where each key is in order, a held one keeps the commit back, and `others` is what all other
    keys have yet to do. Negative: the log ends before what the group has committed.
    """

    total: int
    others: int

    @classmethod
    def after(cls, committed: tuple[int, str], end: int, group: str, partition: Partition) -> Self:
        """Returns the lag after a commit, an offset with the note beside it."""
        note = note_beside(committed, group, partition)
        frontier = committed[0] if note is None else note.frontier
        return cls(end - committed[0], end - frontier)


Lags: TypeAlias = Mapping[Partition, Lag | None]
"""The lag of each partition; None: the group has committed nothing in it, and something is there.

Where the group would begin is its own `auto.offset.reset`, which no broker knows."""

_ANSWER_S = 3.0
_UNLISTED_FOR_S = 60.0


@dataclass(frozen=True, slots=True)
class Standing:
    """A group as Kafka knows it: `waiting` messages are after its committed offsets; None: unknown.

    `is_least`: in some partitions it has committed nothing, so that at least these wait. `is_asked`
    is False as long as Kafka was not asked.
    """

    liveness: Liveness = "unknown"
    waiting: int | None = None
    is_least: bool = False
    is_asked: bool = True

    @classmethod
    def of(cls, liveness: Liveness, lags: Lags) -> Self:
        """Returns how a group stands that was asked about, and lags like this."""
        waiting = sum(max(0, lag.total) for lag in lags.values() if lag is not None)
        is_least = None in lags.values()
        # "At least 0" is no more than unknown.
        is_known = bool(lags) and (waiting > 0 or not is_least)
        return cls(liveness, waiting if is_known else None, is_least)

    def __str__(self) -> str:
        match self.liveness:
            case "no-member":
                many = "unknown how many" if self.waiting is None else f"{self.waiting:,}"
                at_least = "at least " if self.is_least and self.waiting is not None else ""
                return f"no live member, {at_least}{many} waiting"
            case "past":
                return "past: Kafka knows no such group any more"
            case "unknown" if not self.is_asked:
                return "asking Kafka whether a member lives"
            case "unknown":
                return (
                    "liveness unknown: Kafka gives no answer about this group, this user may not "
                    "DESCRIBE it, or it is a query of Spark"
                )
            case "live":
                return "live"


def status_of(view: GroupView, liveness: Liveness, now_ms: int) -> GroupStatus:
    """Returns the one word about a group.

    Kafka's answer counts before the journal: a killed member has written nothing about it. Only
    a group that Kafka says has members is `closed`, `idle` or `stopped`.
    """
    if liveness == "past" or liveness == "no-member":
        return liveness
    if view.circuits:
        return "open"
    states = {member.state for member in view.present(now_ms)}
    if "silent" in states:
        return "silent"
    if liveness == "unknown":
        return "unknown"
    if "closed" in states:
        return "closed"
    return "idle" if "idle" in states else "stopped"


class Client(Protocol):
    """What answers for one group, as `Committed` does."""

    def ask_with_notes(
        self, partitions: Iterable[Partition], timeout_s: float
    ) -> dict[Partition, tuple[int, str]] | None:
        """Returns what the group has committed, with the text beside it; None: no answer."""

    def close(self) -> None:
        """Closes its connections."""


class Clients:
    """A client for each group that is asked about, and of these only the latest `most`.

    librdkafka needs a key of its own for each client, of which a process has 1,024, and some
    threads: one for each group that ever was would end the console.
    """

    def __init__(self, make: Callable[[str], Client], most: int = 20) -> None:
        self._make, self._most = make, most
        self._clients: OrderedDict[str, Client] = OrderedDict()

    def of(self, group: str) -> Client:
        """Returns the group's client; closes the one that was not used for longest."""
        if group in self._clients:
            self._clients.move_to_end(group)
            return self._clients[group]
        while len(self._clients) >= self._most:
            self._clients.popitem(last=False)[1].close()
        self._clients[group] = client = self._make(group)
        return client

    def keep(self, groups: Iterable[str]) -> None:
        """Closes the clients of all other groups."""
        for group in self._clients.keys() - set(groups):
            self._clients.pop(group).close()


class Standings:
    """Asks Kafka about groups, as of the last `refresh`. Belongs to one thread.

    Not what consumers say: a killed one says nothing, and librdkafka's own figure of the lag is
    frozen while a partition is paused. Never raises: what cannot be asked is unknown.
    """

    def __init__(
        self, config: Mapping[str, Any], clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        """`config` has librdkafka's keys. The brokers are asked at the first `refresh`."""
        keys = connection(config)
        self._clock_s = clock_s
        self._clients = Clients(lambda group: Committed(keys, group))
        self._topics = Topics(config, _ANSWER_S)
        self._groups = Groups(config, _ANSWER_S)
        self._listed: Mapping[str, bool | None] = {}
        self._unlisted: dict[str, tuple[float, Liveness]] = {}
        self._is_unanswered = False

    def refresh(self) -> None:
        """Asks which groups have members, with one request for all."""
        self._listed = self._groups.listed()
        self._is_unanswered = False

    def liveness(self, view: GroupView) -> Liveness:
        """Returns whether the group has a member.

        A group that is not listed is past, or may not be described by us: what it has committed
        tells one from the other. A refusal looks like no answer and costs the whole wait, so after
        one the others are unknown until the next `refresh`, which begins with those.
        """
        if view.group in self._listed:
            has_members = self._listed[view.group]
            return "unknown" if has_members is None else "live" if has_members else "no-member"
        asked_s, known = self._unlisted.get(view.group, (float("-inf"), "unknown"))
        if self._is_unanswered or self._clock_s() < asked_s + _UNLISTED_FOR_S:
            return known
        # The micro-batches of Spark have a journal and no consumer group.
        asked = [(topic, 0) for topic in _of_kafka(view.topics)]
        commits = self._commits(view.group, asked)
        self._is_unanswered = bool(asked) and commits is None
        # With offsets it is somewhere: a broker did not answer when all groups were listed.
        found: Liveness = "past" if commits == {} else "unknown"
        self._unlisted[view.group] = self._clock_s(), found
        return found

    def lags(self, view: GroupView) -> Lags:
        """Returns the lag of each partition of its topics; empty if it is unknown.

        Of all of them, since nobody has those of a dead group.
        """
        try:
            asked = self._topics.partitions(_of_kafka(view.topics))
            # Before the ends: a commit in between must not make the lag negative.
            commits = self._commits(view.group, asked)
            if commits is None:
                return {}
            ends = self._topics.ends(asked, committed=True)
        except BrokerError:  # unknown, as without an answer about the group
            return {}
        # Where nothing ever was, nothing waits.
        begun = {key: (0, "") for key, end in ends.items() if end == 0} | commits
        return {
            key: Lag.after(begun[key], end, view.group, key) if key in begun else None
            for key, end in ends.items()
        }

    def of(self, view: GroupView) -> Standing:
        """Returns how the group stands; what waits is asked only if nobody reads it."""
        liveness = self.liveness(view)
        return Standing.of(liveness, self.lags(view) if liveness == "no-member" else {})

    def keep(self, groups: Iterable[str]) -> None:
        """Closes the clients for all other groups."""
        self._clients.keep(groups)

    def _commits(
        self, group: str, partitions: Collection[Partition]
    ) -> dict[Partition, tuple[int, str]] | None:
        """Returns what the group has committed in these; None: no answer, or nothing to ask."""
        if not partitions:
            return None
        return self._clients.of(group).ask_with_notes(partitions, _ANSWER_S)


def _of_kafka(topics: Iterable[str]) -> list[str]:
    return [topic for topic in topics if is_topic_name(topic)]
