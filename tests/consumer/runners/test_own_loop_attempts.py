"""What comes of a message, for each way to leave the body of the user's own loop."""

from collections.abc import Callable, Generator
from typing import Any

import pytest

from linear_retry import (
    Attempt,
    ExhaustedError,
    PermanentError,
    Strategy,
    UsageError,
    events,
)
from linear_retry.kafka import Message
from tests.consumer.group import OutageError, PoisonError
from tests.consumer.runners.own_life import OwnLife, raising
from tests.fake.cluster import FakeKafka


def waits_s(life: OwnLife) -> list[float]:
    """How long each failure was waited for."""
    kinds = (events.CircuitOpened, events.ProbeFailed)
    return [event.delay_s for event in life.events if isinstance(event, kinds)]


def test_the_end_of_the_body_is_success(fake: FakeKafka) -> None:
    """Each message comes once, in order; at the end all is committed, and the group left."""
    life = OwnLife(fake)
    with life.consumer:
        life.loop(6)
    assert (6, 6, True) == (life.done, life.committed, life.closed)
    assert [] == life.violations(finished=True)


def test_an_exception_is_a_failure(fake: FakeKafka) -> None:
    """Transient: the same message again at `retry_at`; permanent: a letter; the loop goes on."""
    life = OwnLife(fake)
    act = raising({2: OutageError(), 3: OutageError(), 5: PoisonError()}, life)
    with life.consumer:
        attempts = life.loop(8, act)
    assert [1.0, 5.0] == waits_s(life)
    assert (5, 1, 6) == (life.done, life.letters, life.committed)
    assert [1, 1, 2, 3, 1, 1, 1, 1] == [attempt.number for attempt in attempts]
    assert [] == life.violations(finished=True)


def test_a_letter_is_acknowledged_before_the_next_attempt(fake: FakeKafka) -> None:
    """`next` sends the letter of the last attempt, and waits for it."""
    fake.faults.delivery_s = 2.0
    life, letters = OwnLife(fake), []

    def act(_: Message) -> None:
        letters.append((len(life.emitted(events.DeadLettered)), life.letters))
        if len(letters) == 1:
            raise PoisonError

    with life.consumer:
        life.loop(3, act)
    assert [(0, 0), (1, 1), (1, 1)] == letters
    assert [] == life.violations()


_STOPPING: pytest.MarkDecorator = pytest.mark.parametrize(
    ("choice", "error", "expected", "failures"),
    [
        ({"on_exhausted": "stop", "strategy": Strategy([])}, OutageError(), ExhaustedError, 1),
        ({"on_permanent": "stop"}, PoisonError(), PermanentError, 1),
    ],
    ids=["exhausted", "permanent"],
)


@_STOPPING
def test_stop_is_raised_by_the_next(
    fake: FakeKafka, choice: Any, error: Exception, expected: Any, failures: int
) -> None:
    """`"stop"`: asking for the next raises, with place and cause; nothing is committed past it."""
    life = OwnLife(fake, **choice)
    with pytest.raises(expected) as caught, life.consumer:
        life.loop(6, raising({3: error}, life))
    assert (3, 2, True) == (len(life.begun), life.committed, life.closed)
    place = (caught.value.partition, caught.value.offset, caught.value.failures)
    assert (*life.begun[2], failures) == place
    assert error is caught.value.__cause__
    assert [] == life.violations()


@_STOPPING
def test_stop_is_raised_by_close(
    fake: FakeKafka, choice: Any, error: Exception, expected: Any, failures: int
) -> None:
    """Where no next is asked for, `close` raises it, and has closed all the same."""
    life = OwnLife(fake, **choice)
    for attempt in life.consumer:
        with attempt as message:
            life.handle(message, raising({2: error}, life))
        if attempt.error is not None:
            break
    with pytest.raises(expected) as caught:
        life.consumer.close()
    assert error is caught.value.__cause__
    assert failures == caught.value.failures
    assert (1, True) == (life.committed, life.closed)
    life.consumer.close()
    assert [] == life.violations()


