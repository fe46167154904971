"""Every key that would break the promise is refused, and only those."""

import warnings
from typing import Any

import confluent_kafka
import pytest

from linear_retry import ConfigurationError, LinearConsumer, Strategy
from linear_retry.kafka.consumer.settings import ConsumerSettings, consumer_settings

_LEAST = {"bootstrap.servers": "localhost:9092", "group.id": "billing"}


def _settings() -> ConsumerSettings:
    return consumer_settings(_LEAST)


def _refusal(config: dict[str, Any]) -> str:
    with pytest.raises(ConfigurationError) as caught:
        consumer_settings(config)
    return str(caught.value)


def _made_quietly(config: dict[str, Any]) -> ConsumerSettings:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return consumer_settings(config)


@pytest.mark.parametrize(
    ("key", "value", "rule", "remedy"),
    [
        ("enable.auto.commit", True, "not done yet", "leave the key out"),
        ("auto.commit.enable", True, "not done yet", "leave the key out"),
        ("enable.auto.offset.store", True, "not done yet", "leave the key out"),
        (
            "enable.partition.eof",
            False,
            "a stalled one looks like an idle one",
            "leave the key out",
        ),
        ("auto.offset.reset", "newest", "must be earliest", "latest or error"),
        ("max.poll.interval.ms", "5m", "a whole number", "of milliseconds"),
        ("session.timeout.ms", -1, "a whole number", "of milliseconds"),
        ("session.timeout.ms", "²", "a whole number", "of milliseconds"),
        ("max.poll.interval.ms", 300_000.0, "a whole number", "of milliseconds"),
        ("receive.message.max.bytes", "lots", "a whole number", "of bytes"),
        ("error_cb", "print", "a callable", ""),
        ("on_commit", 1, "a callable", ""),
        ("stats_cb", [], "a callable", ""),
        ("throttle_cb", {}, "a callable", ""),
        ("group.id", "", "not the name of a consumer group", "set group.id"),
        ("group.id", None, "not the name of a consumer group", "set group.id"),
        ("group.id", 7, "not the name of a consumer group", "set group.id"),
    ],
)
def test_a_refusal_says_key_value_rule_and_remedy(
    key: str, value: object, rule: str, remedy: str
) -> None:
    """A refused key is named with its value, why it cannot be, and what to do."""
    text = _refusal(_LEAST | {key: value})
    assert 1 == len(text.splitlines())
    for part in (f"{key}={value!r}", rule, remedy):
        assert part in text


@pytest.mark.parametrize("key", ["group.id", "bootstrap.servers"])
def test_what_is_missing_is_named(key: str) -> None:
    """Without a group or a broker there is nothing to consume."""
    text = _refusal({name: value for name, value in _LEAST.items() if name != key})
    assert key in text
    assert "set" in text


def test_default_topic_config_is_refused() -> None:
    """Keys in there would not be checked."""
    text = _refusal(_LEAST | {"default.topic.config": {"auto.offset.reset": "latest"}})
    assert "default.topic.config is deprecated: write its keys beside the others" == text


def test_all_problems_come_at_once() -> None:
    """Whoever corrects a configuration corrects it once: a line for each problem."""
    text = _refusal(
        {"enable.auto.commit": "true", "auto.offset.reset": "?", "session.timeout.ms": "x"}
    )
    named = [line.split("=")[0].split(" ")[0] for line in text.splitlines()]
    assert [
        "group.id",
        "bootstrap.servers",
        "enable.auto.commit",
        "auto.offset.reset",
        "session.timeout.ms",
    ] == named


_NOT_FALSE = ["true", "True", "TRUE", "t", "1", 1, True, " true", "yes", None]
_FALSE = ["false", "False", "FALSE", "f", "0", 0, False]


