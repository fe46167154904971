"""Where a message goes next: every rule of `RetryTopics.next_hop`."""

from itertools import pairwise
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from hypothesis import example, given
from hypothesis import strategies as st

from linear_retry import ConfigurationError, RetryTopics, Strategy
from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from linear_retry.records.lineage import Hop
from linear_retry.records.topics.names import delay_of
from linear_retry.retry.decision import Left
from tests.kafka_operations import wait_until

_NOW_MS = 1_767_225_600_000
_RETRIES = RetryTopics("r", strategy=["5m", "5m", "30m", "30m", "1h"])
_MINUTE_MS = 60_000


def _next(
    retries: RetryTopics, hop: Hop | None = None, *, at_least_s: float = 0, age_ms: int = 0
) -> Hop | None:
    return retries.next_hop(Left(_NOW_MS, _NOW_MS - age_ms, hop), at_least_s)


def _journey(retries: RetryTopics, at_least_s: float = 0) -> list[tuple[str, int]]:
    """Topic and step of each hop of a message that always fails."""
    found: list[tuple[str, int]] = []
    hop = _next(retries, at_least_s=at_least_s)
    while hop is not None:
        found.append((hop.topic, hop.step))
        hop = _next(retries, hop, at_least_s=at_least_s)
    return found


def test_asked_for_more_than_there_is() -> None:
    """What the longest topic lacks of `RetryAfter` is said; nothing where one covers it."""
    asked = [_next(_RETRIES, at_least_s=at_least_s) for at_least_s in (0, 3600, 3700)]
    assert [0, 0, 100_000] == [None if hop is None else hop.short_ms for hop in asked]


def test_each_step_once() -> None:
    """In order, the topic by the step's delay, and then it is over."""
    delays = ["5m", "5m", "30m", "30m", "1h"]
    assert [(f"r.{delay}", step) for step, delay in enumerate(delays, 1)] == _journey(_RETRIES)


def test_what_a_hop_says() -> None:
    """The strategy by which its step counts, and when it is due, by our clock."""
    hop = _next(_RETRIES)
    assert Hop("r.5m", 1, _RETRIES.strategy.label, _NOW_MS + 5 * _MINUTE_MS) == hop


@pytest.mark.parametrize(
    ("at_least_s", "topics"),
    [
        (300, ["5m", "5m", "30m", "30m", "1h"]),
        (300.5, ["30m", "30m", "30m", "30m", "1h"]),
        (1801, ["1h"] * 5),
        (86_400, ["1h"] * 5),
    ],
)
def test_a_handler_that_asks_for_time(at_least_s: float, topics: list[str]) -> None:
    """`RetryAfter` beyond the step's delay: the shortest topic that covers it, else the longest. No
    step is skipped for it, or it would end the sequence early."""
    expected = [(f"r.{topic}", step) for step, topic in enumerate(topics, 1)]
    assert expected == _journey(_RETRIES, at_least_s)


@pytest.mark.parametrize(
    ("topic", "step"),
    [("r.1s", 1), ("r.5m", 1), ("r.6m", 3), ("r.30m", 3), ("r.1h", 5), ("r.2h", None)],
)
@pytest.mark.parametrize("label", ["older@123", "", _RETRIES.strategy.label])
def test_a_step_that_is_not_there(topic: str, step: int | None, label: str) -> None:
    """The strategy was changed, or a replay has put it there: on with the first step that is not
    shorter than what it has waited."""
    hop = _next(_RETRIES, Hop(topic, 0, label, 0))
    assert step == (None if hop is None else hop.step)


@pytest.mark.parametrize(
    ("topic", "step", "expected"), [("r.5m", 1, 2), ("r.5m", 2, 3), ("r.30m", 9, 5)]
)
def test_equal_delays_are_not_begun_anew(topic: str, step: int, expected: int) -> None:
    """Of another strategy: on with the first step that is longer, or as long and later."""
    hop = _next(_RETRIES, Hop(topic, step, "older@123", 0))
    assert hop is not None
    assert expected == hop.step


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=6),
    st.lists(st.integers(1, 5), min_size=1, max_size=6),
    st.lists(st.booleans(), min_size=1, max_size=4),
)
@example([5, 1], [2], [False, True, False])
def test_two_strategies_at_once(one: list[int], other: list[int], turns: list[bool]) -> None:
    """While a deployment is under way, members with the old and the new strategy read the same
    topics: they passed a message on to each other for ever, between equal delays, or where the
    delays of one fall."""
    fleets = RetryTopics("r", strategy=one), RetryTopics("r", strategy=other)
    hop = _next(fleets[0])
    for turn in turns * 30:
        if hop is not None:
            hop = _next(fleets[turn], hop)
    assert hop is None


def test_another_strategy_whose_delays_fall() -> None:
    """On with the first step from which on none is shorter than what it has waited."""
    retries = RetryTopics("r", strategy=["1h", "5m", "30m"])
    steps = [_next(retries, Hop(topic, 0, "older@123", 0)) for topic in ("r.1m", "r.6m", "r.45m")]
    assert [1, 3, None] == [None if hop is None else hop.step for hop in steps]


def test_a_step_of_another_strategy() -> None:
    """A number alone says nothing: step 1 of the old strategy waited for an hour."""
    hop = _next(_RETRIES, Hop("r.1h", 1, "older@123", 0))
    assert hop is not None
    assert ("r.1h", 5, _RETRIES.strategy.label) == (hop.topic, hop.step, hop.strategy)


