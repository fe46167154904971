"""Simulated members of the fleet: the journal entries and dead letters that consumers would write.

A message is handled in no time while all is well. An attempt fails if its dependency is down as it
starts, and the failure is recorded 40 ms later. Probes start when they are due. A member that
crashes writes nothing from then on, one that is deployed again stops first, and another
instance of it starts half a minute later. Some `CircuitClosed` entries are dropped, as a journal
may drop them.

Each circuit that opens is one `Episode`: what really happened, and what the pipeline must find.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Literal, TypeAlias
from uuid import UUID

from examples.fleet.model import Calendar, Service, Week, rng_of
from linear_retry.events import (
    Assigned,
    CircuitClosed,
    CircuitOpened,
    CloseOutcome,
    DeadLettered,
    Event,
    ProbeFailed,
    Stopped,
)
from linear_retry.journal.entry import Entry, encode
from linear_retry.records.dead_letter import FailureInfo, to_dead_letter
from linear_retry.records.record import Record
from linear_retry.records.text import brief, describe
from linear_retry.retry.decision import Reason
from linear_retry.scope import Scope

PARTITIONS = 6

_ATTEMPT_MS = 40
_RESTART_MS = 30_000
_DROPPED_SHARE = 0.004
_BUG = KeyError("discount")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Kind: TypeAlias = Literal["closed", "close_missing", "stopped", "restarted", "open"]
_Incident: TypeAlias = tuple[int, Literal["outage", "permanent", "poison"]]


@dataclass(slots=True)
class Episode:
    """One circuit that opened, with the sequence number of its `CircuitOpened` entry.

    `ends_ms`: when the last outage that failed one of its attempts ended; None if the message
    itself was bad.
    """

    group: str
    instance: str
    sequence: int
    opened_ms: int
    ends_ms: int | None = None
    kind: Kind | None = None

    @property
    def duration_ms(self) -> int | None:
        return None if self.ends_ms is None else max(1, self.ends_ms - self.opened_ms)


@dataclass(frozen=True, slots=True)
class ServiceHistory:
    """All entries and letters of one service's members in order of time, and the true episodes."""

    entries: tuple[Entry, ...]
    letters: tuple[tuple[Reason, Record], ...]
    """Each with the topic, partition and timestamp to write it with."""
    episodes: tuple[Episode, ...]

    def journal(self, topic: str) -> Iterator[Record]:
        """The entries as records of this topic, partitioned by key."""
        for entry in self.entries:
            yield Record(topic, -1, -1, entry.at_ms, entry.key, encode(entry))


def simulate(
    service: Service, calendar: Calendar, week: Week, seed: int, letters_to: str
) -> ServiceHistory:
    """Simulates a week of this service. `letters_to` is the dead-letter topic."""
    instances = [
        instance
        for number in range(service.members)
        for instance in _instances(number, service, calendar, week, seed, letters_to)
    ]
    return ServiceHistory(
        tuple(
            sorted(
                (e for instance in instances for e in instance.entries), key=lambda one: one.at_ms
            )
        ),
        tuple(letter for instance in instances for letter in instance.letters),
        tuple(episode for instance in instances for episode in instance.episodes),
    )


def _instances(
    number: int, service: Service, calendar: Calendar, week: Week, seed: int, letters_to: str
) -> list[_Instance]:
    rng = rng_of(service, seed, f"member {number}")
    incidents: list[_Incident] = sorted(
        [
            *((outage.begins_ms, "outage") for outage in calendar.outages),
            *((at_ms, "permanent") for at_ms in week.arrivals(service.permanents_per_day, rng)),
            *((at_ms, "poison") for at_ms in week.arrivals(service.poisons_per_day, rng)),
        ]
    )
    instances = []
    for begins_ms, until_ms, is_deployed in _spans(service, week, rng):
        instance_id = str(UUID(int=rng.getrandbits(128), version=4))
        member = f"{service.group}-{number}" if service.is_static else instance_id
        partitions = tuple(range(number, PARTITIONS, service.members))
        instance = _Instance(
            service, calendar, letters_to, member, instance_id, partitions, until_ms, rng
        )
        instance.run(begins_ms, incidents)
        if is_deployed:
            instance.stop()
        instances.append(instance)
    for instance in instances:
        instance.classify_episodes(is_followed=service.is_static and instance is not instances[-1])
    return instances


def _spans(service: Service, week: Week, rng: Random) -> Iterator[tuple[int, int, bool]]:
    """When each instance starts and ends, and whether it is stopped then; the last does not end."""
    ends = [(at_ms, False) for at_ms in week.arrivals(service.crashes_per_day, rng)]
    ends += [(at_ms, True) for at_ms in week.arrivals(service.deploys_per_day, rng)]
    begins_ms = week.begins_ms
    for until_ms, is_deployed in [*sorted(ends), (week.ends_ms, False)]:
        if until_ms > begins_ms:
            yield begins_ms, until_ms, is_deployed
            begins_ms = until_ms + _RESTART_MS


