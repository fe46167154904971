"""A member that waits for its group says so."""

import logging

import pytest

from linear_retry.consumer.operations.watchdogs.joining import JoiningWatchdog
from tests.consumer.group import GROUP
from tests.consumer.runners.async_life import Life
from tests.fake.cluster import FakeKafka


def test_it_is_said_as_long_as_it_waits() -> None:
    """Every ten seconds; a later wait is counted from when it was last seen in its group."""
    now_s, joined, said = [100.0], [False], list[float]()
    watchdog = JoiningWatchdog(lambda: now_s[0], lambda: joined[0], said.append)
    looks = ((110.0, False), (121.0, False), (131.0, True), (141.0, True), (151.0, False))
    for at_s, is_in in looks:
        assert watchdog.due_at_s <= at_s
        now_s[0], joined[0] = at_s, is_in
        watchdog.tick()
    assert [10.0, 21.0, 10.0] == said


def test_a_member_that_is_given_nothing_yet(caplog: pytest.LogCaptureFixture) -> None:
    """The bug: after "started" nothing was logged for as long as a rebalance took, which may be
    `max.poll.interval.ms` of another member."""
    caplog.set_level(logging.INFO, "linear_retry")
    fake = FakeKafka(balanced=False)
    fake.create_topic("orders", 1)
    fake.create_topic("orders.dlq", 1)
    life = Life(fake)
    fake.clock.at(25, life.consumer.stop)
    with life.consumer:
        life.consumer.run(print)
    waited = [one for one in caplog.messages if one.startswith("joining the group: ")]
    member = f"member {life.consumer.member} has waited for group {GROUP}"
    assert [f"joining the group: {member} for {seconds} s" for seconds in (10, 20)] == waited
