"""What becomes of a failed message is exactly what the user chose."""

from typing import get_args

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from linear_retry import RetryAfter, Strategy
from linear_retry.errors import UsageError
from linear_retry.retry.decision import (
    MIN_DEFER_S,
    Decision,
    Defer,
    Failure,
    OnExhausted,
    OnPermanent,
    Permanent,
    Policy,
    Publish,
    Skip,
    Stop,
    Transient,
    Wait,
    classify,
    decide,
)

_ERROR = OSError("down")
_DLQ = "orders.dlq"
_on_exhausted = st.sampled_from(get_args(OnExhausted))
_on_permanent = st.sampled_from(get_args(OnPermanent))
_delays_s = st.lists(st.integers(0, 7 * 86_400_000).map(lambda ms: ms / 1000), max_size=6)
_asked_s = st.floats(0, 3600)


def _is_os_error(error: BaseException) -> bool:
    return isinstance(error, OSError)


@pytest.mark.parametrize(
    ("failures", "asked_s", "delay_s"),
    [
        (1, 0.0, 1.0),  # the first wait
        (2, 0.0, 5.0),  # the last one
        (1, 0.5, 1.0),  # asked for less
        (1, 1.0, 1.0),  # asked for as much
        (1, 60.0, 60.0),  # asked for more
        (2, 60.0, 60.0),
    ],
)
@pytest.mark.parametrize("on_exhausted", get_args(OnExhausted))
@pytest.mark.parametrize("on_permanent", get_args(OnPermanent))
def test_it_waits_as_long_as_the_strategy_lasts(
    failures: int,
    asked_s: float,
    delay_s: float,
    on_exhausted: OnExhausted,
    on_permanent: OnPermanent,
) -> None:
    """Until the strategy ends a transient failure waits, whatever is chosen for afterwards."""
    policy = Policy(Strategy([1, 5]), on_exhausted, on_permanent, dead_letters=_DLQ)
    assert Wait(delay_s) == decide(Transient(asked_s), failures, policy)


@pytest.mark.parametrize("failures", [3, 4, 1000])
@pytest.mark.parametrize("asked_s", [0.0, 60.0])
@pytest.mark.parametrize(
    ("on_exhausted", "asked_nothing", "asked_a_minute"),
    [
        ("dead-letter", Publish(_DLQ, "exhausted"), Publish(_DLQ, "exhausted")),
        ("stop", Stop("exhausted"), Stop("exhausted")),
        ("repeat", Wait(5.0), Wait(60.0)),
    ],
)
@pytest.mark.parametrize("on_permanent", get_args(OnPermanent))
def test_after_the_end_of_the_strategy_the_choice_holds(
    failures: int,
    asked_s: float,
    on_exhausted: OnExhausted,
    asked_nothing: Decision,
    asked_a_minute: Decision,
    on_permanent: OnPermanent,
) -> None:
    """Behind the last delay `on_exhausted` decides, and `RetryAfter` does not put it off."""
    policy = Policy(Strategy([1, 5]), on_exhausted, on_permanent, dead_letters=_DLQ)
    expected = asked_a_minute if asked_s else asked_nothing
    assert expected == decide(Transient(asked_s), failures, policy)


@pytest.mark.parametrize("failures", [1, 2, 3, 1000])
@pytest.mark.parametrize("delays_s", [[], [1, 5]])
@pytest.mark.parametrize("on_exhausted", get_args(OnExhausted))
@pytest.mark.parametrize(
    ("on_permanent", "expected"),
    [("dead-letter", Publish(_DLQ, "permanent")), ("skip", Skip()), ("stop", Stop("permanent"))],
)
def test_a_permanent_error_never_waits(
    failures: int,
    delays_s: list[float],
    on_exhausted: OnExhausted,
    on_permanent: OnPermanent,
    expected: Decision,
) -> None:
    """What cannot succeed is decided by `on_permanent` alone, at any number of failures."""
    policy = Policy(Strategy(delays_s), on_exhausted, on_permanent, dead_letters=_DLQ)
    assert expected == decide(Permanent(), failures, policy)


