"""The user's own loop: stop, close, threads and signals around its body."""

import os
import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from linear_retry import Attempt, BrokerError, FencedError, HandlerTooSlowError, UsageError, events
from linear_retry.kafka import Message
from tests.consumer.group import LETTERS, TOPIC, OutageError, PoisonError
from tests.consumer.runners.async_life import NAME
from tests.consumer.runners.own_life import OwnLife, raising
from tests.fake.cluster import FakeKafka
from tests.fake.topic import Headers

_BOTH = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in _BOTH}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def in_another_thread(call: Callable[[], object]) -> list[UsageError]:
    """Call it, wait for its end; what it was refused with."""
    raised: list[UsageError] = []

    def there() -> None:
        try:
            call()
        except UsageError as error:
            raised.append(error)

    thread = threading.Thread(target=there)
    thread.start()
    thread.join()
    return raised


@pytest.mark.parametrize(
    "how", [lambda stop: stop(), in_another_thread], ids=["here", "in another thread"]
)
def test_stop_ends_the_loop_after_the_message_in_hand(
    fake: FakeKafka, how: Callable[[Callable[[], None]], object]
) -> None:
    """The rest of the batch is not handed out, and asking again gives nothing."""
    life = OwnLife(fake)

    def act(_: Message) -> None:
        if len(life.begun) == 3:
            how(life.consumer.stop)

    with life.consumer:
        life.loop(6, act)
        life.loop(6, act)
    assert (3, 3) == (len(life.begun), life.committed)
    assert [] == life.violations()


def test_stop_before_the_loop(fake: FakeKafka) -> None:
    """Nothing is handed out."""
    life = OwnLife(fake)
    life.consumer.stop()
    with life.consumer:
        assert [] == list(life.consumer)


def test_stop_while_a_failed_message_waits(fake: FakeKafka) -> None:
    """The outcome of the last attempt is applied, and it is not attempted again."""
    life = OwnLife(fake)

    def act(_: Message) -> None:
        fake.clock.at(0.5, life.consumer.stop)
        raise OutageError

    with life.consumer:
        life.loop(6, act)
    assert (1, 0) == (len(life.begun), life.committed)
    assert 1 == len(life.emitted(events.CircuitOpened))
    assert [] == life.violations()


def test_iterating_a_closed_consumer(fake: FakeKafka) -> None:
    """A new loop is refused; one that was going on has ended."""
    life = OwnLife(fake)
    life.consumer.close()
    with pytest.raises(UsageError, match="closed"):
        iter(life.consumer)
    with pytest.raises(StopIteration):
        next(life.consumer)


def test_close_in_the_body(fake: FakeKafka) -> None:
    """The attempt's message is not done; its `with` is left quietly, and the loop ends."""
    life = OwnLife(fake)
    for attempt in life.consumer:
        with attempt as message:
            life.handle(message)
            if len(life.begun) == 3:
                life.consumer.close()
    assert ("withdrawn", 3, 2, True) == (attempt.state, life.done, life.committed, life.closed)


@pytest.mark.parametrize("fails", [False, True])
def test_an_exception_after_close_in_the_body(fake: FakeKafka, fails: bool) -> None:
    """It passes through, as nobody could apply it any more; said without raising, it is refused."""
    life = OwnLife(fake)
    attempt = next(life.consumer)

    def body() -> None:
        with attempt:
            life.consumer.close()
            if fails:
                attempt.fail(PoisonError())
            raise OutageError

    with pytest.raises(UsageError if fails else OutageError):
        body()
    assert ("withdrawn", 0, 0) == (attempt.state, life.letters, life.committed)


def test_entering_an_attempt_of_a_closed_consumer(fake: FakeKafka) -> None:
    """The bug: it could be entered, though its message may be another member's by then."""
    life = OwnLife(fake)
    attempt = next(life.consumer)
    life.consumer.close()
    with pytest.raises(UsageError, match="or after close"), attempt:
        pytest.fail("entered")


def test_close_by_another_thread(fake: FakeKafka) -> None:
    """It waits for the owner, who finishes the message in hand, and closes."""
    life, closed = OwnLife(fake), list[bool]()

    def close() -> None:
        life.consumer.close()
        closed.append(life.closed)

    thread = threading.Thread(target=close)
    with life.consumer:
        for attempt in life.consumer:
            with attempt as message:
                life.handle(message)
                if len(life.begun) == 3:
                    thread.start()
    thread.join()
    assert ([True], life.done) == (closed, life.committed)
    assert [] == life.violations()


