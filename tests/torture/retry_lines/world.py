"""The world of a play: two lines, their members, and what befalls them."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from linear_retry import RetryTopics
from linear_retry.consumer.settings.retry_topics import OnExpired
from linear_retry.scope import ScopeKind
from tests.consumer.group import TOPIC, FakeGroup, Member
from tests.consumer.two_lines import PREFIX, TwoLines
from tests.torture.retry_lines.mortal_kafka import MortalKafka

_END_WITHIN_S = 3000.0
MOST_MEMBERS = 2
EVERY_S, MAX_DURATION_S = 5, 40
_FATAL_CALLS = (
    *("the handler", "produce", "on_delivery", "commit", "pause", "seek", "resume"),
    *("begin_transaction", "send_offsets_to_transaction", "commit_transaction"),
    *("on_assign", "on_revoke"),
)


@dataclass(frozen=True, slots=True)
class Setting:
    """What does not change during a play."""

    delays: tuple[str, ...]
    live: tuple[float, ...]
    retry: tuple[float, ...]
    partitions: int
    scope: ScopeKind
    transactional: bool
    behind_s: float
    """So far is the clock of all members behind the broker's."""
    limit: int | None = None
    returns: bool = False
    """Whether messages come back to their source."""
    on_expired: OnExpired | None = None
    """There is one retry topic, which has no `delays`; None: one for each delay."""

    def retries(self, delays: Sequence[str]) -> RetryTopics:
        shared: dict[str, Any] = {"limit": self.limit, "hold": 3, "back_to_source": self.returns}
        if self.on_expired is None:
            return RetryTopics(PREFIX, strategy=delays, **shared)
        times: dict[str, Any] = {"every": EVERY_S, "max_duration": MAX_DURATION_S}
        return RetryTopics.single(PREFIX, on_expired=self.on_expired, **times, **shared)


def draw_setting(rng: random.Random) -> Setting:
    drawn = Setting(
        delays=rng.choice([("5s", "5s", "30s"), ("30s", "5s"), ("10s",), ("0s", "20s", "5s")]),
        live=rng.choice([(), (), (1,), (1, 5)]),
        retry=rng.choice([(), (), (), (2,)]),
        partitions=rng.randint(1, 2),
        scope=rng.choice(get_args(ScopeKind)),
        transactional=rng.random() < 0.5,
        behind_s=rng.choice([0.0, 0.0, 3.0, 90.0]),
        limit=rng.choice([None, None, None, 2]),
    )
    if rng.random() < 0.25:
        drawn = replace(drawn, on_expired=rng.choice(get_args(OnExpired)))
    if not drawn.transactional or rng.random() < 0.6:
        return drawn
    return replace(drawn, returns=True, retry=())  # that line calls no handler then


