"""Forwards librdkafka's log to Python's; repeated lines are throttled and counted."""

import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from linear_retry.log.lines import log_librdkafka, write_guarded
from linear_retry.log.repeating import ErrorThrottle

_NUMBER = re.compile(r"\d+")
_THREAD = re.compile(r"^\[thrd:[^]]*\]: ")
_SUPPRESSED = re.compile(r", \d+ identical error\(s\) suppressed")
_FAILURE = "FAIL"


class ClientLog:
    """A `logger` for confluent_kafka, which calls `log` inside a poll. Thread-safe.

    With a wrong address librdkafka writes a line some twenty times a second. Lines that differ
    only in numbers count as the same line.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._lines = ErrorThrottle()
        self.last_failure = ""
        """The last reason that librdkafka gave for not reaching a broker."""

    def log(self, level: int, _: str, facility: str, client: str, text: str) -> None:
        said = _SUPPRESSED.sub("", _THREAD.sub("", text))
        if facility == _FAILURE:
            self.last_failure = said
        count = self._lines.count(f"{facility} {_NUMBER.sub('#', said)}", self._now_s())
        if count is not None:
            log_librdkafka(level, facility, client, said, count)


class _UsersLog:
    """The user's logger, guarded: an exception in its handlers would end `run`, from the poll."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger

    def log(self, *line: object) -> None:
        write_guarded(self._logger.log, *line)


def with_log(config: Mapping[str, Any], now_s: Callable[[], float] = time.monotonic) -> Any:
    """Adds our logger to the configuration, unless it has one (None, for stderr, is one too)."""
    if not isinstance(config, Mapping) or ("logger" in config and config["logger"] is None):
        return config
    logger = config.get("logger")
    return {**config, "logger": ClientLog(now_s) if logger is None else _UsersLog(logger)}


def cause_of(config: Mapping[str, Any]) -> str:
    """Why these clients reach no broker, with what to check, as far as they have reported it."""
    log = config.get("logger")
    said = log.last_failure if isinstance(log, ClientLog) else ""
    return f"{said}; {_remedy(said)}" if said else ""


def _remedy(said: str) -> str:
    remedies = {
        "Connection refused": "nothing listens there: check the address, and that the broker runs",
        "Failed to resolve": "no such host: check the address",
        "SASL": "the login is refused: check the sasl.* keys",
        "certificate": "the broker's certificate is not trusted: check ssl.ca.location",
        "wrong version number": "not a TLS listener: check security.protocol and the port",
        "APIVERSION_QUERY": "it hangs up on this kind of client: check security.protocol, and that "
        "this is a port of Kafka's",
        "SSL": "TLS fails: check security.protocol and the ssl.* keys",
    }
    found = (remedy for part, remedy in remedies.items() if part in said)
    return next(found, "check the address, the network and the security settings")
