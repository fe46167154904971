"""Members come and go at random while the dependency fails in bursts."""

import random
import threading
from itertools import count

import pytest

from linear_retry import events
from linear_retry.consumer.partitions.read_ahead import partition_of
from linear_retry.kafka import Message
from linear_retry.scope import Partition, ScopeKind
from tests.kafka_operations import wait_until
from tests.scenarios.handlers import Dependency, OutageError
from tests.scenarios.protocols import COOPERATIVE, EAGER, KIP_848
from tests.scenarios.scene import Member
from tests.scenarios.wide_scene import WideScene, WideSceneFactory
from tests.testing.violations import done_places

pytestmark = pytest.mark.broker

PARTITIONS = 6
"""Of each of two topics."""
STEPS = 15
FEWEST, MOST = 1, 4


class Busy(Dependency):
    """A dependency that takes its time, so that a rebalance finds messages in hand."""

    def __init__(self, dice: random.Random) -> None:
        super().__init__()
        self.down_for: list[Partition] = []
        self._dice = dice
        self._working = threading.Event()

    def __call__(self, message: Message) -> None:
        self._working.wait(self._dice.expovariate(1000))
        if partition_of(message) in self.down_for:
            raise OutageError(f"{message.partition()}@{message.offset()}")
        super().__call__(message)


class Play:
    """What happens to one group, drawn from `dice`."""

    def __init__(self, group: WideScene, scope: ScopeKind, dice: random.Random) -> None:
        self.group = group
        self.scope = scope
        # Dice of its own: members are threads, and the play must be the same each time.
        self.dependency = Busy(random.Random(dice.random()))
        self.members: list[Member] = []
        self._dice = dice
        self._numbers = count(1)
        self._partitions = [(topic, n) for topic in group.topics for n in range(PARTITIONS)]

    def join(self) -> None:
        """Every other one is a static member: what it leaves stands until its session ends."""
        number = next(self._numbers)
        name = f"member-{number}"
        static = {"group.instance.id": name} if number % 2 else {}
        options = {"config": static, "topics": self.group.topics, "scope": self.scope}
        self.members.append(self.group.join(name, self.dependency, **options))

    def leave(self) -> None:
        self.members.pop(self._dice.randrange(len(self.members))).stop()

    def fail(self) -> None:
        """An outage, for all or for some, that some member notices, and that ends."""
        before = len(self.group.said(events.CircuitOpened))
        self.dependency.down = self._dice.random() < 0.5
        self.dependency.down_for = self._dice.sample(self._partitions, 3)
        self.produce()
        wait_until(
            lambda: len(self.group.said(events.CircuitOpened)) > before,
            "a circuit opens",
            detail=self.group.story,
        )

    def produce(self) -> None:
        """Something more for some partitions, so that there is something to be done meanwhile."""
        for topic in self.group.topics:
            partitions = self._dice.choices(range(PARTITIONS), k=100)
            values = [(partition, None, b"%d" % partition, ()) for partition in partitions]
            self.group.write(values, topic)

    def mend(self) -> None:
        """The outage is over."""
        self.dependency.down, self.dependency.down_for = False, []

    def step(self) -> None:
        """One thing happens; sometimes the next does before the group has found its peace."""
        possible = [self.fail, self.produce]
        possible += [self.join, self.join] if len(self.members) < MOST else []
        possible += [self.leave] if len(self.members) > FEWEST else []
        self._dice.choice(possible)()
        if self._dice.random() < 0.6:
            self.mend()
            self.progress(self._dice.randrange(1, 150))

    def progress(self, messages: int) -> None:
        """So many more are handled."""
        wanted = len(done_places(self.group.log())) + messages
        self.produce()
        wait_until(
            lambda: len(done_places(self.group.log())) >= wanted,
            f"{messages} more are handled",
            detail=self.group.story,
        )


@pytest.mark.parametrize(
    ("protocol", "scope"),
    [(EAGER, "partition"), (COOPERATIVE, "topic"), (KIP_848, "consumer")],
    ids=["eager-partition", "cooperative-topic", "consumer-consumer"],
)
@pytest.mark.parametrize("seed", [1])
def test_members_come_and_go_at_random(
    protocol: dict[str, str], scope: ScopeKind, seed: int, wide_scene: WideSceneFactory
) -> None:
    """Whatever comes together: all is handled in order, none lost, none while a circuit is open."""
    strategy = [0.05, 0.1, 0.3, 0.5, 1, 2]
    group = wide_scene(protocol, PARTITIONS, PARTITIONS, strategy=strategy)
    play = Play(group, scope, random.Random(seed))
    for _ in range(3):
        play.join()
    for _ in range(STEPS):
        play.step()
    play.mend()
    group.wait_until_done()
    for member in play.members:
        member.stop()
    assert len(group.said(events.CircuitOpened)) > 1
    assert len(group.said(events.Revoked)) > 3
    assert [] == group.violations()