def test_what_close_raises_never_masks_the_body(fake: FakeKafka) -> None:
    """Leaving the consumer's `with` by an exception: it goes on, with a note of the other."""
    life = OwnLife(fake, on_permanent="stop")

    def loop() -> None:
        for attempt in life.consumer:
            with attempt as message:
                life.handle(message, raising({1: PoisonError()}, life))
            raise LookupError

    with pytest.raises(LookupError) as caught, life.consumer:
        loop()
    (note,) = caught.value.__notes__
    assert "on_permanent" in note
    assert (0, True) == (life.committed, life.closed)


def test_fail_is_failure_without_an_exception(fake: FakeKafka) -> None:
    """`fail` classifies its error like a raised one; the body runs to its end."""
    life = OwnLife(fake)
    coming = iter([OutageError(), None, PoisonError(), None, None, None, None])
    ended = 0
    with life.consumer:
        for attempt in life.consumer:
            with attempt:
                error = next(coming)
                if error is not None:
                    attempt.fail(error)
                ended += 1
                if ended == 7:
                    life.consumer.stop()
            assert error is attempt.error
    assert ([1.0], 1, 6) == (waits_s(life), life.letters, life.committed)


@pytest.mark.parametrize(
    ("first", "then", "waits", "letters"),
    [(PoisonError(), OutageError(), [1.0], 0), (OutageError(), PoisonError(), [], 1)],
    ids=["then transient", "then permanent"],
)
@pytest.mark.parametrize("raises", [True, False], ids=["raised", "failed again"])
def test_the_last_error_counts(
    fake: FakeKafka,
    first: Exception,
    then: Exception,
    waits: list[float],
    letters: int,
    raises: bool,
) -> None:
    """An error that is raised after `fail`, or given to another `fail`, is what it failed with."""
    life = OwnLife(fake)
    with life.consumer:
        for attempt in life.consumer:
            with attempt:
                attempt.fail(first)
                if raises:
                    raise then
                attempt.fail(then)
            life.consumer.stop()
    assert (waits, letters) == (waits_s(life), life.letters)


def test_an_interrupt_after_fail(fake: FakeKafka) -> None:
    """What is no `Exception` leaves the message undecided, whatever was said before."""
    life = OwnLife(fake)

    def loop() -> None:
        for attempt in life.consumer:
            with attempt:
                attempt.fail(PoisonError())
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), life.consumer:
        loop()
    assert (0, 0, []) == (life.letters, life.committed, waits_s(life))


def test_fail_outside_the_with(fake: FakeKafka) -> None:
    """Refused before entering and after leaving; what was decided stays."""
    life = OwnLife(fake)
    with life.consumer:
        for attempt in life.consumer:
            with pytest.raises(UsageError, match="outside its with"):
                attempt.fail(PoisonError())
            with attempt as message:
                life.handle(message)
                life.stop_after(2)
            with pytest.raises(UsageError, match="outside its with"):
                attempt.fail(PoisonError())
    assert (2, 0, 2) == (life.done, life.letters, life.committed)
    assert [] == life.violations()


@pytest.mark.parametrize("error", [OSError, "down", None, KeyboardInterrupt()], ids=repr)
def test_fail_with_what_is_no_exception(fake: FakeKafka, error: Any) -> None:
    """Refused: a class, a text and an interrupt say nothing that could be classified."""
    life = OwnLife(fake)
    with life.consumer:
        for attempt in life.consumer:
            with attempt:
                with pytest.raises(UsageError, match="instance of Exception"):
                    attempt.fail(error)
                attempt.fail(OutageError())
            life.consumer.stop()
    assert [1.0] == waits_s(life)


def _by_break(life: OwnLife) -> None:
    for attempt in life.consumer:
        with attempt as message:
            life.handle(message)
            break


def _by_return(life: OwnLife) -> None:
    for attempt in life.consumer:
        with attempt as message:
            life.handle(message)
            return


def _by_continue(life: OwnLife) -> None:
    for attempt in life.consumer:
        with attempt as message:
            life.handle(message)
            life.consumer.stop()
            continue


def _by_break_behind_it(life: OwnLife) -> None:
    for attempt in life.consumer:
        with attempt as message:
            life.handle(message)
        break


def _by_return_behind_it(life: OwnLife) -> None:
    for attempt in life.consumer:
        with attempt as message:
            life.handle(message)
        return


