"""The dead-letter producer's librdkafka keys: which it gets, and which are refused."""

import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry import ConfigurationError, DeadLetters, LinearConsumer, Strategy
from linear_retry.kafka import Producer
from linear_retry.kafka.consumer.settings import ConsumerSettings, consumer_settings
from linear_retry.kafka.producers.settings import producer_config, transactional_config

_LEAST: dict[str, Any] = {"bootstrap.servers": "localhost:9092", "group.id": "billing"}


def _settings(**more: Any) -> ConsumerSettings:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return consumer_settings(_LEAST | more)


def test_a_dead_letter_is_acknowledged_by_all_and_written_once() -> None:
    """The producer has the consumer's brokers, all acknowledgements, and idempotence."""
    made = producer_config(_settings(), {})
    expected = {
        "bootstrap.servers": "localhost:9092",
        "message.max.bytes": 100_000_000,
        "message.timeout.ms": 30_000,
        "linger.ms": 0,
        "partitioner": "murmur2_random",
        "allow.auto.create.topics": False,
        "acks": "all",
        "enable.idempotence": True,
    }
    assert expected == made


def test_the_users_keys_lie_over_ours() -> None:
    """Other brokers' security, compression, a shorter timeout: the user's word counts."""
    mine = {"compression.type": "zstd", "message.timeout.ms": 5000, "linger.ms": 5}
    assert mine.items() <= producer_config(_settings(), mine).items()


@pytest.mark.parametrize("ours", ["bootstrap.servers", "metadata.broker.list"])
@pytest.mark.parametrize("theirs", ["bootstrap.servers", "metadata.broker.list"])
def test_letters_go_to_the_brokers_that_they_name(ours: str, theirs: str) -> None:
    """The two keys are one for librdkafka, and the last counts: the consumer's took their place."""
    both = {"bootstrap.servers": "here:9092", "metadata.broker.list": "here:9092"}
    for config in ({ours: "here:9092"}, both):
        made = producer_config(consumer_settings({"group.id": "g", **config}), {theirs: "there:1"})
        servers = {key: made[key] for key in both if key in made}
        assert {theirs: "there:1"} == servers


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("acks", 1, "lost or duplicated"),
        ("acks", "0", "lost or duplicated"),
        ("request.required.acks", 1, "lost or duplicated"),
        ("enable.idempotence", False, "lost or duplicated"),
        ("enable.idempotence", "false", "lost or duplicated"),
        ("delivery.report.only.error", True, "no success would ever be reported"),
        ("transactional.id", "mine", "fence each other"),
    ],
)
def test_what_would_make_a_letter_unsure_is_refused(key: str, value: object, why: str) -> None:
    """Weaker acknowledgements, no idempotence, silent successes: refused by name."""
    with pytest.raises(ConfigurationError) as caught:
        producer_config(_settings(), {key: value})
    text = str(caught.value)
    assert text.startswith(f"DeadLetters config {key}={value!r}: ")
    assert why in text
    assert text.endswith("leave the key out")


@pytest.mark.parametrize(
    "overlay",
    [
        {"acks": "all"},
        {"acks": -1},
        {"request.required.acks": "-1"},
        {"enable.idempotence": "TRUE"},
        {"enable.idempotence": 1},
        {"delivery.report.only.error": "false"},
    ],
    ids=repr,
)
def test_what_says_the_same_is_taken(overlay: dict[str, Any]) -> None:
    """A producer's configuration with the right guarantees is right, and `acks` stands once."""
    made = producer_config(_settings(), overlay)
    acks = [made[key] for key in ("acks", "request.required.acks") if key in made]
    assert (["all"], True) == (acks, made["enable.idempotence"])


@pytest.mark.parametrize("key", ["message.timeout.ms", "delivery.timeout.ms"])
@pytest.mark.parametrize(
    ("timeout_ms", "fits"), [(1, True), (20_000, True), (20_001, False), (0, False)]
)
def test_a_letter_may_take_a_third_of_the_poll_interval(
    key: str, timeout_ms: int, fits: bool
) -> None:
    """Longer (0 is for ever), and the member would be thrown out while it waits."""
    made = _settings(**{"max.poll.interval.ms": 60_000})
    if fits:
        assert timeout_ms == producer_config(made, {key: timeout_ms})[key]
        return
    with pytest.raises(ConfigurationError) as caught:
        producer_config(made, {key: timeout_ms})
    for part in ("max.poll.interval.ms=60000", f"={timeout_ms}", "three times", "raise the former"):
        assert part in str(caught.value)


@pytest.mark.parametrize("key", ["message.timeout.ms", "delivery.timeout.ms"])
@pytest.mark.parametrize("value", ["soon", None, 1.5, -1])
def test_a_timeout_that_is_no_number_is_named(key: str, value: object) -> None:
    """A mistake in the configuration is a `ConfigurationError`, never a bare ValueError."""
    with pytest.raises(ConfigurationError, match=f"{key}={value!r}: must be a whole number"):
        producer_config(_settings(), {key: value})


