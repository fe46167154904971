"""The scheduler's service: intake and sender in one process, with one end."""

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Any

from linear_retry.consumer.linear_consumer import LinearConsumer
from linear_retry.consumer.operations.health import Health
from linear_retry.consumer.ownership.stop import SignalEvent, stopping_on_signals
from linear_retry.consumer.settings.consumer_config import Dependencies
from linear_retry.errors import (
    BrokerError,
    DataLossError,
    LinearRetryError,
    PermanentError,
    StoreError,
)
from linear_retry.log.lines import log_intake_waits, log_position_moved, log_scheduler
from linear_retry.records.topics.names import check_topic_name
from linear_retry.records.topics.setup import scheduler_group
from linear_retry.scheduler.destination_setting import remember
from linear_retry.scheduler.destinations import Destinations, check_patterns
from linear_retry.scheduler.intake import Intake, PositionMovedError
from linear_retry.scheduler.start import (
    beginnings,
    check_continues,
    check_topic,
    cluster_and_partitions,
)
from linear_retry.scope import Partition
from linear_retry.store.database import Database
from linear_retry.store.migrations import check_version
from linear_retry.store.records import Service
from linear_retry.store.sender.progress import Progress, Sent, log_progress
from linear_retry.store.sender.sender import Sender
from linear_retry.strategy.strategy import Strategy

_INTAKE_DELAYS_S = (1, 2, 5, 10, 30)
_BATCH_MESSAGES = 500
_AWAY_S = 5.0
_LOOK_S = 5.0


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
        self._outdated: LinearConsumer | None = None
        self._consumer: LinearConsumer | None = None
        self._was_assigned = False
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
        cluster, _ = cluster_and_partitions(settings.config, settings.topic)
        intake = Intake(database, settings.destinations, cluster)
        sender = Sender(database, settings.config, "scheduler", listener=self._note)
        ending = Event()
        with stopping_on_signals(self.stop), ThreadPoolExecutor(2, "linear_retry sender") as pool:
            sending = pool.submit(sender.run, ending)
            watching = pool.submit(self._watch, intake, ending)
            for each in (sending, watching):
                each.add_done_callback(lambda _: self.stop())
            try:
                self._take_in(intake, cluster)
            finally:
                ending.set()
            sending.result()
            watching.result()

    def _watch(self, intake: Intake, ending: Event) -> None:
        """Lets the intake begin again once the store is an older one."""
        while not ending.wait(_LOOK_S):
            consumer = self._consumer
            if consumer is None or consumer is self._outdated:
                continue
            with suppress(StoreError):  # the sender tells of it
                try:
                    intake.check()
                    intake.pass_ends(consumer._next_offsets())
                except PositionMovedError as error:
                    log_position_moved(self._settings.topic, str(error))
                    # The consumer's thread forgets, once it has ended: it may be storing a batch.
                    self._outdated = consumer
                    consumer.stop()

    def _take_in(self, intake: Intake, cluster: str) -> None:
        """Runs the intake; again from the store's position whenever that is an older one."""
        while not self._stopping.is_set():
            try:
                self._begin(intake, cluster)
                if self._has_ended(intake, cluster):
                    return
            except StoreError as error:  # at a start or an assignment; a batch is held instead
                self._wait(error)
            except BrokerError as error:
                if not self._was_assigned:
                    raise
                self._wait(error)

    def _wait(self, error: Exception) -> None:
        log_intake_waits(self._settings.topic, str(error))
        self._stopping.wait(_AWAY_S)

    def _begin(self, intake: Intake, cluster: str) -> None:
        settings = self._settings
        intake.forget()
        # Asked each time: partitions may have been added since.
        _, partitions = cluster_and_partitions(settings.config, settings.topic)
        check_continues(
            self._database,
            cluster,
            partitions,
            settings.config,
            settings.group_id,
            takes_over=self._takes_over,
        )
        remember(self._database, settings.destinations)
        log_scheduler(settings.topic, settings.group_id, str(self._database), settings.allow)

    @property
    def _takes_over(self) -> bool:
        """Once: what a copy lacks that is restored later must not be passed over."""
        return self._settings.takes_over and not self._was_assigned

    def _has_ended(self, intake: Intake, cluster: str) -> bool:
        """Runs the intake to its end; False: the store is an older one, and it begins again."""
        with self._new_consumer(intake, cluster) as consumer:
            try:
                if not self._stopping.is_set():
                    consumer.run_batches(intake.store, max_messages=_BATCH_MESSAGES)
                return self._outdated is not consumer
            except DataLossError as error:
                raise DataLossError(
                    f"{error}: `linear-retry scheduler reset-offset` sets it, or, if the topic was "
                    "deleted and created again, `run --take-over`"
                ) from error
            except PermanentError as error:
                match error.__cause__:
                    case PositionMovedError() as moved:
                        log_position_moved(self._settings.topic, str(moved))
                        return False
                    case LinearRetryError() as cause:  # the store's own sentence
                        raise cause from error
                raise

    def _positions(
        self, intake: Intake, cluster: str, partitions: Collection[Partition]
    ) -> dict[Partition, int | None]:
        """From the store. What it does not know begins at its beginning, or what a copy lacks that
        was restored is lost: the group has committed behind it."""
        config = self._settings.config
        check_topic(self._database, cluster, partitions, config, takes_over=self._takes_over)
        self._was_assigned = True
        found = intake.start_positions(partitions)
        unknown = [each for each, offset in found.items() if offset is None]
        return found | (intake.begin_at(beginnings(config, unknown)) if unknown else {})

    def _new_consumer(self, intake: Intake, cluster: str) -> LinearConsumer:
        settings = self._settings
        ours = {"group.id": settings.group_id, "auto.offset.reset": "earliest"}
        self._consumer = LinearConsumer(
            {**settings.config, **ours},
            [settings.topic],
            strategy=Strategy(_INTAKE_DELAYS_S, name="scheduler-intake"),
            transient=StoreError,
            on_exhausted="repeat",
            on_permanent="stop",
            _dependencies=Dependencies(start_positions=partial(self._positions, intake, cluster)),
        )
        return self._consumer