@pytest.mark.parametrize(
    "leave",
    [_by_break, _by_return, _by_continue, _by_break_behind_it, _by_return_behind_it],
    ids=lambda leave: leave.__name__,
)
def test_leaving_without_an_exception_is_success(
    fake: FakeKafka, leave: Callable[[OwnLife], None]
) -> None:
    """`break`, `return` and `continue` too, inside the `with` or behind it: the message is done."""
    life = OwnLife(fake)
    with life.consumer:
        leave(life)
    assert (1, 1, True) == (life.done, life.committed, life.closed)
    assert [] == life.violations()


def test_a_second_loop_goes_on_where_the_first_stopped(fake: FakeKafka) -> None:
    """After a `break` no message comes twice, none is left out, and the batch is still there."""
    life = OwnLife(fake)
    with life.consumer:
        for _ in range(4):
            for attempt in life.consumer:
                with attempt as message:
                    life.handle(message)
                break
        life.loop(6)
    assert (6, 6) == (life.done, life.committed)
    assert [] == [entry for entry in fake.log if entry[2] == "seek"]
    assert [] == life.violations(finished=True)


def test_a_second_loop_applies_what_the_first_left(fake: FakeKafka) -> None:
    """A failure that was left by `break` is waited for by the next loop."""
    life = OwnLife(fake)
    act = raising({2: OutageError()}, life)
    with life.consumer:
        for attempt in life.consumer:
            with attempt as message:
                life.handle(message, act)
            if attempt.error is not None:
                break
        assert [] == waits_s(life)
        life.loop(7, act)
    assert [1.0] == waits_s(life)
    assert [] == life.violations(finished=True)


@pytest.mark.parametrize(("behind", "committed"), [(False, 0), (True, 1)])
def test_an_exception_outside_the_with(fake: FakeKafka, behind: bool, committed: int) -> None:
    """It passes through: before entering, the message is not done; after leaving, it is."""
    life = OwnLife(fake)

    def loop() -> None:
        for attempt in life.consumer:
            if not behind:
                raise LookupError
            with attempt as message:
                life.handle(message)
            raise LookupError

    with pytest.raises(LookupError), life.consumer:
        loop()
    assert (committed, True) == (life.committed, life.closed)
    assert [] == life.violations()


def _interrupting(life: OwnLife, error: BaseException) -> None:
    life.loop(6, raising({4: error}, life))


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_is_no_exception_passes_through(fake: FakeKafka, error: type[BaseException]) -> None:
    """What was done before is committed; the message itself is not done, and has not failed."""
    life = OwnLife(fake)
    with pytest.raises(error), life.consumer:
        _interrupting(life, error())
    assert (3, 0, []) == (life.committed, life.letters, waits_s(life))
    assert [] == life.violations()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_a_loop_after_an_interrupt(fake: FakeKafka, error: type[BaseException]) -> None:
    """Whoever catches it and goes on gets the same message, as the same attempt."""
    life = OwnLife(fake)
    with life.consumer:
        with pytest.raises(error):
            _interrupting(life, error())
        attempts = life.loop(7)
    assert (life.begun[3], 1) == (life.begun[4], attempts[0].number)
    assert [] == life.violations(finished=True)


def test_an_interrupted_probe_is_made_again(fake: FakeKafka) -> None:
    """A held message whose attempt was interrupted stays held, with its count."""
    life = OwnLife(fake)
    act = raising({1: OutageError(), 2: KeyboardInterrupt()}, life)
    with life.consumer:
        with pytest.raises(KeyboardInterrupt):
            life.loop(9, act)
        attempts = life.loop(8, act)
    assert ([1.0], 2) == (waits_s(life), attempts[0].number)
    assert [] == life.violations(finished=True)


@pytest.mark.parametrize(("inside", "committed"), [(True, 1), (False, 2)])
def test_a_generator_that_is_closed(fake: FakeKafka, inside: bool, committed: int) -> None:
    """Closed inside the `with` the message is not done; behind it, it is."""
    life = OwnLife(fake)

    def values() -> Generator[bytes | None]:
        with life.consumer:
            for attempt in life.consumer:
                with attempt as message:
                    life.handle(message)
                    value = message.value()
                    if inside:
                        yield value
                if not inside:
                    yield value

    generator = values()
    next(generator)
    next(generator)
    generator.close()
    assert (committed, True) == (life.committed, life.closed)