@dataclass(slots=True)
class _Instance:
    """One instance of a member, which ends at `until_ms`."""

    service: Service
    calendar: Calendar
    letters_to: str
    member: str
    instance: str
    partitions: tuple[int, ...]
    until_ms: int
    rng: Random
    entries: list[Entry] = field(default_factory=list)
    letters: list[tuple[Reason, Record]] = field(default_factory=list)
    episodes: list[Episode] = field(default_factory=list)
    _sequence: int = 0

    def run(self, begins_ms: int, incidents: Iterable[_Incident]) -> None:
        """Simulates the instance from its start to its end."""
        topic = self.service.topic
        self._emit(begins_ms, Assigned(tuple((topic, number) for number in self.partitions)))
        free_ms = begins_ms
        # An outage that is on as the instance starts began before it.
        for at_ms, what in [(begins_ms, "outage"), *incidents]:
            if begins_ms <= at_ms < self.until_ms:
                wait_s = self.rng.expovariate(1 / self.service.message_interval_s)
                came_ms = max(free_ms, at_ms) + round(wait_s * 1000)
                if what == "outage":
                    free_ms = self._retry_until_up(came_ms, free_ms)
                else:
                    free_ms = self._fail_for_good(
                        max(came_ms, self._retry_until_up(came_ms, free_ms)), what
                    )

    def stop(self) -> None:
        """Adds the entry of an orderly shutdown."""
        self._append(self.until_ms, Stopped(left_group=not self.service.is_static))

    def classify_episodes(self, *, is_followed: bool) -> None:
        """Sets the kind that the journal shows for each episode."""
        has_stopped = isinstance(self.entries[-1].event, Stopped)
        for episode in self.episodes:
            if episode.kind is not None:
                continue
            if episode is not self.episodes[-1]:
                episode.kind = "close_missing"
            elif has_stopped:
                episode.kind = "stopped"
            else:
                episode.kind = "restarted" if is_followed else "open"

    def _retry_until_up(self, at_ms: int, free_ms: int) -> int:
        """Retries message after message until the dependency is up; returns when it is free."""
        while at_ms < self.until_ms and self.calendar.during(at_ms) is not None:
            free_ms = at_ms = self._retry_message(at_ms, None)
        return free_ms

    def _fail_for_good(self, at_ms: int, what: str) -> int:
        """Handles a message that never succeeds; returns when the next one may be attempted."""
        if what == "poison":
            return self._retry_message(at_ms, _BUG)
        error, failed_ms = self.service.permanent_error, at_ms + _ATTEMPT_MS
        self._dead_letter(self._record(at_ms), "permanent", 1, (failed_ms, failed_ms), error)
        return failed_ms + 1

    def _retry_message(self, at_ms: int, bug: Exception | None) -> int:
        """Retries a message until it is handled or given up; returns when the next may start."""
        record, error = self._record(at_ms), bug or self.service.error
        scope = Scope.of(self.service.scope, (record.topic, record.partition))
        first_ms, failures = at_ms + _ATTEMPT_MS, 0
        episode = Episode(self.service.group, self.instance, self._sequence + 1, first_ms)
        while (failed_ms := at_ms + _ATTEMPT_MS) < self.until_ms:
            outage = self.calendar.during(at_ms)
            if outage is None and bug is None:
                return self._close(scope, episode, failed_ms, "recovered")
            failures += 1
            if outage is not None and bug is None:
                episode.ends_ms = outage.ends_ms
            delay_s = self.service.strategy.delay_s(failures)
            if delay_s is None:
                self._dead_letter(record, "exhausted", failures, (first_ms, failed_ms), error)
                return self._close(scope, episode, failed_ms, "dead-lettered")
            at_ms = failed_ms + round(delay_s * 1000)
            kind = CircuitOpened if failures == 1 else ProbeFailed
            place = record.topic, record.partition, record.offset
            retry_at = _EPOCH + timedelta(milliseconds=at_ms)
            self._emit(failed_ms, kind(scope, *place, brief(error), failures, delay_s, retry_at))
            if failures == 1:
                self.episodes.append(episode)
        return failed_ms

    def _close(self, scope: Scope, episode: Episode, at_ms: int, outcome: CloseOutcome) -> int:
        if self.rng.random() < _DROPPED_SHARE:
            self._sequence += 1
        else:
            self._emit(at_ms, CircuitClosed(scope, outcome, (at_ms - episode.opened_ms) / 1000))
            episode.kind = "closed"
        return at_ms + 1

    def _dead_letter(
        self,
        record: Record,
        reason: Reason,
        failures: int,
        first_last_ms: tuple[int, int],
        error: Exception,
    ) -> None:
        if first_last_ms[1] >= self.until_ms:
            return
        group, strategy = self.service.group, self.service.strategy.label
        failure = FailureInfo(group, reason, failures, *first_last_ms, strategy, describe(error))
        letter = to_dead_letter(record, failure)
        place = self.letters_to, record.partition, -1, first_last_ms[1]
        self.letters.append(
            (reason, Record(*place, letter.key, letter.value, tuple(letter.headers())))
        )
        self._emit(
            first_last_ms[1],
            DeadLettered(
                *(record.topic, record.partition, record.offset),
                dead_letter_topic=self.letters_to,
                retry_id=letter.retry_id,
                generation=letter.generation,
                reason=reason,
                error=brief(error),
                failures=failures,
                escaped_headers=letter.escaped_headers,
            ),
        )

    def _record(self, at_ms: int) -> Record:
        """A message whose offset is its timestamp; a few customers have most of them."""
        customer = int(self.rng.paretovariate(0.8))
        value = b'{"customer": %d, "at": %d}' % (customer, at_ms)
        partition = self.partitions[customer % len(self.partitions)]
        return Record(self.service.topic, partition, at_ms, at_ms, b"customer-%d" % customer, value)

    def _emit(self, at_ms: int, event: Event) -> None:
        if at_ms < self.until_ms:
            self._append(at_ms, event)

    def _append(self, at_ms: int, event: Event) -> None:
        self._sequence += 1
        group = self.service.group
        self.entries.append(Entry(self.instance, self._sequence, at_ms, group, self.member, event))
