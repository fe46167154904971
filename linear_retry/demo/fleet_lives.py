"""What do members of the fleet say, in journal entries and dead letters, as consumers would?

A message is handled in no time while all is well. An attempt fails where its dependency is down as
it starts, and is told 40 ms later. Probes start when they are due. A member that dies says nothing
from then on, one that is deployed anew stops, and half a minute later another life of it begins.
Some of the entries that say that a circuit has closed are dropped, as a journal may.

Each circuit that opens is one `Episode`: what really was, and what is to be found of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Literal, TypeAlias
from uuid import UUID

from linear_retry.demo.fleet import Calendar, Service, Week, dice_of
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
from linear_retry.records.exception_text import brief, describe
from linear_retry.records.record import Record
from linear_retry.retry.decision import Reason
from linear_retry.scope import Scope

PARTITIONS = 6

_ATTEMPT_MS = 40
_RESTART_MS = 30_000
_DROPPED = 0.004
_BUG = KeyError("discount")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Kind: TypeAlias = Literal["closed", "close_missing", "stopped", "restarted", "open"]
_Trouble: TypeAlias = tuple[int, Literal["outage", "permanent", "poison"]]


@dataclass(slots=True)
class Episode:
    """One circuit that opened, with the number of the entry that said so.

    `ends_ms`: when the last outage ended that failed an attempt of it; None where it was the
    message itself that was bad.
    """

    group: str
    instance: str
    sequence: int
    opened_ms: int
    ends_ms: int | None = None
    kind: Kind | None = None

    @property
    def length_ms(self) -> int | None:
        return None if self.ends_ms is None else max(1, self.ends_ms - self.opened_ms)


@dataclass(frozen=True, slots=True)
class Said:
    """All that the members of one service have said, in the order of time, and the truth of it."""

    entries: tuple[Entry, ...]
    letters: tuple[tuple[Reason, Record], ...]
    """Each with the topic, partition and time that it is to have."""
    episodes: tuple[Episode, ...]

    def journal(self, topic: str) -> Iterator[Record]:
        """The entries as records of this topic, in whichever partition their keys are."""
        for entry in self.entries:
            yield Record(topic, -1, -1, entry.at_ms, entry.key, encode(entry))


def said(service: Service, calendar: Calendar, week: Week, seed: int, letters_to: str) -> Said:
    """What this service's members say in this week. `letters_to`: the dead-letter topic."""
    lives = [
        life
        for number in range(service.members)
        for life in _lives_of(number, service, calendar, week, seed, letters_to)
    ]
    return Said(
        tuple(sorted((e for life in lives for e in life.entries), key=lambda one: one.at_ms)),
        tuple(letter for life in lives for letter in life.letters),
        tuple(episode for life in lives for episode in life.episodes),
    )


def _lives_of(
    number: int, service: Service, calendar: Calendar, week: Week, seed: int, letters_to: str
) -> list[_Life]:
    dice = dice_of(service, seed, f"member {number}")
    troubles: list[_Trouble] = sorted(
        [
            *((outage.begins_ms, "outage") for outage in calendar.outages),
            *((at_ms, "permanent") for at_ms in week.arrivals(service.permanents, dice)),
            *((at_ms, "poison") for at_ms in week.arrivals(service.poisons, dice)),
        ]
    )
    lives = []
    for begins_ms, until_ms, is_deployed in _spans(service, week, dice):
        instance = str(UUID(int=dice.getrandbits(128), version=4))
        member = f"{service.group}-{number}" if service.is_static else instance
        partitions = tuple(range(number, PARTITIONS, service.members))
        life = _Life(service, calendar, letters_to, member, instance, partitions, until_ms, dice)
        life.live(begins_ms, troubles)
        if is_deployed:
            life.stop()
        lives.append(life)
    for life in lives:
        life.judge(is_followed=service.is_static and life is not lives[-1])
    return lives


def _spans(service: Service, week: Week, dice: Random) -> Iterator[tuple[int, int, bool]]:
    """When each life begins and ends, and whether it is stopped then; the last has no end."""
    ends = [(at_ms, False) for at_ms in week.arrivals(service.deaths, dice)]
    ends += [(at_ms, True) for at_ms in week.arrivals(service.deploys, dice)]
    begins_ms = week.begins_ms
    for until_ms, is_deployed in [*sorted(ends), (week.ends_ms, False)]:
        if until_ms > begins_ms:
            yield begins_ms, until_ms, is_deployed
            begins_ms = until_ms + _RESTART_MS


