"""Everything is checked before the consumer joins its group."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from linear_retry.consumer.lifecycle.startup import Brokers, RetentionCheck, missing_topics
from linear_retry.errors import BrokerError, ConfigurationError
from linear_retry.events import RetentionTooShort
from linear_retry.kafka.topics.admin import Admin
from tests.consumer.joined_parts import Joined

_TIMED_OUT = KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer"))


def _metadata(**partitions: int | None) -> Any:
    """None: the broker knows no such topic."""
    topics = {
        name: SimpleNamespace(
            partitions=dict.fromkeys(range(count or 0)), error=None if count else "unknown"
        )
        for name, count in partitions.items()
    }
    return SimpleNamespace(topics=topics)


def test_brokers_that_come_up_late_are_waited_for() -> None:
    """Asked again each second; between two questions librdkafka may say why."""
    joined = Joined()
    answers = [_TIMED_OUT, _TIMED_OUT, _metadata(orders=1, gone=None)]

    def list_topics(timeout: float) -> Any:
        joined.clock.advance(timeout)
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    joined.librdkafka.answers["list_topics"] = list_topics
    assert {"orders": 1} == Brokers(
        joined.client, joined.settings, joined.clock.now_s, 30.0, lambda: False
    ).topics()
    asked = ["list_topics", "poll", "list_topics", "poll", "list_topics"]
    assert asked == joined.librdkafka.names


def _never(joined: Joined) -> None:
    def list_topics(timeout: float) -> Any:
        joined.clock.advance(timeout)
        raise _TIMED_OUT

    joined.librdkafka.answers["list_topics"] = list_topics


def test_brokers_that_never_answer_end_the_start() -> None:
    """After the time given, with their address and what librdkafka says."""
    joined = Joined()
    _never(joined)
    with pytest.raises(BrokerError) as caught:
        Brokers(joined.client, joined.settings, joined.clock.now_s, 3.0, lambda: False).topics()
    for part in ("localhost:9092", "within 3 s", "no answer", "check the address"):
        assert part in str(caught.value)
    assert 3 == joined.librdkafka.names.count("list_topics")
    assert _TIMED_OUT is caught.value.__cause__


def test_a_stop_ends_the_wait_for_brokers() -> None:
    """Ctrl-C is heard between two questions: nothing is known, and nothing raised."""
    joined = Joined()
    _never(joined)
    librdkafka = joined.librdkafka
    assert (
        {}
        == Brokers(
            joined.client,
            joined.settings,
            joined.clock.now_s,
            30.0,
            lambda: len(librdkafka.calls) > 3,
        ).topics()
    )
    assert ["list_topics", "poll"] * 2 == librdkafka.names


def test_every_missing_topic_is_named() -> None:
    """All at once; a pattern may match nothing yet."""
    with pytest.raises(ConfigurationError, match=r"no such topic: refunds, orders\.dlq; create it"):
        missing_topics({"orders": 1}, ["orders", "refunds", "^later", "orders.dlq"])
    missing_topics({"orders": 1}, ["orders", "^later"])


class _Admin(Admin):
    """Answers when a test says so."""

    def __init__(self) -> None:
        super().__init__({})
        self.asked: dict[str, Future[int]] = {}

    def ask_retention_ms(self, topic: str) -> Future[int]:
        return self.asked.setdefault(topic, Future())


def _check(total_s: float = 3600.0) -> tuple[Joined, _Admin, RetentionCheck]:
    joined, admin = Joined(), _Admin()
    check = RetentionCheck(admin, total_s, joined.emit)
    check.ask(["orders", "^refunds"])
    return joined, admin, check


@pytest.mark.parametrize(
    ("retention_ms", "warns"),
    [(3_599_999, True), (0, True), (3_600_000, False), (604_800_000, False), (-1, False)],
)
def test_a_strategy_that_outlives_its_topic_is_reported(retention_ms: int, warns: bool) -> None:
    """What waits behind a held message may be gone by then; -1 is for ever."""
    joined, admin, check = _check()
    admin.asked["orders"].set_result(retention_ms)
    check.tick()
    check.tick()
    expected = [RetentionTooShort("orders", retention_ms, 3600.0)] if warns else []
    assert expected == joined.happened


def test_an_answer_is_never_waited_for() -> None:
    """Not there yet, or an error: the consumer goes on, and looks again."""
    joined, admin, check = _check()
    check.tick()
    admin.asked["orders"].set_exception(_TIMED_OUT)
    check.tick()
    assert [] == joined.happened


def test_only_named_topics_are_asked_about_and_only_for_a_strategy_that_waits() -> None:
    """A pattern has no retention; no waits, no problem."""
    _, admin, _ = _check()
    assert {"orders"} == set(admin.asked)
    _, admin, _ = _check(total_s=0.0)
    assert {} == admin.asked
