"""The wait after failure k is what the array of delays says."""

import hashlib
import math
import pickle
import subprocess
import sys
from datetime import timedelta
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from linear_retry.errors import ConfigurationError, StrategyError, UsageError
from linear_retry.strategy.strategy import Strategy

delays_ms = st.lists(st.integers(0, 604_800_000), max_size=20)
shares = st.floats(0, 1)


def of_ms(waits_ms: list[int], jitter: float = 0.0) -> Strategy:
    return Strategy([f"{wait_ms}ms" for wait_ms in waits_ms], jitter=jitter)


def limited(waits_ms: list[int], jitter: float, limit_ms: int | None) -> Strategy:
    limit_s = None if limit_ms is None else limit_ms / 1000
    return Strategy([f"{ms}ms" for ms in waits_ms], jitter=jitter, max_elapsed=limit_s)


def repr_or_size(value: object) -> str:
    return f"{value.bit_length()} bits" if isinstance(value, int) else repr(value)


def test_each_form_of_an_element_stands_for_its_waits() -> None:
    """A number is seconds, a string a duration, every/times repeats, exponential grows to max."""
    strategy = Strategy(
        [
            1,
            0.25,
            "1h30m",
            {"every": "5m", "times": 2},
            {"exponential": {"initial": "500ms", "factor": 3, "max": 10, "times": 5}},
        ]
    )

    assert [1.0, 0.25, 5400.0, 300.0, 300.0, 0.5, 1.5, 4.5, 10.0, 10.0] == list(strategy)
    assert 10 == len(strategy)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0s", 0.0),
        ("250ms", 0.25),
        ("1.5s", 1.5),
        ("5m", 300.0),
        ("1h0m0s", 3600.0),
        ("1h30m15s250ms", 5415.25),
        ("1.5h0.5m", 5430.0),
        ("2d", 172_800.0),
        ("1d12h", 129_600.0),
        ("0.5d1ms", 43_200.001),
        ("168h", 604_800.0),
        ("7d", 604_800.0),
        ("604800000ms", 604_800.0),
    ],
)
def test_a_duration_is_the_sum_of_its_parts(text: str, seconds: float) -> None:
    """A duration is days, hours, minutes, seconds and milliseconds, in this order, added up."""
    assert [seconds] == list(Strategy([text]))


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "5",
            "5 m",
            " 5m",
            "5m\n",
            "-5m",
            "+5m",
            "5M",
            "5D",
            "5w",
            "2h1d",
            "5us",
            "5m1h",
            "5m5m",
            "1.s",
        ),
        *(".5s", "1e3s", "٣s", "1_0s", "0x5s", "ms", "1,5s", "1234567890s", "\ud800s"),
    ],
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    """A sign, a space, an unknown or repeated unit, another order make no duration."""
    with pytest.raises(StrategyError, match=r"^delays\[0\]: .* is not a duration; write it as"):
        Strategy([text])


@pytest.mark.parametrize(
    "element",
    [
        *(True, None, -1, -0.001, 604_800.001, float("nan"), float("inf"), 10**5000, b"5s", [5]),
        *(timedelta(seconds=5), {}, {5: 5}, {"every": 5}, {"times": 5}, {"exponential": 5}),
    ],
    ids=repr_or_size,
)
def test_what_is_no_delay_is_refused(element: Any) -> None:
    """Every element that is none of the forms, or not within 0 to 7 days, is refused."""
    with pytest.raises(StrategyError, match=r"^delays\[0\]"):
        Strategy([element])


@pytest.mark.parametrize("times", [0, -1, 1001, 1.5, True, "2", None, float("nan"), 10**400])
def test_what_is_no_count_is_refused(times: object) -> None:
    """`times` is a whole number from 1 to 1000, and so `factor` a finite one from 1 up."""
    with pytest.raises(StrategyError, match=r"^delays\[0\].times: .* is not a count"):
        Strategy([{"every": 1, "times": times}])
    if times not in (1.5, 1001):
        exponential = {"initial": 1, "factor": times, "max": 5, "times": 2}
        with pytest.raises(StrategyError, match=r"^delays\[0\].exponential.factor: "):
            Strategy([{"exponential": exponential}])


@pytest.mark.parametrize("delays", ["5s", b"55", 5, None, {"delays": [5]}, iter([5]), {5}])
def test_what_is_no_array_is_refused(delays: Any) -> None:
    """Only a sequence is an array of delays; a text is not one of its characters."""
    with pytest.raises(StrategyError, match=r"^delays: .* is not an array"):
        Strategy(delays)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("jitter", value) for value in (-0.1, 1.1, float("nan"), True, None, "0.1")]
    + [("max_elapsed", value) for value in (-1, 604_801, float("nan"), True, "5", "8d", [1])]
    + [("max_elapsed", value) for value in (0, 0.0, "0s", "0.0h0ms")]
    + [("description", value) for value in (None, 5, "two\nlines", "\x1b[31m", "\ud800")]
    + [("name", value) for value in (None, "", "two\nlines", "\ud800", "\x7f")],
)
def test_a_bad_setting_is_refused(setting: str, value: Any) -> None:
    """Jitter is a share from 0 to 1; texts are one line that can be shown and sent."""
    settings: dict[str, Any] = {setting: value}
    with pytest.raises(StrategyError, match=rf"^{setting}: "):
        Strategy([1], **settings)


