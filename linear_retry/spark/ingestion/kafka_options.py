"""Translates librdkafka's keys into options of Spark's Kafka source."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from linear_retry.errors import ConfigurationError

_SAME = frozenset(
    {
        *("bootstrap.servers", "security.protocol", "client.id", "client.rack"),
        *("sasl.mechanism", "sasl.kerberos.service.name"),
        *("ssl.endpoint.identification.algorithm", "ssl.key.password"),
    }
)
_RENAMED = {"metadata.broker.list": "bootstrap.servers", "sasl.mechanisms": "sasl.mechanism"}
_PEM = {
    "ssl.ca": ("ssl.truststore.certificates", "ssl.truststore.type"),
    "ssl.certificate": ("ssl.keystore.certificate.chain", "ssl.keystore.type"),
    "ssl.key": ("ssl.keystore.key", "ssl.keystore.type"),
}
_LOGINS = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_LOGIN = ("sasl.username", "sasl.password")


def java_keys(config: Mapping[str, Any]) -> dict[str, str]:
    """The options for Spark's Kafka source that mean what `config` means to librdkafka.

    A key that begins with `kafka.` is the Java client's, and goes to Spark as it is. Raises
    `ConfigurationError` for an unknown key: left out, it might weaken what it secures.
    """
    found: dict[str, str] = {}
    for key, value in config.items():
        name, _, form = key.rpartition(".")
        if key.startswith("kafka."):
            found[key] = str(value)
        elif key in _SAME or key in _RENAMED:
            found[f"kafka.{_RENAMED.get(key, key)}"] = _text(key, value)
        elif name in _PEM and form in ("location", "pem"):
            content, kind = _PEM[name]
            found[f"kafka.{content}"] = _read(key, value) if form == "location" else str(value)
            found[f"kafka.{kind}"] = "PEM"
        elif key not in _LOGIN:
            raise ConfigurationError(
                f"{key!r} is not known for Spark's Kafka client; leave it out, or write what the "
                "Java client calls it behind `kafka.`, such as kafka.ssl.truststore.location"
            )
    return found | _login(config, found)


def librdkafka_keys(config: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of `config` without those of the Java client."""
    return {key: value for key, value in config.items() if not key.startswith("kafka.")}


def _text(key: str, value: object) -> str:
    if key == "ssl.endpoint.identification.algorithm" and value == "none":
        return ""
    return str(value)


def _read(key: str, path: object) -> str:
    try:
        return Path(str(path)).read_text("utf-8")
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"{key}: {path} cannot be read as PEM ({error}); correct the path"
        ) from error


def _login(config: Mapping[str, Any], found: Mapping[str, str]) -> dict[str, str]:
    if "kafka.sasl.jaas.config" in found or not any(key in config for key in _LOGIN):
        return {}
    mechanism = found.get("kafka.sasl.mechanism", "GSSAPI")
    if mechanism not in _LOGINS:
        raise ConfigurationError(
            f"sasl.username is for sasl.mechanism {', '.join(_LOGINS)}, not {mechanism}; for this "
            "one write kafka.sasl.jaas.config"
        )
    name, password = (_quoted(str(config.get(key, ""))) for key in _LOGIN)
    return {
        "kafka.sasl.jaas.config": f"{_LOGINS[mechanism]} required "
        f"username={name} password={password};"
    }


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
