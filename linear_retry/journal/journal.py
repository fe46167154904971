"""The listener that writes every event to a topic, without ever blocking the consumer."""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from linear_retry.errors import ConfigurationError, UsageError
from linear_retry.events import Event, Stopped
from linear_retry.journal.entry import DEFAULT_TOPIC, Entry, Process, encode
from linear_retry.kafka import Producer
from linear_retry.kafka.key_check import check_keys
from linear_retry.kafka.producers.journal import JournalProducer, journal_config
from linear_retry.log.lines import log_journal_losses, log_journal_topic_missing
from linear_retry.records.record import OutgoingRecord
from linear_retry.records.topics.names import check_topic_name

_LOG_EVERY_S = 60.0
_FLUSH_S = 2.0
_OTHER_CLUSTER = {"bootstrap.servers", "metadata.broker.list"}


@dataclass(frozen=True, slots=True)
class JournalContext:
    """The consumer whose events are written, and what the journal needs of it."""

    group: str
    instance: str
    member: str
    process: Process
    connection: Mapping[str, Any]
    close_timeout_s: float
    now_s: Callable[[], float]
    utc_ms: Callable[[], int]
    producer: Callable[..., Any]


class Journal:
    """A listener that writes every event to a topic, as JSON: `listeners=[Journal()]`.

    For one consumer, from which it takes group, member, brokers and security when that is created.
    `linear_retry.journal.read_entry` reads an entry back; docs/operations/journal.md has every
    field.

    It never waits and never stops the consumer. If the topic is missing or unreachable, up to 1000
    entries wait for up to a minute; further ones are dropped, counted (`dropped`) and logged once a
    minute. When the consumer ends, it waits for entries in flight: 2 s, or a quarter of
    `close_timeout_s` if that is less. A success emits no event, and costs nothing.
    """

    def __init__(self, topic: str = DEFAULT_TOPIC, config: Mapping[str, Any] | None = None) -> None:
        """`config` holds librdkafka's keys for the producer, over the consumer's own.

        Raises `ConfigurationError` for an invalid topic name, or a key that cannot work.
        """
        check_topic_name(topic)
        check_keys(config or {}, Producer, "Journal config ")
        self.topic = topic
        self._config = dict(config or {})
        self._context: JournalContext | None = None
        self._producer: JournalProducer
        self._sequence = 0
        self._logged = 0
        self._losing_since = datetime.now(UTC)
        self._log_at_s = -math.inf
        self._late = 0
        self._ended = False

    @property
    def dropped(self) -> int:
        """The number of events known not to be in the topic. For any thread."""
        return 0 if self._context is None else self._producer.dropped + self._late

    @property
    def member(self) -> str:
        """The member in its entries: the consumer's `group.instance.id`, else the instance."""
        return self._bound().member

    def bind(self, context: JournalContext) -> None:
        """Called by the consumer that has it among its listeners, when that is created.

        Raises `ConfigurationError` if it belongs to another consumer.
        """
        if self._context is not None:
            raise ConfigurationError(
                "listeners: this Journal belongs to another consumer; create one for each"
            )
        keys = journal_config(context.connection, self._config)
        self._producer = JournalProducer(keys, context.now_s, context.producer)
        self._context = context

    def prepare(self, topics: Collection[str]) -> None:
        """Called by the consumer before it joins, with the existing topics.

        A missing topic is logged; it may be created later. Raises `ConfigurationError` if
        librdkafka refuses a key.
        """
        self._producer.check()
        if self.topic not in topics and not _OTHER_CLUSTER & self._config.keys():
            log_journal_topic_missing(self.topic)

    def __call__(self, event: Event) -> None:
        """Writes the event. After `Stopped` nothing is written any more."""
        context = self._bound()
        if self._ended:
            self._late += 1
            return
        self._producer.send(self._record(event, context))
        if isinstance(event, Stopped):
            self._ended = True
            self._producer.flush(min(_FLUSH_S, context.close_timeout_s / 4))
            self._log_losses(context.now_s())
        elif context.now_s() >= self._log_at_s:
            self._log_losses(context.now_s())

    def _bound(self) -> JournalContext:
        if self._context is None:
            raise UsageError(
                "this Journal received an event, but belongs to no consumer: put the Journal "
                "itself among a consumer's listeners, not a function that calls it"
            )
        return self._context

    def _record(self, event: Event, context: JournalContext) -> OutgoingRecord:
        self._sequence += 1
        entry = Entry(
            instance=context.instance,
            sequence=self._sequence,
            at_ms=context.utc_ms(),
            group=context.group,
            member=context.member,
            event=event,
            process=context.process,
        )
        return OutgoingRecord(self.topic, entry.key, encode(entry), timestamp_ms=entry.at_ms)

    def _log_losses(self, now_s: float) -> None:
        if self.dropped > self._logged:
            context = self._bound()
            if not self._logged:
                self._losing_since = datetime.fromtimestamp(context.utc_ms() / 1000, UTC)
            self._logged = self.dropped
            self._log_at_s = now_s + _LOG_EVERY_S
            trouble = self._producer.trouble
            log_journal_losses(
                self.topic, context.member, self._logged, self._losing_since, trouble
            )
