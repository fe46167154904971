"""Says what became of the letters that a replay has sent: handled, not read yet, or came back."""

from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

from linear_retry.dlq.letters.letter import read_letter
from linear_retry.dlq.reading.reading import Cluster
from linear_retry.dlq.reading.spill import SpilledSet
from linear_retry.dlq.replay.plan import Plan
from linear_retry.records.commit_note import Digests, note_beside
from linear_retry.records.record import Record
from linear_retry.records.retry_headers import GENERATION, GROUP_ID, ID, REPLAY_ID, RETRY, SEND_TO
from linear_retry.records.topics.names import retry_group
from linear_retry.retry.noted_messages import NotedMessages
from linear_retry.scope import Partition, Place

_SHOWN = 20
_MOST_READ = 200_000


@dataclass(frozen=True, slots=True)
class Mark:
    """The ends of topics before a replay: what comes of it is behind them.

    `letters` are those of the dead-letter topic, `targets` of the topics that are sent to, by
    partition; `readers` the consumer groups that read there, "" if every group does.
    """

    letters: Mapping[int, int]
    targets: Mapping[str, Mapping[int, int]]
    readers: Mapping[str, Collection[str]]

    def as_json(self) -> dict[str, Any]:
        """Returns it for `from_json`."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Mark":
        """Returns what `as_json` was called of."""
        targets = {topic: _numbered(ends) for topic, ends in content["targets"].items()}
        return cls(_numbered(content["letters"]), targets, content["readers"])


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of `sent` letters.

    `returned` were dead-lettered again: `letters` has the places of some new ones. `unread` are
    behind the committed offsets of the group that they were sent for; None: unknown, as where every
    group reads them, the group's offsets could not be asked, or too much was written since.
    `is_partial`: so many letters were written since that the last of them were not looked at.
    """

    sent: int
    unread: int | None
    returned: int
    letters: tuple[Place, ...] = ()
    is_partial: bool = False

    @property
    def handled(self) -> int | None:
        """How many were read and have not come back; what waits in a retry topic is among them."""
        return None if self.unread is None else max(self.sent - self.unread - self.returned, 0)

    @property
    def is_settled(self) -> bool:
        """Whether all were read."""
        return self.sent - self.returned <= 0 or self.unread == 0

    def __str__(self) -> str:
        or_more = " or more" if self.is_partial else ""
        returned = f"{self.returned}{or_more} came back as new dead letters"
        if self.unread is None:
            return f"{returned}; how many of the others were handled is unknown"
        return f"{self.handled} handled, {self.unread} not read yet, {returned}"


def mark(cluster: Cluster, plan: Plan) -> Mark:
    """Notes where the topics end, before the plan is carried out."""
    targets = {topic: _ends(cluster, topic) for topic in plan.targets}
    readers: dict[str, set[str]] = {}
    for each in plan.partitions:
        groups = {group and plan.reader_of(group) for group in each.groups}
        readers.setdefault(each.to_topic, set()).update(groups)
    ordered = {topic: sorted(groups) for topic, groups in readers.items()}
    return Mark(_ends(cluster, plan.topic), targets, ordered)


def outcome(
    cluster: Cluster,
    topic: str,
    begun: Mark,
    names: Container[str],
    sent: int,
    most_read: int = _MOST_READ,
) -> Outcome:
    """Looks for the letters with these resolution keys, `sent` of which were sent.

    Of the dead letters, and of what groups have not read, it reads `most_read` records each.
    Raises `BrokerError`.
    """
    places, returned = list[Place](), 0
    with SpilledSet() as back:
        for number, record in enumerate(_behind(cluster, topic, begun.letters)):
            if number >= most_read:
                return Outcome(sent, None, returned, tuple(places), is_partial=True)
            letter = read_letter(record)
            name = f"{letter.id}#{letter.generation - 1}"
            if letter.is_dead_letter and name in names and name not in back:
                back.add(name)
                returned += 1
                if len(places) < _SHOWN:
                    places.append(Place(topic, letter.partition, letter.offset))
        unread = _unread(cluster, begun, names, back, most_read)
    return Outcome(sent, unread, returned, tuple(places))


def _unread(
    cluster: Cluster, begun: Mark, names: Container[str], back: Container[str], most_read: int
) -> int | None:
    """Counts what the group that it was sent for has not read; None: unknown."""
    unread = read = 0
    with SpilledSet() as counted:
        for topic, groups in begun.readers.items():
            ends = begun.targets[topic]
            for group in groups:
                asked = [(topic, number) for number in ends]
                found = cluster.groups.committed_with_notes(group, asked) if group else None
                if found is None:
                    return None
                committed = _Committed(group, found)
                starts = {n: max(end, committed.offset(topic, n, end)) for n, end in ends.items()}
                for record in _behind(cluster, topic, starts):
                    read += 1
                    if read > most_read:
                        return None
                    name, reader = _sent_as(record)
                    is_meant = reader == group and name in names and not committed.covers(record)
                    if is_meant and name not in back and name not in counted:
                        counted.add(name)
                        unread += 1
    return unread


class _Committed:
    """What a group has committed in the partitions of a topic: offsets, and what is done above.

    Where keys are in order, a held one keeps the offset back; the note beside it says what of the
    others is done. One that goes by other keys than Kafka's says nothing here.
    """

    def __init__(self, group: str, found: Mapping[Partition, tuple[int, str]]) -> None:
        self._found = found
        self._noted: dict[Partition, NotedMessages] = {}
        for key, committed in found.items():
            note = note_beside(committed, group, key)
            if note is not None and not note.key_id:
                self._noted[key] = NotedMessages(note, Digests(group))

    def offset(self, topic: str, number: int, otherwise: int) -> int:
        """Returns the committed offset of a partition."""
        return self._found.get((topic, number), (otherwise, ""))[0]

    def covers(self, record: Record) -> bool:
        """Whether a record that is not below the offset is done nevertheless."""
        noted = self._noted.get((record.topic, record.partition))
        timestamp_ms = None if record.timestamp_ms < 0 else record.timestamp_ms
        return (
            noted is not None
            and noted.judge(record.offset, record.key, timestamp_ms, None, order=record.key)
            == "done"
        )


def _sent_as(record: Record) -> tuple[str, str]:
    """The resolution key of the letter that a replay has sent as this record, and its reader.

    The latter is the only group that handles it. Both are "" of any other record.
    """
    found = dict(record.headers)
    if REPLAY_ID not in found:
        return "", ""
    values = (found.get(ID), found.get(GENERATION) or b"1", found.get(GROUP_ID))
    name, generation, group = ((each or b"").decode("utf-8", "replace") for each in values)
    is_retry = found.get(SEND_TO) == RETRY.encode()
    return f"{name}#{generation}", retry_group(group) if is_retry else group


def _behind(cluster: Cluster, topic: str, starts: Mapping[int, int]) -> Iterator[Record]:
    return chain.from_iterable(cluster.reader.read(topic, starts=starts))


def _ends(cluster: Cluster, topic: str) -> dict[int, int]:
    return {number: end for number, (_, end) in cluster.reader.bounds(topic).items()}


def _numbered(ends: Mapping[str, int]) -> dict[int, int]:
    return {int(number): end for number, end in ends.items()}
