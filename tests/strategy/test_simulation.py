"""A strategy goes through an outage as the consumer would."""

import random
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import repeat
from math import inf

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from linear_retry import Strategy
from linear_retry.errors import ExhaustedError
from linear_retry.kafka import Message
from linear_retry.retry.decision import OnExhausted, Policy
from linear_retry.strategy.schedule import GivesUp, schedule
from linear_retry.strategy.simulation import (
    GivenUp,
    Recovered,
    Simulation,
    Simulator,
    Spread,
)
from tests.consumer.group import LETTERS, TOPIC, Dependency, FakeGroup, OutageError, consumer_on
from tests.fake.clock import VirtualClock
from tests.fake.cluster import FakeKafka
from tests.strategy.test_schedule import attempts_ms, delays_ms, of_ms, starts_ms

outages_ms = st.integers(0, 80_000)


@given(delays_ms, attempts_ms, outages_ms)
def test_the_first_attempt_after_the_outage_succeeds(
    waits_ms: list[int], attempt_ms: int, outage_ms: int
) -> None:
    """All attempts but it start before the end of the outage, and it starts at the end or later."""
    simulation = Simulator(of_ms(waits_ms), attempt_ms).through(outage_ms)
    assume(isinstance(simulation.ending, Recovered))
    failed = starts_ms(simulation.failures)
    total_ms = sum(waits_ms[: len(failed)]) + len(failed) * attempt_ms
    assert [] == [at_ms for at_ms in failed if at_ms >= outage_ms]
    assert Recovered(len(failed) + 1, total_ms, total_ms - outage_ms) == simulation.ending
    assert total_ms >= outage_ms


@given(delays_ms, attempts_ms, outages_ms, st.sampled_from(["dead-letter", "stop"]))
def test_it_gives_up_where_the_strategy_falls_short(
    waits_ms: list[int], attempt_ms: int, outage_ms: int, on_exhausted: OnExhausted
) -> None:
    """If and only if all delays, and the attempts before the last, end before the outage does."""
    simulator = Simulator(of_ms(waits_ms, on_exhausted), attempt_ms)
    simulation = simulator.through(outage_ms)
    total_ms = sum(waits_ms) + len(waits_ms) * attempt_ms
    assert total_ms == simulator.waits_out_ms
    assert (total_ms < outage_ms) == isinstance(simulation.ending, GivenUp)
    if isinstance(simulation.ending, GivenUp):
        outcome: GivesUp = "stopped" if on_exhausted == "stop" else "dead-lettered"
        attempts, short_ms = len(waits_ms) + 1, outage_ms - total_ms
        assert GivenUp(attempts, total_ms + attempt_ms, short_ms, outcome) == simulation.ending
        assert attempts == len(starts_ms(simulation.failures))


@given(delays_ms, attempts_ms, outages_ms)
def test_repeating_never_gives_up(waits_ms: list[int], attempt_ms: int, outage_ms: int) -> None:
    """With "repeat" every outage is waited out, the idle time at most one wait and one attempt."""
    simulator = Simulator(of_ms([*waits_ms, 5], "repeat"), attempt_ms)
    ending = simulator.through(outage_ms).ending
    assert simulator.waits_out_ms is None
    assert isinstance(ending, Recovered)
    assert 0 <= ending.idle_ms < max([5, *waits_ms]) + attempt_ms or ending.at_ms == 0


def test_fractions_of_seconds_add_up() -> None:
    """Ten waits of a tenth of a second are one second: in floats they are a little less."""
    simulation = Simulator(Policy(Strategy([{"every": 0.1, "times": 10}]))).through(1000)
    assert Recovered(11, 1000, 0) == simulation.ending


def test_no_outage() -> None:
    """An outage of no length is over when the first attempt starts."""
    simulation = Simulator(Policy(Strategy([1]))).through(0)
    assert Simulation(0, (), Recovered(1, 0, 0), Spread(0, 0, may_give_up=False)) == simulation


