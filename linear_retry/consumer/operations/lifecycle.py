"""Checks that all is there before a consumer joins its group, and closes it in bounded time."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TypeVar

from linear_retry.consumer.letters.publisher import DeadLetterPublisher
from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.partitions.offsets import Offsets
from linear_retry.consumer.settings.consumer_config import ConsumerConfig
from linear_retry.consumer.settings.line import (
    IGNORED,
    is_pattern,
    refuse_retry_topics,
    subscribed,
)
from linear_retry.consumer.settings.scheduler import Scheduler
from linear_retry.errors import BrokerError, ConfigurationError
from linear_retry.events import ClientError, Event, Revoked, Stopped
from linear_retry.kafka import KafkaException
from linear_retry.kafka.consumer.client import Client
from linear_retry.kafka.consumer.fatal_errors import raise_if_fatal
from linear_retry.kafka.consumer.settings import Config, ConsumerSettings, connection, servers_of
from linear_retry.kafka.topics.admin import Admin, Rights
from linear_retry.kafka.topics.description import Topics
from linear_retry.kafka.topics.groups import Groups
from linear_retry.log.client_log import cause_of
from linear_retry.log.lines import log_retry_topics, log_start, log_topic_problem
from linear_retry.records.topics.check import check_topic
from linear_retry.records.topics.description import NeededTopic, Purpose, TopicDescription
from linear_retry.records.topics.names import retry_group
from linear_retry.retry.clock import NowS
from linear_retry.scope import Partition

_WITHIN_S = 5.0
_RETURNS = "back_to_source=True or Scheduler"

_Answer = TypeVar("_Answer")
_ASK_FOR_S = 1.0
_RIGHTS_WITHIN_S = 5.0
_LOOK_AGAIN_S = 0.01
_SEND_AGAIN_S = 0.5
_CLOSE_S = 1.0
"""What of the time for `close` is left to librdkafka's own."""
_LEFT_BEHIND: list[object] = []
"""Clients whose close did not return: freeing them would make librdkafka wait again, for ever."""


def check_retry_topics(config: ConsumerConfig, subscribed: Mapping[str, int]) -> None:
    """Raises `ConfigurationError` for what would break their promise; warns about the rest.

    `subscribed` has the number of partitions of each topic that is read. What the brokers do not
    say, as some may not, is not checked: `linear-retry topics check` does it as somebody who may
    ask.
    """
    retries = config.retries
    if retries is None:
        return
    log_retry_topics(config.line.group_id, retries.topics, reads=config.reads_retries)
    # The sources are not known where the retry topics are read.
    sources = {} if config.reads_retries else subscribed
    partitions = max(sources.values(), default=0)
    purpose: Purpose = "scheduler" if isinstance(retries, Scheduler) else "retry"
    problems = [
        problem
        for topic, found in _described(config, retries.topics).items()
        for problem in check_topic(
            NeededTopic(topic, purpose, partitions, 1, delay_ms=retries.delay_ms(topic)), found
        )
    ]
    refused = [each.text for each in problems if each.severity == "refused"]
    if retries.back_to_source and sources:
        refused += _compacted(config, [*sources])
        _warn_of_others(config, sources)
    if refused:
        raise ConfigurationError("\n".join(refused))
    for problem in problems:
        if problem.is_error:
            log_topic_problem(problem.topic, problem.text)


def _compacted(config: ConsumerConfig, sources: Sequence[str]) -> Iterator[str]:
    """A returned message would replace newer ones of its key in a compacted topic."""
    for topic, found in _described(config, sources).items():
        if found is not None and found.is_compacted:
            yield (
                f"{_RETURNS}: {topic} is compacted, and a message that comes back would replace a "
                "newer one with its key; use RetryTopics without back_to_source"
            )
        if found is not None and found.is_compacted is None:
            log_topic_problem(
                topic,
                f"{topic}: this user may not read its settings, so whether it is compacted, which "
                f"{_RETURNS} forbids, is not checked; give it DescribeConfigs on the topic",
            )


def _warn_of_others(config: ConsumerConfig, sources: Mapping[str, int]) -> None:
    """Names the other groups that read the sources, as far as the brokers say within 5 s."""
    partitions = [(topic, number) for topic in sources for number in range(sources[topic])]
    ours = config.line.group_id, retry_group(config.line.group_id)
    make = config.dependencies
    groups = Groups(config.settings.connection, _WITHIN_S, make.admin, make.consumer)
    others = groups.reading(partitions, ours, make.clock.now_s)
    if others:
        names = ", ".join(sources)
        log_topic_problem(
            names,
            f"{_RETURNS}: retries come back to {names}, which other groups read too "
            f"({', '.join(others)}): those of linear_retry pass them over, any other reads these "
            "messages again",
        )


