"""`linear-retry circuits list` shows which circuits are open."""

import socket
import time
from collections.abc import Iterator

import pytest
import typer
from typer.testing import CliRunner

from linear_retry import events as e
from linear_retry.cli import app
from linear_retry.cli.circuits.listing import list_circuits
from linear_retry.cli.output.exit_codes import exit_on_error
from linear_retry.journal.entry import DEFAULT_TOPIC, encode
from linear_retry.journal.reader import JournalTail
from linear_retry.journal.standing import Standings
from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from tests.cli.result import Result
from tests.cli.terminal import terminal
from tests.journal.journal_story import GROUP, Life, opened, outage, write

runner = CliRunner()


def _run(kafka: EmbeddedKafka, *arguments: str) -> Result:
    result = runner.invoke(app, ["circuits", "list", *arguments, "--bootstrap", kafka.bootstrap])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    # This broker cannot list groups.
    err = [line for line in result.stderr.splitlines(True) if "liveness unknown" not in line]
    return Result(result.exit_code, result.stdout, "".join(err))


@pytest.fixture(scope="module")
def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture(scope="module")
def kafka(now_ms: int) -> Iterator[EmbeddedKafka]:
    """The journal of an outage, and of a group that is well; another of what is no journal."""
    well = Life("p-1", group="parcels")
    others = [well.says(now_ms - 1000, e.Assigned((("parcels", 0),)))]
    with EmbeddedKafka() as broker:
        for topic in (DEFAULT_TOPIC, "empty", "garbled"):
            broker.create_topic(topic)
        write(broker, DEFAULT_TOPIC, [*outage(now_ms), *others])
        entry = encode(Life("g-1").says(now_ms, opened(("orders", 0), 1, now_ms + 9000)))
        later = entry.replace(b'"v":1', b'"v":2')
        gap = entry.replace(b"g-1/1", b"g-1/4")
        broker.produce("garbled", [b"{", None, later, b"\xff", entry, gap, b'{"v":1}'])
        yield broker


def test_a_pipe_gets_one_line_for_each_circuit(kafka: EmbeddedKafka, now_ms: int) -> None:
    """A head, then columns with tabs; nothing of the killed member, nor what moves a cursor."""
    output = _run(kafka, "--group", GROUP)
    assert (0, "") == (output.code, output.err)
    head, first, second = output.rows
    assert ["group", "member", "process", "scope", "message", "state", "failures"] == head[:7]
    assert ["behind", "since", "retry_at", "last_event", "error", "liveness"] == head[7:]
    assert [GROUP, "pod-1", "-", "consumer", "orders[0]@1042", "open", "2"] == first[:7]
    assert ["again", "unknown"] == first[11:]
    long_name = "orders.with.a.long.name.eu-west-1[6]"
    assert [long_name, f"{long_name}@123456789", "half-open, letter", "-"] == second[3:7]
    assert "\x1b" not in output.out


def test_json_has_all_of_it(kafka: EmbeddedKafka, now_ms: int) -> None:
    """Times in milliseconds, and what is not known as null."""
    first, second = _run(kafka, "--group", GROUP, "--json").objects
    assert {
        "group": GROUP,
        "member": "pod-1",
        "instance": "pod-1",
        "process": None,
        "scope": {"topic": None, "partition": None, "key": None},
        "state": "open",
        "waits_for": "failed",
        "held": {"topic": "orders", "partition": 0, "offset": 1042},
        "failures": 2,
        "behind": 0,
        "sends": 0,
        "error": "again",
        "since_ms": now_ms - 310_000,
        "retry_at_ms": now_ms + 204_000,
        "retried_ms": None,
        "last_event_ms": now_ms - 300_000,
        "liveness": "unknown",
    } == first
    assert ("half-open", "letter", None, 3) == tuple(
        second[name] for name in ("state", "waits_for", "failures", "sends")
    )


def test_without_a_group_all_are_listed(kafka: EmbeddedKafka) -> None:
    """As with its name, where only one has something open."""
    assert _run(kafka, "--group", GROUP).out == _run(kafka).out


def test_nothing_open_is_one_line(kafka: EmbeddedKafka) -> None:
    """On stderr: a program that reads the rows finds none."""
    sentence = f"no circuit is open in parcels, according to {DEFAULT_TOPIC}\n"
    assert Result(0, "", sentence) == _run(kafka, "--group", "parcels")
    assert Result(0, "", sentence) == _run(kafka, "--group", "parcels", "--json")
    nobody = _run(kafka, "--journal", "empty")
    assert (0, "no group has entries in empty in this time\n") == (nobody.code, nobody.err)


def test_a_group_that_is_not_there(kafka: EmbeddedKafka) -> None:
    """The ones that are there are told; the answer is no."""
    output = _run(kafka, "--group", "bi\x1blling")
    assert (1, "") == (output.code, output.out)
    assert "'bi lling' has no entries" in output.err
    assert output.err.endswith(f"groups with entries: {GROUP}, parcels\n")
    assert "nor has any other" in _run(kafka, "--group", "x", "--journal", "empty").err


def test_only_what_is_young_enough_counts(kafka: EmbeddedKafka) -> None:
    """An opening before `--since` is not known; what was said after it is."""
    assert ["pod-1"] == [row[1] for row in _run(kafka, "--since", "400s").rows[1:2]]
    young = _run(kafka, "--since", "90s", "--group", GROUP).rows
    assert ["billing-consumer-7d9c5c7b9-x2x4z"] == [row[1] for row in young[1:]]


def test_what_is_no_entry_is_counted(kafka: EmbeddedKafka) -> None:
    """And does not hide what is one. The bug: whose events were dropped, and when, was not said."""
    output = _run(kafka, "--journal", "garbled")
    assert (0, ["g-1"]) == (output.code, [row[1] for row in output.rows[1:]])
    missing, unreadable = output.err.splitlines()
    assert missing.startswith("2 events are not in the journal: dropped by g-1 before 20")
    assert unreadable.startswith("5 records are not journal entries of a journal")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--journal", "nowhere"), 3, "topic 'nowhere' does not exist; check its name"),
        (("--journal", "nowhere"), 3, "or create it and add a Journal to the listeners"),
        (("--journal", ""), 2, "the topic's name is empty"),
        (("--since", "soon"), 2, '"soon" is not a time'),
    ],
)
def test_what_is_wrong_is_reported(
    kafka: EmbeddedKafka, arguments: tuple[str, ...], code: int, words: str
) -> None:
    """In a sentence, with an exit code that tells usage from what is not there."""
    output = _run(kafka, *arguments)
    assert (code, "") == (output.code, output.out)
    assert words in " ".join(output.err.replace("│", " ").split())


def test_no_broker_answers(capsys: pytest.CaptureFixture[str]) -> None:
    """Its address is in the sentence."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        keys = {"bootstrap.servers": address}
        reading = JournalTail(keys, timeout_s=0.2)
        with pytest.raises(typer.Exit) as ended, exit_on_error():
            list_circuits(reading, Standings(keys), None, as_json=False)
    assert 3 == ended.value.exit_code
    assert f"{address}: no answer about topic 'linear-retry.journal'" in capsys.readouterr().err


def test_a_terminal_gets_it_drawn(kafka: EmbeddedKafka) -> None:
    """For what, how long still, until when, and why; nothing moves a cursor."""
    with terminal("circuits", "list", "--bootstrap", kafka.bootstrap) as shown:
        shown.wait_for("no such topic")
        text = str(shown)
    for words in (GROUP, "orders[0]@1042", "in 3m", "half-open", "again", "2 failures"):
        assert words in text
    assert "\x1b[2J" not in shown.text