@dataclass(slots=True)
class _Life:
    """One life of a member, which ends at `until_ms`."""

    service: Service
    calendar: Calendar
    letters_to: str
    member: str
    instance: str
    partitions: tuple[int, ...]
    until_ms: int
    dice: Random
    entries: list[Entry] = field(default_factory=list)
    letters: list[tuple[Reason, Record]] = field(default_factory=list)
    episodes: list[Episode] = field(default_factory=list)
    _sequence: int = 0

    def live(self, begins_ms: int, troubles: Iterable[_Trouble]) -> None:
        """Say everything from the beginning on."""
        topic = self.service.topic
        self._say(begins_ms, Assigned(tuple((topic, number) for number in self.partitions)))
        free_ms = begins_ms
        # Where it is down as the life begins, that outage began before.
        for at_ms, what in [(begins_ms, "outage"), *troubles]:
            if begins_ms <= at_ms < self.until_ms:
                wait_s = self.dice.expovariate(1 / self.service.idle_s)
                came_ms = max(free_ms, at_ms) + round(wait_s * 1000)
                if what == "outage":
                    free_ms = self._through(came_ms, free_ms)
                else:
                    free_ms = self._bad(max(came_ms, self._through(came_ms, free_ms)), what)

    def stop(self) -> None:
        """Say that it ends."""
        self._number_and_say(self.until_ms, Stopped(left_group=not self.service.is_static))

    def judge(self, *, is_followed: bool) -> None:
        """Give each episode the kind that the journal shows."""
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

    # -- one message after another -----------------------------------------------------------------

    def _through(self, at_ms: int, free_ms: int) -> int:
        """Where the dependency is down: one message after another, until one gets through."""
        while at_ms < self.until_ms and self.calendar.during(at_ms) is not None:
            free_ms = at_ms = self._opened(at_ms, None)
        return free_ms

    def _bad(self, at_ms: int, what: str) -> int:
        """A message that can never be handled."""
        if what == "poison":
            return self._opened(at_ms, _BUG)
        error, told_ms = self.service.permanent, at_ms + _ATTEMPT_MS
        self._bury(self._record(at_ms), "permanent", 1, (told_ms, told_ms), error)
        return told_ms + 1

    def _opened(self, at_ms: int, bug: Exception | None) -> int:
        """A message fails until it is handled or given up; when the next may be attempted."""
        record, error = self._record(at_ms), bug or self.service.error
        scope = Scope.of(self.service.scope, (record.topic, record.partition))
        first_ms, failures = at_ms + _ATTEMPT_MS, 0
        episode = Episode(self.service.group, self.instance, self._sequence + 1, first_ms)
        while (told_ms := at_ms + _ATTEMPT_MS) < self.until_ms:
            outage = self.calendar.during(at_ms)
            if outage is None and bug is None:
                return self._closed(scope, episode, told_ms, "recovered")
            failures += 1
            if outage is not None and bug is None:
                episode.ends_ms = outage.ends_ms
            delay_s = self.service.strategy.delay_s(failures)
            if delay_s is None:
                self._bury(record, "exhausted", failures, (first_ms, told_ms), error)
                return self._closed(scope, episode, told_ms, "dead-lettered")
            at_ms = told_ms + round(delay_s * 1000)
            kind = CircuitOpened if failures == 1 else ProbeFailed
            place = record.topic, record.partition, record.offset
            retry_at = _EPOCH + timedelta(milliseconds=at_ms)
            self._say(told_ms, kind(scope, *place, brief(error), failures, delay_s, retry_at))
            if failures == 1:
                self.episodes.append(episode)
        return told_ms

    def _closed(self, scope: Scope, episode: Episode, at_ms: int, outcome: CloseOutcome) -> int:
        if self.dice.random() < _DROPPED:
            self._sequence += 1
        else:
            self._say(at_ms, CircuitClosed(scope, outcome, (at_ms - episode.opened_ms) / 1000))
            episode.kind = "closed"
        return at_ms + 1

    def _bury(
        self,
        record: Record,
        reason: Reason,
        failures: int,
        failed_ms: tuple[int, int],
        error: Exception,
    ) -> None:
        if failed_ms[1] >= self.until_ms:
            return
        group, strategy = self.service.group, self.service.strategy.label
        failure = FailureInfo(group, reason, failures, *failed_ms, strategy, describe(error))
        letter = to_dead_letter(record, failure)
        place = self.letters_to, record.partition, -1, failed_ms[1]
        self.letters.append(
            (reason, Record(*place, letter.key, letter.value, tuple(letter.headers())))
        )
        self._say(
            failed_ms[1],
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
        """A message, with its time for its offset; a few customers have most of them."""
        customer = int(self.dice.paretovariate(0.8))
        value = b'{"customer": %d, "at": %d}' % (customer, at_ms)
        partition = self.partitions[customer % len(self.partitions)]
        return Record(self.service.topic, partition, at_ms, at_ms, b"customer-%d" % customer, value)

    def _say(self, at_ms: int, event: Event) -> None:
        if at_ms < self.until_ms:
            self._number_and_say(at_ms, event)

    def _number_and_say(self, at_ms: int, event: Event) -> None:
        self._sequence += 1
        group = self.service.group
        self.entries.append(Entry(self.instance, self._sequence, at_ms, group, self.member, event))
