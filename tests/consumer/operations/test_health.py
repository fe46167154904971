"""The health of a consumer, at every turn of its life."""

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from linear_retry import Health, LinearConsumer, PermanentError, Scope, UsageError
from linear_retry.consumer.operations.health import End, HealthInputs, evaluate
from linear_retry.events import WaitReason
from linear_retry.kafka import Message
from linear_retry.retry.circuits import CircuitView
from tests.consumer.group import GROUP, OutageError, PoisonError, consumer_on
from tests.consumer.runners.async_life import awaiting
from tests.fake.cluster import FakeKafka

_NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
_SINCE, _UNTIL = _NOW - timedelta(minutes=3), _NOW + timedelta(minutes=5)
_WELL = HealthInputs(
    utc_ms=round(_NOW.timestamp() * 1000),
    limit_s=300.0,
    polled_s=0.5,
    handed_out=None,
    joined=True,
    stopping=False,
    end=None,
    circuits={Scope(): CircuitView("closed")},
)
_OPEN = CircuitView("open", _UNTIL, 2, "orders", 1, 42, "OSError('down')", _SINCE)


def test_it_consumes() -> None:
    """In its group, polling, nothing open."""
    assert Health("consuming", True, True, "it consumes", polled_s=0.5) == evaluate(_WELL)


def test_a_retry_line_that_waits_is_well() -> None:
    """Nothing is wrong: alive and ready; it says how many wait in memory, and until when."""
    waiting = replace(_WELL, waiting=12, due_ms=round(_UNTIL.timestamp() * 1000))
    reason = (
        "it consumes; messages that wait for their retry: 12, the first until 2026-01-01T12:05:00Z"
    )
    expected = Health("consuming", True, True, reason, until=_UNTIL, polled_s=0.5, waiting=12)
    assert expected == evaluate(waiting)
    held = evaluate(replace(waiting, circuits={Scope(): replace(_OPEN, retry_at=_NOW)}))
    assert ("open", _NOW, 12) == (held.state, held.until, held.waiting)


def test_it_says_which_partition_waits_for_its_start() -> None:
    """It is alive and ready: others may be read, and a restart would not help."""
    health = evaluate(replace(_WELL, unplaced=[("orders", 3), ("orders", 1)]))
    assert ("consuming", True, True) == (health.state, health.alive, health.ready)
    assert "it consumes; orders[1] (and 1 other partitions) is not read yet: where" in health.reason
    assert health.error is not None


def test_it_says_how_many_keys_are_blocked() -> None:
    """Until when is for an operator to say; the consumer itself is well."""
    held = {Scope("orders", 1, "5a1b7acd8a3f"): _OPEN}
    blocked = replace(_OPEN, retry_at=None, waits_for="operator", since=_SINCE - timedelta(1))
    both = held | {Scope("orders", 1, "0123456789ab"): blocked}
    health = evaluate(replace(_WELL, circuits=both))
    assert ("consuming", True, True, None) == (
        *(health.state, health.alive, health.ready),
        health.until,
    )
    assert health.reason == (
        "it consumes; keys that are held: 2, 1 of them blocked, the first until an operator "
        "retries it or gives it up: orders[1]@42 is held, failures: 2"
    )
    assert "keys that are held: 1, the first" in evaluate(replace(_WELL, circuits=held)).reason


def test_open_is_well() -> None:
    """Alive and ready, and says since when, until when and why."""
    health = evaluate(replace(_WELL, circuits={Scope(): _OPEN}))
    assert ("open", True, True) == (health.state, health.alive, health.ready)
    assert (_SINCE, _UNTIL, "OSError('down')") == (health.since, health.until, health.error)
    assert "orders[1]@42 is held, failures: 2" in health.reason
    assert "until 2026-01-01T12:05:00Z" in health.reason


