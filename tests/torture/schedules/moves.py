"""What the world, the group and the operators do in a schedule."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING
from uuid import uuid4

from linear_retry.consumer.ownership.requests import EndPause, LiftLimit, PauseWish, Retry
from linear_retry.records.control import Command
from linear_retry.scope import Scope
from tests.torture.schedules.group import KEYS
from tests.torture.schedules.kinds import Kinds
from tests.torture.schedules.operators import RequestKind

if TYPE_CHECKING:
    from tests.torture.schedules.world import World

MOST_MEMBERS = 3
QUIET_S = 60.0
"""Longer than the watchdog's timeout, which is doubled with every silence: 5, 10, 20 s."""

MOVES = Kinds()

# The first of each is the plainest: what is shrunk moves towards it.
PARTITIONS = range(6)
MEMBERS = range(MOST_MEMBERS)
OWNERS = tuple(product(MEMBERS, repeat=4))
SOME = ((0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2, 3, 4, 5), ())
FEW = range(1, 4)
TURNS = (1, 2, 3, 4, 6, 8)


@MOVES.add(essential=True, weight=4, partition=PARTITIONS, count=range(1, 11), gap=range(3))
def produce(world: World, partition: int, count: int, gap: int) -> None:
    world.group.produce(world.partition(partition), count, gap=gap)


@MOVES.add(essential=True, weight=8, strikes=False, times=TURNS)
def turn_all(world: World, times: int) -> None:
    for _ in range(times):
        world.turn_all()


@MOVES.add(essential=True, weight=4, member=MEMBERS, times=TURNS)
def turn_one(world: World, member: int, times: int) -> None:
    for _ in range(times):
        idle = world.idle()
        if idle:
            world.turn(idle[member % len(idle)])


@MOVES.add(essential=True, weight=4, down=(True, False))
def outage(world: World, down: bool) -> None:
    world.group.dependency.down = down


@MOVES.add(weight=2, failing=SOME)
def outage_for_some(world: World, failing: tuple[int, ...]) -> None:
    world.group.dependency.down_for = world.partitions(failing)


@MOVES.add(weight=2, failing=SOME)
def outage_for_some_keys(world: World, failing: tuple[int, ...]) -> None:
    """Which nobody has whose messages are all of one key."""
    world.group.dependency.down_for_keys = {KEYS[number % len(KEYS)] for number in failing}


@MOVES.add(partition=PARTITIONS, seconds=(0.5, 3.0, 40.0))
def outage_that_asks_for_time(world: World, partition: int, seconds: float) -> None:
    key = world.partition(partition)
    world.group.dependency.asks_s[key] = seconds
    world.group.dependency.down_for.add(key)


@MOVES.add(weight=3, partition=PARTITIONS, ahead=range(-2, 6))
def poison(world: World, partition: int, ahead: int) -> None:
    topic, number = world.partition(partition)
    offset = world.group.fake.topics[topic].partitions[number].end + ahead
    world.group.dependency.refuses.add((number, max(offset, 0)))


@MOVES.add(takes_s=(0.0, 0.01, 0.4, 3.0))
def slow(world: World, takes_s: float) -> None:
    world.group.dependency.takes_s = takes_s


@MOVES.add(weight=2, seconds=(0.1, 1.0, 7.0, 70.0))
def time_passes(world: World, seconds: float) -> None:
    with world.group.witness.disturbing("time passes"), world.fake.waiting():
        world.group.fake.clock.advance(seconds)


@MOVES.add()
def too_long(world: World) -> None:
    """Past max.poll.interval.ms."""
    with world.group.witness.disturbing("too much time passes"), world.fake.waiting():
        world.group.fake.clock.advance(301.0)


@MOVES.add(seconds=(1.0, 60.0))
def suspend(world: World, seconds: float) -> None:
    with world.group.witness.disturbing("the machine sleeps"):
        world.group.fake.clock.suspend(seconds)


@MOVES.add(weight=3, owners=OWNERS, after=range(5))
def share(world: World, owners: tuple[int, ...], after: int) -> None:
    world.group.deal(owners, after=after)


@MOVES.add(member=MEMBERS)
def revoke(world: World, member: int) -> None:
    """All of its partitions, until the next time that they are shared out."""
    world.group.fake.revoke(world.member(member).consumer)


@MOVES.add(weight=2, owners=OWNERS)
def join(world: World, owners: tuple[int, ...]) -> None:
    if len(world.group.members) < MOST_MEMBERS:
        world.join()
        world.group.deal(owners)


@MOVES.add(weight=2, member=MEMBERS, owners=OWNERS)
def leave(world: World, member: int, owners: tuple[int, ...]) -> None:
    """A stop is asked for; in the midst of its turn that ends first."""
    world.stop(world.member(member))
    world.group.deal(owners)


