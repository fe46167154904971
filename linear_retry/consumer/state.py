"""Which owners does one consumer join?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from linear_retry.consumer.monitoring.counters import Counters
from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.partitions.offsets import Offsets
from linear_retry.consumer.partitions.read_ahead import ReadAhead
from linear_retry.consumer.partitions.unreadable import Unreadable
from linear_retry.events import Event
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.client import Client
from linear_retry.kafka.consumer.settings import ConsumerSettings
from linear_retry.retry.circuits import Circuits
from linear_retry.retry.clock import Clock
from linear_retry.retry.consecutive import ConsecutiveDeadLetters


@dataclass(frozen=True, slots=True)
class Parts:
    """One piece of state each, and nobody else's. They do not know one another."""

    settings: ConsumerSettings
    client: Client
    clock: Clock
    assignment: Assignment
    offsets: Offsets
    circuits: Circuits[Message]
    read_ahead: ReadAhead
    emit: Callable[[Event], None]
    counters: Counters = field(default_factory=Counters)
    row: ConsecutiveDeadLetters = field(default_factory=ConsecutiveDeadLetters)
    unreadable: Unreadable = field(default_factory=Unreadable)
