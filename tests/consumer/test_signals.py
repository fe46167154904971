"""Does the first signal stop, and the second do what it would have done?"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from linear_retry.consumer.signals import stopping_on_signals

_BOTH = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture(autouse=True)
def heard() -> Iterator[list[int]]:
    """Handlers of the program's own, which are put back; what they heard."""
    heard: list[int] = []
    before = {number: signal.getsignal(number) for number in _BOTH}
    for number in _BOTH:
        signal.signal(number, lambda number, _: heard.append(number))
    yield heard
    for number, handler in before.items():
        signal.signal(number, handler)


def _send(number: int) -> None:
    os.kill(os.getpid(), number)
    signal.getsignal(number)  # a handler runs between two bytecodes: by now it has


class _Stops:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


@pytest.mark.parametrize("number", _BOTH)
def test_the_first_signal_stops(number: int, heard: list[int]) -> None:
    """It raises nothing, and the program's own handler is not called."""
    stops = _Stops()
    with stopping_on_signals(stops):
        _send(number)
    assert (1, []) == (stops.count, heard)


@pytest.mark.parametrize("first", _BOTH)
@pytest.mark.parametrize("second", _BOTH)
def test_the_second_signal_does_what_it_did_before(
    first: int, second: int, heard: list[int]
) -> None:
    """Whoever presses Ctrl-C twice means it: both signals are the program's own again."""
    stops = _Stops()
    with stopping_on_signals(stops):
        _send(first)
        _send(second)
    assert (1, [second]) == (stops.count, heard)


@pytest.mark.parametrize("number", _BOTH)
def test_after_it_signals_are_what_they_were(number: int, heard: list[int]) -> None:
    """The program's own handlers are back, after an exception too."""
    before = [signal.getsignal(one) for one in _BOTH]
    with pytest.raises(LookupError), stopping_on_signals(_Stops()):
        raise LookupError
    assert before == [signal.getsignal(one) for one in _BOTH]
    _send(number)
    assert [number] == heard


def test_nested_the_inner_one_stops_first(heard: list[int]) -> None:
    """A consumer run inside another's handler: each signal stops one, from the inside."""
    inner, outer, seen = _Stops(), _Stops(), []
    with stopping_on_signals(outer), stopping_on_signals(inner):
        for _ in range(3):
            _send(signal.SIGTERM)
            seen.append((inner.count, outer.count, len(heard)))
    assert [(1, 0, 0), (1, 1, 0), (1, 1, 1)] == seen


def test_in_another_thread_nothing_is_changed(heard: list[int]) -> None:
    """Python allows handlers in the main thread only; elsewhere someone has to call `stop`."""
    inside, leave, stops = threading.Event(), threading.Event(), _Stops()

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
    assert (0, [signal.SIGTERM]) == (stops.count, heard)
