"""The group of a play, and what must be true of it at any time."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from itertools import cycle, islice
from typing import Any
from zlib import crc32

from linear_retry import Recovery, RetryTopics, Strategy, events
from linear_retry.consumer.settings.by_key import ByKey
from linear_retry.consumer.settings.line import WhenExhausted
from linear_retry.records.commit_note import Digests, read_note
from linear_retry.records.dead_letter import FailureInfo, to_dead_letter
from linear_retry.records.lineage import Hop
from linear_retry.records.record import Record
from linear_retry.retry.noted_messages import NotedMessages
from linear_retry.scope import Partition, ScopeKind
from linear_retry.testing import AttemptFinished, EventEmitted, EventLog, Place
from tests.consumer.group import GROUP, LETTERS, OTHER_TOPIC, TOPIC, FakeGroup, OutageError
from tests.fake.topic import Headers
from tests.torture.schedules.kafka import PlayedKafka
from tests.torture.schedules.players import (
    PLAYED_BATCHES,
    PLAYED_WORKERS,
    AsyncPlayer,
    BatchPlayer,
    OwnLoopPlayer,
    Player,
    WorkersPlayer,
)
from tests.torture.schedules.schedule import Setting
from tests.torture.schedules.unreported import UnreportedLetters

_RETRIES, _EVERY_S = "orders.retry", 5
KEYS = (b"a", b"b", b"c", b"d", None)


class _PlayedLog(EventLog):
    """Before an attempt it knows of all that is done."""

    unreported: UnreportedLetters

    def attempting(self, member: str, message: Any) -> AbstractContextManager[None]:
        self.unreported.report()
        return super().attempting(member, message)

    def batch_handler(
        self, member: str, inner: Callable[[list[Any]], object]
    ) -> Callable[[list[Any]], object]:
        watched = super().batch_handler(member, inner)

        def knowing(messages: list[Any]) -> object:
            self.unreported.report()
            return watched(messages)

        return knowing


class PlayedGroup(FakeGroup):
    """The group of a setting. Its members are `players`."""

    def __init__(self, setting: Setting, fake: PlayedKafka) -> None:
        super().__init__(
            protocol=setting.protocol,
            scope=_by_key(setting) if setting.loop == "keys" else setting.scope,
            topics=(TOPIC, OTHER_TOPIC)[: setting.topics],
            reads=_last_retry(setting) if setting.carrier == "back from a retry topic" else None,
            partitions=setting.partitions,
            strategy=Strategy(setting.strategy, max_elapsed=setting.max_elapsed_s),
            letter_limit=setting.letter_limit,
            transactional=setting.transactional,
            on_exhausted=self._when_exhausted(setting),
            on_permanent=setting.on_permanent,
            fake=fake,
            batches=PLAYED_BATCHES if setting.loop == "batches" else None,
            concurrency=PLAYED_WORKERS if setting.loop in ("workers", "keys") else 1,
            group_breaker_max_s=setting.group_breaker_max_s,
        )
        self._setting = setting
        self._loop = asyncio.new_event_loop() if setting.loop == "async" else None
        self.players: list[Player] = []
        self.acting: list[Player] = []
        self.witness = log = _PlayedLog(fake.clock.now_s, utc_ms=fake.clock.utc_ms)
        retries = self.on_exhausted
        self._retry_topics = retries.topics if isinstance(retries, RetryTopics) else ()
        for topic in self._retry_topics:
            stamps = {"message.timestamp.type": "LogAppendTime"}
            fake.create_topic(topic, setting.partitions, stamps)
        logs = {topic: fake.topics[topic].partitions for topic in (LETTERS, *self._retry_topics)}
        reads = None if self.reads is None else self.reads.prefix
        self.unreported = log.unreported = UnreportedLetters(log, logs, reads, self._says_no_more)

    @property
    def pausing(self) -> ScopeKind:
        """What an open circuit pauses: a wide one, where each key has its order."""
        return self._setting.scope

    def produce(self, partition: int | Partition, count: int = 1, *, gap: int = 0) -> None:
        """Where each key has its order, of several keys."""
        if self._setting.loop != "keys":
            super().produce(partition, count, gap=gap)
            return
        topic, number = (self.topics[0], partition) if isinstance(partition, int) else partition
        for _ in range(count):
            end = self.fake.topics[topic].partitions[number].end + gap
            key = KEYS[crc32(b"%s %d %d" % (topic.encode(), number, end)) % len(KEYS)]
            self.produce_keys((topic, number), [key], gap=gap)

    def headers(self, key: Partition, offset: int) -> Headers | None:
        """Those of a hop, as if the message had been at the same place of the live line's topic."""
        if self.reads is None:
            return None
        now_ms, label = self.fake.clock.utc_ms(), self.reads.strategy.label
        hop = Hop(key[0], 1, label, now_ms + _EVERY_S * 1000, is_marked=True)
        failure = FailureInfo(GROUP, "transient", 1, now_ms, now_ms, label, hop=hop)
        record = Record(TOPIC, key[1], offset, now_ms, b"key", b"value", ())
        return to_dead_letter(record, failure).headers()

    def _when_exhausted(self, setting: Setting) -> WhenExhausted:
        limit = setting.letter_limit
        match setting.carrier:
            case "dead letters" | "back from a retry topic":
                return setting.on_exhausted
            case "retry topics":
                return RetryTopics(_RETRIES, strategy=["5s", "30s"], limit=limit)
            case "one retry topic":
                return RetryTopics.single(
                    _RETRIES, every=_EVERY_S, max_duration=20, on_expired="discard", limit=limit
                )
            case "recovery":
                return Recovery(self._recover, limit=limit)

    def _recover(self, message: Any, error: Exception) -> None:
        self.dependency.advance(self.dependency.takes_s)
        if self.dependency.down:
            raise OutageError

    def member(self, name: str) -> Player:
        if self._loop is not None:
            player: Player = AsyncPlayer(self, name, self.protocol, self._loop)
        elif self._setting.loop == "own":
            player = OwnLoopPlayer(self, name, self.protocol)
        elif self._setting.loop == "batches":
            player = BatchPlayer(self, name, self.protocol)
        elif self._setting.loop in ("workers", "keys"):
            player = WorkersPlayer(self, name, self.protocol)
        else:
            player = Player(self, name, self.protocol)
        self.players.append(player)
        return player

    def _says_no_more(self, sender: str, place: Place) -> bool:
        """Whether its sender is gone, or goes on though the letter's offset is committed."""
        there = [player for player in self.players if player.name == sender]
        committed = self.is_committed(place)
        # Below the last are those in the midst of a turn, who may be about to say it; and whoever
        # holds the message will find out.
        return not there or (
            committed and not any(each in self.acting[:-1] or _holds(each, place) for each in there)
        )

    def is_committed(self, place: Place) -> bool:
        """Whether the next owner would take it to be done: by the offset, or by the note beside."""
        partition, offset = place[:2], place[2]
        if self.fake.group(self.group_id).get(partition, 0) > offset:
            return True
        text = self.fake.notes(self.group_id).get(partition, "")
        note, log = read_note(text, self.group_id, partition), self.fake.log_of(partition)
        if note is None or log is None:
            return False
        record = next((each for each in log.records if each.offset == offset), None)
        if record is None:
            return True  # retention has removed it
        noted, key = NotedMessages(note, Digests(self.group_id)), record.key
        return "done" == noted.judge(offset, key, record.timestamp_ms, None, order=key)

    def has_forgotten_a_failure(self, player: Player) -> bool:
        """Whether the last attempt has failed, and nothing was said of that.

        Of others something may be, where the loop polled as it waited for a letter.
        """
        emitted: list[events.Event] = []
        for entry in reversed(self.witness.entries):
            match entry:
                case AttemptFinished(_, player.name, place, how):
                    return how == "failed" and not any(_is_of(event, place) for event in emitted)
                case EventEmitted(_, player.name, event):
                    emitted.append(event)
        return False

    def standing_still(self, failing: Iterable[Partition]) -> list[str]:
        """Nor what is done, though whoever held it was revoked before it could say so."""
        self.unreported.report()
        return super().standing_still(failing)

    def remove(self, player: Player) -> None:
        self.players.remove(player)
        self.members.remove(player)

    def deal(self, owners: tuple[int, ...], *, after: int = 0) -> None:
        """Share out, round and round where there are more partitions than owners."""
        if self.members:
            self.share(islice(cycle(owners), len(self.visible)), after=after)

    def add_partition(self) -> None:
        """One more in the first topic, and in the retry topics, which must have as many."""
        topic = self.topics[0]
        number = len(self.fake.topics[topic].partitions)
        for each in (topic, *self._retry_topics):
            self.fake.add_partitions(each, 1)
        self.visible[topic, number] = []

    def end(self) -> None:
        if self._loop is not None:
            self._loop.close()


def _by_key(setting: Setting) -> ByKey:
    return ByKey(
        trip=setting.trip,
        opens=setting.scope,
        most_held=setting.most_held,
        most_bytes=setting.most_bytes,
    )


def _last_retry(setting: Setting) -> RetryTopics:
    """What fails in it does not come back: it would be too late for that."""
    return RetryTopics.single(
        _RETRIES, every=_EVERY_S, max_duration=2 * _EVERY_S - 1, limit=setting.letter_limit
    )


def _holds(player: Player, place: Place) -> bool:
    views = player.circuits.views.values()
    return any((view.topic, view.partition, view.offset) == place for view in views)


def _is_of(event: events.Event, place: Place) -> bool:
    """What came of it, or that it is another's by now."""
    match event:
        case events.Revoked(partitions) | events.Lost(partitions, _):
            return place[:2] in partitions
        case (
            events.CircuitOpened()
            | events.ProbeFailed()
            | events.LimitReached()
            | events.KeyBlocked()
            | events.Skipped()
            | events.DeadLettered()
            | events.SentToRetry()
            | events.HandedOver()
            | events.DeadLetterFailed()
            | events.HandlerTooSlow()
        ):
            return event.place == place
        case _:
            return False