def test_close_by_a_listener() -> None:
    """The loop ends. The bug: an attempt that was about to be offered then was handed out all the
    same, though the group had been left."""
    fake = FakeKafka(balanced=True)
    fake.create_topic(TOPIC, 1)
    fake.create_topic(LETTERS, 1)
    replayed: Headers = [
        ("retry-replay-id", b"r"),
        ("retry-group-id", b"shipping"),
        ("retry-destination", TOPIC.encode()),
    ]
    for headers in (None, replayed, None, None):
        fake.append(TOPIC, 0, headers=headers)

    def close(event: events.Event) -> None:
        if isinstance(event, events.PassedOver):
            life.consumer.close()

    life = OwnLife(fake, listeners=[close])
    life.loop(99)
    assert ([(0, 0)], 2, True) == (life.begun, life.committed, life.closed)
    assert [] == life.violations()


def test_leaving_after_the_owner_has_ended(fake: FakeKafka) -> None:
    """Another thread may go on where one that has ended stopped, in the midst of a batch too."""
    life = OwnLife(fake)

    def take_three() -> None:
        for attempt in life.consumer:
            with attempt as message:
                life.handle(message)
            if len(life.begun) == 3:
                return

    assert [] == in_another_thread(take_three)
    with life.consumer:
        life.loop(6)
    assert (6, 6) == (life.done, life.committed)
    assert [] == life.violations(finished=True)


@pytest.mark.parametrize("when", ["offered", "entered", "done"])
def test_the_next_in_another_thread(fake: FakeKafka, when: str) -> None:
    """Refused while the owner lives, in the midst of a batch too; the owner goes on unharmed."""
    life, refused = OwnLife(fake), list[UsageError]()

    def intrude(attempt: Attempt) -> None:
        if attempt.state == when:
            refused.extend(in_another_thread(lambda: next(life.consumer)))
            refused.extend(in_another_thread(lambda: [*life.consumer]))

    with life.consumer:
        for attempt in life.consumer:
            intrude(attempt)
            with attempt as message:
                intrude(attempt)
                life.handle(message)
                life.stop_after(6)
            intrude(attempt)
    assert (2 * 6, 6, 6) == (len(refused), life.done, life.committed)
    assert [] == life.violations(finished=True)


