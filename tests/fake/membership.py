"""A member's assignment and rebalances."""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from linear_retry.scope import Partition
from tests.fake.fetching import Fetching

Callback = Callable[[Any, list[TopicPartition]], object]
Kind = Literal["assign", "revoke", "lost"]

_EAGER = (
    "Changes to the current assignment must be made using assign() "
    "when rebalance protocol type is EAGER"
)
_COOPERATIVE = (
    "Changes to the current assignment must be made using incremental_assign() "
    "or incremental_unassign() when rebalance protocol type is COOPERATIVE"
)


@dataclass(slots=True)
class Change:
    """A rebalance that waits to be served, after so many more messages at most.

    A zombie is `lost` to the group whatever is `reported`.
    """

    kind: Kind
    partitions: tuple[Partition, ...]
    after: int = 0
    reported: Kind | None = None

    @property
    def callback(self) -> Kind:
        return self.reported or self.kind


class Membership:
    """The assignment of one member: changed by its callbacks, or for them where they did not.

    `target` is the group's view: what this member has when all `changes` are served.
    `taken_by_others`: what the group has given to others since it counted this member out.
    """

    def __init__(self, fetching: Fetching, *, incremental: bool) -> None:
        self.incremental = incremental
        self.target: tuple[Partition, ...] = ()
        self.taken_by_others: set[Partition] = set()
        self.changes: deque[Change] = deque()
        self.callbacks: dict[Kind, Callback | None] = {}
        self.generation = 0
        self.lives = 1
        self.is_out = True
        self._fetching = fetching
        self._arriving: tuple[Partition, ...] = ()
        self._joined = False
        self._acted = False
        self._serving_loss = False

    def retarget(self, partitions: Iterable[Partition], after: int) -> None:
        """Revoke first, then assign; eager takes everything back first.

        What the group wanted before and has not been served is forgotten, but not what it took.
        """
        held = self.held
        taken = [change for change in self.changes if change.kind != "assign"]
        left = [item for item in held if not any(item in change.partitions for change in taken)]
        # In place: whoever serves them may be in the midst of it, in a commit's callback.
        self.changes.clear()
        self.changes.extend(change for change in taken if set(change.partitions) & set(held))
        wanted = tuple(sorted(set(partitions)))
        stay = set(wanted) & set(left) if self.incremental else set()
        gone = tuple(item for item in left if item not in stay)
        if gone:
            self.changes.append(Change("revoke", gone, after))
        added = tuple(item for item in wanted if item not in stay)
        self.changes.append(Change("assign", added, 0 if gone else after))
        self.target = wanted

    def withdraw(self, kind: Kind, after: int, *, reported: Kind | None = None) -> None:
        """Everything is taken, and nothing given. What waited to be served is forgotten."""
        self.changes.clear()
        held = self.held
        if held:
            self.changes.append(Change(kind, held, after, reported))
        self.target = ()

    def change_nothing(self, kind: Kind) -> None:
        """A rebalance of no partition. With an eager assignment only where there is nothing."""
        if self.incremental or not (self._fetching.assigned or self.changes):
            self.changes.append(Change(kind, ()))

    @property
    def held(self) -> tuple[Partition, ...]:
        """What it has, as the group sees it: what its callback is being given too."""
        assigned = self._fetching.assigned
        return (*assigned, *(item for item in self._arriving if item not in assigned))

    def is_lost(self) -> bool:
        """The group counts this member out, and the member does not know yet."""
        return self._serving_loss or any(change.kind == "lost" for change in self.changes)

    def serve(self, change: Change, consumer: object) -> None:
        """Call back, then do what the callback did not: whatever it raises, that is done."""
        self._joined = True
        self._acted = False
        if change.kind == "assign":
            self.generation += 1
            self.is_out = False
            self._arriving = change.partitions
        callback = self.callbacks.get(change.callback)
        if callback is None and change.callback == "lost":
            callback = self.callbacks.get("revoke")
        self._serving_loss = change.kind == "lost"
        try:
            if callback is not None:
                callback(consumer, [TopicPartition(*item) for item in change.partitions])
        finally:
            self._serving_loss = False
            if change.kind == "lost":
                # The next time it joins it has another id.
                self.lives += 1
                self.is_out = True
            if not self._acted:
                self._follow(change)
            self._arriving = ()

    def leave(self, consumer: object) -> None:
        """`close`: everything is revoked; without an assignment nobody is called."""
        self.changes.clear()
        self.target = ()
        held = tuple(self._fetching.assigned)
        if held and self._joined:
            self.serve(Change("revoke", held), consumer)
        self.replace([])

    def _follow(self, change: Change) -> None:
        items = [TopicPartition(*item) for item in change.partitions]
        if change.kind == "assign":
            (self._add if self.incremental else self.replace)(items)
        elif self.incremental:
            self._remove(items)
        else:
            self.replace([])

    def assign(self, items: list[TopicPartition]) -> None:
        self._require(eager=True)
        if len({(item.topic, item.partition) for item in items}) < len(items):
            raise refusal(KafkaError._INVALID_ARG, "Failed to set assignment: Local: Invalid arg")
        self.replace(items)

    def unassign(self) -> None:
        self._require(eager=True)
        self.replace([])

    def incremental_assign(self, items: list[TopicPartition]) -> None:
        self._require(eager=False)
        for item in items:
            if (item.topic, item.partition) in self._fetching.assigned:
                text = f"{item.topic} [{item.partition}] is already part of the current assignment"
                raise refusal(KafkaError._CONFLICT, text)
        self._add(items)

    def incremental_unassign(self, items: list[TopicPartition]) -> None:
        self._require(eager=False)
        if items and not self._fetching.assigned:
            raise refusal(KafkaError._INVALID_ARG, "Can't subtract from empty assignment")
        for item in items:
            if (item.topic, item.partition) not in self._fetching.assigned:
                text = (
                    f"{item.topic} [{item.partition}] can't be unassigned since it is not in the "
                    "current assignment"
                )
                raise refusal(KafkaError._INVALID_ARG, text)
        self._remove(items)

    def replace(self, items: list[TopicPartition]) -> None:
        for partition in list(self._fetching.assigned):
            self._fetching.end(partition)
        self._add(items)

    def _require(self, *, eager: bool) -> None:
        if self._joined and eager == self.incremental:
            raise refusal(KafkaError._STATE, _COOPERATIVE if self.incremental else _EAGER)
        self._acted = True

    def _add(self, items: list[TopicPartition]) -> None:
        for item in items:
            self._fetching.begin((item.topic, item.partition), item.offset)

    def _remove(self, items: list[TopicPartition]) -> None:
        for item in items:
            self._fetching.end((item.topic, item.partition))


def refusal(code: int, text: str) -> KafkaException:
    """As librdkafka refuses."""
    return KafkaException(KafkaError(code, text))
