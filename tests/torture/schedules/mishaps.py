"""How librdkafka and the brokers misbehave in a schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import KafkaError

from tests.torture.schedules.kinds import Kinds
from tests.torture.schedules.moves import FEW, MEMBERS, OWNERS, PARTITIONS

if TYPE_CHECKING:
    from tests.torture.schedules.world import World

MISHAPS = Kinds()

_CALLS = ("init", "begin", "send_offsets", "commit", "abort")
_TRANSACTION_ERRORS = {
    "timed out": KafkaError(KafkaError._TIMED_OUT, "Timed out", False, True),
    "to be aborted": KafkaError(KafkaError.INVALID_TXN_STATE, "Invalid", False, False, True),
    "fenced": KafkaError(KafkaError._FENCED, "Fenced", True),
    "fatal": KafkaError(KafkaError.UNKNOWN_PRODUCER_ID, "Unknown", True),
    "out": KafkaError(KafkaError.UNKNOWN_MEMBER_ID, "Unknown member", False, False, True),
    "outdated": KafkaError(KafkaError.ILLEGAL_GENERATION, "Generation", False, False, True),
}
_COMMIT_ERRORS = {
    "rebalance": KafkaError.REBALANCE_IN_PROGRESS,
    "generation": KafkaError.ILLEGAL_GENERATION,
    "transport": KafkaError._TRANSPORT,
    "not a member": KafkaError.UNKNOWN_MEMBER_ID,
}


@MISHAPS.add(partition=PARTITIONS, count=FEW)
def leak(world: World, partition: int, count: int) -> None:
    world.faults.leak(world.partition(partition), count)


@MISHAPS.add(partition=PARTITIONS)
def dead(world: World, partition: int) -> None:
    world.faults.kill(world.partition(partition))


@MISHAPS.add(times=(1, 2))
def ignored_pause(world: World, times: int) -> None:
    world.faults.ignore_pause(times)


@MISHAPS.add(partition=PARTITIONS, back=range(1, 6))
def jump(world: World, partition: int, back: int) -> None:
    """To one of the last messages."""
    found = world.group.visible[world.partition(partition)]
    if found:
        world.faults.jump(world.partition(partition), found[-min(back, len(found))])


@MISHAPS.add(partition=PARTITIONS)
def echo(world: World, partition: int) -> None:
    world.faults.echo(world.partition(partition))


@MISHAPS.add(partition=PARTITIONS)
def stale(world: World, partition: int) -> None:
    world.faults.stale(world.partition(partition))


@MISHAPS.add(partition=PARTITIONS, back=range(1, 6))
def rewind(world: World, partition: int, back: int) -> None:
    """By itself."""
    world.faults.rewind(world.partition(partition), back)


@MISHAPS.add(partition=PARTITIONS)
def race(world: World, partition: int) -> None:
    """The pause right after its next assign."""
    world.faults.race(world.partition(partition))


@MISHAPS.add(loses=(True, False))
def pause_loses_seek(world: World, loses: bool) -> None:
    world.faults.pause_loses_seek = loses


@MISHAPS.add(partition=PARTITIONS, times=FEW)
def early_seek(world: World, partition: int, times: int) -> None:
    """Refused before the first message."""
    world.faults.refuse_early_seek(world.partition(partition), times)


@MISHAPS.add(partition=PARTITIONS, times=FEW)
def spoilt_headers(world: World, partition: int, times: int) -> None:
    """Not UTF-8."""
    world.faults.spoil_headers(world.partition(partition), times)


@MISHAPS.add(count=(0, 1, 3))
def few_at_once(world: World, count: int) -> None:
    """0: as many as there are."""
    world.faults.few_at_once = count


@MISHAPS.add(late_s=(0.3, 8.0, 0.0))
def late_fetch(world: World, late_s: float) -> None:
    world.faults.late_fetch_s = late_s


@MISHAPS.add(late_s=(0.5, 2.0, 0.0))
def late_resume(world: World, late_s: float) -> None:
    world.faults.late_resume_s = late_s


@MISHAPS.add(code=("state", "timed out"))
def failing_seek(world: World, code: str) -> None:
    world.faults.fail_seek(KafkaError._STATE if code == "state" else KafkaError._TIMED_OUT)


@MISHAPS.add()
def raising_poll(world: World) -> None:
    """Ctrl-C inside: what it had taken is gone."""
    world.faults.raise_in_poll(KeyboardInterrupt())


@MISHAPS.add(partition=PARTITIONS, kept=range(7))
def retention(world: World, partition: int, kept: int) -> None:
    """All but the last few offsets go. Where nothing is committed, nobody could tell."""
    key = world.partition(partition)
    log = world.group.fake.log_of(key)
    if log is not None and key in world.group.fake.group(world.group.group_id):
        world.group.fake.delete_records(*key, max(log.low, log.end - kept))


@MISHAPS.add(member=MEMBERS)
def client_error(world: World, member: int) -> None:
    """One that librdkafka deals with itself."""
    error = KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down")
    world.member(member).consumer.fail(error)
    world.member(member).consumer.report(error)


@MISHAPS.add(member=MEMBERS, out=(False, True), owners=OWNERS)
def forgotten_brokers(world: World, member: int, out: bool, owners: tuple[int, ...]) -> None:
    """Its client has forgotten them all, and says nothing of it (librdkafka #5301).

    `out`: its session has ended, and others have its partitions.
    """
    blind = world.member(member).consumer
    world.fake.blind(blind)
    if out:
        world.fake.lose(blind)
    world.group.deal(owners)


@MISHAPS.add(member=MEMBERS, owners=OWNERS)
def refused_heartbeat(world: World, member: int, owners: tuple[int, ...]) -> None:
    """Its client is out, and never comes in again by itself (KIP-848)."""
    refused = world.member(member).consumer
    if world.setting.protocol == "consumer" and not refused.membership.is_out:
        world.fake.refuse(refused)
        world.group.deal(owners)


@MISHAPS.add(down=(True, False))
def brokers(world: World, down: bool) -> None:
    world.faults.brokers_down = down


@MISHAPS.add(weight=2, code=tuple(_COMMIT_ERRORS), times=FEW, lands=(False, True))
def failing_commit(world: World, code: str, times: int, lands: bool) -> None:
    """`lands`: only the answer says so."""
    world.faults.fail_commit(_COMMIT_ERRORS[code], times, lands=lands)


@MISHAPS.add(partition=PARTITIONS, code=tuple(_COMMIT_ERRORS), times=FEW)
def failing_commit_of_one(world: World, partition: int, code: str, times: int) -> None:
    world.faults.fail_commit_of(world.partition(partition), _COMMIT_ERRORS[code], times)


@MISHAPS.add(weight=2, answer_s=(0.3, 2.0, 0.0))
def late_commit(world: World, answer_s: float) -> None:
    world.faults.commit_answer_s = answer_s


@MISHAPS.add()
def commits_unanswered(world: World) -> None:
    """Until they are answered in some time again."""
    # A transaction's letter looks every 10 ms whether there is an answer: 1000 times a letter.
    world.faults.commit_answer_s = 2.0 if world.setting.transactional else None


@MISHAPS.add(may=(True, False))
def zombies_commit(world: World, may: bool) -> None:
    world.faults.zombies_commit = may


@MISHAPS.add(blocks_s=(45.0, 0.0))
def blocking_commit(world: World, blocks_s: float) -> None:
    """With the brokers down."""
    world.faults.commit_blocks_s = blocks_s


@MISHAPS.add(late=(True, False))
def commits_land_late(world: World, late: bool) -> None:
    world.faults.commits_land_late = late


@MISHAPS.add(times=FEW)
def retried_commits(world: World, times: int) -> None:
    """Each lands a second later, behind what was sent since."""
    world.faults.commits_retried = times


@MISHAPS.add(times=FEW, lands=(False, True))
def failing_letters(world: World, times: int, lands: bool) -> None:
    """`lands`: only the report says so."""
    world.faults.fail_delivery(KafkaError._MSG_TIMED_OUT, times, lands=lands)


@MISHAPS.add(times=FEW, lands=(False, True))
def lost_reports(world: World, times: int, lands: bool) -> None:
    world.faults.lose_report(times, lands=lands)


@MISHAPS.add()
def broken_producer(world: World) -> None:
    """A fatal error that is no fencing."""
    world.faults.break_producer(KafkaError(KafkaError.UNKNOWN_PRODUCER_ID, "Unknown", True))


@MISHAPS.add(weight=2, delivery_s=(0.01, 4.0, 0.0))
def slow_letters(world: World, delivery_s: float) -> None:
    world.faults.delivery_s = delivery_s


@MISHAPS.add(times=FEW)
def full_queue(world: World, times: int) -> None:
    world.faults.raise_in_produce(BufferError("Local: Queue full"), times)


@MISHAPS.add(
    weight=4,
    call=_CALLS,
    error=tuple(_TRANSACTION_ERRORS),
    times=FEW,
    acts=(False, True),
    takes_s=(0.0, 0.3, 20.0),
    late=(False, True),
)
def failing_transaction(
    world: World, call: str, error: str, times: int, acts: bool, takes_s: float, late: bool
) -> None:
    """`acts`: it is done all the same, or, where it is `late`, two seconds later.

    But no offset is: the same call once more waits for the first, and is not done before it.
    """
    lands_s = 2.0 if late and acts and call != "send_offsets" else None
    fault = _TRANSACTION_ERRORS[error]
    world.faults.fail_transaction(call, fault, times, acts=acts, takes_s=takes_s, lands_s=lands_s)
