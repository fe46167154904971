"""Does the loop keep its guarantees under any schedule of faults?"""

from __future__ import annotations

from confluent_kafka import KafkaError
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from tests.consumer.group import LETTERS, TOPIC, FakeGroup, Member, Protocol

PARTITIONS = 3
MEMBERS = 3

partitions = st.integers(0, PARTITIONS - 1)
owners = st.lists(st.integers(0, MEMBERS - 1), min_size=PARTITIONS, max_size=PARTITIONS)
members = st.integers(0, MEMBERS - 1)


class Schedule(RuleBasedStateMachine):
    """Members come and go, the dependency fails, librdkafka misbehaves; messages keep coming."""

    protocol: Protocol = "eager"

    def __init__(self) -> None:
        super().__init__()
        self.group = FakeGroup(protocol=self.protocol, partitions=PARTITIONS)

    def member(self, number: int) -> Member:
        return self.group.members[number % len(self.group.members)]

    # -- the world -------------------------------------------------------------------------

    @initialize(count=st.integers(0, 20), owned=owners)
    def begin(self, count: int, owned: list[int]) -> None:
        self.group.join()
        self.group.join()
        for number in range(PARTITIONS):
            self.group.produce(number, count)
        self.group.share(owned)
        self.group.turn()

    @rule(number=partitions, count=st.integers(1, 10), gap=st.integers(0, 2))
    def produce(self, number: int, count: int, gap: int) -> None:
        self.group.produce(number, count, gap=gap)

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

    @rule(number=partitions, ahead=st.integers(0, 5))
    def poison(self, number: int, ahead: int) -> None:
        found = self.group.visible[TOPIC, number]
        self.group.dependency.refuses.add((number, len(found) + ahead))

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

    @rule(number=partitions, count=st.integers(1, 3))
    def leak(self, number: int, count: int) -> None:
        self.group.fake.faults.leak((TOPIC, number), count)

    @rule(number=partitions)
    def dead(self, number: int) -> None:
        self.group.fake.faults.kill((TOPIC, number))

    @rule(times=st.integers(1, 2))
    def ignored_pause(self, times: int) -> None:
        self.group.fake.faults.ignore_pause(times)

    @rule(number=partitions, further=st.integers(1, 3))
    def jump(self, number: int, further: int) -> None:
        found = self.group.visible[TOPIC, number]
        if found:
            self.group.fake.faults.jump((TOPIC, number), found[-1] - further)

    @rule(number=partitions)
    def echo(self, number: int) -> None:
        self.group.fake.faults.echo((TOPIC, number))

    @rule(number=partitions)
    def stale(self, number: int) -> None:
        self.group.fake.faults.stale((TOPIC, number))

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

    # -- the end ---------------------------------------------------------------------------

    @invariant()
    def keeps_its_promises(self) -> None:
        assert self.group.violations(finished=False) == []

    @invariant()
    def keeps_no_more_state_than_it_owns(self) -> None:
        for member in self.group.members:
            assert member.state_size() <= PARTITIONS + 1

    def teardown(self) -> None:
        if not self.group.members:
            return
        self.group.dependency.down = False
        self.group.dependency.takes_s = 0.0
        self.group.fake.faults.clear()
        self.group.finish()
        assert self.group.violations() == []
        letters = self.group.fake.topics[LETTERS].partitions
        assert sum(len(one.records) for one in letters) >= 0


class CooperativeSchedule(Schedule):
    protocol: Protocol = "cooperative"


class ConsumerProtocolSchedule(Schedule):
    protocol: Protocol = "consumer"


_BUDGET = settings(
    max_examples=400,
    stateful_step_count=30,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

TestEager = Schedule.TestCase
TestEager.settings = _BUDGET
TestCooperative = CooperativeSchedule.TestCase
TestCooperative.settings = _BUDGET
TestConsumerProtocol = ConsumerProtocolSchedule.TestCase
TestConsumerProtocol.settings = _BUDGET