def _described(
    config: ConsumerConfig, names: Sequence[str]
) -> Mapping[str, TopicDescription | None]:
    """Those that the brokers describe."""
    try:
        return Topics(config.settings.connection, _WITHIN_S, config.dependencies.admin).describe(
            names
        )
    except BrokerError as error:
        log_topic_problem(", ".join(names), f"topics are not checked: {error}")
        return {}


@dataclass(frozen=True, slots=True)
class Brokers:
    """Queries brokers until one answers, for `timeout_s` at most, or until `stopping`."""

    client: Client
    settings: ConsumerSettings
    now_s: NowS
    timeout_s: float
    stopping: Callable[[], bool]

    def ask(self, config: Config, question: Callable[[float], _Answer]) -> _Answer | None:
        """Returns the answer of the brokers in `config`; None if `stopping`.

        Asks in slices of a second, so that Ctrl-C works. Raises `BrokerError` if none answers.
        """
        give_up_at_s = self.now_s() + self.timeout_s
        while not self.stopping():
            try:
                return question(_ASK_FOR_S)
            except KafkaException as error:
                self._poll(0)  # librdkafka reports the reason to its error callback
                if self.now_s() >= give_up_at_s:
                    why = cause_of(config) or (
                        f"{error}; check the address, the network and the security settings"
                    )
                    raise BrokerError(
                        f"no broker of {servers_of(config)} answered within {self.timeout_s:g} s: "
                        f"{why}"
                    ) from error
        return None

    def topics(self) -> dict[str, int]:
        """Returns every topic visible to the consumer, with its number of partitions."""
        return self.ask(self.settings.config, self.client.partition_counts) or {}

    def rights(self, admin: Admin, topics: Sequence[str]) -> dict[str, Rights]:
        """Returns the permissions of `admin` on these topics, as far as answered within 5 s."""
        asked = admin.ask_rights(topics) if topics else {}
        give_up_at_s = self.now_s() + _RIGHTS_WITHIN_S
        while not all(one.done() for one in asked.values()) and not self.stopping():
            if self.now_s() >= give_up_at_s:
                break
            self._poll(_LOOK_AGAIN_S)
        return {
            topic: answer.result()
            for topic, answer in asked.items()
            if answer.done() and answer.exception() is None
        }

    def _poll(self, timeout_s: float) -> None:
        """Polls once: an error that is reported only once, as by the group, must not be missed."""
        message = self.client.poll(timeout_s)
        error = None if message is None else message.error()
        if error is not None:
            raise_if_fatal(error, group=self.settings.group_id)


def _count(letters: DeadLetterPublisher, topic: str, timeout_s: float) -> int:
    return letters.partitions(topic, timeout_s) or 0


def missing_rights(found: Mapping[str, Rights], right: str) -> list[str]:
    """Returns a sentence for each topic on which this user lacks the permission."""
    return [
        f"this user has no permission to {right} topic {topic}; give it {right} and DESCRIBE on it"
        for topic, rights in found.items()
        if rights is not None and right not in rights
    ]


def missing_topics(counts: dict[str, int], topics: Sequence[str]) -> None:
    """Raises `ConfigurationError`, which names every topic that does not exist."""
    missing = [topic for topic in topics if not is_pattern(topic) and not counts.get(topic)]
    if missing:
        raise ConfigurationError(
            f"no such topic: {', '.join(missing)}; create it, or correct the name; if it is there, "
            "this user may not see it: give it DESCRIBE on the topic"
        )


@dataclass(frozen=True, slots=True)
class Startup:
    """The checks before the group is joined: topics, permissions and journals."""

    config: ConsumerConfig
    brokers: Brokers
    admin: Admin
    letters: DeadLetterPublisher | None

    def check(self) -> bool:
        """Runs the checks. Raises `BrokerError` and `ConfigurationError`. False: a stop came."""
        config = self.config
        counts = self.brokers.topics()
        ours = self._letter_topics()
        if self.brokers.stopping():
            return False
        missing_topics(counts | ours, [*config.topics, *ours])
        ignored = config.settings.config.get(IGNORED, "")
        sources = {topic: counts[topic] for topic in subscribed(config.topics, counts, ignored)}
        if not config.reads_retries:
            delay_ms = config.line.delay_ms
            refuse_retry_topics(config.topics, sources, lambda topic: delay_ms(topic) is not None)
        check_retry_topics(config, sources)
        self._check_rights(list(ours))
        for journal in config.journals:
            journal.prepare(counts)
        process = config.process
        log_start(config.settings.group_id, config.member, str(process), **asdict(process))
        return True

    def _letter_topics(self) -> dict[str, int]:
        """Returns the dead-letter topic and its number of partitions; 0 if it is missing."""
        letters, brokers = self.letters, self.brokers
        if letters is None or brokers.stopping():
            return {}
        letters.prepare()
        keys = self.config.producer_config
        return {
            topic: brokers.ask(keys, partial(_count, letters, topic)) or 0
            for topic in letters.topics
        }

    def _check_rights(self, ours: Sequence[str]) -> None:
        """Checks the permissions once; they may still be revoked at any time."""
        named = [topic for topic in self.config.topics if not is_pattern(topic)]
        reads = self.brokers.rights(self.admin, named)
        writes = self.brokers.rights(self._letters_admin(), ours)
        # This client has cached these topics' leaders for 15 minutes: with it, the watchdog of
        # stalled partitions would miss those whose broker is down just now.
        self.admin.close()
        problems = [*missing_rights(reads, "READ"), *missing_rights(writes, "WRITE")]
        if problems:
            raise BrokerError("\n".join(problems))

    def _letters_admin(self) -> Admin:
        """The admin client of the letters' cluster and user; usually the consumer's own."""
        keys = connection(self.config.producer_config)
        if keys == self.config.settings.connection:
            return self.admin
        return Admin(keys, self.config.dependencies.admin)


