"""A dead-letter topic, as a program sees it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from linear_retry.dlq import reading
from linear_retry.dlq.cluster import Cluster
from linear_retry.dlq.export import Exported, write_export
from linear_retry.dlq.letters.filters import EVERYTHING, Filter
from linear_retry.dlq.letters.letter import Letter, State
from linear_retry.dlq.purge import Purge, plan_purge, purge
from linear_retry.dlq.replay.checks import absent_groups
from linear_retry.dlq.replay.newer_messages import NewerMessages, newer_messages
from linear_retry.dlq.replay.plan import Plan
from linear_retry.dlq.replay.rate_limit import RateLimit
from linear_retry.dlq.replay.replaying import plan_replay, replay
from linear_retry.dlq.resolution.recording import reopen, resolve
from linear_retry.dlq.resolution.resolutions import Resolution, Resolutions
from linear_retry.dlq.spill import SpilledSet
from linear_retry.dlq.stats import Stats, stats_of
from linear_retry.kafka.topics.reader import Progress
from linear_retry.kafka.topics.standalone_consumer import ANSWER_TIMEOUT_S


class DeadLetterTopic:
    """The letters of one topic, read without a group and without a trace. To be used in a `with`.

    `config` are librdkafka's keys, `bootstrap.servers` at least. Nothing is asked of the brokers
    before the first method is called. All methods raise `BrokerError` where no broker answers
    within `timeout_s` or one refuses, `UnknownTopicError` where the topic is not there, and
    `ConfigurationError` where librdkafka refuses a key. `progress` is called with how many
    offsets are behind, and of how many.
    """

    def __init__(
        self, topic: str, config: Mapping[str, Any], *, timeout_s: float = ANSWER_TIMEOUT_S
    ) -> None:
        self.topic = topic
        self.config = dict(config)
        self._cluster = Cluster(self.config, timeout_s)
        self._resolutions: Resolutions | None = None

    def __enter__(self) -> DeadLetterTopic:
        return self

    def __exit__(self, *_: object) -> None:
        self.forget()

    def letters(
        self, letter_filter: Filter = EVERYTHING, progress: Progress | None = None
    ) -> Iterator[tuple[Letter, State]]:
        """The letters that the filter means, with their state; each partition in order.

        What is in the topic when this is called, and no more: it ends.
        """
        resolutions = self.resolutions(progress)
        return reading.letters(
            self._cluster.reader, self.topic, resolutions, letter_filter, progress
        )

    def get(
        self, letter_id: str, progress: Progress | None = None
    ) -> tuple[tuple[Letter, State], ...]:
        """The letters with this id, by generation: several after a replay that failed.

        With `#generation` at its end, of that one. A letter that was written twice is there twice.
        """
        found = self.letters(Filter(ids=(letter_id,)), progress)
        return tuple(sorted(found, key=lambda each: each[0].generation))

    def stats(self, letter_filter: Filter = EVERYTHING, progress: Progress | None = None) -> Stats:
        """What the letters that the filter means look like from afar."""
        return stats_of(self.letters(letter_filter, progress))

    def export(
        self,
        path: str | os.PathLike[str],
        letter_filter: Filter = EVERYTHING,
        progress: Progress | None = None,
    ) -> int:
        """Write the letters that the filter means to a file, and return their number.

        Nothing is lost: `linear_retry.dlq.read_export` gives them back. A file of that name is
        replaced once the new one is whole. Raises `OSError` too.
        """
        found = self.letters(letter_filter, progress)
        return write_export(
            path, (Exported(letter, self.resolution(letter)) for letter, _ in found)
        )

    def plan_replay(
        self,
        letter_filter: Filter = EVERYTHING,
        *,
        to: str | None = None,
        keep_timestamp: bool = False,
        for_group: str | None = None,
        progress: Progress | None = None,
    ) -> Plan:
        """What a replay of the open letters that the filter means would send. Changes nothing.

        Each goes to where it came from, or all to the topic `to`, stamped with the time of sending
        unless `keep_timestamp`. Where a message came from, the consumers of the group that its
        letter is of handle it, and other groups pass it over; `for_group` names another one, or,
        as "", every group. To be used in a `with`. Raises `RefusedError` where it cannot be done.
        """
        plan = Plan(self.topic, to, keep_timestamp, for_group)
        return plan_replay(self._cluster, plan, self.resolutions(), letter_filter, progress)

    def absent_groups(self, plan: Plan) -> tuple[str, ...]:
        """The groups that letters are for, and that have no members and no committed offsets.

        What is sent for one of these may reach nobody. A group that may not be asked is not one.
        """
        return absent_groups(self._cluster, plan)

    def newer_messages(
        self, plan: Plan, progress: Progress | None = None
    ) -> Iterator[NewerMessages]:
        """Which keys of the planned letters have newer messages where these came from."""
        return newer_messages(self._cluster, plan, progress)

    def replay(
        self,
        plan: Plan,
        *,
        by: str,
        why: str = "",
        rate: float | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Send what is planned and still open, in order, each once; return how many were sent.

        At most `rate` a second. Message and record that it was sent go in one transaction: ended at
        any point, another replay goes on. `progress` is called with how many are
        sent, and of how many. Raises `FencedError` where another replay, resolve, reopen or purge
        has begun since.
        """
        known = self.resolutions()
        resolution = Resolution(State.REPLAYED, by, why=why, replay_id=plan.replay_id)
        try:
            return replay(self._cluster, plan, known, resolution, RateLimit(rate), progress)
        finally:
            self.forget()

    def resolve(
        self,
        letter_filter: Filter = EVERYTHING,
        *,
        by: str,
        why: str = "",
        progress: Progress | None = None,
    ) -> int:
        """Record that the selected open letters are dealt with; return how many."""
        self.forget()
        return resolve(self._cluster, self.topic, letter_filter, by, why, progress)

    def reopen(
        self, letter_filter: Filter = EVERYTHING, *, progress: Progress | None = None
    ) -> int:
        """Take that back for the selected letters; return how many."""
        self.forget()
        return reopen(self._cluster, self.topic, letter_filter, progress)

    def plan_purge(self, *, everything: bool = False, progress: Progress | None = None) -> Purge:
        """What a purge would delete. Changes nothing."""
        with SpilledSet() as remaining:
            return plan_purge(
                self._cluster,
                self.topic,
                self.resolutions(),
                remaining,
                progress,
                everything=everything,
            )

    def purge(self, *, everything: bool = False, progress: Progress | None = None) -> Purge:
        """Delete of each partition what is before its first open letter, or all; return what.

        Once that is acknowledged, what is recorded of letters that are gone is deleted as well.
        """
        self.forget()
        return purge(self._cluster, self.topic, progress, everything=everything)

    def resolution(self, letter: Letter) -> Resolution | None:
        """What became of it: by whom, when and why. None where it is open."""
        return self.resolutions().of(letter)

    def resolutions(self, progress: Progress | None = None) -> Resolutions:
        """What is recorded of all of them: read once, at the first need (`forget`)."""
        if self._resolutions is None:
            # First, so that an error names this topic, and not the other that goes with it.
            self._cluster.reader.partitions(self.topic)
            resolutions = Resolutions()
            reading.read_resolutions(self._cluster.reader, self.topic, resolutions, progress)
            self._resolutions = resolutions
        return self._resolutions

    def forget(self) -> None:
        """Have the resolutions read again when they are needed next."""
        if self._resolutions is not None:
            self._resolutions.__exit__(None, None, None)
            self._resolutions = None
