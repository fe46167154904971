"""What is committed is done, and what is not is sent again: brokers that go away undo nothing."""

from dataclasses import replace
from functools import partial

import pytest

from linear_retry.dlq import EVERYTHING, RefusedError, State
from linear_retry.dlq.reading.resolutions import Resolution
from linear_retry.dlq.replay.recording import resolve
from tests.dlq.conftest import scene as scene
from tests.dlq.scene import NewScene, Scene
from tests.kafka_operations import wait_until
from tests.real_kafka import RealKafka
from tests.torture.replays.life import replay_all
from tests.torture.replays.points import reporting

pytestmark = pytest.mark.broker


def test_brokers_that_go_away_after_the_commit_undo_nothing(own_kafka: RealKafka) -> None:
    """The bug: it was said to have failed, since the last look for visible markers did."""
    given = _given(own_kafka, 3)

    def going_away(point: str) -> None:
        if point == "after commit_transaction 1":
            own_kafka.kill()

    cluster = replace(given.cluster, producer=reporting(going_away), timeout_s=8.0)
    resolution = Resolution(State.RESOLVED, "ann", why="paid by hand")
    assert 3 == resolve(cluster, given.letters, EVERYTHING, resolution, None)
    own_kafka.start()
    # What was decided is shown once the coordinator that starts has written its markers.
    wait_until(lambda: ["resolved"] * 3 == given.states(), "all are resolved", given.states)


@pytest.mark.parametrize("point", ["after begin_transaction 2", "amid commit_transaction 2"])
def test_a_replay_goes_on_when_the_broker_is_back(own_kafka: RealKafka, point: str) -> None:
    """It was killed within a transaction, and started again at once; each letter is sent once."""
    given = _given(own_kafka, 20)

    def restarting(at: str) -> None:
        if at == point:
            own_kafka.restart()

    cluster = replace(given.cluster, producer=reporting(restarting))
    assert 20 == replay_all(cluster, given.letters)
    assert {0: [(number, 1) for number in range(20)]} == given.arrived()
    assert ["replayed"] * 20 == given.states()


def _given(kafka: RealKafka, letters: int) -> Scene:
    """That many letters, of one partition."""
    for name in ("orders", "orders.dlq"):
        kafka.create_topic(name)
    given = Scene(kafka, "orders", "orders.dlq")
    given.add_letters([given.letter(0, number) for number in range(letters)])
    return given


def test_a_topic_whose_name_is_too_long_for_one_of_resolutions(scene: NewScene) -> None:
    """The bug: another system's topic, of 241 characters or more, could not even be listed, since
    brokers refuse the name of the topic beside it. Nothing can be recorded, and that is said."""
    given = replace(made := scene(), letters=f"{made.source}.DLT-".ljust(241, "x"))
    given.kafka.create_topic(given.letters)
    given.add_letters([given.letter(0, 1)])
    assert ["open"] == given.states()
    with given.topic as topic:
        for act in (partial(topic.resolve, by="ann"), topic.purge, topic.plan_replay):
            with pytest.raises(RefusedError, match="nothing can be recorded of its letters"):
                act()
