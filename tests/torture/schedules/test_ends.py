"""An end that nothing explains is reported, and only such a one."""

from collections.abc import Callable
from typing import Any

import pytest

from linear_retry import BrokerError, ConfigurationError, FencedError, events
from linear_retry.consumer.operations import overrun
from linear_retry.consumer.operations.lifecycle import Brokers
from linear_retry.consumer.partitions.read_ahead import ReadAhead
from linear_retry.consumer.runners.own_loop import Attempts
from linear_retry.retry import engine
from linear_retry.retry.decision import Decision, Failure, Stop, Transient, decide
from tests.consumer.group import OutageError
from tests.torture.schedules.ends import BrokenError
from tests.torture.schedules.schedule import Argument, Schedule, Setting, State, Step
from tests.torture.schedules.world import World

_TURNS = Step("turn_all", (("times", 8),))


def _step(name: str, inside: State | None = None, **arguments: Argument) -> Step:
    return Step(name, tuple(arguments.items()), inside)


def _play(*steps: Step, **setting: Any) -> World:
    world = World(Setting(messages=3, **setting))
    world.play(Schedule(world.setting, (*steps, _TURNS)))
    return world


def _raises(error: Exception) -> Callable[..., Any]:
    def raising(*_: object, **__: object) -> None:
        raise error

    return raising


@pytest.mark.parametrize("error", [FencedError("?"), BrokerError("?"), ConfigurationError("?")])
def test_a_turn_that_ends_the_program(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has fenced it, no broker has refused it anything: that is reported."""
    monkeypatch.setattr(ReadAhead, "read", _raises(error))
    with pytest.raises(BrokenError, match=f"Unexplained{type(error).__name__}: member-1 ended"):
        _play()


def test_a_close_that_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is raised as a program leaves counts like what is raised in its loop."""
    monkeypatch.setattr(Attempts, "finish", _raises(FencedError("?")))
    with pytest.raises(BrokenError, match="UnexplainedFencedError"):
        _play(_step("leave", member=0, owners=(0,)), loop="own")


def test_another_member_was_fenced(monkeypatch: pytest.MonkeyPatch) -> None:
    """That explains nothing for the one that was not."""
    fence = _step("fence", member=1)
    _play(fence, _TURNS, members=2, partitions=2)
    monkeypatch.setattr(Attempts, "finish", _raises(FencedError("?")))
    leave = _step("leave", member=0, owners=(0,))
    with pytest.raises(BrokenError, match="UnexplainedFencedError: member-1"):
        _play(fence, leave, members=2, partitions=2, loop="own")


def test_a_start_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The brokers are there, and refuse nothing."""
    monkeypatch.setattr(Brokers, "topics", _raises(BrokerError("?")))
    with pytest.raises(BrokenError, match="UnexplainedBrokerError: a start ended"):
        _play()


def test_a_start_that_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers that are down are waited for; to give up at once is no answer to that."""
    monkeypatch.setattr(Brokers, "topics", _raises(BrokerError("?")))
    world = World(Setting())
    world.faults.brokers_down = True
    with pytest.raises(BrokenError, match="UnexplainedBrokerError"):
        world.join()


@pytest.mark.parametrize("on_exhausted", ["dead-letter", "stop"])
def test_exhausted_unasked_or_too_early(on_exhausted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To stop is for who chose it, and for the failure after the last delay."""
    monkeypatch.setattr(engine, "decide", lambda *_, **__: Stop("exhausted"))
    with pytest.raises(BrokenError, match="UnexplainedExhaustedError"):
        _play(_step("outage", down=True), on_exhausted=on_exhausted)


@pytest.mark.parametrize("on_permanent", ["dead-letter", "stop"])
def test_permanent_unasked_or_not_so(on_permanent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An outage is no permanent failure, whatever was chosen for one."""
    monkeypatch.setattr(engine, "decide", lambda *_, **__: Stop("permanent"))
    with pytest.raises(BrokenError, match="UnexplainedPermanentError"):
        _play(_step("outage", down=True), on_permanent=on_permanent)


def test_too_slow_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """The handler was too slow once, which is no reason to end."""
    monkeypatch.setattr(overrun, "HOPELESS_AFTER", 1)
    with pytest.raises(BrokenError, match="UnexplainedHandlerTooSlowError"):
        _play(_step("too_long", inside="in the handler"))


def test_inside_the_handler_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """That one takes it for a failure of its own message; it is raised all the same."""

    def hasty(failure: Failure, *arguments: Any, **options: Any) -> Decision:
        if isinstance(failure, Transient) and stops:
            return stops.pop()
        return decide(failure, *arguments, **options)

    stops = [Stop("exhausted")]
    monkeypatch.setattr(engine, "decide", hasty)
    down = _step("outage_for_some", failing=(1,))
    turn = _step("turn_one", inside="in the handler", member=0, times=2)
    with pytest.raises(BrokenError, match="UnexplainedExhaustedError: member-2"):
        _play(down, turn, Step("turn_one", (("member", 0), ("times", 1))), members=2, partitions=2)


def test_what_explains_an_end() -> None:
    """A fence, a chosen stop, a handler that is too slow three times: the program ends, and all
    is handled by the next one.
    """
    slow = [_step("too_long", inside="in the handler")] * 3
    poison = _step("poison", partition=0, ahead=0), _step("produce", partition=0, count=1, gap=0)
    worlds = [
        _play(_step("fence", member=0)),
        _play(*slow, _TURNS),
        _play(*poison, _TURNS, _TURNS, on_permanent="stop"),
        _play(_step("outage", down=True), _TURNS, _TURNS, on_exhausted="stop"),
    ]
    assert all(len(world.fake.consumers) > 1 for world in worlds)


def test_what_explains_a_start_that_fails() -> None:
    """Brokers that stay down, or a producer that the broker refuses."""
    world = World(Setting())
    world.faults.brokers_down = True
    world.join()
    refused = World(Setting(transactional=True))
    fatal: dict[str, Argument] = {"call": "init", "error": "fatal", "times": 1}
    refused.strikes.take(
        _step("failing_transaction", None, **fatal, acts=False, takes_s=0.0, late=False)
    )
    refused.join()
    assert [1, 1] == [each.counts["starts that failed"] for each in (world, refused)]


@pytest.mark.parametrize(
    ("emitted", "forgotten"),
    [
        (events.CommitFailed("not now", (("orders", 0),)), True),
        (events.Revoked((("orders", 1),)), True),
        (events.Revoked((("orders", 1), ("orders", 0))), False),
    ],
    ids=["of a commit", "of another partition", "of its own"],
)
def test_a_failure_is_forgotten_until_an_event_is_about_it(
    emitted: events.Event, forgotten: bool
) -> None:
    """What is said of others, as its letter is awaited, is nothing about the message: whoever is
    interrupted there attempts it as if it had not failed (twice in 300,000 schedules)."""
    world = World(Setting(members=1))
    world.join()
    (player,) = world.group.players
    with pytest.raises(OutageError), world.group.witness.attempting(player.name, _Message()):
        raise OutageError
    world.group.witness.listener(player.name)(emitted)
    assert forgotten == world.group.has_forgotten_a_failure(player)


class _Message:
    """orders[0]@0."""

    topic = staticmethod(lambda: "orders")
    partition = offset = staticmethod(lambda: 0)
    headers = staticmethod(lambda: None)
