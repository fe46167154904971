"""What is committed is done, whatever happens afterwards."""

from dataclasses import replace

import pytest

from linear_retry.dlq import EVERYTHING, State
from linear_retry.dlq.resolution.recording import resolve
from linear_retry.dlq.resolution.resolutions import Resolution
from tests.dlq.scene import Scene
from tests.real_kafka import RealKafka
from tests.torture.replays.points import reporting

pytestmark = pytest.mark.broker


def test_brokers_that_go_away_after_the_commit_undo_nothing(own_kafka: RealKafka) -> None:
    """The bug: it was said to have failed, since the last look for visible markers did."""
    for name in ("orders", "orders.dlq"):
        own_kafka.create_topic(name)
    given = Scene(own_kafka, "orders", "orders.dlq")
    given.add_letters([given.letter(0, number) for number in range(3)])

    def going_away(point: str) -> None:
        if point == "after commit_transaction 1":
            own_kafka.kill()

    cluster = replace(given.cluster, producer=reporting(going_away), timeout_s=3.0)
    resolution = Resolution(State.RESOLVED, "ann", why="paid by hand")
    assert 3 == resolve(cluster, given.letters, EVERYTHING, resolution, None)
    own_kafka.start()
    assert ["resolved"] * 3 == given.states()