@pytest.mark.parametrize(
    ("waits_for", "part"),
    [
        (
            "limit",
            ", by the limit of messages in a row that leave the line: fix the handler, or lift the "
            "limit",
        ),
        ("letter", ", and it cannot be sent on"),
    ],
)
def test_what_else_it_waits_for_is_reported(waits_for: WaitReason, part: str) -> None:
    """Where the limit held a message, the reason spoke of a failure like any, and no more."""
    health = evaluate(replace(_WELL, circuits={Scope(): replace(_OPEN, waits_for=waits_for)}))
    assert health.reason.endswith(f"failures: 2{part}")


def test_of_several_circuits_the_oldest_counts() -> None:
    """With narrow scopes: what has waited for the longest is what a person asks about."""
    later = replace(_OPEN, since=_NOW, error="OSError('later')")
    views = {
        Scope(): CircuitView("closed"),
        Scope("a", 0): later,
        Scope("a", 1): _OPEN,
        Scope("a", 2): later,
    }
    health = evaluate(replace(_WELL, circuits=views))
    assert (_SINCE, "OSError('down')") == (health.since, health.error)


def test_held_keys_are_no_outage() -> None:
    """The others go on: it consumes, and says which key has waited for the longest."""
    later = replace(_OPEN, since=_NOW, error="OSError('later')")
    views = {Scope(): CircuitView("closed"), Scope("a", 0, "b"): later, Scope("a", 1, "c"): _OPEN}
    health = evaluate(replace(_WELL, circuits=views))
    reason = (
        "it consumes; keys that are held: 2, the first until 2026-01-01T12:05:00Z: "
        "orders[1]@42 is held, failures: 2"
    )
    assert ("consuming", reason) == (health.state, health.reason)
    assert (_SINCE, _UNTIL, "OSError('down')") == (health.since, health.until, health.error)
    outage = evaluate(replace(_WELL, circuits={**views, Scope("a"): later}))
    assert ("open", "OSError('later')") == (outage.state, outage.error)


def test_open_outside_the_group_is_not_ready() -> None:
    """The circuit stays where partitions went: it waits, and takes part in nothing."""
    health = evaluate(replace(_WELL, joined=False, circuits={Scope(): _OPEN}))
    assert ("open", True, False) == (health.state, health.alive, health.ready)
    assert health.reason.endswith("; not in its group")


def test_a_probe_that_awaits_its_message_is_open() -> None:
    """After a revoke nothing is held; what it waits for is still to be told."""
    view = CircuitView("half-open", _NOW, since=_SINCE)
    health = evaluate(replace(_WELL, circuits={Scope(): view}, errors={Scope(): "OSError('down')"}))
    assert ("open", "OSError('down')") == (health.state, health.error)
    assert "the next message is its probe" in health.reason


def test_it_is_stuck_in_a_handler() -> None:
    """Also where a circuit is open: no poll for longer than the group allows is no wait of ours."""
    message = Message(topic="orders", partition=3, offset=42)
    inputs = replace(_WELL, polled_s=301.0, handed_out=message, circuits={Scope(): _OPEN})
    health = evaluate(inputs)
    assert ("stuck", False, False) == (health.state, health.alive, health.ready)
    assert _NOW - timedelta(seconds=301) == health.since
    assert "no poll for 301 s, max.poll.interval.ms allows 300 s" in health.reason
    assert "the handler of orders[3]@42 or a later" in health.reason
    assert "stuck" != evaluate(replace(inputs, polled_s=300.0)).state


def test_a_worker_hangs() -> None:
    """The others go on, and it polls: alive and ready, and the message is named."""
    message = Message(topic="orders", partition=3, offset=42)
    inputs = replace(_WELL, handed_out=message, handling_s=301.0)
    health = evaluate(inputs)
    assert ("consuming", True, True) == (health.state, health.alive, health.ready)
    assert "the handler of orders[3]@42 or a later message has not returned for 301 s" in (
        health.error or ""
    )
    assert health.reason.endswith(health.error or "")
    assert None is evaluate(replace(inputs, handling_s=300.0)).error