def back_after_ms(
    waits_ms: list[int],
    jitter: float,
    attempt_ms: int,
    outage_ms: int,
    rng: Iterator[float],
    limit_ms: float = inf,
) -> float | None:
    """Attempt by attempt, in floats: the idle time; None: given up."""
    at_ms = 0.0
    for wait_ms in waits_ms:
        if at_ms >= outage_ms:
            break
        next_ms = at_ms + attempt_ms + wait_ms * (1 + jitter * next(rng))
        if next_ms > attempt_ms + limit_ms:
            break
        at_ms = next_ms
    return at_ms - outage_ms if at_ms >= outage_ms else None


@given(
    delays_ms,
    st.sampled_from([0.05, 0.25, 1.0]) | st.floats(0, 1),
    attempts_ms,
    outages_ms,
    st.randoms(use_true_random=False),
)
def test_jitter_stays_within_the_bounds(
    waits_ms: list[int], jitter: float, attempt_ms: int, outage_ms: int, rng: random.Random
) -> None:
    """However they fall, it is back within the bounds, or gives up where that was reported."""
    policy = Policy(Strategy([f"{wait_ms}ms" for wait_ms in waits_ms], jitter=jitter))
    spread = Simulator(policy, attempt_ms).through(outage_ms).spread
    throws = (rng.choice([0.0, rng.random(), 0.999]) for _ in waits_ms)
    idle_ms = back_after_ms(waits_ms, jitter, attempt_ms, outage_ms, throws)
    if idle_ms is None:
        assert spread is None or spread.may_give_up
    else:
        assert spread is not None
        assert spread.idle_min_ms - 1e-6 <= idle_ms <= spread.idle_max_ms + 1e-6


limits_ms = st.integers(1, 20_000) | st.integers(1, 100_000)


@given(
    delays_ms,
    st.sampled_from([0.0, 0.05, 0.25, 1.0]),
    attempts_ms,
    outages_ms,
    st.randoms(use_true_random=False),
    limits_ms,
)
def test_jitter_stays_within_the_bounds_of_max_elapsed(
    waits_ms: list[int],
    jitter: float,
    attempt_ms: int,
    outage_ms: int,
    rng: random.Random,
    limit_ms: int,
) -> None:
    """Also where jitter decides which retries are in time; shorter outages are all waited out."""
    delays, limit = [f"{wait_ms}ms" for wait_ms in waits_ms], f"{limit_ms}ms"
    policy = Policy(Strategy(delays, jitter=jitter, max_elapsed=limit))
    simulator = Simulator(policy, attempt_ms)
    spread = simulator.through(outage_ms).spread
    throws = (rng.choice([0.0, rng.random(), 0.999]) for _ in waits_ms)
    idle_ms = back_after_ms(waits_ms, jitter, attempt_ms, outage_ms, throws, limit_ms)
    assert simulator.waits_out_ms is not None
    if idle_ms is None:
        assert spread is None or spread.may_give_up
        assert outage_ms > simulator.waits_out_ms
    else:
        assert spread is not None
        assert spread.idle_min_ms - 1e-6 <= idle_ms <= spread.idle_max_ms + 1e-6


@given(delays_ms, attempts_ms, outages_ms, limits_ms)
@example([1000, 1000, 1000], 0, 3001, 3000)
def test_max_elapsed_ends_the_attempts(
    waits_ms: list[int], attempt_ms: int, outage_ms: int, limit_ms: int
) -> None:
    """Those that it allows start as without it; the outage up to the last is waited out."""
    delays = [f"{wait_ms}ms" for wait_ms in waits_ms]
    whole = schedule(Policy(Strategy(delays)), attempt_ms).starts_ms
    in_time = [start_ms for start_ms in whole if start_ms <= attempt_ms + limit_ms]
    simulator = Simulator(Policy(Strategy(delays, max_elapsed=f"{limit_ms}ms")), attempt_ms)
    simulation = simulator.through(outage_ms)
    assert in_time[-1] == simulator.waits_out_ms
    assert (in_time[-1] < outage_ms) == isinstance(simulation.ending, GivenUp)
    assert attempts_of(simulation) == in_time[: simulation.ending.attempt]


