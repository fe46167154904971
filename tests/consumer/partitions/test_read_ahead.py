"""The read-ahead: what joins it, and when it is invalid."""

from collections.abc import Callable
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry.consumer.partitions.read_ahead import LARGEST_BATCH, ReadAhead
from linear_retry.kafka import KafkaError, Message
from linear_retry.kafka.consumer.client import Client
from tests.fake.clock import VirtualClock


def _message(offset: int, partition: int = 0) -> Message:
    return Message(topic="orders", partition=partition, offset=offset)


def _places(messages: list[Message]) -> list[tuple[int | None, int | None]]:
    return [(message.partition(), message.offset()) for message in messages]


class _Source:
    """Delivers what is there, and does inside a call what a test says."""

    def __init__(self) -> None:
        self.there: list[Message] = []
        self.calls: list[tuple[str, float]] = []
        self.inside_poll: Callable[[], object] = lambda: None
        self.inside_consume: Callable[[], object] = lambda: None

    def poll(self, timeout_s: float) -> Message | None:
        self.calls.append(("poll", timeout_s))
        first = self.there.pop(0) if self.there else None
        self.inside_poll()
        return first

    def consume(self, count: int) -> list[Message]:
        self.calls.append(("consume", count))
        taken, self.there = self.there[:count], self.there[count:]
        self.inside_consume()
        return taken


class _Scene:
    """A `ReadAhead` with its source, its clock and an epoch to change."""

    def __init__(self, *, max_poll_interval_s: float = 300.0) -> None:
        self.source, self.clock, self.epoch = _Source(), VirtualClock(), 1
        self.read_ahead = ReadAhead(
            cast(Client, self.source),
            self.clock,
            lambda: self.epoch,
            max_poll_interval_s=max_poll_interval_s,
            session_timeout_s=45.0,
        )

    def rebalance(self) -> None:
        self.epoch += 1

    def grow(self) -> None:
        """Let the batch size become four times as large."""
        self.read_ahead.note_speed(1_000_000, 1e-6)


def _raise(error: BaseException) -> Callable[[], object]:
    def act() -> object:
        raise error

    return act


def test_it_waits_for_the_first_message_only() -> None:
    """`poll(timeout)`, then `consume(n - 1)`: a lone message does not wait for a batch to fill."""
    scene = _Scene()
    scene.grow()
    scene.source.there = [_message(0), _message(1)]
    assert [(0, 0), (0, 1)] == _places(scene.read_ahead.read(0.7))
    assert [("poll", 0.7), ("consume", 3)] == scene.source.calls


def test_a_batch_of_one_is_one_poll() -> None:
    """The first batch takes one message, and leaves the others to librdkafka."""
    scene = _Scene()
    scene.source.there = [_message(0), _message(1)]
    assert [(0, 0)] == _places(scene.read_ahead.read(1.0))
    assert [("poll", 1.0)] == scene.source.calls


def test_with_messages_to_handle_it_only_touches() -> None:
    """No waiting, and one message at most, while the read-ahead is not empty."""
    scene = _Scene()
    scene.read_ahead.keep([_message(0)])
    scene.source.there = [_message(1), _message(2)]
    assert [(0, 1)] == _places(scene.read_ahead.read(1.0))
    assert [(0, 2)] == _places(scene.read_ahead.touch())
    assert [("consume", 1), ("consume", 1)] == scene.source.calls


def _batch_sizes(scene: _Scene, rounds: int, handler_s: float) -> list[int]:
    sizes = []
    for _ in range(rounds):
        scene.source.there = [_message(offset) for offset in range(1000)]
        batch = scene.read_ahead.read(1.0)
        sizes.append(len(batch))
        scene.read_ahead.note_speed(len(batch), handler_s * len(batch))
    return sizes


@pytest.mark.parametrize(
    ("handler_s", "sizes"),
    [
        (0.0, [1, 4, 16, 64, 256, 500, 500]),
        (1e-6, [1, 4, 16, 64, 256, 500, 500]),
        (0.002, [1, 4, 16, 64, 100, 100, 100]),
        (0.05, [1, 4, 4, 4, 4, 4, 4]),
        (0.11, [1, 1, 1, 1, 1, 1, 1]),
        (10.0, [1, 1, 1, 1, 1, 1, 1]),
    ],
)
def test_a_batch_grows_fourfold_to_what_fits(handler_s: float, sizes: list[int]) -> None:
    """1, 4, 16 ... 500, but no more than is handled in 0.2 s."""
    assert sizes == _batch_sizes(_Scene(), 7, handler_s)


