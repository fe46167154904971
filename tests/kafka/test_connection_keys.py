"""Every client that reaches the consumer's cluster gets the keys it takes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from linear_retry.kafka.consumer.settings import connection
from linear_retry.kafka.producers.acknowledged import control_config
from linear_retry.kafka.producers.batch_transactions import batch_config
from linear_retry.kafka.topics import description
from tests.kafka.librdkafka_properties import properties
from tests.kafka.login import SECURITY, logs_in

_OF_ONE_CLIENT = "what this client does with its messages or its memory"
_OF_REQUESTS = "how a client repeats its requests; a producer of ours has its own"
_OF_TOPICS = "how a client follows topics; a producer of ours has its own"
_NOT_PASSED_ON = {
    "builtin.features": "asks for features of the library, which is the same for all",
    "message.": _OF_ONE_CLIENT,
    "receive.message.max.bytes": "bounds what the consumer takes; a letter is as large as that",
    "max.in.flight": "of a producer; the order of letters hangs on it",
    "topic.": _OF_TOPICS,
    "metadata.max.age.ms": _OF_TOPICS,
    "allow.auto.create.topics": "no client of ours may create a topic",
    "debug": "lines about one client",
    "statistics.interval.ms": "for the consumer's own stats_cb",
    "enable.random.seed": "of the process",
    "internal.termination.signal": "of the process",
    "plugin.library.paths": "loaded once; its interceptors are asked for by client",
    "retry.backoff.": _OF_REQUESTS,
}
_ONLY_IN_C = ("_cb", "_conf", "_data", "opaque", "interceptors", "enabled_events")


def test_every_key_of_all_clients_is_passed_on_or_has_a_reason(tmp_path: Path) -> None:
    """With OIDC behind a private CA (`https.ca.location`) no letter could be sent.

    Every key that consumers and producers share is looked at, in the librdkafka in use: a new one
    about connections makes this fail until somebody has decided.
    """
    shared = {one.name for one in properties(tmp_path) if one.clients == "*" and one.of == "client"}
    passed_on = set(connection(dict.fromkeys(shared)))
    excused = {name for name in shared if name.startswith(tuple(_NOT_PASSED_ON))}
    in_c = {name for name in shared if name.endswith(_ONLY_IN_C)}
    assert set() == shared - passed_on - excused - in_c
    assert set() == passed_on & excused


def test_no_reason_is_for_nothing(tmp_path: Path) -> None:
    """What librdkafka does not have any more needs no reason either."""
    names = [one.name for one in properties(tmp_path)]
    assert [] == [key for key in _NOT_PASSED_ON if not any(map(_begins(key), names))]


def _begins(start: str) -> Callable[[str], bool]:
    return lambda name: name.startswith(start)


def test_every_client_of_an_operator_logs_in_as_the_configuration_says() -> None:
    """Commands, replays and what is asked about topics."""
    config = {"bootstrap.servers": "fake:9092"} | SECURITY
    made: list[dict[str, Any]] = []

    class _NoClientError(Exception):
        pass

    def make(keys: dict[str, Any]) -> Any:
        made.append(keys)
        raise _NoClientError

    with pytest.raises(_NoClientError):
        description.Topics(config, admin=make).describe(["orders"])
    made += [batch_config(config, "id", None), control_config(config, 1.0)]
    assert [True, True, True] == [logs_in(keys) for keys in made]