def test_jitter_may_bring_a_retry_too_late_for_max_elapsed() -> None:
    """The second retry starts after 20 to 30 s, so within 25 s it may be made or not."""
    policy = Policy(Strategy([10, 10], jitter=0.5, max_elapsed=25))
    simulator = Simulator(policy)
    assert 10_000 == simulator.waits_out_ms
    assert Spread(0, 5_000, may_give_up=True) == simulator.through(20_000).spread
    assert simulator.through(25_001).spread is None


@given(
    st.lists(st.integers(0, 10), max_size=8),
    st.sampled_from([0.0, 0.05, 0.25, 0.5, 1.0]),
    st.sampled_from([0, 2000]),
    outages_ms,
)
@example([1, 8], 1.0, 0, 1500)
def test_the_bounds_are_reached(
    waits_s: list[int], jitter: float, attempt_ms: int, outage_ms: int
) -> None:
    """Nearly: by numbers that bring one attempt to just before, or to, the end of the outage."""
    spread = (
        Simulator(Policy(Strategy(waits_s, jitter=jitter)), attempt_ms).through(outage_ms).spread
    )
    if spread is None:
        return
    waits_ms = [wait_s * 1000 for wait_s in waits_s]
    found = [
        back_after_ms(waits_ms, jitter, attempt_ms, outage_ms, throws)
        for last in range(len(waits_ms) + 1)
        for moment_ms in (0.0, outage_ms - 0.1, outage_ms + 0.1)
        for throws in [dice_for(waits_ms[:last], jitter, moment_ms - last * attempt_ms)]
    ]
    idle_ms = [idle for idle in found if idle is not None]
    assert spread.idle_max_ms == pytest.approx(max(idle_ms), abs=0.2)
    assert spread.idle_min_ms == pytest.approx(min(idle_ms), abs=0.2)


def dice_for(waits_ms: list[int], jitter: float, total_ms: float) -> Iterator[float]:
    """Those that bring the sum of these waits as near to `total_ms` as can be, and then ones."""
    room_ms = jitter * sum(waits_ms)
    share = (total_ms - sum(waits_ms)) / room_ms if room_ms else 0.0
    yield from [min(max(share, 0.0), 1.0)] * len(waits_ms)
    yield from repeat(1.0)


@pytest.mark.parametrize(
    ("outage_s", "expected"),
    [
        (5, Spread(5_000, 10_000, may_give_up=False)),
        (12, Spread(0, 30_000, may_give_up=False)),
        (40, Spread(0, 5_000, may_give_up=True)),
        (46, None),
    ],
)
def test_bounds_with_jitter(outage_s: int, expected: Spread | None) -> None:
    """The second attempt may come from 10 to 15 s, the third from 30 to 45 s."""
    policy = Policy(Strategy([10, 20], jitter=0.5))
    assert expected == Simulator(policy).through(outage_s * 1000).spread


@given(outages_ms)
def test_bounds_where_the_last_delay_is_repeated(outage_ms: int) -> None:
    """Behind the end of the strategy the bounds are those of a strategy long enough."""
    repeated = Simulator(Policy(Strategy([1, 2], jitter=0.25), "repeat"))
    written = Simulator(Policy(Strategy([1, {"every": 2, "times": 60}], jitter=0.25)))
    assert written.through(outage_ms) == repeated.through(outage_ms)


_LATE_S = 0.002
"""For each wait: a poll takes whole milliseconds, and they are rounded up."""