def test_a_slow_handler_shrinks_the_batch_at_once() -> None:
    """Growth is slow, and caution is quick."""
    scene = _Scene()
    _batch_sizes(scene, 6, 0.0)
    scene.read_ahead.note_speed(500, 5000.0)
    assert [1] == _batch_sizes(scene, 1, 0.0)


def test_after_a_failure_it_starts_small() -> None:
    """The first batch after an assignment or a failure has size 1."""
    scene = _Scene()
    _batch_sizes(scene, 6, 0.0)
    scene.read_ahead.start_small()
    assert [1, 4] == _batch_sizes(scene, 2, 0.0)


_took_s = st.just(0.0) | st.floats(1e-9, 1e6)  # a clock has whole nanoseconds


@given(st.lists(st.tuples(st.integers(0, 500), _took_s), max_size=8))
def test_a_batch_is_never_empty_nor_too_large(speeds: list[tuple[int, float]]) -> None:
    """Whatever was handled in whatever time, the next batch has 1 to 500 messages."""
    scene = _Scene()
    for handled, took_s in speeds:
        scene.read_ahead.note_speed(handled, took_s)
        scene.source.there = [_message(offset) for offset in range(1000)]
        assert 1 <= len(scene.read_ahead.read(1.0)) <= LARGEST_BATCH


@pytest.mark.parametrize("error", [OSError("down"), KeyboardInterrupt(), SystemExit()], ids=repr)
@pytest.mark.parametrize("call", ["poll", "consume", "touch"])
def test_an_exception_out_of_librdkafka_invalidates(call: str, error: BaseException) -> None:
    """What it had taken is gone: nothing in memory can be trusted to be whole, and it is raised."""
    scene = _Scene()
    scene.source.there = [_message(0), _message(1)]
    if call == "poll":
        scene.source.inside_poll = _raise(error)
    else:
        scene.source.inside_consume = _raise(error)
    if call == "touch":
        scene.read_ahead.keep([_message(0)])
    scene.grow()
    with pytest.raises(type(error)) as caught:
        _ = scene.read_ahead.touch() if call == "touch" else scene.read_ahead.read(1.0)
    assert error is caught.value
    assert scene.read_ahead.is_invalid
    assert [] == scene.read_ahead.messages


def test_a_rebalance_inside_consume_invalidates() -> None:
    """Nothing tells which messages came before it: the poll's first goes with the others.

    A sketch that kept them skipped offset 0 within a minute of members joining and leaving.
    """
    scene = _Scene()
    scene.grow()
    scene.source.there = [_message(7, 1), _message(0), _message(1)]
    scene.source.inside_consume = scene.rebalance
    assert [] == scene.read_ahead.read(1.0)
    assert scene.read_ahead.is_invalid


def test_a_rebalance_inside_a_touch_invalidates_the_read_ahead() -> None:
    """What was read before it is fetched again too."""
    scene = _Scene()
    scene.read_ahead.keep([_message(0)])
    scene.source.there = [_message(1)]
    scene.source.inside_consume = scene.rebalance
    assert [] == scene.read_ahead.touch()
    assert scene.read_ahead.is_invalid
    assert [] == scene.read_ahead.messages


def test_a_rebalance_inside_poll_keeps_what_poll_returns() -> None:
    """A poll that serves a rebalance returns what is fetched after it, if anything."""
    scene = _Scene()
    scene.source.there = [_message(0)]
    scene.source.inside_poll = scene.rebalance
    assert [(0, 0)] == _places(scene.read_ahead.read(1.0))
    assert not scene.read_ahead.is_invalid


