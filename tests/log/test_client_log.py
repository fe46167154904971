"""librdkafka's log reaches Python's, without its repetitions."""

import logging

import pytest

from linear_retry import BrokerError, Journal, LinearConsumer
from linear_retry.log.client_log import ClientLog, cause_of, with_log
from tests.fake.clock import VirtualClock

_FORM = "%s [%s] %s"
_REFUSED = "[thrd:h:1/bootstrap]: h:1/bootstrap: Connect failed: Connection refused (after {}ms)"


def _lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, int, str]]:
    return caplog.record_tuples


def test_a_line_that_repeats_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    """Once, and at each tenfold; with other numbers it is the same line."""
    log = ClientLog(VirtualClock().now_s)
    for number in range(100):
        log.log(logging.ERROR, _FORM, "FAIL", "rdkafka#consumer-1", _REFUSED.format(number))
    line = (
        "FAIL [rdkafka#consumer-1] h:1/bootstrap: Connect failed: Connection refused (after {}ms)"
    )
    name = "linear_retry.librdkafka"
    assert [
        (name, logging.ERROR, line.format(0)),
        (name, logging.ERROR, f"{line.format(9)} (10 times)"),
        (name, logging.ERROR, f"{line.format(99)} (100 times)"),
    ] == _lines(caplog)


def test_another_line_is_another(caplog: pytest.LogCaptureFixture) -> None:
    """Each is counted by itself, and its level is librdkafka's."""
    log = ClientLog(VirtualClock().now_s)
    for level, text in ((logging.INFO, "left"), (logging.WARNING, "left"), (logging.ERROR, "lost")):
        log.log(level, _FORM, "CGRP", "c", text)
    with caplog.at_level(logging.INFO, logger="linear_retry"):
        log.log(logging.INFO, _FORM, "CGRP", "c", "joined")
    assert ["lost", "joined"] == [text.split("] ")[1] for _, _, text in _lines(caplog)][-2:]


def test_a_cluster_that_begins(caplog: pytest.LogCaptureFixture) -> None:
    """A new cluster's first producer is told to ask again: that is a warning only if it lasts."""
    log = ClientLog(VirtualClock().now_s)
    text = "Failed to acquire idempotence PID from broker h:1/1: Broker: Coordinator load in "
    with caplog.at_level(logging.DEBUG, logger="linear_retry"):
        for _ in range(10):
            log.log(logging.WARNING, _FORM, "GETPID", "p", f"{text}progress: retrying")
    assert [logging.DEBUG, logging.WARNING] == [level for _, level, _ in _lines(caplog)]


def test_a_logger_of_the_users_stays(caplog: pytest.LogCaptureFixture) -> None:
    """It gets each line as librdkafka gives it, and ours is not asked."""
    log = with_log({"logger": logging.getLogger("mine")})["logger"]
    log.log(logging.ERROR, _FORM, "FAIL", "c", "refused")
    assert [("mine", logging.ERROR, "FAIL [c] refused")] == _lines(caplog)


def test_no_logger_at_all_stays() -> None:
    """With None librdkafka writes to stderr, as it does by itself."""
    assert {"logger": None} == with_log({"logger": None})


def test_a_logger_of_the_users_that_raises(capsys: pytest.CaptureFixture[str]) -> None:
    """confluent_kafka calls it in a poll, which what it raises would leave. The bug: `run` ended
    where the log server was down, and librdkafka had a word to say."""

    class Unreachable:
        def log(self, *_: object) -> None:
            raise ConnectionRefusedError("no log server")

    with_log({"logger": Unreachable()})["logger"].log(logging.ERROR, _FORM, "FAIL", "c", "refused")
    assert "ConnectionRefusedError: no log server" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("h:1: Connect to ipv4#1 failed: Connection refused", "nothing listens there"),
        ("h:1: Failed to resolve 'h:1': Name or service not known", "no such host"),
        ("h:1: SASL authentication error: Invalid username or password", "the login is refused"),
        ("ssl://h:1: SSL handshake failed: certificate verify failed", "check ssl.ca.location"),
        ("ssl://h:1: SSL routines::wrong version number", "not a TLS listener"),
        ("h:1: Disconnected (after 1ms in state APIVERSION_QUERY)", "a port of Kafka's"),
        ("ssl://h:1: Disconnected: SSL connection closed by peer", "TLS fails"),
        ("h:1: Connection timed out", "check the address, the network and the security"),
    ],
)
def test_a_cause_has_its_remedy(line: str, remedy: str) -> None:
    """What is wrong with an address stands in one line, with what to look at."""
    log = ClientLog(VirtualClock().now_s)
    log.log(logging.ERROR, _FORM, "FAIL", "c", f"[thrd:main]: {line}")
    text = cause_of({"logger": log})
    assert text.startswith(f"{line}; ")
    assert remedy in text


def test_a_wrong_address(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """It was 583 lines of librdkafka's on stderr in half a minute, and none said what to do."""
    consumer = LinearConsumer(
        {"bootstrap.servers": "127.0.0.1:1", "group.id": "billing"},
        ["orders"],
        strategy=[1],
        transient=OSError,
        dead_letters="dlq",
        listeners=[Journal()],
        start_timeout_s=0.5,
    )
    with consumer, pytest.raises(BrokerError) as caught:
        consumer.run(print)
    (line,) = str(caught.value).splitlines()
    assert "no broker of 127.0.0.1:1 answered within 0.5 s" in line
    assert "Connection refused" in line
    assert line.endswith("nothing listens there: check the address, and that the broker runs")
    assert "" == capfd.readouterr().err
    assert len(caplog.records) < 10