@MOVES.add(member=MEMBERS, owners=OWNERS)
def crash(world: World, member: int, owners: tuple[int, ...]) -> None:
    """SIGKILL."""
    world.kill(world.member(member), owners)


@MOVES.add(member=MEMBERS, owners=OWNERS, reported=(True, False))
def lose(world: World, member: int, owners: tuple[int, ...], reported: bool) -> None:
    world.group.fake.faults.lost_as_revoked = not reported
    world.group.fake.lose(world.member(member).consumer)
    world.group.deal(owners)


@MOVES.add(member=MEMBERS)
def fence(world: World, member: int) -> None:
    """Another has its `group.instance.id`."""
    world.group.fake.fence(world.member(member).consumer)


@MOVES.add(member=MEMBERS)
def move_on(world: World, member: int) -> None:
    """Others came or went, and this member keeps what it has."""
    world.group.fake.move_on(world.member(member).consumer)


@MOVES.add(owners=OWNERS)
def add_partitions(world: World, owners: tuple[int, ...]) -> None:
    world.group.add_partition()
    world.group.deal(owners)


@MOVES.add(member=MEMBERS, leaves_after=(100, 1, 2, 4))
def leave_the_loop(world: World, member: int, leaves_after: int) -> None:
    """After so many attempts, from now on, in the midst of a batch."""
    world.member(member).leaves_after = leaves_after


@MOVES.add(weight=2)
def interrupt(world: World) -> None:
    """Ctrl-C, where it strikes; else in the next handler."""
    world.interrupt()


@MOVES.add(weight=2, member=MEMBERS, beside=(False, True))
def retry_now(world: World, member: int, beside: bool) -> None:
    """For all that is held, or for the message after it."""
    world.operators.ask_for_held(world.member(member), "retry", beside=beside)


@MOVES.add(weight=2, member=MEMBERS, beside=(False, True))
def give_up(world: World, member: int, beside: bool) -> None:
    world.operators.ask_for_held(world.member(member), "give-up", beside=beside)


@MOVES.add(member=MEMBERS)
def retry_all(world: World, member: int) -> None:
    """Every open circuit, with or without a message."""
    world.operators.ask_of_all(world.member(member), Retry(None))


@MOVES.add(member=MEMBERS, letters=(0, 1, 2))
def lift_limit(world: World, member: int, letters: int) -> None:
    """Whether there is one or not; 0: until a success."""
    world.operators.ask_of_all(world.member(member), LiftLimit(letters or None, "a bad batch"))


@MOVES.add(member=MEMBERS, seconds=(1, 8), all_topics=(True, False))
def pause(world: World, member: int, seconds: int, all_topics: bool) -> None:
    """For a maintenance window; a second one replaces the first."""
    until_ms = world.fake.clock.utc_ms() + 1000 * seconds
    scope = Scope() if all_topics else Scope(world.group.topics[0])
    wish = PauseWish(scope, until_ms, "ops@desk", "maintenance")
    world.operators.ask_of_all(world.member(member), wish)


@MOVES.add(member=MEMBERS)
def end_pause(world: World, member: int) -> None:
    """Whether there is one or not."""
    world.operators.ask_of_all(world.member(member), EndPause(Scope()))


@MOVES.add(is_down=(True, False))
def control_topic_is_down(world: World, is_down: bool) -> None:
    """What members have to say to their group waits until the next of them has its turn."""
    world.group.is_control_down = is_down


@MOVES.add(seconds=(0, 5, 10**9), ahead_ms=(0, 10**12))
def forge_an_outage(world: World, seconds: int, ahead_ms: int) -> None:
    """Somebody else writes to the control topic, with whatever times."""
    now_ms = world.fake.clock.utc_ms() + ahead_ms
    group_id = world.group.group_id
    place = None, None, None
    command = Command(str(uuid4()), "outage", group_id, *place, "nobody", now_ms, for_s=seconds)
    world.group.say(command)


@MOVES.add(member=MEMBERS, partition=PARTITIONS, gives_up=(False, True))
def ask_for_anything(world: World, member: int, partition: int, gives_up: bool) -> None:
    """Held or not."""
    kind: RequestKind = "give-up" if gives_up else "retry"
    world.operators.ask(world.member(member), kind, world.partition(partition), 0)


@MOVES.add()
def cancel(world: World) -> None:
    """What was asked for last."""
    world.operators.cancel()


@MOVES.add(strikes=False, owners=OWNERS, failing=SOME)
def quiet(world: World, owners: tuple[int, ...], failing: tuple[int, ...]) -> None:
    """Only the dependency fails, for some: everything outside their scopes is done."""
    world.be_quiet(owners, world.partitions(failing), QUIET_S)
