"""A stop is heard, whenever it is asked for."""

import itertools
import math
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any

import pytest

from linear_retry.consumer.ownership.stop import (
    SignalEvent,
    StopFlag,
    deferring_interrupts,
    stopping_on_signals,
)
from linear_retry.kafka import Message
from tests.consumer.group import TOPIC, consumer_on
from tests.fake.cluster import FakeKafka
from tests.patience import PATIENCE_S


def test_a_stop_as_a_batch_begins() -> None:
    """Asked for between the loop's look at it and the first message: the batch ends all the same
    after that one. A thread, or a signal, may ask between any two instructions."""
    stop = StopFlag()
    stop.ask()
    stop.allow_until(1_000.0)
    assert -math.inf == stop.poll_by_s


def test_a_stop_in_a_batch() -> None:
    """The time to stop handing over has come at once."""
    stop = StopFlag()
    stop.allow_until(1_000.0)
    assert 1_000.0 == stop.poll_by_s
    stop.ask()
    assert -math.inf == stop.poll_by_s


def test_a_stop_as_a_message_comes(fake: FakeKafka) -> None:
    """In the very poll that brings a message: it is the next owner's to handle."""
    seen: list[Message] = []
    with consumer_on(fake) as consumer:

        def at_once() -> None:
            fake.append(TOPIC, 0, b"too late")
            consumer.stop()

        fake.clock.at(30, at_once)
        consumer.run(seen.append)
    assert 6 == len(seen)


def test_each_stop_is_passed_on() -> None:
    """To the retry line of a live line: the second one is for an async handler."""
    flag, told = StopFlag(), []
    flag.on_ask = lambda: told.append(flag.asked)
    flag.ask()
    flag.ask()
    assert [True, True] == told


_BOTH = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture(autouse=True)
def received() -> Iterator[list[int]]:
    """Handlers of the program's own, which are put back; what they heard."""
    received: list[int] = []
    before = {number: signal.getsignal(number) for number in _BOTH}
    for number in _BOTH:
        signal.signal(number, lambda number, _: received.append(number))
    yield received
    for number, handler in before.items():
        signal.signal(number, handler)


def _send(number: int) -> None:
    os.kill(os.getpid(), number)
    signal.getsignal(number)  # a handler runs between two bytecodes: by now it has


class Stops:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


@pytest.mark.parametrize("number", _BOTH)
def test_the_first_signal_stops(number: int, received: list[int]) -> None:
    """It raises nothing, and the program's own handler is not called."""
    stops = Stops()
    with stopping_on_signals(stops):
        _send(number)
    assert (1, []) == (stops.count, received)


@pytest.mark.parametrize("first", _BOTH)
@pytest.mark.parametrize("second", _BOTH)
def test_the_second_signal_does_what_it_did_before(
    first: int, second: int, received: list[int]
) -> None:
    """Whoever presses Ctrl-C twice means it: both signals are the program's own again."""
    stops = Stops()
    with stopping_on_signals(stops):
        _send(first)
        _send(second)
    assert (1, [second]) == (stops.count, received)


@pytest.mark.parametrize("number", _BOTH)
def test_after_it_signals_are_what_they_were(number: int, received: list[int]) -> None:
    """The program's own handlers are back, after an exception too."""
    before = [signal.getsignal(one) for one in _BOTH]
    with pytest.raises(LookupError), stopping_on_signals(Stops()):
        raise LookupError
    assert before == [signal.getsignal(one) for one in _BOTH]
    _send(number)
    assert [number] == received


def test_nested_the_inner_one_stops_first(received: list[int]) -> None:
    """A consumer run inside another's handler: each signal stops one, from the inside."""
    inner, outer, seen = Stops(), Stops(), []
    with stopping_on_signals(outer), stopping_on_signals(inner):
        for _ in range(3):
            _send(signal.SIGTERM)
            seen.append((inner.count, outer.count, len(received)))
    assert [(1, 0, 0), (1, 1, 0), (1, 1, 1)] == seen


def test_in_another_thread_nothing_is_changed(received: list[int]) -> None:
    """Python allows handlers in the main thread only; elsewhere someone has to call `stop`."""
    inside, leave, stops = threading.Event(), threading.Event(), Stops()

    def run() -> None:
        with stopping_on_signals(stops):
            inside.set()
            leave.wait()

    thread = threading.Thread(target=run)
    thread.start()
    inside.wait()
    _send(signal.SIGTERM)
    leave.set()
    thread.join()
    assert (0, [signal.SIGTERM]) == (stops.count, received)


class _Turn:
    """During it these signals come; at its end it raises, or not."""

    def __init__(self, numbers: list[signal.Signals], error: Exception | None = None) -> None:
        self._numbers = numbers
        self._error = error
        self.hurries = Stops()
        self.cuts = Stops()
        self.ended = False

    def run(self) -> None:
        with deferring_interrupts(self.hurries, self.cuts):
            for number in self._numbers:
                _send(number)
            self.ended = True
            if self._error is not None:
                raise self._error


