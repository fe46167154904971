"""The lanes of which the store has messages: nothing of them is sent directly."""

from collections.abc import Set
from typing import TypeAlias

Lane: TypeAlias = tuple[str, str]
"""Topic and slot."""


class HeldLanes:
    """What must go through the store, so that it does not overtake what is there.

    After a failure that is every lane of every topic. A topic is open again once the store has sent
    all of one of its lanes: that shows that Kafka takes it. Then only the lanes are held of which
    the store still has messages.
    """

    def __init__(self, waiting: Set[Lane]) -> None:
        """`waiting`: the lanes of which the store has messages."""
        self._lanes = set(waiting)
        self._closed: set[str] = set()
        self._all_closed = False
        self.any = bool(waiting)
        """Whether `holds` may be true: an attribute, as every message asks for it."""

    def holds(self, lane: Lane) -> bool:
        """Whether a message of `lane` must be stored."""
        return self._all_closed or lane in self._lanes or lane[0] in self._closed

    @property
    def all_closed(self) -> bool:
        """Whether every lane is held, as nothing shows yet that Kafka takes messages again."""
        return self._all_closed

    def close(self) -> None:
        """Holds every lane, since a message has failed."""
        self._all_closed = self.any = True

    def note(self, topic: str) -> None:
        """Notes that a message of `topic` has to be stored."""
        if self._all_closed:
            self._closed.add(topic)

    def add(self, lane: Lane) -> None:
        """Notes that a message of `lane` is about to be stored."""
        self._lanes.add(lane)
        self.any = True
        self.note(lane[0])

    def settle(self, waiting: Set[Lane], noted: Set[str]) -> None:
        """Opens what the store no longer has.

        `waiting` are the lanes that it has, `noted` the topics of messages still to be stored.
        """
        sent = self._lanes - waiting
        self._lanes &= waiting
        if sent or not self._lanes:
            self._all_closed = False
        self._closed -= {topic for topic, _ in sent}
        self._closed &= noted | {topic for topic, _ in self._lanes}
        self.any = self._all_closed or bool(self._lanes or self._closed)
