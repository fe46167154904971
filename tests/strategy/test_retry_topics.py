"""A message leaves the line for retry topics, and those behind it are attempted."""

from itertools import accumulate

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from linear_retry import Strategy, events
from linear_retry.consumer.dead_letters.retry_topics import RetryTopics
from linear_retry.errors import ConfigurationError
from linear_retry.retry.policy import Left, OnExhausted, Policy
from linear_retry.strategy.retry_topics import Journey, RetryTopicsSimulator
from linear_retry.strategy.simulation import GivenUp, Recovered
from tests.consumer.group import FakeGroup
from tests.strategy.test_schedule import attempts_ms, delays_ms, starts_ms
from tests.strategy.test_simulation import Outage, attempts_of

_SIMPLE, _STEPS = Strategy.named("simple"), Strategy.named("retry-topics")
steps_ms = st.lists(st.integers(0, 30_000), min_size=1, max_size=6)
outages_ms = st.integers(0, 200_000)


def _of_ms(waits_ms: list[int], limit_ms: int | None = None) -> Strategy:
    limit = None if limit_ms is None else f"{limit_ms}ms"
    return Strategy([f"{wait_ms}ms" for wait_ms in waits_ms], max_elapsed=limit)


def _through(outage: str, line: Strategy = _SIMPLE, then: Strategy = _STEPS) -> Journey:
    (outage_s,) = Strategy([outage])
    return RetryTopicsSimulator(Policy(line), then).through(round(outage_s * 1000))


def test_the_documents_example() -> None:
    """A dependency that is back after the second step: handled in the third; the line waits for
    thirty seconds at most."""
    journey = _through("12m")
    assert Recovered(7, 2_409_000, 1_689_000) == journey.message.ending
    assert (4, 20, True) == (journey.in_line, journey.left, journey.is_held)
    assert (729_000, 9_000) == (journey.line_back_ms, journey.line_idle_ms)


def test_a_dependency_that_never_comes_back() -> None:
    """After exactly as many retries as there are steps the message is a dead letter."""
    journey = _through("5h")
    assert isinstance(journey.message.ending, GivenUp)
    assert journey.in_line + len(_STEPS) == journey.message.ending.attempt
    assert 9_609_000 == journey.message.ending.at_ms


def test_what_recovers_in_the_line_never_leaves_it() -> None:
    """The blocking strategy is long enough: all that is behind waits for the same attempt."""
    journey = _through("8s")
    assert journey.message.ending.at_ms == journey.line_back_ms
    assert (0, False) == (journey.left, journey.is_held)


@given(delays_ms, steps_ms, attempts_ms, outages_ms, st.none() | st.integers(1, 100_000))
def test_the_steps_follow_the_delays_of_the_line(
    waits_ms: list[int],
    then_ms: list[int],
    attempt_ms: int,
    outage_ms: int,
    limit_ms: int | None,
) -> None:
    """As one strategy after the other, up to the time limit of the second; both limits count from
    the first failure."""
    assume(limit_ms is None or then_ms[0] <= limit_ms)
    whole = [0, *accumulate(wait_ms + attempt_ms for wait_ms in [*waits_ms, *then_ms])]
    in_line, last_ms = len(waits_ms) + 1, whole[-1] if limit_ms is None else attempt_ms + limit_ms
    starts = [at_ms for n, at_ms in enumerate(whole) if n < in_line or at_ms <= last_ms]
    policy, then = Policy(_of_ms(waits_ms)), _of_ms(then_ms, limit_ms)
    simulator = RetryTopicsSimulator(policy, then, attempt_ms)
    message = simulator.through(outage_ms).message
    failed = [at_ms for at_ms in starts if at_ms < outage_ms]
    assert failed == starts_ms(message.failures)
    assert starts[-1] == simulator.waits_out_ms
    assert (starts[-1] < outage_ms) == isinstance(message.ending, GivenUp)
    assert attempts_of(message) == starts[: len(failed) + 1]
    assert len(attempts_of(message)) == message.ending.attempt


@given(steps_ms, attempts_ms, st.none() | st.integers(1, 100_000))
@example([5000, 5000], 0, 10_000)
def test_the_steps_are_those_of_retry_topics(
    then_ms: list[int], attempt_ms: int, limit_ms: int | None
) -> None:
    """What sends messages to the topics finds the same steps at the same times."""
    assume(limit_ms is None or then_ms[0] <= limit_ms)  # refused at construction
    then = _of_ms(then_ms, limit_ms)
    message = RetryTopicsSimulator(Policy(_SIMPLE), then, attempt_ms).through(10**9).message
    carrier, starts = RetryTopics("orders.retry", strategy=then), list[int]()
    left = Left(9_000 + 4 * attempt_ms, first_failure_ms=attempt_ms)
    while (hop := carrier.next_hop(left, 0.0)) is not None:
        starts.append(hop.retry_at_ms)
        left = Left(hop.retry_at_ms + attempt_ms, attempt_ms, hop)
    assert starts == starts_ms(message.failures)[4:]


