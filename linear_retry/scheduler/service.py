"""The scheduler's service: intake and sender in one process, with one end."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from typing import Any

from linear_retry.consumer.linear_consumer import LinearConsumer
from linear_retry.consumer.operations.health import Health
from linear_retry.consumer.ownership.stop import SignalEvent, stopping_on_signals
from linear_retry.errors import DataLossError, LinearRetryError, PermanentError, StoreError
from linear_retry.log.lines import log_scheduler
from linear_retry.records.topics.names import check_topic_name
from linear_retry.records.topics.setup import scheduler_group
from linear_retry.scheduler.destination_setting import remember
from linear_retry.scheduler.destinations import Destinations, check_patterns
from linear_retry.scheduler.intake import Intake
from linear_retry.scheduler.start import check_continues, cluster_and_partitions
from linear_retry.store.database import Database
from linear_retry.store.migrations import check_version
from linear_retry.store.records import Service
from linear_retry.store.sender.progress import Progress, Sent, log_progress
from linear_retry.store.sender.sender import Sender
from linear_retry.strategy.strategy import Strategy

_INTAKE_DELAYS_S = (1, 2, 5, 10, 30)
_BATCH_MESSAGES = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """What a scheduler reads, and where it may send.

    `config` holds librdkafka's keys of the cluster; `group` is the intake's consumer group, by
    default the topic's name with `.scheduler`. `takes_over`: where the store knows nothing of a
    partition at the start, it is given the group's committed offset; else that is refused.
    """

    config: Mapping[str, Any]
    topic: str
    allow: Sequence[str]
    group: str | None = None
    dead_letters: str | None = None
    takes_over: bool = False

    def __post_init__(self) -> None:
        """Checks the values. Raises `ConfigurationError`."""
        check_topic_name(self.topic, "--topic")
        check_patterns(self.allow)

    @property
    def group_id(self) -> str:
        return self.group or scheduler_group(self.topic)

    @property
    def destinations(self) -> Destinations:
        return Destinations(self.topic, tuple(self.allow), self.dead_letters)


class SchedulerService:
    """Stores what is in its topic, and sends each message when it is due, until it is stopped."""

    name: Service = "scheduler"

    def __init__(self, database: Database, settings: SchedulerSettings) -> None:
        self._database = database
        self._settings = settings
        self._stopping = SignalEvent()
        self._consumer: LinearConsumer | None = None
        self._sent = 0

    def not_alive(self) -> str | None:
        """Returns why the process should be started again, for a probe; None: it should not."""
        health = self._health()
        return None if health is None or health.alive else health.reason

    def not_ready(self) -> str | None:
        """Returns why the intake does not work now, for a probe; None while it does."""
        health = self._health()
        if health is None:
            return "the intake has not begun"
        return None if health.ready else health.reason

    def _health(self) -> Health | None:
        consumer = self._consumer
        return None if consumer is None else consumer.health()

    @property
    def intake(self) -> LinearConsumer | None:
        """The consumer of its topic, for metrics; None before it has begun."""
        return self._consumer

    @property
    def sent(self) -> int:
        """The number of messages that it has sent."""
        return self._sent

    def _note(self, event: Progress) -> None:
        if isinstance(event, Sent):
            self._sent += event.count
        log_progress(event)

    def stop(self) -> None:
        """Ends `run` after the current batches. For any thread, and for signal handlers."""
        self._stopping.set()
        if self._consumer is not None:
            self._consumer.stop()

    def run(self) -> None:
        """Runs until `stop`, or, on the main thread, the first SIGINT or SIGTERM.

        What is being stored or sent is finished first, and the leases are given back. Raises
        `ConfigurationError`, `StoreVersionError`, `StoreError` and `BrokerError` for what prevents
        the start, and what ends intake or sender.
        """
        settings, database = self._settings, self._database
        check_version(database)
        _, partitions = cluster_and_partitions(settings.config, settings.topic)
        check_continues(
            database,
            partitions,
            settings.config,
            settings.group_id,
            takes_over=settings.takes_over,
        )
        remember(database, settings.destinations)
        log_scheduler(settings.topic, settings.group_id, str(database), settings.allow)
        sender = Sender(database, settings.config, "scheduler", listener=self._note)
        ending = Event()
        with stopping_on_signals(self.stop), ThreadPoolExecutor(1, "linear_retry sender") as pool:
            sending = pool.submit(sender.run, ending)
            sending.add_done_callback(lambda _: self.stop())
            try:
                self._take_in(Intake(database, settings.destinations, settings.config))
            finally:
                ending.set()
            sending.result()

    def _take_in(self, intake: Intake) -> None:
        with self._new_consumer(intake) as consumer:
            try:
                if not self._stopping.is_set():
                    consumer.run_batches(intake.store, max_messages=_BATCH_MESSAGES)
            except DataLossError as error:
                what, _, _ = str(error).partition("; ")
                raise DataLossError(
                    f"{what}; `linear-retry scheduler reset-offset` sets the offset"
                ) from error
            except PermanentError as error:
                if isinstance(error.__cause__, LinearRetryError):  # the store's own sentence
                    raise error.__cause__ from error
                raise

    def _new_consumer(self, intake: Intake) -> LinearConsumer:
        settings = self._settings
        # `error`: behind an offset that is gone it would read on over a hole.
        ours = {"group.id": settings.group_id, "auto.offset.reset": "error"}
        self._consumer = LinearConsumer(
            {**settings.config, **ours},
            [settings.topic],
            strategy=Strategy(_INTAKE_DELAYS_S, name="scheduler-intake"),
            transient=StoreError,
            on_exhausted="repeat",
            on_permanent="stop",
            inbox=intake,
        )
        return self._consumer