def _raising(error: BaseException) -> None:
    """A program's own handlers, for both, that raise."""

    def handler(number: int, _: object) -> None:
        raise error

    for number in _BOTH:
        signal.signal(number, handler)


@pytest.mark.parametrize("number", _BOTH)
def test_a_handler_that_returns_is_called_when_the_signal_comes(
    number: int, received: list[int]
) -> None:
    """What it does counts at once, and the end is not hurried for it."""
    hurries = Stops()
    with deferring_interrupts(hurries, Stops()):
        _send(number)
        _send(number)
        assert [number, number] == received
    assert 0 == hurries.count


@pytest.mark.parametrize("number", _BOTH)
def test_what_a_handler_raises_is_raised_at_the_end(number: signal.Signals) -> None:
    """And the end is hurried."""
    turn = _Turn([number])
    _raising(SystemExit(3))
    with pytest.raises(SystemExit, match="3"):
        turn.run()
    assert (1, 0, True) == (turn.hurries.count, turn.cuts.count, turn.ended)


def test_a_second_signal_does_not_wait() -> None:
    """The second that raises does so at once: what it cuts short may never end. It is logged."""
    turn = _Turn([signal.SIGTERM, signal.SIGINT])
    _raising(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        turn.run()
    assert (1, False) == (turn.cuts.count, turn.ended)


def test_an_interrupt_is_raised_after_an_error() -> None:
    """What ended the turn is its context, so neither is lost."""
    _raising(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt) as caught:
        _Turn([signal.SIGINT], LookupError()).run()
    assert isinstance(caught.value.__context__, LookupError)


def test_after_it_the_handlers_are_back(received: list[int]) -> None:
    """After an exception too."""
    before = [signal.getsignal(one) for one in _BOTH]
    with pytest.raises(LookupError), deferring_interrupts(Stops(), Stops()):
        raise LookupError
    assert before == [signal.getsignal(one) for one in _BOTH]


def test_a_handler_that_a_handler_installs_stays(received: list[int]) -> None:
    """The bug: the first Ctrl-C made the next one the default again, and that was undone."""

    def once(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_IGN)

    signal.signal(signal.SIGINT, once)
    with deferring_interrupts(Stops(), Stops()):
        _send(signal.SIGINT)
    assert signal.SIG_IGN == signal.getsignal(signal.SIGINT)


@pytest.mark.parametrize("disposition", [signal.SIG_IGN, signal.SIG_DFL])
def test_what_python_does_not_handle_is_left_alone(disposition: signal.Handlers) -> None:
    """Ignored stays ignored; what ends the process ends it."""
    for number in _BOTH:
        signal.signal(number, disposition)
    with deferring_interrupts(Stops(), Stops()):
        assert [disposition] * 2 == [signal.getsignal(number) for number in _BOTH]


def test_in_run_of_another_consumer_a_signal_stops_that_one(received: list[int]) -> None:
    """A loop of one's own in the handler of `run`: the first is for `run`, the second is not."""
    stops = Stops()
    with stopping_on_signals(stops), deferring_interrupts(Stops(), Stops()):
        _send(signal.SIGTERM)
        assert (1, []) == (stops.count, received)
        _send(signal.SIGTERM)
    assert (1, [signal.SIGTERM]) == (stops.count, received)


def test_elsewhere_nothing_is_deferred(received: list[int]) -> None:
    """In another thread than the main one no handler of Python's ever runs."""
    before = [signal.getsignal(one) for one in _BOTH]
    seen = []

    def run() -> None:
        with deferring_interrupts(Stops(), Stops()):
            seen.extend([signal.getsignal(one) for one in _BOTH])

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert before == seen


def _interrupted(call: Callable[[SignalEvent], object], line: int) -> bool:
    """Sets the event at this line of the call, as a handler does; False: it has no such line."""
    event, lines, was_set = SignalEvent(), itertools.count(), list[bool]()

    def trace(_: FrameType, kind: str, __: Any) -> Any:
        if kind == "line" and next(lines) == line:
            sys.settrace(None)
            event.set()
            was_set.append(True)
        return trace

    def run() -> None:
        sys.settrace(trace)
        call(event)
        sys.settrace(None)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive(), "the handler waits for what it has interrupted"
    assert event.wait(0.0) or not was_set
    return bool(was_set)


@pytest.mark.parametrize("call", [lambda event: event.wait(0.0), SignalEvent.set])
def test_a_handler_may_set_an_event_that_its_thread_waits_for(
    call: Callable[[SignalEvent], object],
) -> None:
    """Wherever it interrupts it. With Python's own event SIGTERM stopped a scheduler for ever, if
    it came while that took or freed the event's lock."""
    assert 1 < len([*itertools.takewhile(lambda line: _interrupted(call, line), itertools.count())])


def test_an_event_wakes_all_who_wait() -> None:
    """And those who come later do not wait."""
    event = SignalEvent()
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(event.wait) for _ in range(3)]
        assert (False, False) == (event.is_set(), event.wait(0.0))
        event.set()
        assert [True] * 3 == [each.result() for each in waiting]
    assert (True, True) == (event.is_set(), event.wait())