def _line_by_hand(
    waits_ms: list[int], attempt_ms: int, outage_ms: int, limit: int, hold_ms: int
) -> tuple[list[int], int, bool]:
    """Attempt by attempt: when they start, how many messages leave, and whether one is held."""
    starts, at_ms, left, failures, is_held = list[int](), 0, 0, 0, False
    while True:
        starts.append(at_ms)
        if at_ms >= outage_ms:
            return starts, left, is_held
        at_ms, failures = at_ms + attempt_ms, failures + 1
        if failures <= len(waits_ms):
            at_ms += waits_ms[failures - 1]
        elif left < limit:
            left, failures = left + 1, 0
        else:
            at_ms, is_held = at_ms + hold_ms, True


@given(
    st.lists(st.integers(0, 10_000), max_size=4),
    attempts_ms,
    outages_ms,
    st.integers(1, 5),
    st.integers(500, 40_000),
)
@example([], 0, 1, 3, 1000)
@example([1000], 0, 3000, 2, 1000)
def test_those_behind_are_attempted_one_after_another(
    waits_ms: list[int], attempt_ms: int, outage_ms: int, limit: int, hold_ms: int
) -> None:
    """Until one succeeds; with as many gone as the limit allows, the next is tried after holds."""
    policy = Policy(_of_ms(waits_ms), hold_s=hold_ms / 1000)
    simulator = RetryTopicsSimulator(policy, _STEPS, attempt_ms, limit=limit)
    journey = simulator.through(outage_ms)
    starts, left, is_held = _line_by_hand(waits_ms, attempt_ms, outage_ms, limit, hold_ms)
    assert (left, is_held) == (journey.left, journey.is_held)
    assert starts[-1] == journey.line_back_ms


@pytest.mark.parametrize(("delays", "hold_ms"), [([], 30_000), ([5], 30_000), ([1, 60], 60_000)])
def test_one_too_many_is_held_for_the_last_delay(delays: list[float], hold_ms: int) -> None:
    """And for half a minute at least, unless the user says how long."""
    journey = RetryTopicsSimulator(Policy(Strategy(delays)), _STEPS, limit=1).through(3_600_000)
    total_ms = 2 * round(sum(delays) * 1000)
    assert (0, True) == ((journey.line_back_ms - total_ms) % hold_ms, journey.is_held)


@settings(max_examples=20)
@given(
    st.lists(st.integers(500, 10_000), max_size=3),
    st.integers(1, 100_000),
    st.integers(1, 4),
    st.sampled_from([300, 2000]),
)
def test_the_line_of_a_consumer_does_the_same(
    waits_ms: list[int], outage_ms: int, limit: int, attempt_ms: int
) -> None:
    """What leaves the line for dead letters leaves it as what leaves for retry topics does."""
    strategy = _of_ms(waits_ms)
    simulator = RetryTopicsSimulator(Policy(strategy), _STEPS, attempt_ms, limit=limit)
    journey, hold_ms = simulator.through(outage_ms), max([*waits_ms[-1:], 30_000])
    attempts, *_ = _line_by_hand(waits_ms, attempt_ms, outage_ms, limit, hold_ms)
    # Being late itself, by 2 ms a wait, decides where an attempt comes at the end of the outage.
    late_ms = 2 * len(attempts)
    assume(not any(0 < outage_ms - at_ms <= late_ms for at_ms in attempts))
    group = FakeGroup(partitions=1, strategy=strategy, letter_limit=limit)
    outage = Outage(outage_ms, attempt_ms, group.fake.clock)
    group.dependency = outage
    group.produce(0, limit + 1)
    member = group.join()
    group.share([0])
    group.finish(within_s=1000)

    late_s = outage.late_s(attempts, more=True)
    assert [] == [late for late in late_s if not -1e-6 <= late <= late_ms / 1000]
    letters = [event for event in member.events if isinstance(event, events.DeadLettered)]
    held = [event for event in member.events if isinstance(event, events.LimitReached)]
    assert (journey.left, journey.is_held) == (len(letters), bool(held))
    assert [] == group.violations()


@pytest.mark.parametrize(
    ("then", "on_exhausted", "words"),
    [
        (Strategy([1], jitter=0.1), "dead-letter", "retry topics have no jitter"),
        (Strategy([]), "dead-letter", "it has no delays: no message would ever be retried"),
        (Strategy([60], max_elapsed=59), "dead-letter", "no message would ever be retried"),
        (Strategy([1]), "stop", "messages never leave the line"),
        (Strategy([1]), "repeat", "messages never leave the line"),
    ],
)
def test_what_cannot_be_simulated(then: Strategy, on_exhausted: OnExhausted, words: str) -> None:
    """Retry topics have at least one delay, and no jitter; and something has to leave."""
    with pytest.raises(ConfigurationError, match=words):
        RetryTopicsSimulator(Policy(Strategy([1]), on_exhausted), then)


def test_a_hold_takes_time() -> None:
    """Without, no time would pass between two attempts of the held message."""
    with pytest.raises(ConfigurationError, match="attempted all the time"):
        RetryTopicsSimulator(Policy(Strategy([1]), hold_s=0.0), Strategy([1]))


def test_a_time_limit_that_allows_no_step() -> None:
    """The message is a dead letter where it would have left the line."""
    journey = _through("1h", then=Strategy(["5m"], max_elapsed="5m"))
    assert isinstance(journey.message.ending, GivenUp)
    assert (4, 9_000) == (journey.message.ending.attempt, journey.message.ending.at_ms)