class World:
    """Both lines, and a chance for each thing that may happen to them."""

    def __init__(self, setting: Setting, rng: random.Random) -> None:
        self.setting, self.rng = setting, rng
        self.fake = MortalKafka()
        self.fake.faults.broker_ahead_s = setting.behind_s
        self.lines = TwoLines(
            retries=setting.retries(setting.delays),
            live=setting.live,
            retry=setting.retry,
            partitions=setting.partitions,
            scope=setting.scope,
            transactional=setting.transactional,
            fake=self.fake,
        )
        self.lines.dependency.advance = self._in_handler
        self.groups = (self.lines.live, self.lines.retry)
        self.counts: Counter[str] = Counter()
        self.disturbed = False
        """Whether anybody has lost a partition: what was in hand may come twice."""
        self.changed = False
        """Whether the strategy has changed: steps may begin again."""
        self.garbage: list[tuple[str, int]] = []
        self.story: list[str] = []

    def begin(self) -> None:
        for group in self.groups:
            group.join()
        self.share()

    # -- what happens ----------------------------------------------------------------------

    def produce(self) -> None:
        """A few messages that fail so often, for ever, or are poison."""
        partition = self.rng.randrange(self.setting.partitions)
        for _ in range(self.rng.randint(1, 6)):
            self.lines.live.produce(partition)
            origin = partition, self.lines.live.visible[TOPIC, partition][-1]
            self.lines.dependency.fails[origin] = self.rng.choice([0, 0, 1, 1, 2, 3, 99])
            if self.rng.random() < 0.1:
                self.lines.dependency.poison.add(origin)

    def turn(self) -> None:
        for _ in range(self.rng.randint(1, 5)):
            self.turn_all()

    def wait(self) -> None:
        self.lines.clock.advance(self.rng.choice([0.5, 4.0, 20.0]))

    def outage(self) -> None:
        self.lines.dependency.down = not self.lines.dependency.down

    def share(self) -> None:
        for group in self.groups:
            if group.members:
                owners = [self.rng.randrange(MOST_MEMBERS) for _ in group.partitions]
                group.share(owners, after=self.rng.choice([0, 0, 1, 3]))
        self.disturbed = self.disturbed or len(self.story) > 0

    def join(self) -> None:
        group = self.rng.choice(self.groups)
        if len(group.members) < MOST_MEMBERS:
            group.join()
            self.share()

    def leave(self) -> None:
        group, member = self._someone()
        group.leave(member)
        self.have_someone()

    def crash(self) -> None:
        """Between two turns."""
        self._crashed(*self._someone())

    def kill(self) -> None:
        """At some call that is still to come: of any name, or at the next ones of some."""
        if self.rng.random() < 0.4:
            self.fake.kill_after(self.rng.randint(1, 60))
        else:
            self.fake.kill_after(self.rng.randint(1, 3), self.rng.choice(_FATAL_CALLS))

    def lose(self) -> None:
        _, member = self._someone()
        self.fake.lose(member.consumer)
        self.disturbed = True
        self.turn_all()
        self.share()

    def brokers(self) -> None:
        self.fake.faults.brokers_down = True
        self.turn_all()
        self.fake.faults.brokers_down = False
        self.disturbed = True  # what was sent in vain may have arrived, and is sent again

    def leak(self) -> None:
        topic = self.rng.choice(self.lines.retries.topics)
        self.fake.faults.leak((topic, self.rng.randrange(self.setting.partitions)))

    def trash(self) -> None:
        """A record that no consumer of ours has sent there."""
        topic = self.rng.choice(self.lines.retries.topics)
        self.garbage.append((topic, self.lines.put(topic, value=b"garbage")))

    def change(self) -> None:
        """Another order of the same delays: all are restarted for it."""
        delays = self.rng.sample(self.setting.delays, len(self.setting.delays))
        retries = self.setting.retries(delays)
        for group in self.groups:
            for member in list(group.members):
                group.leave(member)
        self.lines.live.on_exhausted = self.lines.retry.reads = retries
        self.changed = self.changed or retries.strategy != self.lines.retries.strategy
        self.have_someone()

    # -- and what goes on ------------------------------------------------------------------

    def turn_all(self) -> None:
        for group in self.groups:
            for member in list(group.members):
                self.lines.note_written()
                with self.fake.acting():
                    member.turn()
                if self.fake.has_killed:
                    self.counts[f"killed at {self.fake.has_killed}"] += 1
                    self.story.append(f"{member.name} killed at {self.fake.has_killed}")
                    self._crashed(group, member)

    def end(self) -> bool:
        """The last fault is past: whether everything comes to its end, in bounded time."""
        self.fake.spare()
        self.fake.faults.clear()
        self.fake.faults.broker_ahead_s = self.setting.behind_s
        self.lines.dependency.down = False
        self.have_someone()
        self.share()
        give_up_at_s = self.lines.clock.now_s() + _END_WITHIN_S
        while self.lines.clock.now_s() < give_up_at_s:
            self.turn_all()
            if not any(self.lines.lag(group) for group in self.groups):
                return True
        return False

    def have_someone(self) -> None:
        for group in self.groups:
            if not group.members:
                group.join()
        self.share()

    def _someone(self) -> tuple[FakeGroup, Member]:
        group = self.rng.choice(self.groups)
        return group, self.rng.choice(group.members)

    def _in_handler(self, takes_s: float) -> None:
        self.fake.note("handler", "the handler", ())
        self.lines.clock.advance(takes_s)

    def _crashed(self, group: FakeGroup, member: Member) -> None:
        group.crash(member)
        self.fake.faults.brokers_down = False  # or the next one cannot start
        self.counts["crashes"] += 1
        self.disturbed = True
        self.have_someone()


MOVES: dict[str, int] = {
    "produce": 6,
    "turn": 12,
    "wait": 5,
    "outage": 2,
    "share": 2,
    "join": 2,
    "leave": 1,
    "crash": 1,
    "kill": 5,
    "lose": 1,
    "brokers": 1,
    "leak": 1,
    "trash": 1,
    "change": 1,
}
"""How often each is drawn."""


def step(world: World, name: str) -> Any:
    world.story.append(name)
    return getattr(world, name)()