@given(st.integers(3, 86_400_000))
def test_the_default_timeout_always_fits(interval_ms: int) -> None:
    """Left alone, a letter's timeout is within its bounds for every poll interval."""
    made = _settings(**{"max.poll.interval.ms": interval_ms})
    timeout_ms = producer_config(made, {})["message.timeout.ms"]
    assert 1 <= timeout_ms <= min(30_000, interval_ms // 3)


@pytest.mark.parametrize(
    ("received_bytes", "sent_bytes"),
    [
        (1000, 1_000_000),
        (50_000_000, 50_000_000),
        ("50000000", 50_000_000),
        (2_147_483_647, 1_000_000_000),
    ],
)
def test_a_letter_may_be_as_large_as_its_message(
    received_bytes: int | str, sent_bytes: int
) -> None:
    """What was received can be sent; librdkafka's own bound for sending, a gigabyte, is kept.

    A consumer that accepted 2 GB had a producer that librdkafka refused, for a key that its user
    had never set.
    """
    made = consumer_settings(_LEAST | {"receive.message.max.bytes": received_bytes})
    assert sent_bytes == producer_config(made, {})["message.max.bytes"]


def test_librdkafka_takes_the_producers_keys() -> None:
    """The largest values that we set by ourselves are within librdkafka's own bounds."""
    made = consumer_settings(_LEAST | {"receive.message.max.bytes": 2_147_483_647})
    # Without brokers: a client that has one begins to connect, and logs that it cannot.
    unconnected = producer_config(made, {}) | {"bootstrap.servers": ""}
    assert 0 == len(Producer(unconnected))


def test_the_overlay_is_checked_when_the_consumer_is_made() -> None:
    """Nobody learns at the first dead letter that none can be sent."""
    with pytest.raises(ConfigurationError, match="acks='1'"):
        LinearConsumer(
            _LEAST,
            ["orders"],
            strategy=Strategy([1]),
            transient=OSError,
            dead_letters=DeadLetters("dlq", config={"acks": "1"}),
        )


def test_a_transaction_is_short_and_longer_than_its_letter() -> None:
    """10 s, so that a killed member's partitions do not stand still for a minute."""
    made = transactional_config(_settings(), {})
    expected = producer_config(_settings(), {}) | {
        "transaction.timeout.ms": 10_000,
        "message.timeout.ms": 10_000,
        "socket.timeout.ms": 10_000,
        "retry.backoff.ms": 10,
    }
    assert expected == made


@given(
    st.integers(3_000, 86_400_000), st.none() | st.integers(10, 300_000), st.booleans(), st.data()
)
def test_librdkafka_takes_what_we_set(
    interval_ms: int, socket_ms: int | None, shortens: bool, data: st.DataObject
) -> None:
    """Its rules between the timeouts of letter, request and transaction hold for any of ours."""
    socket = {} if socket_ms is None else {"socket.timeout.ms": socket_ms}
    made = _settings(**{"max.poll.interval.ms": interval_ms, "bootstrap.servers": "x"}, **socket)
    longest_ms = min(10_000, interval_ms // 3)
    chosen = {"transaction.timeout.ms": data.draw(st.integers(1_000, longest_ms))}
    config = transactional_config(made, chosen if shortens else {})
    assert config["transaction.timeout.ms"] <= longest_ms
    # Without brokers: a client that has one begins to connect, and logs that it cannot.
    assert 0 == len(Producer(config | {"bootstrap.servers": "", "transactional.id": "mine"}))


def test_the_users_timeouts_lie_over_ours() -> None:
    """A longer transaction, a shorter letter, another back-off: the user's word counts."""
    mine = {
        "transaction.timeout.ms": 60_000,
        "delivery.timeout.ms": 5_000,
        "retry.backoff.ms": 50,
        "socket.timeout.ms": 20_000,
    }
    assert mine.items() <= transactional_config(_settings(), mine).items()


@pytest.mark.parametrize(
    ("interval_ms", "overlay", "parts"),
    [
        (60_000, {"transaction.timeout.ms": 20_001}, ("=60000", "=20001", "raise the former")),
        (60_000, {"transaction.timeout.ms": 999}, ("=999", "1000 or more")),
        (2_999, {}, ("max.poll.interval.ms=2999", "transaction.timeout.ms=1000")),
        (60_000, {"transaction.timeout.ms": "soon"}, ("'soon'", "a whole number")),
        (60_000, {"message.timeout.ms": 10_001}, ("=10001", "transaction.timeout.ms=10000")),
        (60_000, {"bootstrap.servers": "other:9092"}, ("'other:9092'", "the consumer's cluster")),
        (60_000, {"metadata.broker.list": "other:9092"}, ("'other:9092'", "leave the key out")),
        (60_000, {"transactional.id": "mine"}, ("transactional.id='mine'", "leave the key out")),
    ],
)
def test_a_transaction_that_cannot_work_is_refused(
    interval_ms: int, overlay: dict[str, Any], parts: tuple[str, ...]
) -> None:
    """Key, value, rule and remedy, when the consumer is made."""
    made = _settings(**{"max.poll.interval.ms": interval_ms})
    with pytest.raises(ConfigurationError) as caught:
        transactional_config(made, overlay)
    assert [part for part in parts if part not in str(caught.value)] == []


@pytest.mark.parametrize("level", ["read_uncommitted", "READ_UNCOMMITTED"])
def test_the_next_owner_must_wait_for_the_last_ones_transaction(level: object) -> None:
    """A consumer that reads what is uncommitted begins too early: a letter would be sent twice."""
    with pytest.raises(ConfigurationError, match=r"isolation.level=.*leave the key out"):
        transactional_config(_settings(**{"isolation.level": level}), {})


def test_the_usual_isolation_level_is_taken() -> None:
    """It is the default, and may be written down."""
    made = _settings(**{"isolation.level": "read_committed"})
    assert 10_000 == transactional_config(made, {})["transaction.timeout.ms"]
