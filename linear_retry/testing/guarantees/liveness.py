"""Liveness: no partition is blocked except by an open circuit, and only while that is open."""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from linear_retry import events
from linear_retry.scope import Partition, Scope
from linear_retry.testing.event_log import (
    Appended,
    AttemptFinished,
    AttemptStarted,
    Crashed,
    Disturbed,
    Entry,
    EventEmitted,
    Idle,
)
from linear_retry.testing.guarantees.done import Done, runs_done_by
from linear_retry.testing.guarantees.guarantee import Guarantee
from linear_retry.testing.guarantees.retries import Retries


@dataclass(slots=True)
class _Member:
    """A member: its partitions, its circuits and pauses, and the time that its handler has taken.

    `is_held`: another member attempts for the group.
    """

    owned: set[Partition] = field(default_factory=set)
    open: dict[Scope, float] = field(default_factory=dict)
    unreadable: dict[Partition, float] = field(default_factory=dict)
    paused: set[Scope] = field(default_factory=set)
    is_held: bool = False
    begun_s: float | None = None
    _worked_s: float = 0.0

    def retry_at_s(self, partition: Partition) -> float | None:
        """When the last circuit that pauses it is due, or it is read again; None: neither.

        Infinity while it is paused by order.
        """
        if self.is_held or any(scope.covers(partition) for scope in self.paused):
            return math.inf
        times = [at_s for scope, at_s in self.open.items() if scope.covers(partition)]
        unread = self.unreadable.get(partition)
        return max(times if unread is None else [*times, unread], default=None)

    def end(self, at_s: float) -> None:
        """Ends the attempt in progress."""
        self._worked_s, self.begun_s = self.worked_s(at_s), None

    def worked_s(self, at_s: float) -> float:
        """The handler's time until then, including the attempt in progress."""
        return self._worked_s + (0.0 if self.begun_s is None else at_s - self.begun_s)


@dataclass(slots=True)
class _PartitionWait:
    """Since when one partition waits, without the time that its owner's handler took, or in which
    the owner could do nothing (`excused_s`).

    `since` is None if it waits for nothing: it has no lag, or no owner. Offsets below `reached`,
    the last one attempted, are done or removed, as it is read in order.
    """

    lag: set[int] = field(default_factory=set)
    reached: int = -1
    owner: str | None = None
    since: Entry | None = None
    worked_s: float = 0.0
    excused_s: float = 0.0