class Shutdown:
    """Commits what is done, emits the last events and leaves the group."""

    def __init__(
        self,
        client: Client,
        assignment: Assignment,
        offsets: Offsets,
        emit: Callable[[Event], None],
        *,
        leaves_group: bool,
    ) -> None:
        """`leaves_group`: not static; a static member keeps its partitions for its session."""
        self._client = client
        self._assignment = assignment
        self._offsets = offsets
        self._emit = emit
        self._leaves_group = leaves_group
        self._now_s = assignment.now_s

    def close(self, *, commit: bool, timeout_s: float) -> None:
        """Returns after `timeout_s` at the latest.

        librdkafka's own `close` has no timeout: it waits 45 s for a pending commit with the brokers
        down, and for minutes if the member was fenced. So the commit is sent and awaited here, and
        the mere close runs in its own thread.
        """
        give_up_at_s = self._now_s() + timeout_s
        try:
            if commit:
                self._commit(give_up_at_s - timeout_s / 2)
            partitions = self._assignment.partitions
            if partitions:
                self._emit(Revoked(partitions))
            self._emit(Stopped(left_group=self._leaves_group))
        finally:
            # Also after a Ctrl-C or a listener's SystemExit: a member left behind would block its
            # partitions for max.poll.interval.ms.
            self._client.disarm()
            self._leave(give_up_at_s, timeout_s)

    def _leave(self, give_up_at_s: float, timeout_s: float) -> None:
        refusals: list[KafkaException] = []
        join_within_s = give_up_at_s - self._now_s() - _CLOSE_S

        def leave() -> None:
            try:
                self._client.close(join_within_s)
            except KafkaException as error:
                refusals.append(error)

        ender = threading.Thread(target=leave, name="linear_retry close", daemon=True)
        ender.start()
        ender.join(max(give_up_at_s - self._now_s(), 0.1))
        if ender.is_alive():
            _LEFT_BEHIND.append(self._client)
            text = f"the client had not closed after {timeout_s:.3g} s and is left behind"
            self._emit(ClientError("_TIMED_OUT", text, 1))
        for error in refusals:
            self._report(error)

    def _commit(self, give_up_at_s: float) -> None:
        """Commits what is done, with everything paused: what arrives now is for the next owner.

        Repeats until it is acknowledged: if other members end at the same time, the group refuses
        it until the rebalance is over. First waits until no commit is in flight: one that
        librdkafka retries by itself may undo a later one (`OffsetCommits`).
        """
        if not self._offsets.uncommitted() and not self._under_way(self._assignment.partitions):
            return
        send_at_s = self._now_s()
        try:
            ours = self._paused()
            while self._now_s() < give_up_at_s:
                if not self._under_way(ours):
                    left = self._offsets.uncommitted(ours)
                    if not left:
                        return
                    if self._now_s() >= send_at_s:
                        self._client.commit(left)
                        send_at_s = self._now_s() + _SEND_AGAIN_S
                self._client.drain(0.1)
        except KafkaException as error:
            self._report(error)

    def _under_way(self, partitions: Sequence[Partition]) -> bool:
        return any(map(self._client.awaits_commit, partitions))

    def _paused(self) -> Sequence[Partition]:
        """Pauses everything, and returns the partitions that we may commit.

        If one is not assigned any more, librdkafka refuses the call for all of them. It may be
        another member's, whose commits ours would undo. What the others deliver is dropped anyway.
        """
        owned = self._assignment.partitions
        try:
            self._client.pause(owned)
        except KafkaException as error:
            self._report(error)
            assigned = self._client.assignment()
            return [partition for partition in owned if partition in assigned]
        return owned

    def _report(self, error: KafkaException) -> None:
        self._emit(ClientError(error.args[0].name(), f"at close: {error.args[0].str()}", 1))
