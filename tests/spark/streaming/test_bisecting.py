"""A micro-batch that fails permanently is halved until the bad rows stand alone."""

from collections.abc import Callable, Sequence

import pytest

from linear_retry import events
from linear_retry.records.dead_letter import parse
from tests.consumer.group import OutageError, PoisonError
from tests.spark.streaming.virtual import PLACE, Bisected, StoppedError, World, row


def _stream(world: World, rows: int, handler: Callable[[list[int]], object]) -> Bisected:
    stream = Bisected(world.kafka, lambda number: None, [row(each) for each in range(rows)])
    stream.of_offsets = handler
    return stream


def _handled(world: World, rows: int, handler: Callable[[list[int]], object]) -> list[list[int]]:
    """The offsets of each attempt."""
    stream = _stream(world, rows, handler)
    world.runner.handle(stream)
    return stream.attempted


def _bad(*offsets: int) -> Callable[[Sequence[int]], None]:
    def handler(given: Sequence[int]) -> None:
        found = [each for each in offsets if each in given]
        if found:
            raise PoisonError(f"no amount in {found}")

    return handler


def _letters(world: World) -> list[tuple[bytes | None, str | None]]:
    read = [(kept, parse(kept.headers or (), kept.key, kept.value)) for kept in world.letters()]
    return [(kept.value, letter.error.message) for kept, letter in read if letter.error]


def test_bad_rows_alone_become_letters_in_order() -> None:
    """Each with its own error, and every other row is handled in a half that succeeds; the batch
    is told of once, with its size and error."""
    world = World([1], limit=20)
    attempted = _handled(world, 8, _bad(1, 6))
    assert [(b"v1", "no amount in [1]"), (b"v6", "no amount in [6]")] == _letters(world)
    done = [given for given in attempted if not {1, 6} & set(given)]
    assert [[0], [2, 3], [4, 5], [7]] == done
    assert ["Assigned", "BatchTakenApart", "DeadLettered", "DeadLettered"] == world.kinds()
    apart = events.BatchTakenApart(*PLACE, 0, 8, "PoisonError('no amount in [1, 6]')", 1)
    assert apart == world.events[1]


def test_an_outage_amid_the_halves_is_waited_out() -> None:
    """By the delays of the strategy; only the half that met it is attempted again, and nothing is
    given up for it."""
    world, down = World([1, 5], limit=20), [OutageError(), OutageError()]

    def handler(given: list[int]) -> None:
        if 2 in given and len(given) == 2 and down:
            raise down.pop()
        _bad(1)(given)

    attempted = _handled(world, 4, handler)
    assert [[0, 1, 2, 3], [0, 1], [0], [1], *[[2, 3]] * 3] == attempted
    assert [(b"v1", "no amount in [1]")] == _letters(world)
    waited = ["DeadLettered", "CircuitOpened", "ProbeFailed", "CircuitClosed"]
    assert ["Assigned", "BatchTakenApart", *waited] == world.kinds()


def test_a_half_that_is_exhausted_is_given_up_alone() -> None:
    """The others are attempted, and theirs is a strategy of their own."""
    world = World([1], limit=20)

    def handler(given: list[int]) -> None:
        if len(given) == 4:
            raise PoisonError("all")
        if 0 in given:
            raise OutageError("down")

    attempted = _handled(world, 4, handler)
    assert [[0, 1, 2, 3], [0, 1], [0, 1], [2, 3]] == attempted
    assert [(b"v0", "down"), (b"v1", "down")] == _letters(world)


def test_halving_ends() -> None:
    """After a hundred halvings a part that fails is given up as a whole: a handler that fails for
    every row is called 201 times, however large the batch is."""
    world = World([1])
    attempted = _handled(world, 1000, _bad(*range(1000)))
    assert 201 == len(attempted)
    assert [b"v%d" % each for each in range(1000)] == [value for value, _ in _letters(world)]


def test_the_limit_of_letters_in_a_row_holds_the_batch() -> None:
    """As it holds a message: a handler that fails for every row is a bug, or an outage."""
    world = World([1], limit=3)
    stream = _stream(world, 8, _bad(*range(8)))

    def stop(event: object) -> None:
        if isinstance(event, events.LimitReached):
            stream.stopping = True

    world.listener = stop
    with pytest.raises(StoppedError):
        world.runner.handle(stream)
    assert 3 == len(world.letters())


def test_a_stop_ends_the_halving() -> None:
    """What the stop has interrupted is no failure, and nothing is given up for it."""
    world = World([1])

    def handler(given: list[int]) -> None:
        stream.stopping = len(given) == 1
        raise PoisonError("interrupted")

    stream = _stream(world, 4, handler)
    with pytest.raises(StoppedError):
        world.runner.handle(stream)
    assert [[0, 1, 2, 3], [0, 1], [0]] == stream.attempted
    assert [] == world.letters()