def test_it_is_stuck_outside_of_handlers() -> None:
    """A loop of one's own that is not gone on with, or librdkafka: distinguished from a handler."""
    health = evaluate(replace(_WELL, polled_s=301.0))
    assert "stuck" == health.state
    assert "no handler has a message" in health.reason


@pytest.mark.parametrize(("is_error", "state"), [(True, "dead"), (False, "stopped")])
def test_an_end_is_final(is_error: bool, state: str) -> None:
    """Whatever it held, and however long ago it polled."""
    end = End(round(_SINCE.timestamp() * 1000), "OSError('gone')", is_error=is_error)
    inputs = replace(_WELL, end=end, polled_s=9_999.0, circuits={Scope(): _OPEN})
    health = evaluate(inputs)
    assert (state, False, False) == (health.state, health.alive, health.ready)
    assert (_SINCE, "OSError('gone')") == (health.since, health.error)
    assert "ended by OSError('gone')" == health.reason


def test_it_starts() -> None:
    """Alive, for it may take its time; and not ready."""
    health = evaluate(replace(_WELL, joined=False, polled_s=None))
    assert ("starting", True, False) == (health.state, health.alive, health.ready)


def test_what_is_asked_to_stop_is_not_ready() -> None:
    """It finishes the message in hand: alive until then."""
    health = evaluate(replace(_WELL, stopping=True))
    assert ("consuming", True, False) == (health.state, health.alive, health.ready)


class _Watched:
    """A consumer whose health is asked in its handler, and by its listener, at each event."""

    def __init__(self, fake: FakeKafka, *errors: BaseException, **options: object) -> None:
        self.seen: list[Health] = []
        self._errors = list(errors)
        self._left = 6 + len(errors)
        self.consumer: LinearConsumer = consumer_on(fake, listeners=[self._look], **options)

    def handle(self, _: Message) -> None:
        self._look()
        self._left -= 1
        if not self._left:
            self.consumer.stop()
        if self._errors:
            raise self._errors.pop(0)

    async def handle_async(self, message: Message) -> None:
        self.handle(message)

    @property
    def states(self) -> list[str]:
        """Without repetitions in a row."""
        names = [health.state for health in self.seen]
        return [name for name, before in zip(names, [None, *names], strict=False) if name != before]

    def _look(self, *_: object) -> None:
        self.seen.append(self.consumer.health())


def test_a_life(fake: FakeKafka) -> None:
    """Starting, consuming, open while a message waits, consuming again, stopped."""
    one = _Watched(fake, OutageError("down"))
    assert "starting" == one.consumer.health().state
    with one.consumer as consumer:
        consumer.run(one.handle)
        assert "stopped" == consumer.health().state
    assert ["consuming", "open", "consuming", "stopped"] == one.states
    (first, *_) = [health for health in one.seen if health.state == "open"]
    assert "OutageError('down')" == first.error
    assert first.since is not None
    assert first.until == first.since + timedelta(seconds=1)
    assert ("stopped", None) == (one.consumer.health().state, one.consumer.health().error)


def test_an_error_that_ends_it_is_named_after_the_end(fake: FakeKafka) -> None:
    """Leaving the `with` closes it: what had ended it is still what a person has to know."""
    one = _Watched(fake, PoisonError("bad"), on_permanent="stop")
    with pytest.raises(PermanentError), one.consumer as consumer:
        consumer.run(one.handle)
    health = one.consumer.health()
    assert ("dead", False, False) == (health.state, health.alive, health.ready)
    assert (health.error or "").startswith("PermanentError(")
    assert health.since is not None


def test_another_run_is_another_life(fake: FakeKafka) -> None:
    """What ended the first is past once it runs again."""
    one = _Watched(fake, PoisonError("bad"), on_permanent="stop")
    with one.consumer as consumer:
        with pytest.raises(PermanentError):
            consumer.run(one.handle)
        assert "dead" == consumer.health().state
        consumer.run(one.handle)
        assert "stopped" == consumer.health().state
    assert ["consuming", "stopped"] == one.states


