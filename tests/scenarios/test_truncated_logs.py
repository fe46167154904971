"""A real broker loses the end of a partition's log, as after a power failure."""

import pytest

from linear_retry import DataLossError, events
from tests.kafka_operations import wait_until
from tests.real_kafka import RealKafka
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.handlers import Dependency
from tests.scenarios.protocols import EAGER, KIP_848, both_protocols
from tests.scenarios.scene import Scene
from tests.scenarios.test_gaps import Transactions

pytestmark = pytest.mark.broker

_END, _CUT = 10, 5


def _filled(scene: SceneFactory, protocol: dict[str, str]) -> Scene:
    # Its members outlast the broker's end: assigned again, they would begin at what is committed.
    session = {} if protocol == KIP_848 else {"session.timeout.ms": 40_000}
    group = scene(config=protocol | session)
    if protocol == KIP_848:
        group.kafka.set_session(group.group, 40_000)
    for _ in range(2):  # two batches: a log is cut between them
        group.produce(_CUT)
    return group


def _truncate(group: Scene, kafka: RealKafka) -> None:
    kafka.kill()
    kafka.truncate(group.topic, 0, _CUT)
    kafka.start()


@both_protocols
def test_it_goes_on_where_the_log_was_cut(
    protocol: dict[str, str], own_kafka: RealKafka, own_scene: SceneFactory
) -> None:
    """The bug: the partition stood still for ever, with no line, ready and without a lag.

    librdkafka reports it without an offset, and has stopped reading by then. What is written at
    the offsets of the messages that are gone is handled, and nothing is handled twice.
    """
    group = _filled(own_scene, protocol)
    member = group.join("first", Dependency())
    wait_until(lambda: group.committed() == {(group.topic, 0): _END}, "all is committed")
    _truncate(group, own_kafka)
    own_kafka.produce(group.topic, [(0, None, b"new", ())] * 3)
    wait_until(lambda: len(group.handled()) == _END + 3, "what is new", detail=group.story)
    end = {(group.topic, 0): _CUT + 3}
    wait_until(lambda: group.committed() == end, "what is new is committed")
    # It is named until the next look at the ends of all logs.
    wait_until(lambda: member.consumer.health().reason == "it consumes", "its health is well")
    member.stop()
    assert [events.DataLost(group.topic, 0, _END, _CUT)] == group.emitted(events.DataLost)
    offsets = [offset for _, _, offset in group.handled()]
    assert [*range(_END), *range(_CUT, _CUT + 3)] == offsets


@both_protocols
def test_it_was_cut_while_nobody_read_it(
    protocol: dict[str, str], own_kafka: RealKafka, own_scene: SceneFactory
) -> None:
    """The next owner begins where the log was cut, not at the commit behind what is new.

    It is longer than before, so that no offset is out of range: only the leader's epoch beside the
    commit tells.
    """
    group = _filled(own_scene, protocol)
    before = group.join("before", Dependency())
    wait_until(lambda: group.committed() == {(group.topic, 0): _END}, "all is committed")
    before.stop()
    _truncate(group, own_kafka)
    group.produce(_END)
    member = group.join("first", Dependency())
    end = {(group.topic, 0): _CUT + _END}
    wait_until(lambda: group.committed() == end, "what is new is committed", detail=group.story)
    member.stop()
    assert [events.DataLost(group.topic, 0, _END, _CUT)] == group.emitted(events.DataLost)
    offsets = [offset for _, _, offset in group.handled("first")]
    assert [*range(_CUT, _CUT + _END)] == offsets


@both_protocols
def test_another_leader_has_cut_nothing(
    protocol: dict[str, str], own_kafka: RealKafka, own_scene: SceneFactory
) -> None:
    """Nor one that wrote nothing but markers, behind which the offset is committed."""
    group = _filled(own_scene, protocol)
    config = {"auto.offset.reset": "error"}
    before = group.join("before", Dependency())
    wait_until(lambda: group.committed() == {(group.topic, 0): _END}, "all is committed")
    own_kafka.restart()
    Transactions(group).abort(2)
    end = {(group.topic, 0): _END + 3}
    wait_until(lambda: group.committed() == end, "the end is committed", detail=group.story)
    before.stop()
    between = group.join("between", Dependency(), config=config)
    group.produce(1)
    wait_until(lambda: len(group.handled("between")) == 1, "it reads", detail=group.story)
    between.stop()
    own_kafka.restart()
    group.produce(1)
    member = group.join("first", Dependency(), config=config)
    wait_until(lambda: len(group.handled("first")) == 1, "it reads", detail=group.story)
    member.stop()
    offsets = [offset for _, _, offset in group.handled()]
    assert [*range(_END), _END + 3, _END + 4] == offsets
    assert [] == group.emitted(events.DataLost)


def test_what_is_in_memory_comes_first(own_kafka: RealKafka, own_scene: SceneFactory) -> None:
    """A message that is held while the log is cut is handled; then the log is read again.

    Paused, librdkafka says nothing of it. Read on behind the held one, what was written at the
    offsets before would be passed over. Nobody says where it was cut: so as auto.offset.reset says.
    """
    group = _filled(own_scene, EAGER)
    dependency = Dependency()
    dependency.down = True
    member = group.join("first", dependency, on_exhausted="repeat")
    group.wait_for(events.ProbeFailed)
    dependency.down = False
    wait_until(lambda: group.committed() == {(group.topic, 0): _END}, "all is committed")
    dependency.down = True
    group.produce(1)
    group.wait_for(events.CircuitOpened, 2)
    _truncate(group, own_kafka)
    own_kafka.produce(group.topic, [(0, None, b"new", ())] * 3)
    group.wait_for(events.DataLost)
    assert f"was read up to offset {_END}, and ends before it" in member.consumer.health().reason
    dependency.down = False
    wait_until(lambda: len(group.handled()) >= _END + 9, "what is new", detail=group.story)
    member.stop()
    offsets = [offset for _, _, offset in group.handled()]
    assert [*range(_END + 1), *range(_CUT + 3)] == offsets
    assert [events.DataLost(group.topic, 0, _END, 0)] == group.emitted(events.DataLost)


def test_a_cut_log_ends_the_run_where_loss_is_an_error(
    own_kafka: RealKafka, own_scene: SceneFactory
) -> None:
    """With `error` the run ends, and whoever operates it decides where it goes on."""
    group = _filled(own_scene, EAGER)
    before = group.join("before", Dependency())
    wait_until(lambda: group.committed() == {(group.topic, 0): _END}, "all is committed")
    before.stop()
    member = group.join("first", Dependency(), config={"auto.offset.reset": "error"})
    group.wait_for(events.Assigned, member="first")
    group.produce(1)
    wait_until(lambda: len(group.handled("first")) == 1, "it reads", detail=group.story)
    _truncate(group, own_kafka)
    with pytest.raises(DataLossError, match=rf"\[0\]@{_END + 1}"):
        member.result()
