"""The fake Kafka's clock and commands do what they say; the rest is the contract's."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.fake.clients import P0, P1, calls, five_messages, joined, offsets, place
from tests.fake.clock import NothingCanHappenError, VirtualClock
from tests.fake.cluster import FakeKafka


@pytest.fixture
def fake() -> FakeKafka:
    return five_messages()


class TestClock:
    def test_poll_moves_time(self, fake: FakeKafka) -> None:
        """An empty poll takes its whole timeout in virtual time, and a poll of 0 none."""
        consumer = joined(fake)
        started_s = fake.clock.now_s()
        consumer.poll(0)
        assert started_s == fake.clock.now_s()
        consumer.poll(1.5)
        assert started_s + 1.5 == fake.clock.now_s()

    def test_poll_stops_at_actions(self, fake: FakeKafka) -> None:
        """A poll returns at the moment at which a scheduled message arrives."""
        consumer = joined(fake, P1)
        started_s = fake.clock.now_s()
        fake.clock.at(0.4, lambda: fake.append("orders", 1))
        assert consumer.poll(1.0) is not None
        assert started_s + 0.4 == fake.clock.now_s()

    def test_actions_in_order(self) -> None:
        """What is scheduled runs in the order of its times, each at its own time."""
        clock, seen = VirtualClock(), []
        started_ms = clock.utc_ms()
        for seconds in (3.0, 1.0, 2.0):
            clock.at(seconds, lambda: seen.append(clock.utc_ms() - started_ms))
        clock.advance(10)
        assert [1000, 2000, 3000] == seen

    def test_suspend(self) -> None:
        """Suspended time passes for the clock and is known as such."""
        clock = VirtualClock()
        started_s = clock.now_s()
        clock.suspend(60)
        assert (60.0, 60.0) == (clock.now_s() - started_s, clock.suspended_s())

    def test_endless_wait(self, fake: FakeKafka) -> None:
        """Waiting without end for nothing is an error, not a hanging test."""
        with pytest.raises(NothingCanHappenError):
            joined(fake).poll()

    def test_busy_loop(self) -> None:
        """A loop that polls without waiting, for nothing, is ended, and stays ended."""
        fake = FakeKafka(idle_polls=100)
        consumer = joined(fake)
        for _ in range(100):
            consumer.poll(0)
        with pytest.raises(NothingCanHappenError):
            consumer.poll(0)
        with pytest.raises(NothingCanHappenError):
            consumer.poll(0)


class TestGroup:
    def test_rebalance_inside_consume(self, fake: FakeKafka) -> None:
        """`after`: a rebalance in the middle of a `consume`, which takes back what it had taken."""
        consumer = joined(fake, P0)
        consumer.poll(0)
        fake.assign(consumer, [P0], after=2)
        assert [0, 1, 2, 3, 4] == offsets(consumer)
        assert 2 == len(calls(fake, "on_assign"))

    def test_lost(self, fake: FakeKafka) -> None:
        """A member that is out is notified of a loss, later, and others need not wait for it."""
        zombie, heir = joined(fake, P0), joined(fake)
        zombie.poll(0)
        fake.lose(zombie)
        fake.assign(heir, [P0])
        heir.poll(0)
        assert (True, True) == (zombie.has(P0), heir.has(P0))
        zombie.poll(0)
        assert (False, ("on_lost", (P0,))) == (zombie.has(P0), calls(fake, "on_lost")[-1])

    def test_lost_reported_as_revoked(self, fake: FakeKafka) -> None:
        """The same, reported as a revoke (librdkafka #5604)."""
        fake.faults.lost_as_revoked = True
        consumer = joined(fake, P0)
        consumer.poll(0)
        fake.lose(consumer)
        consumer.poll(0)
        assert [("on_revoke", (P0,))] == calls(fake, "on_revoke", "on_lost")

    def test_waits_for_revoke(self, fake: FakeKafka) -> None:
        """Nobody is assigned what another living member has not given back yet."""
        one, two = joined(fake, P0), joined(fake)
        one.poll(0)
        fake.revoke(one)
        fake.assign(two, [P0])
        two.poll(0)
        assert not two.has(P0)
        one.poll(0)
        two.poll(0)
        assert two.has(P0)

    def test_fenced(self, fake: FakeKafka) -> None:
        """A fenced member learns it from error_cb and from poll, and cannot commit."""
        received: list[KafkaError] = []
        consumer = joined(fake, P0, error_cb=received.append)
        consumer.poll(0)
        fake.fence(consumer)
        message = consumer.poll(0)
        assert message is not None
        with pytest.raises(KafkaException):
            consumer.commit(offsets=[place(P0, 1)], asynchronous=False)
        assert [(KafkaError._FATAL, False)] == [(one.code(), one.fatal()) for one in received]