def test_an_error_is_one_of_configuration_and_of_a_value() -> None:
    """So whoever catches either has it, before a million waits are expanded."""
    with pytest.raises(StrategyError, match=r"^delays: 1000000 delays after expansion") as caught:
        Strategy([{"every": 1, "times": 1000}] * 1000)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, ConfigurationError)


def test_the_steepest_exponential_does_not_overflow() -> None:
    """A factor of 1e308, a thousand times, is the first wait and then the longest allowed one."""
    steep = {"initial": 1, "factor": 1e308, "max": "168h", "times": 1000}
    assert [1.0] + [604_800.0] * 999 == list(Strategy([{"exponential": steep}]))

    nothing = {"initial": 0, "factor": 1e308, "max": 5, "times": 1000}
    assert [0.0] * 1000 == list(Strategy([{"exponential": nothing}]))


@given(
    initial_ms=st.integers(0, 100_000),
    factor=st.integers(1, 50),
    max_ms=st.integers(0, 604_800_000),
    times=st.integers(1, 60),
)
def test_an_exponential_is_its_formula(
    initial_ms: int, factor: int, max_ms: int, times: int
) -> None:
    """Wait k of an exponential is min(initial * factor ** k, max), exactly."""
    exponential = {
        "initial": f"{initial_ms}ms",
        "factor": factor,
        "max": f"{max_ms}ms",
        "times": times,
    }
    expected = tuple(min(initial_ms * factor**k, max_ms) for k in range(times))
    assert expected == Strategy([{"exponential": exponential}]).delays_ms


@given(st.integers(1, 100_000), st.integers(0, 604_800_000), st.integers(1, 60))
@example(1000, 3_600_000, 10)
def test_the_delays_within_a_time_add_up_to_it(initial_ms: int, within_ms: int, times: int) -> None:
    """Retry k begins initial * (factor ** k - 1) after the first failure, and the last one at the
    end of the time: the factor is exp(ln(within / initial + 1) / times)."""
    exponential = {"initial": f"{initial_ms}ms", "within": f"{within_ms}ms", "times": times}
    delays_ms = Strategy([{"exponential": exponential}]).delays_ms
    assert (times, within_ms) == (len(delays_ms), sum(delays_ms))
    factor = math.exp(math.log(within_ms / initial_ms + 1) / times)
    for number, since_ms in enumerate(accumulate(delays_ms), 1):
        expected_ms = initial_ms * (factor**number - 1)
        assert expected_ms == pytest.approx(since_ms, rel=1e-6, abs=0.6)


@given(st.floats(0, 604_800))
def test_a_wait_is_rounded_to_the_nearest_millisecond(seconds: float) -> None:
    """What is waited is at most half a millisecond from what was written (floats' error aside)."""
    (wait_ms,) = Strategy([seconds]).delays_ms
    assert abs(wait_ms - Fraction(seconds) * 1000) <= Fraction(1, 2) + Fraction(1, 1_000_000)


@given(delays_ms, st.integers(1, 25))
def test_delay_is_the_element_of_that_number(waits_ms: list[int], failures: int) -> None:
    """The wait after failure k is element k; after the last one there is none."""
    expected = waits_ms[failures - 1] / 1000 if failures <= len(waits_ms) else None
    assert expected == of_ms(waits_ms).delay_s(failures)


@pytest.mark.parametrize("failures", [0, -1, -1000])
def test_a_failure_below_one_is_a_mistake(failures: int) -> None:
    """Failures are counted from 1; -1 is not the last element."""
    with pytest.raises(UsageError, match="the first failure is 1"):
        Strategy([1, 2, 3]).delay_s(failures)


@given(st.integers(0, 604_800_000), shares, st.floats(0, 1, exclude_max=True))
def test_jitter_lengthens_by_the_share_that_is_drawn(
    wait_ms: int, jitter: float, drawn: float
) -> None:
    """Jitter never shortens a wait, and lengthens it by the drawn part of its share."""
    strategy, wait_s = of_ms([wait_ms], jitter), wait_ms / 1000
    assert wait_s == strategy.delay_s(1)
    assert pytest.approx(wait_s * (1 + jitter * drawn)) == strategy.delay_s(1, lambda: drawn)
    assert wait_s <= (strategy.delay_s(1, lambda: drawn) or 0)


def test_the_rng_is_not_asked_where_there_is_no_jitter() -> None:
    """A strategy without jitter draws no random number."""
    asked: list[int] = []

    def rng() -> float:
        asked.append(1)
        return 0.5

    assert 1.0 == Strategy([1]).delay_s(1, rng)
    assert Strategy([1], jitter=1).delay_s(2, rng) is None
    assert [] == asked