@pytest.mark.parametrize("value", _NOT_FALSE, ids=repr)
@pytest.mark.parametrize(
    "key", ["enable.auto.commit", "auto.commit.enable", "enable.auto.offset.store"]
)
def test_only_what_is_plainly_false_is_taken(key: str, value: object) -> None:
    """What librdkafka reads as true, or not at all, or as its default, is not silently ours."""
    assert f"{key}={value!r}" in _refusal(_LEAST | {key: value})


@pytest.mark.parametrize("value", _FALSE, ids=repr)
@pytest.mark.parametrize(
    "key", ["enable.auto.commit", "auto.commit.enable", "enable.auto.offset.store"]
)
def test_what_says_the_same_as_ours_is_no_problem(key: str, value: object) -> None:
    """A configuration that was right before stays right, in every form that librdkafka reads."""
    assert False is consumer_settings(_LEAST | {key: value}).config["enable.auto.commit"]


@pytest.mark.parametrize("value", [*_FALSE, " False", "no", None], ids=repr)
def test_the_end_of_a_partition_must_be_reported(value: object) -> None:
    """`enable.partition.eof` may only be left out or be true."""
    key = "enable.partition.eof"
    assert f"{key}={value!r}" in _refusal(_LEAST | {key: value})
    assert True is consumer_settings(_LEAST | {key: "true"}).config[key]


def test_ours_are_set_whatever_was_given() -> None:
    """What keeps the promise is in the configuration that librdkafka gets, once."""
    given_config = _LEAST | {
        "auto.commit.enable": "false",
        "auto.offset.reset": "earliest",
        "error_cb": print,
        "fetch.min.bytes": 7,
    }
    made = consumer_settings(given_config)
    expected = _LEAST | {
        "fetch.min.bytes": 7,
        "fetch.queue.backoff.ms": 5,
        "fetch.wait.max.ms": 100,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
    }
    assert expected == dict(made.config)
    assert {"error_cb": print} == dict(made.callbacks)


def test_the_fetch_keys_are_only_defaults() -> None:
    """What the user sets for fetching stays."""
    mine = {"fetch.queue.backoff.ms": 50, "fetch.wait.max.ms": 500}
    assert mine.items() <= consumer_settings(_LEAST | mine).config.items()


def test_the_given_mapping_is_left_alone() -> None:
    """The user's dictionary is not ours to change."""
    config: dict[str, Any] = _LEAST | {"error_cb": print}
    before = dict(config)
    consumer_settings(config)
    assert before == config


def test_a_callback_that_is_none_is_none() -> None:
    """None is how a configuration says that it has no callback."""
    assert {} == dict(consumer_settings(_LEAST | {"error_cb": None}).callbacks)


@pytest.mark.parametrize(
    ("config", "incremental"),
    [
        ({}, False),
        ({"partition.assignment.strategy": "range,roundrobin"}, False),
        ({"partition.assignment.strategy": "cooperative-sticky"}, True),
        ({"group.protocol": "classic"}, False),
        ({"group.protocol": "consumer"}, True),
        ({"group.protocol": "CONSUMER"}, True),
        ({"group.protocol": " Consumer"}, True),
    ],
)
def test_how_assignments_come_is_known(config: dict[str, str], incremental: bool) -> None:
    """Cooperative and KIP-848 assignments are changes, eager ones are whole."""
    assert incremental == consumer_settings(_LEAST | config).incremental


@pytest.mark.parametrize(
    ("given_reset", "reset"),
    [
        ({}, "earliest"),
        ({"auto.offset.reset": "smallest"}, "earliest"),
        ({"auto.offset.reset": "beginning"}, "earliest"),
        ({"auto.offset.reset": "largest"}, "latest"),
        ({"auto.offset.reset": "end"}, "latest"),
        ({"auto.offset.reset": "latest"}, "latest"),
        ({"auto.offset.reset": "error"}, "error"),
        ({"auto.offset.reset": "LATEST"}, "latest"),
        ({"topic.auto.offset.reset": "latest"}, "latest"),
    ],
)
def test_where_to_begin_is_the_users(given_reset: dict[str, str], reset: str) -> None:
    """Every name that librdkafka has for it is known; unset, it is `earliest`."""
    made = _made_quietly(_LEAST | given_reset)
    assert reset == made.reset
    assert "error" == made.config["auto.offset.reset"]


