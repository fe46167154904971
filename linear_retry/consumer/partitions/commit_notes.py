"""Carries what is known of messages behind the committed offsets from one owner to the next."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, TypeAlias

from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.partitions.read_ahead import ReadAhead
from linear_retry.errors import ConfigurationError
from linear_retry.kafka import KafkaException, Message
from linear_retry.kafka.consumer.client import Client
from linear_retry.kafka.consumer.messages import (
    KeyOf,
    key_of,
    offset_of,
    partition_of,
    timestamp_ms_of,
)
from linear_retry.log.lines import log_topic_problem
from linear_retry.records.commit_note import (
    MOST_CHARACTERS,
    CommitNote,
    Digests,
    NewerNoteError,
    NotedFailures,
    Undone,
    read_note,
    write_note,
)
from linear_retry.retry.case import Blocked
from linear_retry.retry.circuits import Circuit, Circuits
from linear_retry.retry.noted_messages import Judgement, NotedMessages
from linear_retry.scope import UNKEYED, Partition, Scope

OnUnreadableNote: TypeAlias = Literal["refuse", "handle-again"]
_FEWEST_CHARACTERS = 40


class CommitNotes:
    """Writes a note beside each committed offset, and reads those of the owners before.

    A note says which messages behind the offset are done, and how often the others have failed. The
    count in memory decides; the note only brings it back. It belongs to one message: where another
    has its place, it says nothing (Karafka #883 gave one message's count to the next).
    """

    def __init__(
        self,
        client: Client,
        assignment: Assignment,
        circuits: Circuits[Message],
        read_ahead: ReadAhead,
        *,
        remembers: bool,
        on_unreadable: OnUnreadableNote,
        key_of: KeyOf = key_of,
        key_id: str = "",
        only_failures: bool = False,
    ) -> None:
        """`remembers`: else failures are neither written nor read.

        `only_failures`: of a note it believes only these; an inbox knows better what is done.

        `on_unreadable`: what to do with a note of a newer release, or by other keys. `key_of` gives
        a message the key of its order, and `key_id` names it.
        """
        self._client = client
        self._assignment = assignment
        self._circuits = circuits
        self._read_ahead = read_ahead
        self._remembers = remembers
        self._on_unreadable = on_unreadable
        self._key_of = key_of
        self._key_id = key_id
        self._only_failures = only_failures
        self._group_id = client.group_id
        self._digests = Digests(client.group_id)
        self._most = MOST_CHARACTERS
        self._read_in: dict[Partition, int] = {}
        self._noted: dict[Partition, NotedMessages] = {}
        self._ignored: dict[Partition, CommitNote] = {}

    def once_done(self, partition: Partition, offset: int) -> tuple[int, str]:
        """Returns what is to be committed with the letter of the message there, and its note."""
        base = self._read_ahead.next_once_done(partition, offset)
        return base, self.of(partition, base, done=offset) or ""

    def of(self, partition: Partition, offset: int, done: int | None = None) -> str | None:
        """Returns what is committed beside this offset: nothing unless there is something to say.

        Any commit replaces the note. So what has not been reached is written again, and None says
        that it is not known yet. The message at `done` will be done with the commit.
        """
        if self._read_in.get(partition) != self._assignment.epochs.get(partition):
            return None
        noted, left = self._noted.get(partition), None
        noted_to = 0 if noted is None else noted.frontier
        progress = self._read_ahead.progress(partition, done, noted_to)
        read_to = offset if progress is None else progress.read_to
        if noted is not None and (left := noted.left(read_to)) is None:
            del self._noted[partition]
        held = {} if self._circuits.all_closed else self._held(partition, offset, done)
        if not held and left is None and progress is None:
            return ""
        note = CommitNote(offset, offset) if left is None else replace(left, base=offset)
        if progress is not None:
            held = self._undone(progress.firsts) | held
            if left is None or progress.frontier >= noted_to:
                frontier = progress.frontier
                epoch = self._client.leader_epochs.at(partition, frontier)
            else:  # what has not been reached of that note may be of an earlier leader's log
                frontier, epoch = noted_to, left.leader_epoch
            note = replace(note, frontier=frontier, leader_epoch=epoch)
        said = {(one.kind, one.offset, one.digest) for one in held.values()}
        rest = [one for one in note.undone if (one.kind, one.offset, one.digest) not in said]
        undone = [*held.values(), *rest]
        undone = [one for one in undone if one.failures or one.offset < note.frontier]
        note = replace(note, undone=tuple(undone), key_id=self._key_id)
        return write_note(note, self._group_id, partition, self._most)

    def shorten(self, partition: Partition, characters: int) -> None:
        """Halves the length of notes: a broker has refused a commit for one of `characters`."""
        self._most = min(self._most, characters // 2)
        if 0 < self._most < _FEWEST_CHARACTERS:
            self._most = 0
            log_topic_problem(
                partition[0],
                "a broker has refused a commit for the length of its metadata "
                "(offset.metadata.max.bytes): it is committed without, and the failures of a held "
                "message do not survive a restart or a rebalance",
            )

    def read(self, partition: Partition) -> None:
        """Makes the note of this assignment known; asks for all that are not, up to 1 s.

        Raises `KafkaException` without an answer, and `ConfigurationError` for a note that a newer
        release has written.
        """
        owned = self._assignment.epochs
        if self._read_in.get(partition) == owned.get(partition):
            return
        unread = [key for key, epoch in owned.items() if self._read_in.get(key) != epoch]
        answers = self._client.notes(unread)
        self._read_in = {key: self._read_in[key] for key in owned if key not in unread}
        self._noted = {key: noted for key, noted in self._noted.items() if key in self._read_in}
        for key, answer in answers.items():
            if isinstance(answer, tuple):
                # First, as it may refuse the note: what is not known is not committed over.
                committed, text, leader_epoch = answer
                self._keep(key, committed, text)
                self._client.leader_epochs.begin(key, committed, leader_epoch)
                self._read_in[key] = owned[key]
            elif key == partition:
                raise KafkaException(answer)

    # -- what it says of messages ----------------------------------------------------------

    @property
    def has_any(self) -> bool:
        """Whether any partition's note is still to be asked about its messages."""
        return bool(self._noted)

    def judge(self, message: Message) -> Judgement:
        """Says whether an owner before has done this message, by the note of its partition."""
        noted = self._noted.get(partition_of(message))
        if noted is None:
            return "undone"
        judgement = noted.judge(
            offset_of(message),
            key_of(message),
            timestamp_ms_of(message),
            message.leader_epoch(),
            order=self._key_of(message),
        )
        if judgement == "doubt" and self._only_failures:
            # Its base, from which all would be read again, is not where this reading began.
            self.forget_failures(partition_of(message), offset_of(message))
            return "undone"
        return judgement

    def failures_at(self, partition: Partition, offset: int) -> NotedFailures | None:
        """Returns the noted failures of the message there; None: it has none."""
        noted = self._noted.get(partition)
        return None if noted is None else noted.failures_at(offset)

    def forget_failures(self, partition: Partition, offset: int) -> None:
        """Forgets the noted failures of the message there: from there on its owner counts."""
        self._noted[partition].forget_failures(offset)

    def put_aside(self, partition: Partition, offset: int) -> int:
        """Ignores a note that is about another log than this, as the message at `offset` shows.

        Returns where its messages are to be read from again.
        """
        # Until it is committed over it is read again, by the epoch in which all begins again.
        note = self._ignored[partition] = self._noted.pop(partition).note
        log_topic_problem(
            partition[0],
            f"the note beside the committed offset {note.base} of partition {partition[1]} is "
            f"about other messages, as that at {offset} shows: the topic was made again, or its "
            "log was cut. It is ignored, and all from that offset on are handled",
        )
        return note.base

    # -- inside ----------------------------------------------------------------------------

    def _held(self, partition: Partition, offset: int, done: int | None) -> dict[Scope, Undone]:
        """Returns the held messages, by circuit, but for what is `done`.

        One may be below `offset`, which may be any.
        """
        if not self._remembers:
            return {}
        holding = self._circuits.keys_of(partition)
        if (one := self._circuits.holding(partition)) is not None:
            holding = dict([one]) | holding
        found = {scope: self._with_failures(scope, circuit) for scope, circuit in holding.items()}
        return {
            scope: one
            for scope, one in found.items()
            if one is not None and one.offset >= offset and one.offset != done
        }

    def _with_failures(self, scope: Scope, circuit: Circuit[Message]) -> Undone | None:
        held = circuit.held
        if held is None or not held.failures:
            return None
        # One that waits for an operator is due at once where nobody blocks any more.
        at, last_ms = circuit.retry_at, held.failures.last_ms
        failures = NotedFailures(
            held.failures.count,
            held.failures.first_ms,
            last_ms,
            last_ms if at is None else round(at.timestamp() * 1000),
            is_blocked=isinstance(circuit.case, Blocked),
        )
        return replace(self._first_of(scope, held.message), failures=failures)

    def _undone(self, firsts: Mapping[Scope, Message]) -> dict[Scope, Undone]:
        return {lane: self._first_of(lane, message) for lane, message in firsts.items()}

    def _first_of(self, lane: Scope, message: Message) -> Undone:
        """Says from where on a lane is not done; one message where it stands for no others."""
        offset = offset_of(message)
        if lane.key == UNKEYED:
            return Undone("unkeyed", offset, self._digests.of_key(None))
        if lane.key is None or lane.key.startswith(UNKEYED):
            digest = self._digests.of_message(key_of(message), timestamp_ms_of(message))
            return Undone("message", offset, digest)
        return Undone("key", offset, bytes.fromhex(lane.key))

    def _refuse(self, partition: Partition, why: str) -> None:
        if self._on_unreadable == "refuse":
            raise ConfigurationError(
                f"{partition[0]}[{partition[1]}]: the note beside the group's committed offset "
                f'{why}, or accept it with on_unreadable_note="handle-again"'
            )

    def _keep(self, partition: Partition, committed: int, text: str) -> None:
        topic, number = partition
        try:
            note = read_note(text, self._group_id, partition)
        except NewerNoteError as newer:
            self._refuse(
                partition,
                f"is of version {newer}, which a newer release of linear_retry has written: what "
                "that has handled out of order would be handled again; run that release",
            )
            return
        if note is None:
            return
        if self._only_failures:
            undone = tuple(one for one in note.undone if one.failures is not None)
            note = replace(note, frontier=note.base, undone=undone)
        if note.key_id != self._key_id:
            if note.frontier > note.base:
                # Its digests are of other keys: what is not done would be taken to be done.
                self._refuse(
                    partition,
                    f"goes by {_keys(note.key_id)}, and this consumer by {_keys(self._key_id)}: up "
                    f"to {note.frontier - note.base} messages would be handled again; run the "
                    "other until no key is held",
                )
                return
            note = replace(note, undone=tuple(one for one in note.undone if one.kind == "message"))
        if note.base != committed:
            # A tool that moves a group's offset may write the old text beside the new one.
            if note.frontier > note.base:
                log_topic_problem(
                    topic,
                    f"the committed offset of partition {number} was moved from {note.base} to "
                    f"{committed}, beside a note about the first: it is ignored, and what was "
                    f"done from {committed} to {note.frontier} is handled again",
                )
            return
        if not self._remembers:
            undone = tuple(replace(one, failures=None) for one in note.undone)
            note = replace(note, undone=undone)
        if note != self._ignored.pop(partition, None):
            self._noted[partition] = NotedMessages(note, self._digests)


def _keys(key_id: str) -> str:
    return f"the keys of key_id={key_id!r}" if key_id else "Kafka's keys"
