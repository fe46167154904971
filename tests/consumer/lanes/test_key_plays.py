"""Members with lanes by key join, leave and are killed in any order, and nothing is lost."""

import math
import random
from collections import Counter
from collections.abc import Sequence

import pytest

from linear_retry.consumer.settings.by_key import ByKey, Unkeyed
from linear_retry.events import CircuitOpened, KeyBlocked, ProbeFailed, RetriedNow
from linear_retry.kafka import Message
from linear_retry.scope import Place
from linear_retry.testing import AttemptStarted
from linear_retry.testing.event_log import EventEmitted
from linear_retry.testing.guarantees.done import done_by
from tests.consumer.group import PROTOCOL_KEYS, FakeGroup, Member

_KEYS = (b"a", b"b", b"c", b"d", b"A", b"", None)
_UNKEYED: Sequence[Sequence[Unkeyed]] = (["in-order"], ["any"], ["in-order", "any"])
"""What the owners of a play choose from."""
_PARTITIONS = 2
_GRAIN_S = 0.1
"""Notes keep tenths of a second."""


def _case_folded(message: Message) -> bytes | None:
    key = message.key()
    return key.lower() if isinstance(key, bytes) else None


class _Play:
    """One drawn course of events."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        rng = self.rng
        self.group = FakeGroup(
            protocol=rng.choice([*PROTOCOL_KEYS]),
            partitions=_PARTITIONS,
            strategy=rng.choice(([0.5, 1.0], [1.0, 60.0, 60.0], [0.0, 5.0] * 20)),
            remember_failures=rng.random() < 0.8,
            transactional=rng.random() < 0.3,
        )
        # An owner may go before it has seen all that the note of the one before is about.
        self.group.fake.faults.few_at_once = rng.choice((0, 1, 3))
        self.changes_scope = rng.random() < 0.3
        self.unkeyed = rng.choice(_UNKEYED)
        # An owner in order does not tell the next what one in any order has done behind the first.
        self.may_repeat = len(self.unkeyed) > 1
        if not self.changes_scope and rng.random() < 0.4:
            self.group.on_exhausted = "block"
        self.by_own_key = not self.changes_scope and rng.random() < 0.3
        self._choose_scope()

    def _choose_scope(self) -> None:
        """For the next member that joins."""
        rng, group = self.rng, self.group
        group.scope = ByKey(
            trip=rng.choice((2, 3, 50)),
            most_held=rng.choice((1, 2, 50)),
            most_bytes=rng.choice((1, 300, 1_000_000)),
            unkeyed=rng.choice(self.unkeyed),
            key=_case_folded if self.by_own_key else None,
            key_id="case-folded-1" if self.by_own_key else "",
        )
        group.concurrency = rng.choice((1, 2, 3, 8))
        if self.changes_scope and rng.random() < 0.5:
            group.scope = rng.choice(("consumer", "topic", "partition"))
            group.concurrency = group.concurrency if group.scope == "partition" else 1

    def join(self) -> Member:
        self._choose_scope()
        return self.group.join()

    def produce(self, count: int) -> None:
        for _ in range(count):
            partition, key = self.rng.randrange(_PARTITIONS), self.rng.choice(_KEYS)
            gap = 0 if self.rng.random() < 0.9 else self.rng.randint(1, 3)
            (place,) = self.group.produce_keys(partition, [key], gap=gap)
            self.group.keys[place] = self._order(place, key)

    def _order(self, place: Place, key: bytes | None) -> bytes | None:
        """The key of its order."""
        if key is None:
            return None if self.unkeyed == ["in-order"] else str(place).encode()
        return key.lower() if self.by_own_key else key

    def share(self) -> None:
        members = len(self.group.members)
        self.group.share(self.rng.randrange(members) for _ in range(_PARTITIONS))

    def act(self) -> None:
        """One of the things that happen."""
        group, rng = self.group, self.rng
        what = rng.choices(
            (
                *("turn", "produce", "fail", "heal", "join", "leave", "kill", "share", "lose"),
                *("later", "late", "operate"),
            ),
            (30, 6, 6, 6, 2, 2, 1, 2, 1, 4, 1, 2),
        )[0]
        match what:
            case "turn":
                group.turn(rng.randint(1, 6))
            case "produce":
                self.produce(rng.randint(1, 6))
            case "fail":
                chosen = rng.sample(_KEYS, rng.randint(1, 3))
                group.dependency.down_for_keys |= {*chosen}
                group.dependency.down = rng.random() < 0.2
            case "heal":
                group.dependency.down_for_keys.clear()
                group.dependency.down = False
            case "join" if len(group.members) < 3:
                self.join()
                self.share()
            case "lose":
                self.may_repeat = True
                group.fake.lose(rng.choice(group.members).consumer)
                group.turn()
                self.share()
            case "leave" | "kill" if len(group.members) > 1 or rng.random() < 0.3:
                self._goes(rng.choice(group.members), is_kill=what == "kill")
            case "share":
                self.share()
            case "late":
                for member in group.members:
                    member.workers.late = {*rng.sample(group.partitions, rng.randint(0, 2))}
            case "operate":
                self.group.retry_blocked()
            case "later":
                group.fake.clock.advance(rng.uniform(0.1, 3.0))

    def _goes(self, member: Member, *, is_kill: bool) -> None:
        if is_kill:
            self.may_repeat = True
            self.group.crash(member)
        else:
            member.workers.late.clear()  # else it outlasts the time that the end waits
            self.group.leave(member)
        if not self.group.members:
            self.join()
        self.share()

    def finish(self) -> None:
        group = self.group
        group.dependency.down_for_keys.clear()
        group.dependency.down = False
        for member in group.members:
            member.workers.late.clear()
        group.finish(within_s=4000.0, before_turn=group.retry_blocked)
        assert group.all_done()


def _is_repeated(play: _Play) -> bool:
    """Whether anything was done twice: handled, or dead-lettered."""
    done = Counter(place for entry in play.group.witness.entries for place in done_by(entry))
    return max(done.values()) > 1


def _early(play: _Play) -> list[Place]:
    """Which messages were attempted before their `retry_at`, by whomever."""
    found, not_before_s = list[Place](), dict[Place, float]()
    for entry in play.group.witness.entries:
        match entry:
            case EventEmitted(at_s, _, CircuitOpened() | ProbeFailed() as event) if event.scope.key:
                not_before_s[event.place] = at_s + event.delay_s
            case EventEmitted(_, _, KeyBlocked() as event):
                not_before_s[event.place] = math.inf
            case EventEmitted(_, _, RetriedNow() as event):
                not_before_s.pop(event.place, None)
            case AttemptStarted(at_s, _, place) if at_s < not_before_s.pop(place, 0.0) - _GRAIN_S:
                found.append(place)
    return found


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_nothing_is_lost_and_each_key_is_in_order(first: int) -> None:
    """Whoever has it, whatever fails, and however it ends; without a kill nothing is repeated."""
    for seed in range(first, first + 100):
        play = _Play(seed)
        play.produce(play.rng.choice((10, 80)))
        play.join()
        play.share()
        for _ in range(play.rng.randint(10, 60)):
            play.act()
        play.finish()
        assert [] == play.group.violations(), seed
        assert play.may_repeat or not _is_repeated(play), seed
        if not (play.may_repeat or play.changes_scope) and play.group.remember_failures:
            assert [] == _early(play), seed