@pytest.mark.parametrize("key", ["group.protocol", "isolation.level"])
def test_librdkafka_and_we_read_the_same_value(key: str) -> None:
    """With `group.protocol=CONSUMER` a consumer died of `_STATE`: librdkafka ignores case."""
    value = {"group.protocol": "consumer", "isolation.level": "read_uncommitted"}[key]
    assert value == consumer_settings(_LEAST | {key: f" {value.upper()}"}).config[key]


@pytest.mark.parametrize("key", ["topic.enable.auto.commit", "topic.auto.commit.enable"])
def test_a_topics_key_in_its_long_form_is_the_same_key(key: str) -> None:
    """librdkafka takes `topic.` before any of a topic's keys, and the last one counts."""
    assert f"{key.removeprefix('topic.')}=True" in _refusal(_LEAST | {key: True})


def test_times_and_names_are_read() -> None:
    """Defaults are librdkafka's, and texts are numbers too."""
    made = consumer_settings(_LEAST)
    assert (300.0, 45.0, None) == (
        made.max_poll_interval_s,
        made.session_timeout_s,
        made.static_member,
    )
    made = consumer_settings(
        _LEAST
        | {
            "max.poll.interval.ms": "60000",
            "session.timeout.ms": "6000",
            "group.instance.id": "pod-0",
        }
    )
    assert (60.0, 6.0, "pod-0") == (
        made.max_poll_interval_s,
        made.session_timeout_s,
        made.static_member,
    )


def test_other_clients_get_what_concerns_the_connection() -> None:
    """Brokers and security go on to the producer and the admin client, the rest does not."""
    connection = {
        "bootstrap.servers": "b:1",
        "security.protocol": "SASL_SSL",
        "sasl.username": "u",
        "ssl.ca.location": "/ca",
        "client.id": "c",
        "socket.timeout.ms": 5000,
    }
    made = consumer_settings(connection | {"group.id": "g", "fetch.min.bytes": 1})
    assert connection == dict(made.connection)


@pytest.mark.parametrize(
    ("protocol", "number", "needed"),
    [({}, 0x02090000, "2.10"), ({"group.protocol": "consumer"}, 0x020E0000, "2.15")],
)
def test_a_librdkafka_that_is_too_old_is_refused(
    protocol: dict[str, str],
    number: int,
    needed: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Older ones lack what the promise is built on."""
    monkeypatch.setattr(confluent_kafka, "libversion", lambda: ("old", number))
    text = _refusal(_LEAST | protocol)
    assert f"needs {needed} or later; upgrade confluent-kafka" in text


def _consumer(config: dict[str, Any]) -> LinearConsumer:
    return LinearConsumer(
        _LEAST | config, ["orders"], strategy=Strategy([1]), transient=OSError, dead_letters="dlq"
    )


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"auto.offset.reset": "latest"}, "auto.offset.reset=latest: .* use earliest"),
        (
            {"max.poll.interval.ms": 90_000, "session.timeout.ms": 45_001},
            "max.poll.interval.ms=90000 .* session.timeout.ms=45001: .* raise the former",
        ),
    ],
)
def test_what_is_risky_is_warned_about_where_it_was_written(
    config: dict[str, Any], text: str
) -> None:
    """The warning points at the line that makes the consumer, not into the library."""
    with pytest.warns(UserWarning, match=text) as caught:
        _consumer(config)
    assert [__file__] == [warning.filename for warning in caught]


def test_at_twice_the_session_timeout_nothing_is_warned_about() -> None:
    """The bound itself is fine (a warning would be an error here)."""
    _consumer({"max.poll.interval.ms": 90_000, "session.timeout.ms": 45_000})
