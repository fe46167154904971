"""A key that librdkafka does not take is refused without a client, and the nearest one named."""

import os
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import Consumer, Producer

from linear_retry import ConfigurationError, DeadLetters, Journal, LinearConsumer, Strategy
from linear_retry.dlq import DeadLetterTopic
from linear_retry.kafka.key_check import check_keys, pattern_refusal
from linear_retry.kafka.known_keys import KNOWN_KEYS
from tests.kafka.librdkafka_properties import properties

_LEAST = {"bootstrap.servers": "localhost:9092", "group.id": "billing"}
_VERSION = confluent_kafka.libversion()[0]


def _refusal(config: dict[str, Any]) -> str:
    with pytest.raises(ConfigurationError) as caught:
        check_keys(_LEAST | config, Consumer)
    return str(caught.value)


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("sesion.timeout.ms", "session.timeout.ms"),
        ("boostrap.servers", "bootstrap.servers"),
        ("max.poll.interval", "max.poll.interval.ms"),
        ("group_id", "group.id"),
        ("Client.Id", "client.id"),
        ("oauth.cb", "oauth_cb"),
    ],
)
def test_a_misspelt_key_is_reported_with_the_nearest(misspelt: str, meant: str) -> None:
    """It was refused only when `run` had begun, with librdkafka's words and no hint."""
    expected = f"{misspelt}: librdkafka {_VERSION} has no such key; did you mean {meant}?"
    assert expected == _refusal({misspelt: 1})


@pytest.mark.parametrize(("key", "shown"), [("quux", "quux"), (5, "5"), ("a\nb", r"'a\nb'")])
def test_where_nothing_is_near_nothing_is_guessed(key: Any, shown: str) -> None:
    """Whatever a dictionary may have for a key, and in one line."""
    rule = f"librdkafka {_VERSION} has no such key; correct it, or leave it out"
    assert f"{shown}: {rule}" == _refusal({key: 1})


def test_no_value_is_shown() -> None:
    """The value of a misspelt `sasl.password` is a password all the same."""
    assert "hunter2" not in _refusal({"sasl.pasword": "hunter2"})


@pytest.mark.parametrize(
    ("key", "value"),
    [("security.protocol", "TLS"), ("fetch.min.bytes", "lots"), ("oauth_cb", "token")],
)
def test_a_value_that_librdkafka_refuses_is_reported(key: str, value: object) -> None:
    """In librdkafka's own words, which name the key."""
    text = _refusal({key: value})
    assert key in text
    assert text.endswith("; correct that value")


@pytest.mark.parametrize("value", [["a:9092", "b:9092"], ("a:9092",), b"a:9092"], ids=repr)
def test_a_list_of_brokers_is_refused(value: object) -> None:
    """confluent-kafka made text of it: the consumer started, and tried the host "['a" for ever."""
    with pytest.raises(ConfigurationError, match=r'^bootstrap\.servers: .* as "a:9092,b:9092"$'):
        check_keys(_LEAST | {"bootstrap.servers": value}, Consumer)
    with (
        DeadLetterTopic("dlq", {"bootstrap.servers": value}) as topic,
        pytest.raises(ConfigurationError, match=r"^bootstrap\.servers: must be one text"),
    ):
        next(topic.letters())


def test_nothing_is_made_to_find_out(tmp_path: Path) -> None:
    """No thread, no file, no broker: what a constructor may ask, and as often as it likes."""
    before = set(os.listdir("/proc/self/task"))
    keys = {"security.protocol": "SSL", "ssl.ca.location": str(tmp_path / "missing")}
    plugin = {"plugin.library.paths": str(tmp_path / "missing")}
    for _ in range(100):
        check_keys(_LEAST | keys | plugin, Consumer)
        check_keys({"bootstrap.servers": "localhost:9092"} | keys, Producer)
    assert set() == set(os.listdir("/proc/self/task")) - before


def test_the_list_of_known_keys_is_librdkafkas(tmp_path: Path) -> None:
    """A key that a newer librdkafka has is missing as a hint only, until it is added here."""
    settable = set()
    for one in properties(tmp_path):
        try:
            check_keys({"group.id": "g", one.name: None}, Consumer)
        except ConfigurationError as error:
            if "no such key" in str(error) or "not available" in str(error):
                continue
        settable.add(one.name)
    missing = settable - set(KNOWN_KEYS.split())
    assert set() == {name for name in missing if not _is_for_programs_in_c(name)}


def _is_for_programs_in_c(name: str) -> bool:
    return name.endswith(("_cb", "_conf", "_data", "_cmp")) or name in (
        *("opaque", "interceptors", "enabled_events"),
        *("ssl_key", "ssl_certificate", "ssl_ca"),
    )


@pytest.mark.parametrize("pattern", ["^orders$", "^a{2}", "^a{1,2}", "^[[:digit:]]+", "^"])
def test_a_pattern_that_librdkafka_takes(pattern: str) -> None:
    """What has a comma cannot be asked about beforehand."""
    assert pattern_refusal(pattern) is None


@pytest.mark.parametrize("pattern", ["^orders(", "^a[", "^(?:a)", "^*"])
def test_a_pattern_that_librdkafka_does_not_take(pattern: str) -> None:
    """Its own judgement: Python's regular expressions are others."""
    assert pattern in str(pattern_refusal(pattern))


def _make(config: dict[str, Any], letters: dict[str, Any], journal: dict[str, Any]) -> None:
    LinearConsumer(
        _LEAST | config,
        ["orders"],
        strategy=Strategy([1]),
        transient=OSError,
        dead_letters=DeadLetters("dlq", config=letters),
        listeners=[Journal(config=journal)],
    )


@pytest.mark.parametrize(
    ("keys", "where"),
    [
        (({"clientid": "a"}, {}, {}), "clientid"),
        (({}, {"clientid": "a"}, {}), "DeadLetters config clientid"),
        (({}, {}, {"clientid": "a"}), "Journal config clientid"),
    ],
)
def test_every_configuration_is_judged_at_construction(
    keys: tuple[dict[str, Any], dict[str, Any], dict[str, Any]], where: str
) -> None:
    """The consumer's, the dead letters' and a journal's, each by its name."""
    with pytest.raises(ConfigurationError) as caught:
        _make(*keys)
    assert f"{where}: librdkafka {_VERSION} has no such key; did you mean client.id?" == str(
        caught.value
    )
