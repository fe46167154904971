"""The first offset of a group that has committed nothing."""

import pytest

from linear_retry import DataLossError, events
from tests.kafka_operations import wait_until
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.handlers import Dependency
from tests.scenarios.protocols import both_protocols
from tests.testing.violations import violations

pytestmark = [
    pytest.mark.broker,
    # The warning about `latest` is meant for who did not mean it.
    pytest.mark.filterwarnings("ignore:auto.offset.reset=latest"),
]


@both_protocols
def test_earliest_begins_at_the_beginning(protocol: dict[str, str], scene: SceneFactory) -> None:
    """With nothing committed, and nothing said of it, a group begins with the first message."""
    group = scene(2, config=protocol)
    group.produce(3)
    member = group.join("first", Dependency())
    group.wait_until_done()
    member.stop()
    assert [(group.topic, 0, offset) for offset in range(3)] == group.handled()
    assert [] == group.violations()


@both_protocols
def test_latest_loses_nothing_once_it_has_begun(
    protocol: dict[str, str], scene: SceneFactory
) -> None:
    """With `latest` the end that a group began at is committed: what comes then is not lost.

    Not even where the first message fails, and its partition goes to another member.
    """
    group = scene(2, config=protocol | {"auto.offset.reset": "latest"}, strategy=[5, 60])
    group.produce(3)
    dependency = Dependency()
    dependency.down = True
    first = group.join("first", dependency)
    anchors = {(group.topic, 0): 3, (group.topic, 1): 0}
    wait_until(lambda: anchors == group.committed(), "its beginning is committed")
    group.produce(2)
    group.wait_for(events.CircuitOpened)
    first.stop()
    group.produce(2)
    dependency.down = False
    second = group.join("second", dependency)
    wait_until(lambda: len(group.handled()) == 4, "all that came", detail=group.story)
    second.stop()
    assert [(group.topic, 0, offset) for offset in (3, 4, 5, 6)] == group.handled()
    came = {(group.topic, 0): [3, 4, 5, 6]}
    committed = group.committed()
    assert [] == violations(group.log(), came, committed=committed, strategy_length=2)


def test_error_ends_the_run(scene: SceneFactory) -> None:
    """With `error` a group that has committed nothing does not begin at all."""
    group = scene(config={"auto.offset.reset": "error"})
    group.produce(3)
    member = group.join("first", Dependency())
    with pytest.raises(DataLossError, match="committed no offset"):
        member.result()
    assert [] == group.attempts()
