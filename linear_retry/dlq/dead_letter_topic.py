"""A dead-letter topic, as programs use it."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Mapping
from typing import Any

from linear_retry.dlq.export import Exported, write_export
from linear_retry.dlq.forward import Message, edit_resolution, forward, original
from linear_retry.dlq.letters.letter import EVERYTHING, Filter, Letter, State, read_letter
from linear_retry.dlq.purge import Purge, check_holds_letters, plan_purge, purge
from linear_retry.dlq.reading import reading
from linear_retry.dlq.reading.reading import Cluster
from linear_retry.dlq.reading.resolutions import Resolution, Resolutions
from linear_retry.dlq.reading.spill import SpilledSet
from linear_retry.dlq.replay.checks import (
    RefusedError,
    absent_groups,
    check_resolutions,
    facts_of,
)
from linear_retry.dlq.replay.newer_messages import NewerMessages, newer_messages
from linear_retry.dlq.replay.outcome import Mark, Outcome, mark, outcome
from linear_retry.dlq.replay.plan import Plan
from linear_retry.dlq.replay.recording import Recorded, reopen, resolve
from linear_retry.dlq.replay.replaying import RateLimit, plan_replay, replay
from linear_retry.dlq.stats import Stats, stats_of
from linear_retry.kafka.topics.reader import Progress
from linear_retry.kafka.topics.standalone_consumer import ANSWER_TIMEOUT_S


class DeadLetterTopic:
    """The letters of one topic, read without a group or commits. Use it in a `with`.

    `config` holds librdkafka's keys, `bootstrap.servers` at least. The brokers are not asked before
    the first method is called. All methods raise `BrokerError` if no broker answers within
    `timeout_s` or one refuses, `UnknownTopicError` if the topic does not exist, and
    `ConfigurationError` if librdkafka refuses a key. `progress` is called with the number of
    offsets read, and their total.
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
        """The letters that the filter selects, with their state; each partition in order.

        Reads what is in the topic at the time of the call, and then ends.
        """
        resolutions = self.resolutions(progress)
        return reading.letters(
            self._cluster.reader, self.topic, resolutions, letter_filter, progress
        )

    def get(
        self, letter_id: str, progress: Progress | None = None
    ) -> tuple[tuple[Letter, State], ...]:
        """The letters with this id, by generation: several after a replay that failed.

        With `#generation` at the end of the id, only that generation. A letter that was written
        twice is returned twice.
        """
        found = self.letters(Filter(ids=(letter_id,)), progress)
        return tuple(sorted(found, key=lambda each: each[0].generation))

    def stats(self, letter_filter: Filter = EVERYTHING, progress: Progress | None = None) -> Stats:
        """Statistics of the letters that the filter selects."""
        return stats_of(self.letters(letter_filter, progress))

    def export(
        self,
        path: str | os.PathLike[str],
        letter_filter: Filter = EVERYTHING,
        progress: Progress | None = None,
    ) -> int:
        """Writes the letters that the filter selects to a file, and returns their number.

        Nothing is lost: `linear_retry.dlq.read_export` reads them back. An existing file is
        replaced only when the new one is complete. Also raises `OSError`.
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
        to_retry: str | None = None,
        keep_timestamp: bool = False,
        for_group: str | None = None,
        progress: Progress | None = None,
    ) -> Plan:
        """Plans a replay of the open letters that the filter selects. Changes nothing.

        Each goes to the topic it came from, or all to the topic `to`, stamped with the time of
        sending unless `keep_timestamp`. In its own topic a message is handled by the consumers of
        its letter's group, and skipped by other groups; `for_group` names another group, or, as
        "", every group. Use the plan in a `with`. Raises `RefusedError` if the replay is
        impossible.

        `to_retry` is a retry topic of the letters' group, usually that of its first step: there
        they wait for its delay, and the group's retry line handles them, so that they never hold up
        live traffic. What fails again continues through the retry topics from there.
        """
        if to is not None and to_retry is not None:
            raise RefusedError([f"to={to!r} and to_retry={to_retry!r}: name only one of them"])
        plan = Plan(self.topic, to or to_retry, keep_timestamp, for_group, to_retry is not None)
        return plan_replay(self._cluster, plan, self.resolutions(), letter_filter, progress)

    def absent_groups(self, plan: Plan) -> tuple[str, ...]:
        """The groups of the letters that have no members and no committed offsets.

        A message that is sent for one of these may reach no consumer. Groups that may not be
        described are left out.
        """
        return absent_groups(self._cluster, plan)

    def newer_messages(
        self, plan: Plan, progress: Progress | None = None
    ) -> Iterator[NewerMessages]:
        """The keys of the planned letters that have newer messages in the topic they came from."""
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
        """Sends the planned letters that are still open, in order, each once; returns their number.

        At most `rate` a second. A message and the record that it was sent go in one transaction: if
        this is interrupted at any point, another replay continues. `progress` is called with the
        number sent, and the total. Raises `FencedError` if another replay, resolve, reopen or purge
        has begun since.
        """
        known = self.resolutions()
        resolution = Resolution(State.REPLAYED, by, why=why, replay_id=plan.replay_id)
        try:
            return replay(self._cluster, plan, known, resolution, RateLimit(rate), progress)
        finally:
            self.forget()

    def active_groups(self) -> frozenset[str]:
        """The consumer groups that have members, as far as this user may describe them."""
        return self._cluster.groups.active()

    def mark(self, plan: Plan) -> Mark:
        """Notes, before a replay, where its topics end: `outcome` looks behind that."""
        return mark(self._cluster, plan)

    def outcome(self, begun: Mark, names: Container[str], sent: int) -> Outcome:
        """What became of letters that were sent: handled, not read yet, or dead again.

        `names` are their `Letter.resolution_key`, of which `sent` were sent. What waits in a retry
        topic or a scheduler counts as handled until it comes back.
        """
        return outcome(self._cluster, self.topic, begun, names, sent)

    def letter_at(self, partition: int, offset: int) -> tuple[Letter, State] | None:
        """The letter at this place; None if it is gone, or never was."""
        record = self._cluster.record_at(self.topic, partition, offset)
        if record is None:
            return None
        letter = read_letter(record)
        return letter, self.resolutions().state_of(letter)

    def original(self, letter: Letter) -> Message:
        """The letter's message as it was before it failed, to be edited and forwarded.

        Raises `RefusedError` if the letter only refers to it, and it is gone.
        """
        return original(self._cluster, letter)

    def forward(
        self,
        letter: Letter,
        message: Message,
        *,
        by: str,
        why: str,
        to: str | None = None,
        resolve: bool = True,
    ) -> str:
        """Sends an edited copy of an open letter's message; returns the copy's `retry-id`.

        It goes to the topic that the letter came from, or to the topic `to`, for the letter's
        group, at the end of its original partition; with another key or topic, the key decides.
        The header `retry-edited-from` names the letter, which stays in its topic: unless `resolve`
        is False it is resolved, in the same transaction. Raises `RefusedError` if the letter is not
        open or the topic cannot be sent to, and `FencedError`. A `BrokerError` says if the message
        may have been sent all the same, and with which `retry-id`.
        """
        self.forget()
        resolution = edit_resolution(by, why) if resolve else None
        return forward(self._cluster, letter, message, to=to, resolution=resolution)

    def resolve(
        self,
        letter_filter: Filter = EVERYTHING,
        *,
        by: str,
        why: str = "",
        progress: Progress | None = None,
        recorded: Recorded | None = None,
    ) -> int:
        """Marks the selected open letters as resolved; returns their number.

        `recorded` is called after each transaction with the number that is resolved by then.
        """
        self.forget()
        made = Resolution(State.RESOLVED, by, why=why)
        return resolve(self._cluster, self.topic, letter_filter, made, progress, recorded)

    def reopen(
        self,
        letter_filter: Filter = EVERYTHING,
        *,
        progress: Progress | None = None,
        recorded: Recorded | None = None,
    ) -> int:
        """Reopens the selected replayed or resolved letters; returns their number.

        `recorded` as of `resolve`.
        """
        self.forget()
        return reopen(self._cluster, self.topic, letter_filter, progress, recorded)

    def plan_purge(
        self,
        *,
        everything: bool = False,
        unknown_letters: bool = False,
        progress: Progress | None = None,
    ) -> Purge:
        """Plans a purge. Changes nothing. Raises `RefusedError` as `purge` does."""
        if not unknown_letters:
            check_holds_letters(self._cluster, self.topic, progress)
        check_resolutions(self.topic, facts_of(self._cluster, self.topic))
        with SpilledSet() as remaining:
            return plan_purge(
                self._cluster,
                self.topic,
                self.resolutions(),
                remaining,
                progress,
                everything=everything,
            )

    def purge(
        self,
        *,
        everything: bool = False,
        within: Purge | None = None,
        unknown_letters: bool = False,
        progress: Progress | None = None,
    ) -> Purge:
        """Deletes each partition up to its first open letter, or all of it; returns its plan.

        `within` is a plan made earlier: what has come since then is kept. Once the deletion is
        acknowledged, the resolutions of deleted letters are deleted too. Raises `RefusedError` for
        a topic that holds records and no dead letter, unless its name ends in `.dlq` or `-dlq`, or
        `unknown_letters` says that these are another system's.
        """
        self.forget()
        return purge(
            self._cluster,
            self.topic,
            progress,
            everything=everything,
            within=within,
            unknown_letters=unknown_letters,
        )

    def resolution(self, letter: Letter) -> Resolution | None:
        """The resolution of the letter: by whom, when and why. None if it is open."""
        return self.resolutions().of(letter)

    def resolutions(self, progress: Progress | None = None) -> Resolutions:
        """The resolutions of all letters: read once, on first use (until `forget`)."""
        if self._resolutions is None:
            # First, so that an error names this topic, not its resolutions topic.
            self._cluster.reader.partitions(self.topic)
            resolutions = Resolutions()
            reading.read_resolutions(self._cluster.reader, self.topic, resolutions, progress)
            self._resolutions = resolutions
        return self._resolutions

    def forget(self) -> None:
        """Forgets the resolutions, so that the next use reads them again."""
        if self._resolutions is not None:
            self._resolutions.__exit__(None, None, None)
            self._resolutions = None