def test_the_next_without_entering_the_last(fake: FakeKafka) -> None:
    """Refused as often as it is tried, and never a success; entering it makes it good."""
    life = OwnLife(fake)
    with life.consumer:
        attempt = next(life.consumer)
        for _ in range(2):
            with pytest.raises(UsageError, match="was not entered"):
                next(life.consumer)
        with pytest.raises(UsageError, match="was not entered"):
            life.loop(1)
        with attempt as message:
            life.handle(message)
        life.loop(3)
    assert (3, 3) == (life.done, life.committed)
    assert [] == life.violations()


def test_a_body_that_forgets_the_with(fake: FakeKafka) -> None:
    """It ends at its second message, and nothing is committed."""
    life = OwnLife(fake)
    with pytest.raises(UsageError, match="with attempt as message"), life.consumer:
        for _ in life.consumer:
            pass
    assert (0, True) == (life.committed, life.closed)


@pytest.mark.parametrize("failing", [False, True])
def test_the_next_inside_the_with(fake: FakeKafka, failing: bool) -> None:
    """Refused, after `fail` too; caught, it changes nothing."""
    life = OwnLife(fake)
    with life.consumer:
        for attempt in life.consumer:
            with attempt as message:
                if failing:
                    attempt.fail(OutageError())
                with pytest.raises(UsageError, match="was not left"):
                    next(life.consumer)
                life.handle(message)
            life.consumer.stop()
    assert ([1.0], 0) == (waits_s(life), life.committed) if failing else ([], 1)


@pytest.mark.parametrize("failing", [False, True])
def test_another_loop_inside_the_with(fake: FakeKafka, failing: bool) -> None:
    """It begins with the same message, of which nothing is decided; what was done around it is
    refused, and nothing is lost."""
    life, attempts = OwnLife(fake), list[Attempt]()

    def nest() -> None:
        for attempt in life.consumer:
            attempts.append(attempt)
            with attempt:
                if failing:
                    attempt.fail(OutageError())
                life.loop(3)

    with life.consumer, pytest.raises(UsageError, match="another loop was started"):
        nest()
    assert ["overtaken"] == [attempt.state for attempt in attempts]
    assert (3, 3) == (life.done, life.committed)


def test_entering_twice(fake: FakeKafka) -> None:
    """Refused while it is entered, and once it was left."""
    life = OwnLife(fake)
    with life.consumer:
        attempt = next(life.consumer)
        with attempt as message:
            with pytest.raises(UsageError, match="cannot be entered twice"), attempt:
                pytest.fail("entered twice")
            life.handle(message)
        with pytest.raises(UsageError, match="cannot be entered twice"), attempt:
            pytest.fail("entered twice")
    assert 1 == life.committed


def test_an_older_attempt(fake: FakeKafka) -> None:
    """One that came before the present one cannot be entered again."""
    life = OwnLife(fake)
    with life.consumer:
        attempts = life.loop(2)
        with pytest.raises(UsageError, match="cannot be entered twice"), attempts[0]:
            pytest.fail("entered twice")
    assert [] == life.violations()


def test_leaving_what_was_not_entered(fake: FakeKafka) -> None:
    """Calling `__exit__` by hand makes no success of it."""
    life = OwnLife(fake)
    with life.consumer:
        attempt = next(life.consumer)
        attempt.__exit__(None, None, None)
        with pytest.raises(UsageError, match="was not entered"):
            next(life.consumer)
    assert 0 == life.committed


def test_an_attempt_says_what_and_where_it_is(fake: FakeKafka) -> None:
    """Its `repr` has place, number and state: for whoever debugs."""
    life = OwnLife(fake)
    with life.consumer:
        attempt: Attempt = next(life.consumer)
        assert "<attempt 1 of orders[0]@0, offered>" == repr(attempt)
        with attempt:
            attempt.fail(OutageError())
        assert ("failed", OutageError) == (attempt.state, type(attempt.error))


def test_an_attempt_without_an_inbox_has_no_transaction(fake: FakeKafka) -> None:
    """The sentence says how to have one."""
    life = OwnLife(fake)
    with life.consumer:
        attempt = next(life.consumer)
        with pytest.raises(UsageError, match=r"inbox=Inbox\(engine\)"):
            _ = attempt.transaction