class Outage(Dependency):
    """Down for `outage_ms` from its first call on; a call that begins then takes `attempt_ms`."""

    def __init__(self, outage_ms: int, attempt_ms: int, clock: VirtualClock) -> None:
        super().__init__()
        self._began_s: list[float] = []
        self._outage_s = outage_ms / 1000
        self._takes_s = attempt_ms / 1000
        self._clock = clock

    def __call__(self, message: Message) -> None:
        self._began_s.append(self._clock.now_s())
        if self._began_s[-1] < self._began_s[0] + self._outage_s:
            self._clock.advance(self._takes_s)
            raise OutageError

    def late_s(self, attempts_ms: list[int], *, more: bool = False) -> list[float]:
        """By how much each attempt came later than that; there are as many, or `more`."""
        began_s = zip(self._began_s, attempts_ms, strict=not more)
        return [moment_s - self._began_s[0] - at_ms / 1000 for moment_s, at_ms in began_s]


def attempts_of(simulation: Simulation) -> list[int]:
    """When each attempt starts, the one that succeeds included."""
    found = starts_ms(simulation.failures)
    if isinstance(simulation.ending, Recovered):
        found.append(simulation.ending.at_ms)
    return found


@settings(max_examples=30)
@given(
    st.lists(st.integers(0, 20_000), max_size=6),
    st.sampled_from([0, 0, 300, 2000]),
    st.integers(1, 60_000),
)
@example([1000, 5000, 30_000, 300_000, 300_000, 3_600_000], 0, 420_000)
@example([1000, 5000, 30_000, 300_000, 300_000, 3_600_000], 2000, 7_200_000)
def test_the_consumer_does_the_same(waits_ms: list[int], attempt_ms: int, outage_ms: int) -> None:
    """On a dependency that is down as long it attempts when the simulation says, and ends alike."""
    simulation = Simulator(of_ms(waits_ms), attempt_ms).through(outage_ms)
    attempts = attempts_of(simulation)
    late_s = _LATE_S * len(attempts)
    # Being late itself decides where an attempt comes at the very end of the outage.
    assume(not any(0 < outage_ms - at_ms <= late_s * 1000 for at_ms in attempts))

    group = FakeGroup(partitions=1, strategy=[f"{wait_ms}ms" for wait_ms in waits_ms])
    outage = Outage(outage_ms, attempt_ms, group.fake.clock)
    group.dependency = outage
    group.produce(0)
    group.join()
    group.share([0])
    group.finish(within_s=20_000)

    assert [] == [late for late in outage.late_s(attempts) if not -1e-6 <= late <= late_s]
    letters = group.fake.topics[LETTERS].partitions[0].records
    assert isinstance(simulation.ending, GivenUp) == bool(letters)
    assert [] == group.violations()


@pytest.mark.parametrize("on_exhausted", ["repeat", "stop"])
def test_the_consumer_ends_the_same(on_exhausted: OnExhausted) -> None:
    """Where the strategy runs out it repeats the last delay, or stops, as the simulation says."""
    fake = FakeKafka(balanced=True)
    for topic in (TOPIC, LETTERS):
        fake.create_topic(topic, 1)
    fake.append(TOPIC, 0)
    strategy = Strategy([1, 5])
    simulation = Simulator(Policy(strategy, on_exhausted), 300).through(31_000)
    outage = Outage(31_000, 300, fake.clock)

    def handler(message: Message) -> None:
        outage(message)
        consumer.stop()

    gives_up = isinstance(simulation.ending, GivenUp)
    with (
        consumer_on(fake, strategy=strategy, on_exhausted=on_exhausted) as consumer,
        pytest.raises(ExhaustedError) if gives_up else nullcontext(),
    ):
        consumer.run(handler)
    attempts = attempts_of(simulation)
    late = outage.late_s(attempts)
    assert (gives_up, len(attempts)) == (on_exhausted == "stop", 3 if gives_up else 8)
    assert [] == [seconds for seconds in late if not -1e-6 <= seconds <= _LATE_S * len(late)]