@pytest.mark.parametrize("on_exhausted", get_args(OnExhausted))
@pytest.mark.parametrize("on_permanent", get_args(OnPermanent))
def test_dead_letters_are_needed_where_either_choice_names_them(
    on_exhausted: OnExhausted, on_permanent: OnPermanent
) -> None:
    """A policy needs a dead-letter topic exactly if one of its choices may use it."""
    policy = Policy(Strategy([1]), on_exhausted, on_permanent)
    ends = [decide(failure, 2, policy) for failure in (Transient(), Permanent())]
    assert any(isinstance(end, Publish) for end in ends) == policy.needs_dead_letters


@given(_delays_s, st.integers(1, 10), _on_exhausted, _on_permanent, _asked_s, st.floats(0, 1))
def test_a_wait_is_never_shorter_than_asked(
    delays_s: list[float],
    failures: int,
    on_exhausted: OnExhausted,
    on_permanent: OnPermanent,
    asked_s: float,
    jitter: float,
) -> None:
    """No wait is below the strategy's own delay, nor below what the handler asked for."""
    strategy = Strategy(delays_s, jitter=jitter)
    assume(delays_s or on_exhausted != "repeat")  # refused at construction
    policy = Policy(strategy, on_exhausted, on_permanent)
    decision = decide(Transient(asked_s), failures, policy, lambda: 0.5)
    if isinstance(decision, Wait):
        own_s = strategy.delay_s(min(failures, len(strategy)))
        assert own_s is not None
        assert decision.delay_s >= max(own_s, asked_s)
    else:
        assert len(strategy) < failures


@given(_delays_s.filter(bool), st.integers(1, 10**9), _asked_s)
def test_repeat_never_ends(delays_s: list[float], failures: int, asked_s: float) -> None:
    """With `on_exhausted="repeat"` a transient failure waits, behind the end as long as last."""
    strategy = Strategy(delays_s)
    own_s = strategy.delay_s(min(failures, len(strategy)))
    assert own_s is not None
    decision = decide(Transient(asked_s), failures, Policy(strategy, "repeat"))
    assert Wait(max(own_s, asked_s)) == decision


@given(_delays_s, _on_exhausted.filter(lambda choice: choice != "repeat"))
def test_a_message_waits_exactly_as_often_as_there_are_delays(
    delays_s: list[float], on_exhausted: OnExhausted
) -> None:
    """The dead letter, or the stop, comes with failure n + 1 of n delays: not before, not after."""
    policy = Policy(Strategy(delays_s), on_exhausted)
    decisions = [decide(Transient(), k, policy) for k in range(1, len(delays_s) + 2)]
    assert [True] * len(delays_s) + [False] == [isinstance(one, Wait) for one in decisions]


@given(st.floats(0, 1), st.floats(0, 1, exclude_max=True))
def test_jitter_only_lengthens(jitter: float, drawn: float) -> None:
    """The dice make a wait longer by up to the jitter's share, also where it is repeated."""
    policy = Policy(Strategy([10], jitter=jitter), "repeat")
    for failures in (1, 2):
        decision = decide(Transient(), failures, policy, lambda: drawn)
        assert isinstance(decision, Wait)
        assert 10 <= decision.delay_s <= 10 * (1 + jitter)


_elapsed_s = st.integers(0, 10 * 86_400_000).map(lambda ms: ms / 1000)
_limits_s = st.integers(1, 7 * 86_400_000).map(lambda ms: ms / 1000)


@given(
    st.lists(st.integers(0, 5000).map(lambda ms: ms / 1000), min_size=1, max_size=6),
    st.integers(1, 7),
    st.integers(1, 9000).map(lambda ms: ms / 1000),
    st.integers(0, 9000).map(lambda ms: ms / 1000),
    st.sampled_from([0.0, 0.0, 3.0]),
    st.floats(0, 1),
)
def test_no_retry_begins_later_than_max_elapsed(
    delays_s: list[float],
    failures: int,
    limit_s: float,
    elapsed_s: float,
    asked_s: float,
    jitter: float,
) -> None:
    """It waits exactly where it would without the limit and the retry comes in time for it."""
    failure = Transient(asked_s)
    unlimited = Policy(Strategy(delays_s, jitter=jitter), dead_letters=_DLQ)
    without = decide(failure, failures, unlimited, lambda: 0.5)
    policy = Policy(Strategy(delays_s, jitter=jitter, max_elapsed=limit_s), dead_letters=_DLQ)
    decision = decide(failure, failures, policy, lambda: 0.5, elapsed_s=elapsed_s)
    if isinstance(without, Wait) and elapsed_s + without.delay_s > limit_s + 1e-5:
        assert Publish(_DLQ, "exhausted") == decision
    elif not isinstance(without, Wait) or elapsed_s + without.delay_s < limit_s - 1e-5:
        assert without == decision