def test_an_interrupt_is_no_death(fake: FakeKafka) -> None:
    """Ctrl-C, sys.exit and their like are how a program ends it."""
    one = _Watched(fake, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt), one.consumer as consumer:
        consumer.run(one.handle)
    health = one.consumer.health()
    assert ("stopped", "KeyboardInterrupt()") == (health.state, health.error)


def test_a_wrong_thread_changes_nothing(fake: FakeKafka) -> None:
    """Whoever is refused has not ended it."""
    one = _Watched(fake)
    with one.consumer as consumer:
        next(iter(consumer))
        refused: list[BaseException] = []

        def use() -> None:
            try:
                next(consumer)
            except UsageError as error:
                refused.append(error)

        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
        assert 1 == len(refused)
        assert "consuming" == consumer.health().state


def test_a_loop_of_ones_own(fake: FakeKafka) -> None:
    """The same states; and the end of the loop is one."""
    one = _Watched(fake, OutageError("down"))
    for attempt in one.consumer:
        with attempt as message:
            one.handle(message)
    assert "stopped" == one.consumer.health().state
    one.consumer.close()
    assert ["consuming", "open", "consuming", "stopped"] == one.states


def test_a_last_attempt_that_ends_it_at_close(fake: FakeKafka) -> None:
    """`close` applies what the last attempt came to: that may be a death."""
    one = _Watched(fake, PoisonError("bad"), on_permanent="stop")
    for attempt in one.consumer:
        with attempt as message:
            one.handle(message)
        break
    with pytest.raises(PermanentError):
        one.consumer.close()
    assert "dead" == one.consumer.health().state


def test_awaited_handlers(fake: FakeKafka) -> None:
    """The same states, in whatever thread."""
    one = _Watched(fake, OutageError("down"))
    awaiting(one.consumer.run_async(one.handle_async))
    assert ["consuming", "open", "consuming", "stopped"] == one.states
    assert "stopped" == one.consumer.health().state


def test_awaited_handlers_that_end_it(fake: FakeKafka) -> None:
    """The error is the consumer's, not that of the thread that leaves for it."""
    one = _Watched(fake, PoisonError("bad"), on_permanent="stop")
    with pytest.raises(PermanentError):
        awaiting(one.consumer.run_async(one.handle_async))
    assert "dead" == one.consumer.health().state
    assert (one.consumer.health().error or "").startswith("PermanentError(")


def test_a_handler_that_takes_too_long_is_stuck_meanwhile(fake: FakeKafka) -> None:
    """Past max.poll.interval.ms, while it has not come back; and well again after that."""
    seen: list[Health] = []
    one = _Watched(fake)

    def handle(message: Message) -> None:
        if not seen:
            fake.clock.advance(301)
            seen.append(one.consumer.health())
        one.handle(message)

    with one.consumer as consumer:
        consumer.run(handle)
    assert ["stuck"] == [health.state for health in seen]
    assert "the handler of orders[" in seen[0].reason
    assert ["consuming", "stuck", "starting", "consuming", "stopped"] == one.states


def test_lost_partitions_are_not_ready(fake: FakeKafka) -> None:
    """Out of its group it is alive, and not ready until it is given something again."""
    one = _Watched(fake)
    lost: list[bool] = []

    def handle(message: Message) -> None:
        if not lost:
            fake.lose(fake.consumers[0])
            fake.clock.at(5, lambda: fake.rebalance(GROUP))
            lost.append(True)
        one.handle(message)

    with one.consumer as consumer:
        consumer.run(handle)
    away = [health for health in one.seen if health.state == "starting"]
    assert {(True, False)} == {(health.alive, health.ready) for health in away}
    assert ["consuming", "starting", "consuming", "stopped"] == one.states