@given(delays_ms, shares)
def test_the_total_is_the_sum_of_the_waits(waits_ms: list[int], jitter: float) -> None:
    """The total is all waits together, without jitter."""
    assert sum(waits_ms) / 1000 == of_ms(waits_ms, jitter).total_s


@given(delays_ms, shares)
def test_each_distinct_delay_is_listed_once(waits_ms: list[int], jitter: float) -> None:
    """The distinct delays grow strictly, and are those that the steps have, no more and no less."""
    strategy = of_ms(waits_ms, jitter)
    distinct_ms = strategy.distinct_delays_ms
    assert all(shorter < longer for shorter, longer in pairwise(distinct_ms))
    assert set(strategy.delays_ms) == set(distinct_ms)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [(None, None), ("5m", 300.0), (0.25, 0.25), (1, 1.0), ("7d", 604_800.0), (0.0001, 0.001)],
)
def test_max_elapsed_is_a_duration_like_any(written: float | str | None, seconds: object) -> None:
    """Seconds or a duration, up to 7 days, in whole milliseconds but never none; None: no limit."""
    assert seconds == Strategy([1], max_elapsed=written).max_elapsed_s


@given(delays_ms, st.integers(1, 604_800_000), st.sampled_from([1.0, 1.5]))
def test_what_max_elapsed_lets_through(waits_ms: list[int], limit_ms: int, stretch: float) -> None:
    """The waits up to the last that ends within it, which the total adds up."""
    strategy = Strategy([f"{ms}ms" for ms in waits_ms], max_elapsed=f"{limit_ms}ms")
    reached_ms = strategy.reached_ms(stretch)
    longer_ms = tuple(round(wait_ms * stretch) for wait_ms in waits_ms)
    assert longer_ms[: len(reached_ms)] == reached_ms
    assert sum(reached_ms) <= limit_ms
    assert reached_ms == longer_ms or sum(longer_ms[: len(reached_ms) + 1]) > limit_ms
    assert sum(strategy.reached_ms()) / 1000 == strategy.total_s


limits_ms = st.none() | st.integers(1, 604_800_000)


@given(delays_ms, shares, limits_ms, delays_ms, shares, limits_ms)
def test_fingerprints_are_equal_for_equal_waits_and_settings_only(
    one_ms: list[int],
    one_jitter: float,
    one_limit_ms: int | None,
    other_ms: list[int],
    other_jitter: float,
    other_limit_ms: int | None,
) -> None:
    """Two fingerprints are equal exactly if waits, jitter and time limit are."""
    one, other = (one_ms, one_jitter, one_limit_ms), (other_ms, other_jitter, other_limit_ms)
    assert (one == other) == (limited(*one).fingerprint == limited(*other).fingerprint)


def test_the_fingerprint_is_the_one_written_down() -> None:
    """The fingerprint can be made by anyone: it is in dead letters and must never change."""
    strategy = Strategy([1, {"every": "5s", "times": 2}], jitter=0.1, name="mine", description="x")
    expected = hashlib.sha256(b"1000,5000,5000;0.1").hexdigest()[:12]

    assert expected == strategy.fingerprint
    assert f"mine@{expected}" == strategy.label
    limited = Strategy([1], jitter=0.1, max_elapsed="5m").fingerprint
    assert hashlib.sha256(b"1000;0.1;300000").hexdigest()[:12] == limited
    assert Strategy([], jitter=-0.0).fingerprint == Strategy([]).fingerprint
    assert hashlib.sha256(b";0.0").hexdigest()[:12] == Strategy([]).fingerprint


def test_the_way_of_writing_leaves_no_trace() -> None:
    """The same waits written in two forms are the same strategy."""
    one = Strategy([300, "5m", "1s"])
    other = Strategy([{"every": "300s", "times": 2}, 1.0])

    assert one == other
    assert hash(one) == hash(other)
    assert 1 == len({one, other})


def test_a_strategy_is_a_value() -> None:
    """It cannot be changed, compares by what it says, and survives pickling."""
    strategy = Strategy([1, 2], jitter=0.5, name="a", description="b")

    with pytest.raises(AttributeError):
        strategy.jitter = 0.1  # type: ignore[misc]  # that it is refused is the point
    assert strategy != Strategy([1, 2], jitter=0.5, name="other", description="b")
    assert strategy != Strategy([1, 3], jitter=0.5, name="a", description="b")
    assert strategy == pickle.loads(pickle.dumps(strategy))


def test_an_empty_strategy_is_one() -> None:
    """`[]` is a strategy that gives up at once, and is not false."""
    empty = Strategy([])
    assert (0, 0.0, [], None, True) == (
        len(empty),
        empty.total_s,
        list(empty),
        empty.delay_s(1),
        bool(empty),
    )


def test_a_library_user_loads_no_command_line() -> None:
    """Importing the library and reading a strategy loads neither typer nor rich."""
    code = (
        "import sys, linear_retry, linear_retry.strategy.file;"
        "print([m for m in ('typer', 'rich') if m in sys.modules])"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "[]" == child.stdout.strip()
