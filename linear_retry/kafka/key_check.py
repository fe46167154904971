"""Asks librdkafka whether it accepts keys and values, without creating a client."""

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from confluent_kafka import Consumer, KafkaException, libversion

from linear_retry.errors import ConfigurationError
from linear_retry.kafka.known_keys import KNOWN_KEYS
from linear_retry.kafka.quiet import refuse_lists, text_of

_LAST = "linear_retry.last"
_UNKNOWN = re.compile('No such configuration property: "(.*)"', re.DOTALL)
# librdkafka loads the library that these keys name as soon as it reads them.
_NOT_ASKED = ("plugin.library.paths",)


def check_keys(config: Mapping[str, Any], client: Callable[..., Any], where: str = "") -> None:
    """Raises `ConfigurationError` for the first key or value that librdkafka refuses.

    librdkafka checks key after key, and creates the client after the last one. We end the list with
    an unknown key, so it fails before it starts a thread or reads a file (6 us). Values that only
    the client itself reads, such as a certificate's path, are not checked. `where` precedes the key
    in the message.
    """
    refuse_lists(config, where)
    asked = {key: value for key, value in config.items() if key not in _NOT_ASKED}
    if (refusal := _refusal(client, asked)) is not None:
        unknown = _UNKNOWN.fullmatch(refusal)
        text = _misspelt(unknown[1]) if unknown else f"{refusal}; correct that value"
        raise ConfigurationError(where + text)


def pattern_refusal(pattern: str) -> str | None:
    """Returns why librdkafka refuses this regular expression; None if it accepts it.

    Uses a key that takes a comma-separated list of patterns, so a pattern with a comma is checked
    only when it is subscribed to.
    """
    if "," in pattern:
        return None
    return _refusal(Consumer, {"group.id": "none", "topic.blacklist": pattern})


def _refusal(client: Callable[..., Any], config: Mapping[str, Any]) -> str | None:
    """Returns librdkafka's error about the first key that it refuses."""
    try:
        client({**config, _LAST: ""})
    except (KafkaException, ValueError, TypeError) as error:
        text = text_of(error)
        match = _UNKNOWN.fullmatch(text)
        return None if match is not None and match[1] == _LAST else text
    raise AssertionError(f"librdkafka has accepted {_LAST}: a bug; please report it")


def _misspelt(key: str) -> str:
    """The error about an unknown key, without its value, which may be a password."""
    version, _ = libversion()
    near = get_close_matches(key.lower(), KNOWN_KEYS.split(), n=1)
    remedy = f"did you mean {near[0]}?" if near else "correct it, or leave it out"
    shown = key if key and key.isprintable() else repr(key)
    return f"{shown}: librdkafka {version} has no such key; {remedy}"
