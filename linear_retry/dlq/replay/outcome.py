"""Says what became of the letters that a replay has sent: handled, not read yet, or came back."""

from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

from linear_retry.dlq.cluster import Cluster
from linear_retry.dlq.letters.letter import read_letter
from linear_retry.dlq.replay.plan import Plan
from linear_retry.dlq.spill import SpilledSet
from linear_retry.records.record import Record
from linear_retry.records.retry_headers import ID, REPLAY_ID
from linear_retry.scope import Place

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
    group reads them, or the group's offsets could not be asked.
    """

    sent: int
    unread: int | None
    returned: int
    letters: tuple[Place, ...] = ()

    @property
    def handled(self) -> int | None:
        """How many were read and have not come back; what waits in a retry topic is among them."""
        return None if self.unread is None else max(self.sent - self.unread - self.returned, 0)

    @property
    def is_settled(self) -> bool:
        """Whether all were read."""
        return self.sent - self.returned <= 0 or self.unread == 0

    def __str__(self) -> str:
        returned = f"{self.returned} came back as new dead letters"
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


def outcome(cluster: Cluster, topic: str, begun: Mark, names: Container[str], sent: int) -> Outcome:
    """Looks for the letters with these resolution keys, `sent` of which were sent.

    Raises `BrokerError`.
    """
    places, returned = list[Place](), 0
    with SpilledSet() as back:
        for record in _behind(cluster, topic, begun.letters):
            letter = read_letter(record)
            name = f"{letter.id}#{letter.generation - 1}"
            if letter.is_dead_letter and name in names and name not in back:
                back.add(name)
                returned += 1
                if len(places) < _SHOWN:
                    places.append(Place(topic, letter.partition, letter.offset))
        unread = _unread(cluster, begun, names, back)
    return Outcome(sent, unread, returned, tuple(places))


def _unread(
    cluster: Cluster, begun: Mark, names: Container[str], back: Container[str]
) -> int | None:
    """Counts what no group has read that it was sent for; None: unknown."""
    unread = 0
    with SpilledSet() as counted:
        for topic, groups in begun.readers.items():
            ends = begun.targets[topic]
            for group in groups:
                asked = [(topic, number) for number in ends]
                committed = cluster.groups.committed(group, asked) if group else None
                if committed is None:
                    return None
                starts = {n: max(end, committed.get((topic, n), end)) for n, end in ends.items()}
                for number, record in enumerate(_behind(cluster, topic, starts)):
                    if number >= _MOST_READ:
                        return None
                    name = _name_of(record)
                    if name in names and name not in back and name not in counted:
                        counted.add(name)
                        unread += 1
    return unread


def _name_of(record: Record) -> str:
    """The resolution key of the letter that a replay has sent as this record; "" of any other."""
    found = dict(record.headers)
    if REPLAY_ID not in found:
        return ""
    name, generation = found.get(ID) or b"", found.get("retry-generation") or b"1"
    return f"{name.decode('utf-8', 'replace')}#{generation.decode('utf-8', 'replace')}"


def _behind(cluster: Cluster, topic: str, starts: Mapping[int, int]) -> Iterator[Record]:
    return chain.from_iterable(cluster.reader.read(topic, starts=starts))


def _ends(cluster: Cluster, topic: str) -> dict[int, int]:
    return {number: end for number, (_, end) in cluster.reader.bounds(topic).items()}


def _numbered(ends: Mapping[str, int]) -> dict[int, int]:
    return {int(number): end for number, end in ends.items()}