def test_after_a_fork(fake: FakeKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child gets no further turn. The bug: closing there applied what the parent's last
    attempt came to, so both sent its letter."""
    life, own = OwnLife(fake), os.getpid()
    for attempt in life.consumer:
        with attempt as message:
            life.handle(message, raising({1: PoisonError()}, life))
        break
    with monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: own + 1)
        with pytest.raises(UsageError, match="fork"):
            next(life.consumer)
        life.consumer.close()
    assert (0, False) == (life.letters, life.closed)


@pytest.mark.parametrize("inside", [True, False], ids=["inside the with", "behind it"])
def test_a_body_that_is_too_slow(fake: FakeKafka, inside: bool) -> None:
    """What counts is the time from poll to poll: nothing is stored, the third time is raised."""
    life = OwnLife(fake)

    def loop() -> None:
        for attempt in life.consumer:
            with attempt as message:
                life.handle(message, lambda _: fake.clock.advance(301 if inside else 0))
            fake.clock.advance(0 if inside else 301)

    with pytest.raises(HandlerTooSlowError), life.consumer:
        loop()
    assert (3, 0) == (len(life.emitted(events.HandlerTooSlow)), life.committed)


def test_a_long_pause_between_two_loops(fake: FakeKafka) -> None:
    """The batch that the first left is another's by then: it is not handed out from memory."""
    life = OwnLife(fake)
    with life.consumer:
        for attempt in life.consumer:
            with attempt as message:
                life.handle(message)
            if len(life.begun) == 3:
                break
        fake.clock.advance(301)
        life.loop(9)
    assert 1 == len(life.emitted(events.HandlerTooSlow))
    assert [] == life.violations()


def test_run_after_a_loop(fake: FakeKafka) -> None:
    """What the last attempt came to is applied first: its message is waited for.

    Where it is applied only at the end, its message is attempted again at once.
    """
    life = OwnLife(fake)
    begun_s: list[float] = []
    with life.consumer:
        for attempt in life.consumer:
            with attempt as message:
                life.handle(message, raising({2: OutageError()}, life))
            if attempt.error is not None:
                break

        def handler(message: Message) -> None:
            begun_s.append(fake.clock.now_s())
            life.handle(message)
            life.stop_after(7)

        left_at_s = fake.clock.now_s()

        life.consumer.run(handler)
    assert begun_s[0] - left_at_s >= 1.0
    assert [1.0] == [event.delay_s for event in life.emitted(events.CircuitOpened)]
    assert [] == life.violations(finished=True)


def test_a_loop_after_a_run_that_raised(fake: FakeKafka) -> None:
    """What a first loop had left in its batch is not handed out by a later one as well."""
    life = OwnLife(fake)
    with life.consumer:
        for attempt in life.consumer:
            with attempt as message:
                life.handle(message)
            if len(life.begun) == 2:
                break
        act = raising({4: KeyboardInterrupt()}, life)
        with pytest.raises(KeyboardInterrupt):
            life.consumer.run(lambda message: life.handle(message, act))
        life.loop(7)
    assert (6, 6) == (life.done, life.committed)
    assert [] == life.violations(finished=True)


@pytest.mark.parametrize("entered", [False, True])
def test_run_with_an_attempt_out(fake: FakeKafka, entered: bool) -> None:
    """Refused, in the body of the `with` and before it; the attempt is what it was."""
    life = OwnLife(fake)

    def refuse() -> None:
        with pytest.raises(UsageError, match="before the next was requested"):
            life.consumer.run(print)

    with life.consumer:
        attempt = next(life.consumer)
        if not entered:
            refuse()
        with attempt as message:
            if entered:
                refuse()
            life.handle(message)
    assert 1 == life.committed


def test_a_loop_within_the_handler_of_run(fake: FakeKafka) -> None:
    """Refused, whatever the handler makes of it."""
    life = OwnLife(fake)

    def handler(message: Message) -> None:
        with pytest.raises(UsageError, match="within its handler"):
            list(life.consumer)
        life.handle(message)
        life.stop_after(6)

    with life.consumer:
        life.consumer.run(handler)
    assert [] == life.violations(finished=True)


def test_two_loops_nested(fake: FakeKafka) -> None:
    """Each consumer has its own messages; the outer one's body may wait for the inner one."""
    other = FakeKafka(balanced=True)
    other.create_topic(TOPIC, 1)
    other.create_topic(LETTERS, 1)
    for _ in range(6):
        other.append(TOPIC, 0)
    outer, inner = OwnLife(fake), OwnLife(other)

    def take_one(_: Message) -> None:
        for attempt in inner.consumer:
            with attempt as message:
                inner.handle(message, raising({3: OutageError()}, inner))
            if attempt.error is None:
                return

    with outer.consumer, inner.consumer:
        outer.loop(6, take_one)
    assert (6, 6) == (outer.committed, inner.committed)
    assert [] == [*outer.violations(finished=True), *inner.violations(finished=True)]


def test_a_start_that_failed(fake: FakeKafka) -> None:
    """`BrokerError` out of the loop; a second one joins the group once the brokers are there."""
    fake.faults.brokers_down = True
    life = OwnLife(fake)
    with life.consumer:
        with pytest.raises(BrokerError):
            life.loop(6)
        fake.faults.brokers_down = False
        life.loop(6)
    assert [] == life.violations(finished=True)


def test_fenced(fake: FakeKafka) -> None:
    """Raised by the next, and by every next after it; nothing is committed."""
    life = OwnLife(fake)
    with life.consumer:
        with pytest.raises(FencedError):
            life.loop(6, lambda _: fake.fence(fake.consumers[0]))
        with pytest.raises(FencedError):
            life.loop(6)
    assert 0 == life.committed


def test_nothing_is_installed(fake: FakeKafka) -> None:
    """In the body the signals are the program's, and after the loop too."""
    before = [signal.getsignal(number) for number in _BOTH]
    life, seen = OwnLife(fake), []
    with life.consumer:
        life.loop(6, lambda _: seen.append([signal.getsignal(number) for number in _BOTH]))
    assert [before] * 7 == [*seen, [signal.getsignal(number) for number in _BOTH]]


def _in_s(life: OwnLife, seconds: float, number: int) -> None:
    """So long from now, which will be in the midst of a poll."""
    life.fake.clock.at(seconds, lambda: signal.raise_signal(number))


def test_ctrl_c_while_waiting(fake: FakeKafka) -> None:
    """`KeyboardInterrupt` out of the loop once the poll is over; a second loop waits on."""
    life = OwnLife(fake)
    act = raising({3: OutageError()}, life)
    with life.consumer:
        for attempt in life.consumer:
            with attempt as message:
                life.handle(message, act)
            if attempt.error is not None:
                break
        _in_s(life, 0.5, signal.SIGINT)
        begun_s = fake.clock.now_s()
        with pytest.raises(KeyboardInterrupt):
            life.loop(99)
        assert 0.5 <= fake.clock.now_s() - begun_s <= 1.0
        life.loop(7)
    assert [] == life.violations(finished=True)


def test_ctrl_c_as_a_message_comes(fake: FakeKafka) -> None:
    """The message is offered by the next loop: it reached nobody in this one."""
    life = OwnLife(fake)

    def both() -> None:
        fake.append(TOPIC, 0)
        signal.raise_signal(signal.SIGINT)

    def act(_: Message) -> None:
        if len(life.begun) == 6:
            fake.clock.at(0.3, both)

    with life.consumer:
        with pytest.raises(KeyboardInterrupt):
            life.loop(99, act)
        assert 6 == len(life.begun)
        life.loop(7)
    assert (7, 7) == (life.done, life.committed)
    assert [] == life.violations(finished=True)


def test_sigterm_wired_to_stop(fake: FakeKafka) -> None:
    """A handler of the program's that calls `stop` ends the loop."""
    life = OwnLife(fake)
    signal.signal(signal.SIGTERM, lambda *_: life.consumer.stop())
    with life.consumer:
        life.loop(99, lambda _: _in_s(life, 0.2, signal.SIGTERM))
    assert (6, 6) == (life.done, life.committed)


@pytest.mark.parametrize("number", _BOTH)
def test_a_signal_while_a_letter_is_awaited(fake: FakeKafka, number: int) -> None:
    """Out after a second. The bug: until nobody acknowledged the letter, signals were not heard,
    not even by a handler that calls `stop`."""
    fake.faults.delivery_s = 60.0
    life = OwnLife(fake)
    signal.signal(signal.SIGTERM, lambda *_: life.consumer.stop())
    begun_s = fake.clock.now_s()

    def act(_: Message) -> None:
        _in_s(life, 0.5, number)
        raise PoisonError

    def loop() -> None:
        with life.consumer:
            life.loop(99, act)

    if number == signal.SIGINT:
        with pytest.raises(KeyboardInterrupt):
            loop()
    else:
        loop()
    assert fake.clock.now_s() - begun_s < 3
    assert (1, 0) == (len(life.begun), life.committed)


def test_run_after_ctrl_c(fake: FakeKafka) -> None:
    """`run` waits for its letters as ever. The bug: it went on in the hurry of the interrupt, gave
    up each letter after a second, and called the handler with the same message again and again."""
    life = OwnLife(fake)

    def act(_: Message) -> None:
        if len(life.begun) == 6:
            _in_s(life, 0.2, signal.SIGINT)

    def refuse(_: Message) -> None:
        life.stop_after(8)
        raise PoisonError

    with life.consumer:
        with pytest.raises(KeyboardInterrupt):
            life.loop(99, act)
        fake.append(TOPIC, 0)
        fake.append(TOPIC, 0)
        fake.faults.delivery_s = 3.0
        life.consumer.run(life.witness.handler(NAME, refuse))
    assert [(0, 3), (0, 4)] == life.begun[6:]
    assert [] == life.violations()


def test_two_signals_in_one_poll(fake: FakeKafka) -> None:
    """Both are heard. The bug: where the first raised, the second was forgotten."""
    life, received = OwnLife(fake), []
    signal.signal(signal.SIGTERM, lambda number, _: received.append(number))

    def act(_: Message) -> None:
        if len(life.begun) == 6:
            _in_s(life, 0.2, signal.SIGINT)
            _in_s(life, 0.3, signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt), life.consumer:
        life.loop(99, act)
    assert [signal.SIGTERM] == received
    assert 6 == life.committed


def test_ctrl_c_in_the_body(fake: FakeKafka) -> None:
    """Raised where the body is: its message is not done."""
    life = OwnLife(fake)

    def act(_: Message) -> None:
        if len(life.begun) == 4:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), life.consumer:
        life.loop(99, act)
    assert (3, True) == (life.committed, life.closed)
    assert [] == life.violations()
