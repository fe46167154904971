"""Does the loop keep its guarantees under any schedule of faults?"""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest
from confluent_kafka import KafkaError
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from linear_retry.scope import Partition, Scope, ScopeKind
from linear_retry.testing import Committed, CommittedOnlyDone, broken
from tests.consumer.group import GROUP, OTHER_TOPIC, TOPIC, FakeGroup, Member, Protocol
from tests.guarantees import others_go_on

TOPICS = (TOPIC, OTHER_TOPIC)
PARTITIONS = list(product(TOPICS, range(2)))
MEMBERS = 3
QUIET_S = 60.0
"""Longer than the watchdog's patience, which is doubled with every silence: 5, 10, 20 s."""

partitions = st.sampled_from(PARTITIONS)
owners = st.lists(st.integers(0, MEMBERS - 1), min_size=len(PARTITIONS), max_size=len(PARTITIONS))
members = st.integers(0, MEMBERS - 1)


class Schedule(RuleBasedStateMachine):
    """Members come and go, the dependency fails, librdkafka misbehaves; messages keep coming."""

    protocol: Protocol = "eager"
    scope: ScopeKind = "consumer"
    letter_limit: int | None = None

    def __init__(self) -> None:
        super().__init__()
        self.group = FakeGroup(
            protocol=self.protocol,
            scope=self.scope,
            topics=TOPICS,
            partitions=2,
            strategy=[1, 0, 2, 5],
            letter_limit=self.letter_limit,
        )

    def member(self, number: int) -> Member:
        return self.group.members[number % len(self.group.members)]

    # -- the world -------------------------------------------------------------------------

    @initialize(count=st.integers(0, 20), owned=owners)
    def begin(self, count: int, owned: list[int]) -> None:
        self.group.join()
        self.group.join()
        for partition in PARTITIONS:
            self.group.produce(partition, count)
        self.group.share(owned)
        self.group.turn()

    @rule(partition=partitions, count=st.integers(1, 10), gap=st.integers(0, 2))
    def produce(self, partition: Partition, count: int, gap: int) -> None:
        self.group.produce(partition, count, gap=gap)

    @rule(times=st.integers(1, 12))
    def turn_all(self, times: int) -> None:
        self.group.turn(times)

    @rule(number=members, times=st.integers(1, 12))
    def turn_one(self, number: int, times: int) -> None:
        for _ in range(times):
            self.member(number).turn()

    @rule(down=st.booleans())
    def outage(self, down: bool) -> None:
        self.group.dependency.down = down

    @rule(failing=st.sets(partitions))
    def outage_for_some(self, failing: set[Partition]) -> None:
        self.group.dependency.down_for = failing

    @rule(partition=partitions, ahead=st.integers(0, 5))
    def poison(self, partition: Partition, ahead: int) -> None:
        found = self.group.visible[partition]
        self.group.dependency.refuses.add((partition[1], len(found) + ahead))

    @rule(takes_s=st.sampled_from([0.0, 0.01, 0.4, 3.0]))
    def slow(self, takes_s: float) -> None:
        self.group.dependency.takes_s = takes_s

    @rule(seconds=st.sampled_from([0.1, 1.0, 7.0]))
    def time_passes(self, seconds: float) -> None:
        self.group.fake.clock.advance(seconds)

    # -- the group -------------------------------------------------------------------------

    @rule(owned=owners, after=st.integers(0, 4))
    def share(self, owned: list[int], after: int) -> None:
        self.group.share(owned, after=after)

    @precondition(lambda self: len(self.group.members) < MEMBERS)
    @rule(owned=owners)
    def join(self, owned: list[int]) -> None:
        self.group.join()
        self.group.share(owned)

    @precondition(lambda self: len(self.group.members) > 1)
    @rule(number=members, owned=owners, crashes=st.booleans())
    def go(self, number: int, owned: list[int], crashes: bool) -> None:
        (self.group.crash if crashes else self.group.leave)(self.member(number))
        self.group.share(owned)

    @rule(number=members, owned=owners, told=st.booleans())
    def lose(self, number: int, owned: list[int], told: bool) -> None:
        self.group.fake.faults.lost_as_revoked = not told
        self.group.fake.lose(self.member(number).consumer)
        self.group.share(owned)

    # -- librdkafka and the brokers --------------------------------------------------------

    @rule(partition=partitions, count=st.integers(1, 3))
    def leak(self, partition: Partition, count: int) -> None:
        self.group.fake.faults.leak(partition, count)

    @rule(partition=partitions)
    def dead(self, partition: Partition) -> None:
        self.group.fake.faults.kill(partition)

    @rule(times=st.integers(1, 2))
    def ignored_pause(self, times: int) -> None:
        self.group.fake.faults.ignore_pause(times)

    @rule(partition=partitions, further=st.integers(1, 3))
    def jump(self, partition: Partition, further: int) -> None:
        found = self.group.visible[partition]
        if found:
            self.group.fake.faults.jump(partition, found[-1] - further)

    @rule(partition=partitions)
    def echo(self, partition: Partition) -> None:
        self.group.fake.faults.echo(partition)

    @rule(partition=partitions)
    def stale(self, partition: Partition) -> None:
        self.group.fake.faults.stale(partition)

    @rule(late_s=st.sampled_from([0.0, 0.5, 2.0]))
    def late_resume(self, late_s: float) -> None:
        self.group.fake.faults.late_resume_s = late_s

    @rule(code=st.sampled_from([KafkaError._STATE, KafkaError._TIMED_OUT]))
    def failing_seek(self, code: int) -> None:
        self.group.fake.faults.fail_seek(code)

    @rule(
        code=st.sampled_from(
            [
                KafkaError.REBALANCE_IN_PROGRESS,
                KafkaError.ILLEGAL_GENERATION,
                KafkaError._TRANSPORT,
                KafkaError.UNKNOWN_MEMBER_ID,
            ]
        ),
        times=st.integers(1, 3),
    )
    def failing_commit(self, code: int, times: int) -> None:
        self.group.fake.faults.fail_commit(code, times)

    @rule(answer_s=st.sampled_from([0.0, 0.3, 2.0]))
    def late_commit(self, answer_s: float) -> None:
        self.group.fake.faults.commit_answer_s = answer_s

    @rule(times=st.integers(1, 3), delivery_s=st.sampled_from([0.0, 0.01, 4.0]))
    def failing_letters(self, times: int, delivery_s: float) -> None:
        self.group.fake.faults.delivery_s = delivery_s
        self.group.fake.faults.fail_delivery(KafkaError._MSG_TIMED_OUT, times)

    @rule(partition=partitions, kept=st.integers(0, 6))
    def retention(self, partition: Partition, kept: int) -> None:
        """All but the last few offsets go. Where nothing is committed, nobody could tell."""
        log = self.group.fake.log_of(partition)
        if log is not None and partition in self.group.fake.group(GROUP):
            self.group.fake.delete_records(*partition, max(log.low, log.end - kept))

    # -- a quiet stretch, and the end ------------------------------------------------------

    @rule(owned=owners, failing=st.sets(partitions, max_size=2))
    def quiet(self, owned: list[int], failing: set[Partition]) -> None:
        """Only the dependency fails, for some: everything outside their scopes is done."""
        self._calm(failing)
        self.group.share(owned)
        until_s = self.group.fake.clock.now_s() + QUIET_S
        while self.group.fake.clock.now_s() < until_s:
            self.group.turn()
        scopes = [Scope.of(self.scope, partition) for partition in failing]
        others = {
            partition: found
            for partition, found in self.group.visible.items()
            if not any(scope.covers(partition) for scope in scopes)
        }
        assert [] == list(others_go_on(self.group.witness.entries, others))

    @invariant()
    def commits_only_what_is_done(self) -> None:
        """At any time; every other promise that is broken once is found in the log at the end."""
        group = self.group
        committed = group.fake.group(GROUP)
        assert [] == broken(
            [*group.witness.entries, Committed(0.0, "", committed)],
            [CommittedOnlyDone(group.visible)],
        )

    @invariant()
    def keeps_no_more_state_than_it_owns(self) -> None:
        """Partitions, and a circuit for each scope: one may have gone, and wait for `retry_at`."""
        for member in self.group.members:
            scopes = {Scope.of(self.scope, partition) for partition in PARTITIONS}
            assert member.state_size() <= len(PARTITIONS) + len(scopes)

    def teardown(self) -> None:
        if not self.group.members:
            return
        self._calm(set())
        self.group.finish()
        assert self.group.violations() == []

    def _calm(self, failing: set[Partition]) -> None:
        self.group.dependency.down = False
        self.group.dependency.down_for = failing
        self.group.dependency.takes_s = 0.0
        self.group.fake.faults.clear()


BUDGET = settings(
    max_examples=90,
    stateful_step_count=30,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.parametrize("scope", get_args(ScopeKind))
@pytest.mark.parametrize("protocol", get_args(Protocol))
def test_any_schedule(protocol: Protocol, scope: ScopeKind) -> None:
    """Every guarantee holds under any schedule, in every protocol, for every scope."""
    chosen = {"protocol": protocol, "scope": scope}
    run_state_machine_as_test(type("Schedule", (Schedule,), chosen), settings=BUDGET)