@pytest.mark.parametrize("call", ["consume", "touch"])
@pytest.mark.parametrize("first", [True, False])
def test_what_is_wrong_with_the_client_outlives_the_tearing(call: str, first: bool) -> None:
    """librdkafka says it once. It came with the loss of the partitions, was dropped with their
    messages, and the consumer stood still for ever with a client that was done for. The end of a
    partition is reported again."""
    scene = _Scene()
    scene.grow()
    fatal = Message(value=b"fenced", error=KafkaError(KafkaError._FATAL, "fenced"))
    end = Message(topic="orders", partition=0, error=KafkaError(KafkaError._PARTITION_EOF))
    scene.source.there = [fatal] if call == "touch" else [_message(0), end, _message(1)]
    if call == "consume":
        scene.source.there.insert(0 if first else 2, fatal)
    scene.source.inside_consume = scene.rebalance
    found = scene.read_ahead.touch() if call == "touch" else scene.read_ahead.read(1.0)
    assert [fatal] == found
    assert scene.read_ahead.is_invalid


def test_dropping_takes_what_is_covered_and_keeps_the_order() -> None:
    """Other partitions' messages stay, in the order they came."""
    scene = _Scene()
    scene.read_ahead.keep([_message(0, 0), _message(5, 1)])
    scene.read_ahead.keep([_message(1, 0), _message(6, 1)])
    scene.read_ahead.drop(lambda partition: partition == ("orders", 0))
    assert [(1, 5), (1, 6)] == _places(scene.read_ahead.messages)


@pytest.mark.parametrize(("max_poll_s", "touch_s"), [(300.0, 1.0), (10.0, 1.0), (6.0, 0.6)])
def test_the_next_poll_is_due_within_a_second(max_poll_s: float, touch_s: float) -> None:
    """Or within a tenth of `max.poll.interval.ms`, where that is less."""
    scene = _Scene(max_poll_interval_s=max_poll_s)
    scene.clock.advance(3.0)
    scene.read_ahead.read(1.0)
    assert touch_s == scene.read_ahead.touch_s
    assert scene.clock.now_s() + touch_s == pytest.approx(scene.read_ahead.deadline_s)
    assert scene.clock.now_s() == scene.read_ahead.polled_at_s


def test_a_failed_poll_does_not_count() -> None:
    """Whether an exception's poll kept us in the group is not known."""
    scene = _Scene()
    before_s = scene.read_ahead.polled_at_s
    scene.source.inside_poll = _raise(OSError())
    scene.clock.advance(3.0)
    with pytest.raises(OSError):  # noqa: PT011  (it has no text: which one it is does not matter)
        scene.read_ahead.read(1.0)
    assert before_s == scene.read_ahead.polled_at_s


def test_it_overran_beyond_the_poll_interval() -> None:
    """At the limit it is still ours, beyond it may be another's; a poll begins again."""
    scene = _Scene()
    scene.clock.advance(300.0)
    assert not scene.read_ahead.overran(scene.clock.now_s())
    scene.clock.advance(0.1)
    assert scene.read_ahead.overran(scene.clock.now_s())
    scene.read_ahead.touch()
    assert not scene.read_ahead.overran(scene.clock.now_s())


def test_a_machine_that_slept_past_the_session_timeout_overran() -> None:
    """The broker has not slept: a gap of more than the session timeout counts as lost."""
    scene = _Scene()
    scene.clock.suspend(45.0)
    assert not scene.read_ahead.overran(scene.clock.now_s())
    scene.clock.suspend(0.1)
    assert scene.read_ahead.overran(scene.clock.now_s())
    scene.read_ahead.touch()
    assert not scene.read_ahead.overran(scene.clock.now_s())


def test_being_busy_is_not_being_asleep() -> None:
    """Longer than the session timeout awake is fine: librdkafka's heartbeats go on."""
    scene = _Scene()
    scene.clock.advance(100.0)
    assert not scene.read_ahead.overran(scene.clock.now_s())


def test_a_queue_with_more_in_it_is_not_dry() -> None:
    """A poll that had to wait said that the queue was dry, and that stayed so while messages were
    waiting in it: a partition behind them was taken for dead."""
    scene = _Scene()
    scene.read_ahead.read(0.0)
    dry = [scene.read_ahead.dry]
    scene.source.there = [_message(offset) for offset in range(3)]
    for _ in range(4):
        scene.read_ahead.touch()
        dry.append(scene.read_ahead.dry)
    assert [True, False, False, False, True] == dry
