"""Checks the user's librdkafka keys, and adds those that the guarantees need."""

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import confluent_kafka
from confluent_kafka import Consumer

from linear_retry.errors import ConfigurationError
from linear_retry.kafka.key_check import check_keys

Reset: TypeAlias = Literal["earliest", "latest", "error"]
Config: TypeAlias = Mapping[str, Any]

_OLDEST_LIBRARY = (0x020A0000, "2.10")
_OLDEST_LIBRARY_KIP_848 = (0x020F0000, "2.15")

# Defaults of librdkafka 2.x (CONFIGURATION.md), used here if the user does not set them.
_MAX_POLL_INTERVAL_MS = 300_000
_SESSION_TIMEOUT_MS = 45_000
_SOCKET_TIMEOUT_MS = 60_000
_RECONNECT = "reconnect.backoff.max.ms"
_RECONNECT_MS = 10_000
_WHOLE = ("max.poll.interval.ms", "session.timeout.ms", _RECONNECT, "receive.message.max.bytes")
_RESETS: dict[str, Reset] = {
    "smallest": "earliest",
    "earliest": "earliest",
    "beginning": "earliest",
    "largest": "latest",
    "latest": "latest",
    "end": "latest",
    "error": "error",
}
_CALLBACKS = ("on_commit", "error_cb", "stats_cb", "throttle_cb")
SERVERS = ("bootstrap.servers", "metadata.broker.list")
_OF_THE_GROUP = (
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "partition.assignment.strategy",
)
_CONNECTION = (
    *SERVERS,
    "security.protocol",
    "ssl.",
    "ssl_",
    "https.",
    "sasl.",
    "enable.ssl.",
    "enable.sasl.",
    "oauth_cb",
    "client.",
    "socket.",
    "broker.",
    "api.version.",
    "connections.",
    "reconnect.",
    "metadata.recovery.",
    "enable.metrics.push",
    "log",
)
# librdkafka accepts their values in any case, and with leading blanks.
_ENUMERATIONS = ("group.protocol", "isolation.level", "auto.offset.reset")


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """The parts of the user's configuration that the rest of the library needs."""

    config: Mapping[str, Any]
    callbacks: Mapping[str, Any]
    connection: Mapping[str, Any]
    """The keys for brokers and security, with which other clients reach the same cluster."""
    group_id: str
    static_member: str | None
    incremental: bool
    reset: Reset
    max_poll_interval_s: float
    session_timeout_s: float
    reconnect_within_s: float
    """The longest time until a broker that is reachable again is reconnected."""


def consumer_settings(config: Config) -> ConsumerSettings:
    """Checks the user's librdkafka keys, and adds ours.

    Raises `ConfigurationError` with every key that breaks a guarantee, and why. Warns about
    `auto.offset.reset=latest` and a `max.poll.interval.ms` too close to the session timeout.
    """
    if not isinstance(config, Mapping):
        raise ConfigurationError(
            f"config={config!r}: must be a mapping of librdkafka's keys, such as "
            '{"bootstrap.servers": "localhost:9092", "group.id": "billing"}'
        )
    config = _normalised(config)
    problems = [*_missing(config), *_refused(config), *_too_old(config)]
    if problems:
        raise ConfigurationError("\n".join(problems))
    ours = _with_ours(config)
    check_keys(ours, Consumer)
    settings = ConsumerSettings(
        config=ours,
        callbacks={key: config[key] for key in _CALLBACKS if config.get(key) is not None},
        connection=connection(config),
        group_id=str(config["group.id"]),
        static_member=config.get("group.instance.id"),
        incremental=_is_incremental(config),
        reset=_RESETS[str(config.get("auto.offset.reset", "earliest"))],
        max_poll_interval_s=whole_ms(config, "max.poll.interval.ms", _MAX_POLL_INTERVAL_MS) / 1000,
        session_timeout_s=whole_ms(config, "session.timeout.ms", _SESSION_TIMEOUT_MS) / 1000,
        # librdkafka varies its backoff by 20 %, and connecting takes time, too.
        reconnect_within_s=1.5 * whole_ms(config, _RECONNECT, _RECONNECT_MS) / 1000,
    )
    _warn(settings)
    return settings


def servers_of(config: Config) -> str:
    """Returns the brokers' addresses, as the user wrote them."""
    return str(config.get("bootstrap.servers") or config.get("metadata.broker.list"))


def connection(config: Config) -> dict[str, Any]:
    """Returns the keys for brokers and security, which any client of the cluster needs."""
    return {key: value for key, value in config.items() if key.startswith(_CONNECTION)}


def without_group(config: Config) -> dict[str, Any]:
    """Returns the keys that a client may have which joins no group."""
    return {key: value for key, value in config.items() if key not in _OF_THE_GROUP}


def _normalised(config: Config) -> dict[str, Any]:
    """Returns each key and value in the one form that is checked here.

    librdkafka also accepts topic keys with the prefix `topic.`: passed on unchanged, one would come
    after ours and win.
    """
    found = {_without_prefix(key): value for key, value in config.items()}
    for key in _ENUMERATIONS:
        if isinstance(found.get(key), str):
            found[key] = found[key].strip().lower()
    return found