@pytest.mark.parametrize(
    ("elapsed_s", "asked_s", "expected"),
    [
        (0.0, 0.0, Wait(0.1)),
        (0.2, 0.0, Wait(0.1)),  # 0.2 + 0.1 is more than 0.3
        (0.201, 0.0, Publish(_DLQ, "exhausted")),
        (0.0, 0.3, Wait(0.3)),
        (0.0, 0.301, Publish(_DLQ, "exhausted")),  # `RetryAfter` does not put it off
        (3600.0, 0.0, Publish(_DLQ, "exhausted")),
    ],
)
def test_a_retry_at_the_very_end_of_max_elapsed_is_made(
    elapsed_s: float, asked_s: float, expected: Decision
) -> None:
    """The last moment is in time, whatever floats add up to; a millisecond later is not."""
    policy = Policy(Strategy([0.1], max_elapsed="300ms"), dead_letters=_DLQ)
    assert expected == decide(Transient(asked_s), 1, policy, elapsed_s=elapsed_s)


@given(_elapsed_s, _limits_s, _on_permanent)
def test_max_elapsed_is_not_for_permanent_errors(
    elapsed_s: float, limit_s: float, on_permanent: OnPermanent
) -> None:
    """They never waited, so time decides nothing about them."""
    policy = Policy(Strategy([1], max_elapsed=limit_s), "stop", on_permanent)
    failure = Permanent()
    assert decide(failure, 1, policy) == decide(failure, 1, policy, elapsed_s=elapsed_s)


def test_a_letter_after_max_elapsed_is_held_back_like_any() -> None:
    """The limit of dead letters in a row comes after the time limit: its wait is not cut."""
    policy = Policy(Strategy([1], max_elapsed=1), letter_limit=1)
    decision = decide(Transient(), 1, policy, elapsed_s=60.0, consecutive=1)
    assert Defer(MIN_DEFER_S, 1) == decision


_failures = st.one_of(_asked_s.map(lambda asked_s: Transient(asked_s)), st.just(Permanent()))


@given(
    _failures,
    _delays_s,
    st.integers(1, 10),
    _on_exhausted,
    _on_permanent,
    st.integers(1, 5),
    st.integers(0, 10),
)
def test_the_limit_turns_letters_into_waits_and_nothing_else(
    failure: Failure,
    delays_s: list[float],
    failures: int,
    on_exhausted: OnExhausted,
    on_permanent: OnPermanent,
    limit: int,
    letters: int,
) -> None:
    """A letter is held back exactly where the limit is reached; nothing else heeds the limit."""
    assume(delays_s or on_exhausted != "repeat")  # refused at construction
    strategy = Strategy(delays_s)
    without = decide(failure, failures, Policy(strategy, on_exhausted, on_permanent))
    policy = Policy(strategy, on_exhausted, on_permanent, limit)
    decision = decide(failure, failures, policy, consecutive=letters)
    held_back = isinstance(without, Publish) and letters >= limit
    assert held_back == isinstance(decision, Defer)
    assert held_back or without == decision


@pytest.mark.parametrize(
    ("delays_s", "failure", "delay_s"),
    [
        ([], Permanent(), 30.0),
        ([1, 5], Permanent(), 30.0),
        ([1, 300], Permanent(), 300.0),
        ([300, 1], Permanent(), 30.0),
        ([1, 5], Transient(3.0), 30.0),
        ([1, 5], Transient(90.0), 90.0),
        ([1, 300], Transient(90.0), 300.0),
    ],
    ids=repr,
)
def test_what_is_held_back_waits_for_the_last_delay_or_half_a_minute(
    delays_s: list[float], failure: Failure, delay_s: float
) -> None:
    """The longest of the strategy's last delay, half a minute, and what the handler asked for."""
    policy = Policy(Strategy(delays_s), letter_limit=1)
    assert Defer(delay_s, 1) == decide(failure, 3, policy, consecutive=1)


