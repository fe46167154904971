"""A purge deletes only what is dealt with, and nothing deleted is sent again."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from linear_retry.dlq import DeadLetterTopic, Filter, RefusedError
from linear_retry.dlq.purge import purge
from linear_retry.errors import BrokerError
from linear_retry.kafka.consumer.messages import read
from linear_retry.kafka.topics.description import Topics
from linear_retry.records.dead_letter import resolutions_topic
from tests.dlq.scene import NewScene, Scene
from tests.real_kafka import RealKafka
from tests.torture.replays.points import reporting

pytestmark = pytest.mark.broker


def _offsets(given: Scene) -> list[tuple[int, int]]:
    found = [read(each) for each in given.kafka.read(given.letters)]
    return [(record.partition, record.offset) for record in found]


def _live_keys(given: Scene) -> set[bytes | None]:
    latest = dict(given.recorded())
    return {key for key, value in latest.items() if value is not None}


def test_the_longest_prefix_without_an_open_letter(scene: NewScene) -> None:
    """Of each partition by itself; then what is recorded of the deleted letters goes too."""
    given = scene(3)
    given.add_letters([given.letter(p, n) for p in range(3) for n in range(4)])
    with given.topic as topic:
        topic.resolve(Filter(origins=((given.source, 0),)), by="me")
        for offset in (0, 1, 3):
            topic.resolve(Filter(ids=(given.letter(1, offset).retry_id,)), by="me")
        planned = topic.plan_purge()
        assert 12 == len(_offsets(given))
        done = topic.purge()
        assert planned == done
        assert ({0: 4, 1: 2}, 6, 6, 5, 6) == (
            *(
                done.before,
                done.letters,
                done.remaining,
                done.remaining_open,
                done.resolutions_deleted,
            ),
        )
        assert [(1, 2), (1, 3), (2, 0), (2, 1), (2, 2), (2, 3)] == _offsets(given)
        assert {f"{given.letter(1, 3).retry_id}#1".encode()} == _live_keys(given)
        again = topic.purge()
    assert ({}, 0, 0) == (again.before, again.letters, again.resolutions_deleted)
    assert 5 == given.replay()


def test_a_purge_within_a_plan_keeps_what_has_come_since(scene: NewScene) -> None:
    """Someone agreed to delete what was counted, not the letters that came a moment later."""
    given = scene(2)
    given.add_letters([given.letter(0, n) for n in range(3)])
    with given.topic as topic:
        planned = topic.plan_purge(everything=True)
        given.add_letters([given.letter(p, 9) for p in range(2)])
        done = topic.purge(everything=True, within=planned)
    assert (3, 2) == (done.letters, done.remaining)
    assert [(0, 3), (1, 0)] == _offsets(given)


def test_what_is_recorded_of_a_letter_that_lies_there_twice_stays(scene: NewScene) -> None:
    """Or its second copy would be open, and sent once more."""
    given = scene(2)
    given.add_letters([given.letter(0, 1)], 0)
    given.add_letters([given.letter(0, 2), given.letter(0, 1)], 1)
    given.replay(Filter(ids=(given.letter(0, 1).retry_id,)))
    with given.topic as topic:
        done = topic.purge()
    assert ({0: 1}, 0) == (done.before, done.resolutions_deleted)
    assert 1 == given.replay()
    assert {0: [(1, 1), (2, 1)]} == given.arrived()


def test_all_of_it(scene: NewScene) -> None:
    """Open letters too, what is no dead letter too, and all that is recorded."""
    given = scene(2)
    given.add_letters([given.letter(p, n) for p in range(2) for n in range(3)])
    given.write(("a", b"1"))
    given.replay(Filter(limit=2))
    with given.topic as topic:
        assert 7 == topic.plan_purge(everything=True).letters
        done = topic.purge(everything=True)
    assert (7, 0, 2) == (done.letters, done.remaining, done.resolutions_deleted)
    assert [] == _offsets(given)
    assert set() == _live_keys(given)


@pytest.mark.parametrize("everything", [True, False])
def test_a_topic_without_a_dead_letter_is_refused(scene: NewScene, *, everything: bool) -> None:
    """`dlq purge --all orders`, the source's name for its letters', deleted every order.

    So did a purge after a resolve of it; and what a replay has sent there is no letter.
    """
    given = scene(2)
    given.add_letters([given.letter(0, 1)])
    assert 1 == given.replay()
    source = replace(given, letters=given.source)
    source.write(("a", b"1"))
    with source.topic as topic:
        if not everything:
            topic.resolve(by="me")
        for act in (topic.plan_purge, topic.purge):
            with pytest.raises(RefusedError, match="it holds no dead letter"):
                act(everything=everything)
    assert 2 == len(_offsets(source))


def test_letters_of_a_system_that_is_not_known_here(scene: NewScene) -> None:
    """The bug: `orders.DLT`, whose letters have no headers at all, could not be purged in any way.
    Its own rules hold: what is open stays, unless all of it goes."""
    source = replace(given := scene(), letters=given.source)
    source.write()
    source.write()
    with source.topic as topic:
        topic.resolve(Filter(limit=1), by="me")
        planned = topic.plan_purge(unknown_letters=True)
        assert planned == topic.purge(unknown_letters=True)
        assert (1, 1, [(0, 1)]) == (planned.letters, planned.remaining, _offsets(source))
        assert 1 == topic.purge(everything=True, unknown_letters=True).letters
    assert [] == _offsets(source)


def test_a_plan_refuses_what_the_purge_refuses(kafka: RealKafka) -> None:
    """The bug: a topic whose name leaves no room for `.resolved` got a plan, and then no purge."""
    name = "o" * 240 + ".dlq"
    kafka.create_topic(name)
    with DeadLetterTopic(name, {"bootstrap.servers": kafka.bootstrap}) as topic:
        for act in (topic.plan_purge, topic.purge):
            with pytest.raises(RefusedError, match="nothing can be recorded of its letters"):
                act(everything=True)


def test_a_refused_purge_creates_no_topic(scene: NewScene) -> None:
    """A source would have a topic of resolutions beside it, for a name written by mistake."""
    source = replace(given := scene(), letters=given.source)
    source.write(("a", b"1"))
    with source.topic as topic, pytest.raises(RefusedError):
        topic.purge(everything=True)
    facts = given.cluster.topics.describe([given.source, resolutions_topic(given.source)])
    assert [True, False] == [fact is not None for fact in facts.values()]


def test_records_that_are_no_dead_letters_hold_it_up(scene: NewScene) -> None:
    """Until somebody resolves them."""
    given = scene()
    given.write(("a", b"1"))
    given.add_letters([given.letter(0, 1)])
    given.replay()
    with given.topic as topic:
        assert 0 == topic.purge().letters
        assert 1 == topic.resolve(by="me")
        assert 2 == topic.purge().letters


def test_what_is_recorded_of_letters_that_retention_removed_goes(scene: NewScene) -> None:
    """It would stay for ever."""
    given = scene()
    given.add_letters([given.letter(0, n) for n in range(3)])
    given.replay(Filter(limit=2))
    given.kafka.delete_records(given.letters, 0, 2)
    with given.topic as topic:
        done = topic.purge()
    assert (0, 1, 2) == (done.letters, done.remaining, done.resolutions_deleted)
    assert set() == _live_keys(given)
    assert 1 == given.replay()


def test_a_topic_that_is_compacted_alone_cannot_be_purged(
    scene: NewScene,
) -> None:
    """The broker refuses to delete; said with the reason, and nothing is forgotten."""
    given = scene()
    compacted = replace(given, letters=f"{given.source}.compacted")
    given.kafka.create_topic(compacted.letters, 1, {"cleanup.policy": "compact"})
    compacted.add_letters([compacted.letter(0, 1)])
    compacted.replay()
    with compacted.topic as topic, pytest.raises(BrokerError, match=r"cleanup.policy=delete"):
        topic.purge()
    assert 1 == len(_live_keys(compacted))
    assert 0 == compacted.replay()


class _DeathError(BaseException):
    """Nothing runs after it."""


def _dying_admin(monkeypatch: pytest.MonkeyPatch, after: bool) -> None:
    real = Topics.delete_before

    def delete_before(self: Topics, *arguments: Any) -> None:
        if after:
            real(self, *arguments)
        raise _DeathError

    monkeypatch.setattr(Topics, "delete_before", delete_before)


_MOMENTS: list[Callable[[Scene, pytest.MonkeyPatch], Callable[..., Any] | None]] = [
    lambda given, patch: _dying_admin(patch, after=False),
    lambda given, patch: _dying_admin(patch, after=True),
    lambda given, patch: reporting(_dies_at("before begin_transaction 1")),
    lambda given, patch: reporting(_dies_at("before commit_transaction 2")),
    lambda given, patch: reporting(_dies_at("after commit_transaction 2")),
]


def _dies_at(point: str) -> Callable[[str], None]:
    def at_point(moment: str) -> None:
        if moment == point:
            raise _DeathError

    return at_point


@pytest.mark.parametrize("moment", range(len(_MOMENTS)))
def test_ended_at_any_point_the_next_goes_on(
    scene: NewScene, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    """Before and after the deletion, before and after the records: nothing is sent again."""
    given = scene(2)
    letters = [given.letter(p, n) for p in range(2) for n in range(4)]
    random.Random(moment).shuffle(letters)
    given.add_letters(letters)
    given.replay(Filter(origins=((given.source, 0),)))
    with monkeypatch.context() as patch:
        producer = _MOMENTS[moment](given, patch)
        cluster = given.cluster if producer is None else replace(given.cluster, producer=producer)
        with pytest.raises(_DeathError):
            purge(cluster, given.letters, None, everything=False)
    assert 4 == given.replay()
    with given.topic as topic:
        topic.purge()
    assert [] == _offsets(given)
    assert set() == _live_keys(given)
    assert {p: [(n, 1) for n in range(4)] for p in range(2)} == given.arrived()