def _without_prefix(key: Any) -> Any:
    is_global = str(key).startswith(("topic.metadata.", "topic.blacklist"))
    return key.removeprefix("topic.") if isinstance(key, str) and not is_global else key


def _missing(config: Config) -> list[str]:
    problems = []
    if not isinstance(config.get("group.id"), str) or not config["group.id"]:
        problems.append(
            f"group.id={config.get('group.id')!r}: not the name of a consumer group; set group.id"
        )
    if not (config.get("bootstrap.servers") or config.get("metadata.broker.list")):
        problems.append("bootstrap.servers is missing: set it to HOST:PORT of a broker")
    return problems


def _refused(config: Config) -> list[str]:
    problems = []
    for key in ("enable.auto.commit", "auto.commit.enable", "enable.auto.offset.store"):
        if not _is_false(config.get(key, False)):
            problems.append(
                f"{key}={config[key]!r}: librdkafka would commit messages that are not done yet, "
                "and a failed one would be lost; leave the key out"
            )
    if not _is_true(config.get("enable.partition.eof", True)):
        problems.append(
            f"enable.partition.eof={config['enable.partition.eof']!r}: without the end of a "
            "partition a stalled one looks like an idle one; leave the key out"
        )
    if "default.topic.config" in config:
        problems.append("default.topic.config is deprecated: write its keys beside the others")
    if str(config.get("auto.offset.reset", "earliest")) not in _RESETS:
        problems.append(
            f"auto.offset.reset={config['auto.offset.reset']!r}: must be earliest, latest or error"
        )
    problems += [
        _not_whole(key, config[key]) for key in _WHOLE if not _is_whole(config.get(key, 0))
    ]
    problems += [
        f"{key}={config[key]!r}: must be a callable"
        for key in _CALLBACKS
        if config.get(key) is not None and not callable(config[key])
    ]
    return problems


def _too_old(config: Config) -> list[str]:
    kip_848 = config.get("group.protocol") == "consumer"
    oldest, name = _OLDEST_LIBRARY_KIP_848 if kip_848 else _OLDEST_LIBRARY
    version, number = confluent_kafka.libversion()
    if number >= oldest:
        return []
    purpose = "group.protocol=consumer" if kip_848 else "linear_retry"
    return [f"librdkafka {version}: {purpose} needs {name} or later; upgrade confluent-kafka"]


def _with_ours(config: Config) -> dict[str, Any]:
    ours = {key: value for key, value in config.items() if key not in _CALLBACKS}
    ours.setdefault("fetch.queue.backoff.ms", 5)
    ours.setdefault("fetch.wait.max.ms", 100)
    ours.pop("auto.commit.enable", None)
    return ours | {
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        # If the committed offset is gone, librdkafka would reset silently; we must learn of it.
        "auto.offset.reset": "error",
    }


def _warn(settings: ConsumerSettings) -> None:
    if settings.reset == "latest":
        warnings.warn(
            "auto.offset.reset=latest: messages that reach a new partition before the consumer "
            "finds it are skipped; use earliest unless that is intended",
            stacklevel=5,
        )
    # A KIP-848 group's session timeout is set at the broker, and unknown here.
    ours = settings.config.get("group.protocol") != "consumer"
    if ours and settings.max_poll_interval_s < 2 * settings.session_timeout_s:
        warnings.warn(
            f"max.poll.interval.ms={settings.max_poll_interval_s * 1000:.0f} is less than twice "
            f"session.timeout.ms={settings.session_timeout_s * 1000:.0f}: a slow handler and a "
            "dead member look alike; raise the former or lower the latter",
            stacklevel=5,
        )


def _is_incremental(config: Config) -> bool:
    assignors = str(config.get("partition.assignment.strategy", ""))
    return config.get("group.protocol") == "consumer" or "cooperative" in assignors


def _is_true(value: object) -> bool:
    return str(value).lower() in ("true", "t", "1")


def _is_false(value: object) -> bool:
    """Whether librdkafka reads it as false. Our False replaces it, so we refuse the same values."""
    return str(value).lower() in ("false", "f", "0")


def _is_whole(value: object) -> bool:
    """Whether librdkafka reads it as a whole number."""
    return re.fullmatch("[0-9]+", str(value)) is not None


def _not_whole(key: str, value: object) -> str:
    unit = "bytes" if key.endswith("bytes") else "milliseconds"
    return f"{key}={value!r}: must be a whole number of {unit}"


def bounded_socket_timeout(config: Config, longest_ms: int) -> dict[str, Any]:
    """Lowers `socket.timeout.ms` to this bound, or librdkafka would refuse the configuration."""
    socket_ms = config.get("socket.timeout.ms", _SOCKET_TIMEOUT_MS)
    is_longer = _is_whole(socket_ms) and int(socket_ms) > longest_ms
    return {"socket.timeout.ms": longest_ms} if is_longer else {}


def whole_ms(config: Config, key: str, default: int = 0, where: str = "") -> int:
    """Returns this key's milliseconds. Raises `ConfigurationError` unless it is a whole number.

    `where` precedes the key in the message.
    """
    value = config.get(key, default)
    if not _is_whole(value):
        raise ConfigurationError(where + _not_whole(key, value))
    return int(value)