class Liveness(Guarantee):
    """No partition with lag is blocked for longer than `within_s` unless a circuit pauses it.

    Nor, if a circuit pauses it, for longer than that after its `retry_at`; the same for one that
    cannot be read (`PartitionUnreadable`), and after the end of a pause by an operator, or while
    another member attempts for the group. The messages to read are those that the log says were
    `Appended`. The time while a partition has no owner, while there is a disturbance from outside
    (`Disturbed`), that a handler takes, and in which the member could do nothing (`Idle`) does not
    count. A member that `Crashed` owns nothing any more.
    """

    def __init__(self, within_s: float = 10.0, retries: Retries | None = None) -> None:
        """`retries`: in its topics so much longer may pass as messages wait there."""
        super().__init__()
        self._within_s = within_s
        self._retries = retries
        self._members: dict[str, _Member] = defaultdict(_Member)
        self._waits: dict[Partition, _PartitionWait] = defaultdict(_PartitionWait)
        self._disturbances = 0
        self._last: Entry | None = None
        # A message may be handled before its writer logs it.
        self._done = Done()

    def feed(self, entry: Entry) -> None:
        self._last = entry
        self._done.feed(entry)
        match entry:
            case AttemptStarted(at_s, member, place):
                self._check(entry, [place[:2]])
                self._members[member].begun_s = at_s
                self._waits[place[:2]].reached = place[2]
            case Appended(_, _, place) if place[2] not in self._done.in_partition(place[:2]):
                if not self._waits[place[:2]].lag:
                    self._check(entry, [place[:2]])
                self._waits[place[:2]].lag.add(place[2])
                self._restart_wait(entry, [place[:2]], anew=False)
            case Disturbed():
                self._check(entry, self._waits)
                self._disturbances += -1 if entry.over else 1
                self._restart_wait(entry, self._waits)
            case Idle(at_s, member, since_s):
                self._excuse(member, since_s, at_s)
            case AttemptFinished(at_s, member):
                self._members[member].end(at_s)
                self._progress(entry)
            case EventEmitted():
                self._on_event(entry)
            case Crashed(_, member):
                owned = [*self._members[member].owned]
                self._check(entry, owned)
                self._revoke(member, owned)
                del self._members[member]
                self._restart_wait(entry, owned)

    def finish(self) -> None:
        if self._last is not None:
            self._check(self._last, self._waits)

    def _progress(self, entry: AttemptFinished | EventEmitted) -> None:
        """Notes progress: a message that is done, or a failed attempt."""
        runs = runs_done_by(entry)
        moved = {partition for partition, _, _ in runs}
        if isinstance(entry, AttemptFinished):
            moved.add(entry.place[:2])
        self._check(entry, moved)
        for partition, begin, end in runs:
            lag = self._waits[partition].lag
            lag -= (
                {offset for offset in lag if begin <= offset < end} if end > begin + 1 else {begin}
            )
        self._restart_wait(entry, moved)

    def _on_event(self, said: EventEmitted) -> None:
        reader, event = self._members[said.member], said.event
        changed: Iterable[Partition] = ()
        match event:
            case events.Assigned(partitions):
                changed = partitions
            case events.Revoked() | events.Lost():
                changed = event.partitions
            case events.Stopped():
                changed = [*reader.owned]
            case (
                events.CircuitOpened()
                | events.ProbeFailed()
                | events.LimitReached()
                | events.DeadLetterFailed()
                | events.CircuitClosed()
            ):
                changed = [p for p in reader.owned if event.scope.covers(p)]
            case events.PausedByHand(scope=scope) | events.PauseEnded(scope=scope):
                changed = [p for p in reader.owned if scope.covers(p)]
            case events.HeldByGroup() | events.GroupHoldEnded():
                changed = [*reader.owned]
            case events.PartitionUnreadable() | events.PartitionReadable():
                changed = [(event.topic, event.partition)]
        self._check(said, changed)
        self._apply(said, reader)
        self._restart_wait(said, changed)
        self._progress(said)

    def _apply(self, said: EventEmitted, reader: _Member) -> None:
        match said.event:
            case events.Assigned(partitions):
                reader.owned |= {*partitions}
                for partition in partitions:
                    self._waits[partition].owner = said.member
            case events.Revoked(partitions) | events.Lost(partitions):
                self._revoke(said.member, partitions)
            case events.Stopped():
                self._revoke(said.member, reader.owned)
            case (
                events.CircuitOpened()
                | events.ProbeFailed()
                | events.LimitReached()
                | events.DeadLetterFailed() as event
            ):
                reader.open[event.scope] = said.at_s + event.delay_s
            case events.WaitEnded(scope) if scope in reader.open:
                reader.open[scope] = said.at_s
            case events.CircuitClosed(scope):
                reader.open.pop(scope, None)
            case events.PausedByHand(scope=scope):
                reader.paused.add(scope)
            case events.PauseEnded(scope=scope):
                reader.paused.discard(scope)
            case events.HeldByGroup():
                reader.is_held = True
            case events.GroupHoldEnded():
                reader.is_held = False
            case events.PartitionUnreadable(topic, partition):
                reader.unreadable[topic, partition] = said.at_s + said.event.delay_s
            case events.PartitionReadable(topic, partition):
                reader.unreadable.pop((topic, partition), None)

    def _excuse(self, member: str, since_s: float, until_s: float) -> None:
        """Excuses this time, unless the handler was running, whose time is excluded already."""
        reader = self._members[member]
        for partition in reader.owned if reader.begun_s is None else ():
            wait = self._waits[partition]
            if wait.since is not None and wait.owner == member:
                wait.excused_s += max(until_s - max(since_s, wait.since.at_s), 0.0)

    def _revoke(self, member: str, partitions: Iterable[Partition]) -> None:
        """Removes the owner of those that it had, unless another has been assigned them."""
        owned = self._members[member].owned
        for partition in owned & {*partitions}:
            owned.discard(partition)
            self._members[member].unreadable.pop(partition, None)
            if self._waits[partition].owner == member:
                self._waits[partition].owner = None

    def _check(self, entry: Entry, partitions: Iterable[Partition]) -> None:
        """Checks whether one of these has waited for too long."""
        for partition in partitions:
            wait = self._waits[partition]
            if wait.since is None or wait.owner is None:
                continue
            reader = self._members[wait.owner]
            worked_s = reader.worked_s(entry.at_s) - wait.worked_s
            waited_s = entry.at_s - wait.since.at_s - worked_s - wait.excused_s
            if self._retries is not None:
                waited_s -= (self._retries.delay_ms(partition[0]) or 0) / 1000
            if waited_s <= self._within_s:  # the usual case; there may be hundreds of circuits
                continue
            retry_at_s = reader.retry_at_s(partition)
            if retry_at_s is not None:
                waited_s -= max(retry_at_s - wait.since.at_s, 0.0)
            if waited_s > self._within_s:
                # Not at each attempt: thousands may have been removed unread.
                wait.lag = {offset for offset in wait.lag if offset >= wait.reached}
                if not wait.lag:
                    wait.since = None
                    continue
                what = "which no open circuit paused" if retry_at_s is None else "after retry_at"
                text = (
                    f"{Scope(*partition)} was blocked for {waited_s:.3f} s in "
                    f"{wait.owner}, {what}; {min(wait.lag)} is not done"
                )
                self._violate(text, wait.since, entry, member=wait.owner, partition=partition)
                wait.since = None  # reported once, until there is progress

    def _restart_wait(
        self, entry: Entry, partitions: Iterable[Partition], *, anew: bool = True
    ) -> None:
        """Restarts the wait of these, if they have anything to wait for."""
        for partition in partitions:
            wait = self._waits[partition]
            if not self._is_due(wait):
                wait.since = None
            elif anew or wait.since is None:
                assert wait.owner is not None
                reader = self._members[wait.owner]
                wait.since, wait.worked_s = entry, reader.worked_s(entry.at_s)
                wait.excused_s = 0.0

    def _is_due(self, wait: _PartitionWait) -> bool:
        return wait.owner is not None and bool(wait.lag) and not self._disturbances


class LiveLineNeverWaits(Liveness):
    """The live line makes progress within `within_s`, whatever its retry line does.

    It is `Liveness` for the topics that are no retry topics: what the retry line has open or in
    progress excuses nothing.
    """

    def __init__(self, retries: Retries, within_s: float = 1.0) -> None:
        super().__init__(within_s)
        self._retry_delay_ms = retries.delay_ms
        self._of_retry_line: set[str] = set()

    def feed(self, entry: Entry) -> None:
        match entry:
            case AttemptStarted() | AttemptFinished() | Appended() if self._is_retry(
                [entry.place[:2]]
            ):
                return
            case EventEmitted(_, member, events.Assigned(partitions)) if self._is_retry(partitions):
                self._of_retry_line.add(member)
        if entry.member not in self._of_retry_line:
            super().feed(entry)

    def _is_retry(self, partitions: Iterable[Partition]) -> bool:
        return any(self._retry_delay_ms(topic) is not None for topic, _ in partitions)
