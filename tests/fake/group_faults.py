"""Faults of the group, its commits and the calls of a member."""

import threading
from collections import deque
from dataclasses import dataclass, field
from itertools import repeat

from confluent_kafka import KafkaError

from linear_retry.scope import Partition


@dataclass(frozen=True, slots=True)
class CommitFault:
    """A commit that is answered with this error; `lands`: all the same it was done."""

    error: KafkaError
    lands: bool = False


@dataclass
class GroupFaults:
    """Switches about members, their commits, and the brokers as they see them."""

    brokers_down: bool = False
    errors_per_poll: int = 0
    """With the brokers down each poll calls `error_cb` so often. Without it nothing is reported."""
    lost_as_revoked: bool = False
    """A member that is out is notified of a revoke (librdkafka #5604)."""
    zombies_commit: bool = False
    """A member that is out may commit until another is given the partition (KIP-848)."""
    outdated_stay: bool = False
    """A `consume` returns what it took before a rebalance inside it, of what was revoked too."""
    commit_answer_s: float | None = 0.0
    """How long an asynchronous commit's answer takes; None: it never comes."""
    commits_land_late: bool = False
    """An asynchronous commit reaches the broker only when it is answered."""
    commits_retried: int = 0
    """So many that are sent off meet a coordinator in trouble, and are sent once more, behind what
    was sent since: librdkafka does so, and the older offset stays."""
    longest_note: int = 4_096
    """`offset.metadata.max.bytes`: a commit with a longer text is refused, offset and all."""
    commit_blocks_s: float = 0.0
    """A synchronous commit waits so long for brokers that are down: 45 s, measured."""
    close_takes_s: float = 0.0
    """`close` takes so much virtual time: 45 s with a commit under way and the brokers down."""
    close_hangs: threading.Event | None = None
    """`close` returns when this is set: a fenced member's took more than 295 s."""
    _commits: deque[CommitFault] = field(default_factory=deque)
    _partition_commits: dict[Partition, deque[KafkaError]] = field(default_factory=dict)
    _polls: deque[BaseException] = field(default_factory=deque)
    _calls: dict[str, deque[BaseException]] = field(default_factory=dict)

    def fail_commit(self, code: int, times: int = 1, *, lands: bool = False) -> None:
        """A synchronous commit raises, an asynchronous one is answered with the error.

        `lands`: the broker has it, and only the answer says otherwise.
        """
        fault = CommitFault(KafkaError(code, "Commit failed"), lands)
        self._commits.extend(repeat(fault, times))

    def fail_commit_of(self, partition: Partition, code: int, times: int = 1) -> None:
        """Of a commit only this partition's offset is refused, in its own entry of the answer."""
        errors = self._partition_commits.setdefault(partition, deque())
        errors.extend(repeat(KafkaError(code, "Commit failed"), times))

    def raise_in_poll(self, error: BaseException) -> None:
        """The next poll or consume takes messages as ever, drops them, and raises."""
        self._polls.append(error)

    def raise_in_call(self, call: str, error: BaseException, times: int = 1) -> None:
        """The next such calls of a consumer (`pause`, `incremental_assign` ...) only raise this.

        Inside a callback: a signal's handler that raises there, or a refusal of librdkafka's.
        """
        self._calls.setdefault(call, deque()).extend(repeat(error, times))

    def takes_commit_fault(self) -> CommitFault | None:
        return self._commits.popleft() if self._commits else None

    def takes_commit_retry(self) -> bool:
        self.commits_retried, takes = max(self.commits_retried - 1, 0), self.commits_retried > 0
        return takes

    def takes_partition_commit_error(self, partition: Partition) -> KafkaError | None:
        errors = self._partition_commits.get(partition)
        return errors.popleft() if errors else None

    def takes_poll_error(self) -> BaseException | None:
        return self._polls.popleft() if self._polls else None

    def takes_call_error(self, call: str) -> BaseException | None:
        errors = self._calls.get(call) if self._calls else None
        return errors.popleft() if errors else None