@pytest.mark.parametrize(("limit", "delay_s"), [("5m", 300.0), ("2h", 3600.0), ("5s", 30.0)])
def test_what_is_held_back_waits_no_longer_than_max_elapsed(limit: str, delay_s: float) -> None:
    """A last delay that is never waited for otherwise is not waited for here."""
    policy = Policy(Strategy([1, "1h"], max_elapsed=limit), letter_limit=1)
    assert Defer(delay_s, 1) == decide(Transient(), 3, policy, consecutive=1)


@given(_delays_s, st.floats(0, 1), st.floats(0, 1, exclude_max=True))
def test_what_is_held_back_never_waits_for_less_than_half_a_minute(
    delays_s: list[float], jitter: float, drawn: float
) -> None:
    """Neither for less than half a minute, nor for less than the last delay, jitter or not."""
    policy = Policy(Strategy(delays_s, jitter=jitter), letter_limit=1)
    decision = decide(Permanent(), 1, policy, lambda: drawn, consecutive=1)
    assert isinstance(decision, Defer)
    assert decision.delay_s >= max([MIN_DEFER_S, *delays_s[-1:]])


@pytest.mark.parametrize(
    ("failure", "delay_s"),
    [(Permanent(), 2.0), (Transient(3.0), 3.0)],
    ids=repr,
)
def test_a_hold_of_ones_own_counts(failure: Failure, delay_s: float) -> None:
    """It takes the place of the last delay, shorter or longer; the handler may ask for more."""
    policy = Policy(Strategy([1, 300]), letter_limit=1, hold_s=2.0)
    assert Defer(delay_s, 1) == decide(failure, 3, policy, consecutive=1)


_down, _bug = OSError("down"), KeyError("bug")
_group, _nested = (
    ExceptionGroup("", [_down, _down]),
    ExceptionGroup("", [ExceptionGroup("", [_down])]),
)
_mixed = ExceptionGroup("", [_down, ExceptionGroup("", [_bug])])
_asking = ExceptionGroup("", [RetryAfter(3), ExceptionGroup("", [_down, RetryAfter(7)])])
_asking_bug = ExceptionGroup("", [RetryAfter(3), _bug])
_retry_after = RetryAfter(30)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (_down, Transient()),
        (_bug, Permanent()),
        (_retry_after, Transient(30.0)),
        (_group, Transient()),
        (_nested, Transient()),
        (_mixed, Permanent()),
        (_asking, Transient(7.0)),
        (_asking_bug, Permanent()),
    ],
    ids=repr,
)
def test_a_group_is_transient_where_all_its_leaves_are(error: Exception, expected: Failure) -> None:
    """One leaf that cannot succeed makes a group permanent; `RetryAfter` is transient unasked."""
    assert expected == classify(error, _is_os_error)


@given(
    st.recursive(
        st.sampled_from([_down, _bug, RetryAfter(5)]),
        lambda inner: st.lists(inner, min_size=1, max_size=3).map(
            lambda some: ExceptionGroup("", some)
        ),
        max_leaves=8,
    )
)
def test_the_order_and_the_nesting_of_a_group_do_not_matter(error: Exception) -> None:
    """Whether a group is transient is said by the set of its leaves."""
    permanent = error is _bug or (
        isinstance(error, ExceptionGroup) and error.subgroup(KeyError) is not None
    )
    assert permanent == isinstance(classify(error, _is_os_error), Permanent)


def test_a_predicate_that_raises() -> None:
    """Decides nothing: neither a letter, nor a wait, and what it raised is the cause."""
    bug = LookupError("bug in the predicate")

    def broken(error: BaseException) -> bool:
        raise bug

    with pytest.raises(UsageError, match="bug in the predicate") as caught:
        classify(_down, broken)
    assert bug is caught.value.__cause__


def test_a_group_that_is_nested_too_deep_for_recursion() -> None:
    """A client that wraps what it caught once more at each try is no bug of `transient`. The bug:
    `run` ended with a UsageError that blamed it."""
    error: Exception = _down
    for _ in range(2000):
        error = ExceptionGroup("again", [error])
    assert Transient() == classify(error, _is_os_error)


def test_a_group_that_has_one_error_many_times() -> None:
    """Each error is asked about once: a group of groups that share theirs has 2^60 paths."""
    asked: list[BaseException] = []
    error: Exception = _down
    for _ in range(60):
        error = ExceptionGroup("twice", [error, error])

    def is_transient(leaf: BaseException) -> bool:
        asked.append(leaf)
        return True

    classify(error, is_transient)
    assert [_down] == asked
