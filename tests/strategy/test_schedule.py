"""Attempts start when the delays say, and repeated ones are counted right."""

from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry.errors import ConfigurationError
from linear_retry.retry.decision import OnExhausted, Policy
from linear_retry.strategy.schedule import Failures, Schedule, schedule
from linear_retry.strategy.strategy import Strategy

delays_ms = st.lists(st.sampled_from([0, 1, 250, 1000, 5000]) | st.integers(0, 10_000), max_size=12)
attempts_ms = st.sampled_from([0, 0, 1, 2000]) | st.integers(0, 5000)


def of_ms(waits_ms: list[int], on_exhausted: OnExhausted = "dead-letter") -> Policy:
    return Policy(Strategy([f"{wait_ms}ms" for wait_ms in waits_ms]), on_exhausted)


def starts_ms(runs: tuple[Failures, ...]) -> list[int]:
    """Each attempt by itself."""
    return [run.at_ms + index * run.every_ms for run in runs for index in range(run.times)]


@given(delays_ms, attempts_ms)
def test_starts_are_sums_of_the_delays(waits_ms: list[int], attempt_ms: int) -> None:
    """Attempt k + 1 starts after the first k delays and the k attempts before it."""
    expected = list(accumulate((wait_ms + attempt_ms for wait_ms in waits_ms), initial=0))
    assert expected == list(schedule(of_ms(waits_ms), attempt_ms).starts_ms)


@given(delays_ms, attempts_ms, st.integers(1, 40))
def test_repeating_goes_on_with_the_last_delay(
    waits_ms: list[int], attempt_ms: int, attempts: int
) -> None:
    """With "repeat" the last delay follows every later attempt too, however many there are."""
    waits_ms.append(7)
    repeated = [*waits_ms, *[7] * attempts][: attempts - 1]
    expected = list(accumulate((wait_ms + attempt_ms for wait_ms in repeated), initial=0))
    found = schedule(of_ms(waits_ms, "repeat"), attempt_ms).failures(attempts)
    assert expected == starts_ms(found)


@given(delays_ms, attempts_ms, st.sampled_from(["repeat", "stop"]), st.integers(0, 60_000))
def test_the_first_attempt_from_a_moment_on(
    waits_ms: list[int], attempt_ms: int, on_exhausted: OnExhausted, moment_ms: int
) -> None:
    """It is the first in the list of all that starts then or later, or there is none."""
    waits_ms.append(1000)
    attempts = schedule(of_ms(waits_ms, on_exhausted), attempt_ms)
    count = len(waits_ms) + (61 if on_exhausted == "repeat" else 1)
    numbered = enumerate(starts_ms(attempts.failures(count)), 1)
    expected = next(((n, at_ms) for n, at_ms in numbered if at_ms >= moment_ms), None)
    assert expected == attempts.first_from(moment_ms)


@given(delays_ms, attempts_ms, st.integers(1, 20))
def test_what_has_the_same_wait_is_together(
    waits_ms: list[int], attempt_ms: int, attempts: int
) -> None:
    """Neighbouring runs differ in their wait, and their numbers go on without a gap."""
    waits_ms.append(7)
    runs = schedule(of_ms(waits_ms, "repeat"), attempt_ms).failures(attempts)
    waits = [run.wait_ms for run in runs]
    numbers = list(accumulate((run.times for run in runs), initial=1))
    assert [] == [pair for pair in pairwise(waits) if pair[0] == pair[1]]
    assert numbers[:-1] == [run.attempt for run in runs]
    assert attempts == numbers[-1] - 1


def test_ten_years_of_repeats_are_one_run() -> None:
    """Nothing is listed that repeats: 315 billion attempts are one entry."""
    years_ms = 10 * 365 * 86_400_000
    attempts = schedule(of_ms([1], "repeat"))
    assert (years_ms + 1, years_ms) == attempts.first_from(years_ms)
    assert (Failures(1, years_ms, 0, 1, 1),) == attempts.failures(years_ms)
    assert years_ms - 1 == attempts.failures(years_ms)[0].last_at_ms


def test_an_empty_strategy_attempts_once() -> None:
    """`[]` has one attempt, and gives up after it."""
    assert Schedule((0,), (), 5, "dead-lettered") == schedule(of_ms([]), 5)
    assert Schedule((0,), (), 5, "stopped") == schedule(of_ms([], "stop"), 5)
    assert Schedule((0,), (), 5, "blocked") == schedule(of_ms([], "block"), 5)


@pytest.mark.parametrize(
    ("waits_ms", "attempt_ms", "words"),
    [([], 1000, "it is empty"), ([5, 0], 0, "no time would pass")],
)
def test_what_cannot_be_repeated_is_refused(
    waits_ms: list[int], attempt_ms: int, words: str
) -> None:
    """Without a last wait, or where no time passes, "repeat" is refused: it would never end."""
    with pytest.raises(ConfigurationError, match=words):
        schedule(of_ms(waits_ms, "repeat"), attempt_ms)


def test_a_wait_of_nothing_can_be_repeated_where_attempts_take_time() -> None:
    """Time passes in the attempts then."""
    assert (4, 15) == schedule(of_ms([0], "repeat"), 5).first_from(12)


def test_jitter_lengthens_each_wait() -> None:
    """The dice lengthen the waits, not the attempts."""
    policy = Policy(Strategy([10, 20], jitter=0.5))
    assert (0, 16_000, 47_000) == schedule(policy, 1000, lambda: 1.0).starts_ms