@pytest.mark.parametrize(("age_min", "step"), [(0, 1), (25, 1), (26, None)])
def test_max_elapsed(age_min: int, step: int | None) -> None:
    """Decided before the wait: it goes only where its attempt would begin in time."""
    strategy = Strategy(["5m", "5m"], max_elapsed="30m")
    retries = RetryTopics("r", strategy=strategy)
    hop = _next(retries, age_ms=age_min * _MINUTE_MS)
    assert step == (None if hop is None else hop.step)


def test_max_elapsed_and_a_handler_that_asks_for_time() -> None:
    """What counts is the topic that it would go to, not the step's own delay."""
    retries = RetryTopics("r", strategy=Strategy(["5m", "30m"], max_elapsed="20m"))
    assert None is not _next(retries)
    assert None is _next(retries, at_least_s=600)


def test_single_goes_on_until_it_expires() -> None:
    """In one topic, counting its steps, whatever number of them the time allows."""
    retries = RetryTopics.single("r", every="10s", max_duration="5m")
    hop, hops = _next(retries), list[Hop]()
    while hop is not None:
        hops.append(hop)
        hop = _next(retries, hop, age_ms=10_000 * len(hops))
    assert 30 == len(hops)
    assert {("r", True)} == {(each.topic, each.is_marked) for each in hops}
    assert list(range(1, 31)) == [each.step for each in hops]


def test_single_goes_on_over_a_change() -> None:
    """Of another strategy, or of an unknown step: its one delay, and the same clock."""
    retries = RetryTopics.single("r", every="10s", max_duration="5m")
    hop = _next(retries, Hop("r", 7, "older@123", 0))
    assert hop is not None
    assert 8 == hop.step
    assert None is _next(retries, Hop("r", 7, "older@123", 0), age_ms=5 * _MINUTE_MS)


@given(
    delays_s=st.lists(st.integers(0, 90_000), min_size=1, max_size=8),
    older_s=st.lists(st.integers(0, 90_000), min_size=1, max_size=8),
    started=st.integers(0, 8),
    asked_s=st.floats(0, 200_000),
)
def test_any_journey_ends(
    delays_s: list[int], older_s: list[int], started: int, asked_s: float
) -> None:
    """Begun by any strategy and gone on with by another: one step after another, into a topic that
    is there, and no shorter than what was asked where one is that long."""
    older, newer = (RetryTopics("r", strategy=each) for each in (older_s, delays_s))
    hop = None
    for _ in range(started):
        hop = _next(older, hop) or hop
    hops: list[Hop] = []
    while (hop := _next(newer, hop, at_least_s=asked_s)) is not None:
        hops.append(hop)
        assert hop.topic in newer.topics
        assert len(hops) <= len(delays_s)
        wait_ms = delay_of(hop.topic, "r") or 0
        assert wait_ms >= min(asked_s * 1000 - 1, max(delays_s) * 1000)
        assert wait_ms >= delays_s[hop.step - 1] * 1000
    assert all(one.step + 1 == other.step for one, other in pairwise(hops))


@pytest.mark.parametrize(
    "change",
    [
        {"strategy": []},
        {"strategy": Strategy([1], jitter=0.5)},
        {"prefix": "a b"},
        {"prefix": "a" * 250},
        {"limit": 0},
        {"hold": -1},
        {"back_to_source": "yes"},
    ],
    ids=str,
)
def test_what_cannot_be(change: dict[str, Any]) -> None:
    """Refused where it is written, with what to do."""
    choices: dict[str, Any] = {"prefix": "r", "strategy": [1], **change}
    with pytest.raises(ConfigurationError):
        RetryTopics(choices.pop("prefix"), **choices)


@pytest.mark.parametrize(
    ("topic", "delay_ms"),
    [
        ("r.5m", 300_000),
        ("r.7d", 604_800_000),
        ("r.300s", None),
        ("r.5m.5m", None),
        ("rr.5m", None),
        ("r", None),
        ("orders", None),
    ],
)
def test_which_topics_are_its_own(topic: str, delay_ms: int | None) -> None:
    """Every delay below the prefix, in the one way to write it, whether it has that step or not."""
    assert delay_ms == _RETRIES.delay_ms(topic)


def test_what_its_subscription_finds() -> None:
    """In librdkafka's own regular expressions: the topics of delays that are used no more, too, and
    no other topic, whatever the prefix has in it."""
    prefix = "orders-x_y.billing.retry"
    found = {f"{prefix}.5s", f"{prefix}.1h"}
    others = {f"{prefix}.1h.x", f"{prefix}.hour", "orders-x_yzbilling.retry.1h"}
    subscription = list(RetryTopics(prefix, strategy=["5s"]).subscription)
    with EmbeddedKafka() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        for topic in found | others:
            broker.create_topic(topic, 1)
            producer.produce(topic, b"")
        producer.flush(10)
        keys = {"bootstrap.servers": broker.bootstrap, "group.id": "billing.retry", "log_level": 0}
        with Consumer({**keys, "auto.offset.reset": "earliest"}) as consumer:
            consumer.subscribe(subscription)
            wait_until(lambda: consumer.poll(0.1) or consumer.assignment(), "it is assigned")
            assert found == {each.topic for each in consumer.assignment()}


def test_a_duration_that_ends_before_the_first_retry() -> None:
    """Each message was discarded at its first failure, without one retry."""
    with pytest.raises(ConfigurationError, match="10 s, is longer than max_dur"):
        RetryTopics.single("later", every=10, max_duration=5, on_expired="discard")
    with pytest.raises(ConfigurationError, match="no message would"):
        RetryTopics("r", strategy=Strategy([60], max_elapsed=59))
    assert RetryTopics.single("later", every=5, max_duration=5)
