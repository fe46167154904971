"""`linear-retry dlq list|show|stats|export` show what lies in a topic."""

import os
import pty
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from linear_retry.cli import app
from linear_retry.dlq import DeadLetterTopic, Exported, Resolution, State, read_export
from linear_retry.dlq.reading.resolutions import encoded
from linear_retry.records.dead_letter import resolutions_topic
from linear_retry.records.lineage import content_digest
from linear_retry.records.text import ErrorText
from tests.cli.result import Result
from tests.dlq.sample_letters import our_record
from tests.patience import PATIENCE_S
from tests.real_kafka import RealKafka

pytestmark = pytest.mark.broker

runner = CliRunner()

_TIMEOUT = ErrorText("requests.exceptions.Timeout", "payments:8080 is late", "Traceback\n  ...\n")
_REFUSED = ErrorText("billing.CardRefused", "card\x1b[2J 4242", None)
_KEYS = [b"\xff\x00" if n == 5 else b"key-%d" % (n % 3) for n in range(6)]
_VALUES = [b'{"order": %d}' % n for n in range(6)]
_IDS = [
    f"billing/orders/{n % 2}/{n}/{content_digest(_KEYS[n], _VALUES[n], 1_795_253_536_810 + n)}"
    for n in range(6)
]
_SPRING = (
    ("kafka_dlt-original-topic", b"parcels"),
    ("kafka_dlt-original-partition", b"\0\0\0\x07"),
    ("kafka_dlt-original-offset", b"\0\0\0\0\0\0\0\x09"),
    ("kafka_dlt-exception-fqcn", b"java.lang.IllegalStateException"),
)


@dataclass(frozen=True, slots=True)
class _Topic:
    """Six letters of ours, one resolved and one replayed; the latter's second generation; one of
    Spring Kafka's, and one record that is no dead letter."""

    bootstrap: str
    name: str


@pytest.fixture(scope="module")
def topic(kafka: RealKafka) -> _Topic:
    name = "looking.dlq"
    kafka.create_topic(name, 2)
    kafka.create_topic(resolutions_topic(name), 1, {"cleanup.policy": "compact"})
    letters = [
        our_record(
            n,
            partition=n % 2,
            reason="permanent" if n % 2 else "exhausted",
            error=_REFUSED if n % 2 else _TIMEOUT,
            key=_KEYS[n],
            value=_VALUES[n],
            headers=(("tenant", b"acme" if n < 3 else b"other"),),
        )
        for n in range(6)
    ]
    again = [(k, b"2" if k == "retry-generation" else v) for k, v in letters[1].headers]
    records = [(n % 2, each.key, each.value, each.headers) for n, each in enumerate(letters)]
    records.append((1, letters[1].key, letters[1].value, tuple(again)))
    records.append((0, b"parcel", b"lost", _SPRING))
    records.append((1, None, b"nobody's", ()))
    kafka.produce(name, records)
    resolved = Resolution(State.RESOLVED, "ann", 1_795_253_600_000, "paid by hand")
    replayed = Resolution(State.REPLAYED, "bob", 1_795_253_600_000, replay_id="r-1")
    kafka.produce(
        resolutions_topic(name),
        [
            (0, f"{_IDS[0]}#1".encode(), encoded(resolved), ()),
            (0, f"{_IDS[1]}#1".encode(), encoded(replayed), ()),
        ],
    )
    return _Topic(kafka.bootstrap, name)


def _run(topic: _Topic, command: str, *arguments: str) -> Result:
    result = runner.invoke(
        app, ["dlq", command, topic.name, *arguments, "--bootstrap", topic.bootstrap]
    )
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return Result(result.exit_code, result.stdout, result.stderr)


def _ids(topic: _Topic, *arguments: str) -> list[str]:
    output = _run(topic, "list", *arguments, "--json")
    assert 0 == output.code
    return sorted(f"{each['id']}#{each['generation']}" for each in output.objects)


def test_a_pipe_gets_one_line_for_each_letter(topic: _Topic) -> None:
    """A head, and then columns with tabs between them; no cell moves a cursor; no payload."""
    output = _run(topic, "list")
    assert (0, "") == (output.code, output.err)
    head, *rows = output.rows
    assert ["when", "id", "origin", "reason", "failures", "exception", "state"] == head
    by_id = {row[1]: row[2:] for row in rows}
    by_place = {each.rpartition("/")[0]: row for each, row in by_id.items()}
    assert 9 == len(rows) == len(by_id)
    timeout = "requests.exceptions.Timeout: payments:8080 is late"
    assert ["orders[0]@0", "exhausted", "2", timeout, "resolved"] == by_id[_IDS[0]]
    refused = "billing.CardRefused: card [2J 4242"
    assert ["orders[1]@1", "permanent", "2", refused, "replayed"] == by_id[_IDS[1]]
    assert "open" == by_id[f"{_IDS[1]}#2"][-1]
    spring = by_place[f"foreign/{topic.name}/0/3"]
    assert ["parcels[7]@9", "-", "-", "java.lang.IllegalStateException", "open"] == spring
    assert ["-", "not a dead letter", "-"] == by_place[f"foreign/{topic.name}/1/4"][:3]
    assert "\x1b" not in output.out
    assert "order" not in output.out.replace("orders", "")
    assert "key-" not in output.out


def test_payloads_on_demand(topic: _Topic) -> None:
    """Keys and values are printed where they are asked for, and bytes that are no text as hex."""
    rows = {row[1]: row for row in _run(topic, "list", "--payload").rows}
    assert ["key-0", '{"order": 0}'] == rows[_IDS[0]][-2:]
    assert "0xff00" == rows[_IDS[5]][-2]


def test_json_has_one_object_for_each(topic: _Topic) -> None:
    """Every field by its name, and the payload only where it is asked for."""
    (found,) = _run(topic, "list", "--json", "--id", _IDS[5]).objects
    assert found.keys().isdisjoint({"key", "key_base64", "value", "value_base64"})
    assert {"topic": "orders", "partition": 1, "offset": 5, "timestamp_ms": 1795253536815} == (
        found["origin"]
    )
    assert ("linear-retry", "permanent", 2, "billing", "open", None) == tuple(
        found[name] for name in ("format", "reason", "failures", "group_id", "state", "problem")
    )
    assert "card\x1b[2J 4242" == found["exception_message"]
    (found,) = _run(topic, "list", "--json", "--payload", "--id", _IDS[5]).objects
    assert ("/wA=", '{"order": 5}') == (found["key_base64"], found["value"])


def test_filters_choose(topic: _Topic) -> None:
    """Each option means what it says; together they mean what all of them say."""
    first = [f"{each}#1" for each in _IDS]
    again = f"{_IDS[1]}#2"
    foreign = [each for each in _ids(topic) if each.startswith(f"foreign/{topic.name}/")]
    assert [f"foreign/{topic.name}/0/3", f"foreign/{topic.name}/1/4"] == [
        each.rpartition("/")[0] for each in foreign
    ]
    everything = sorted([*first, again, *foreign])
    for arguments, expected in {
        (): everything,
        ("--reason", "permanent"): [first[1], again, first[3], first[5]],
        ("--exception", "TIMEOUT"): [first[0], first[2], first[4]],
        ("--exception", "4242", "--exception", "illegalstate"): [
            *(first[1], again, first[3], first[5]),
            foreign[0],
        ],
        ("--origin", "orders:0"): [first[0], first[2], first[4]],
        ("--origin", "parcels", "--origin", "orders:0"): [
            *(first[0], first[2], first[4]),
            foreign[0],
        ],
        ("--key", "key-0"): [first[0], first[3]],
        ("--key-hex", "0xff00"): [first[5]],
        ("--no-key",): [foreign[1]],
        ("--no-key", "--key", "parcel"): foreign,
        ("--not-exception", "4242", "--not-topic", "parcels"): [
            *(first[0], first[2], first[4]),
            foreign[1],
        ],
        ("--not-topic", "orders:1", "--not-topic", "parcels"): [
            *(first[0], first[2], first[4]),
            foreign[1],
        ],
        ("--id", _IDS[1]): [first[1], again],
        ("--id", again): [again],
        ("--header", "tenant=other"): [first[3], first[4], first[5]],
        ("--state", "replayed", "--state", "resolved"): [first[0], first[1]],
        ("--reason", "permanent", "--state", "open", "--header", "tenant=acme"): [again],
        ("--until", "7d"): [],
        ("--since", "1h"): everything,
    }.items():
        assert sorted(expected) == _ids(topic, *arguments), arguments


def test_a_limit_is_a_limit(topic: _Topic) -> None:
    """At most so many, of those that are meant."""
    assert 3 == len(_ids(topic, "--limit", "3"))
    assert 1 == len(_ids(topic, "--limit", "1", "--state", "open"))


def test_the_newest_are_the_last_in_their_order(topic: _Topic) -> None:
    """`--limit` takes the first that are read; of a long list the end is what is looked for."""
    everything = _run(topic, "list").rows
    assert [everything[0], *everything[-2:]] == _run(topic, "list", "--newest", "2").rows
    assert everything == _run(topic, "list", "--newest", "99").rows


def test_nothing_found_says_so(topic: _Topic) -> None:
    """An empty result is no failure: one line on stderr, and nothing in the pipe."""
    for options in ([], ["--json"], ["--group-by", "reason"]):
        output = _run(topic, "list", "--key", "nobody", *options)
        reported = f"no letters in {topic.name} that match\n"
        assert (0, "", reported) == (output.code, output.out, output.err)
    output = _run(topic, "stats", "--key", "nobody")
    assert (0, "", f"no letters in {topic.name} that match\n") == (
        output.code,
        output.out,
        output.err,
    )


def test_letters_that_are_alike_are_counted(topic: _Topic) -> None:
    """The largest group first; what a letter does not say is a dash, and null in JSON."""
    output = _run(topic, "list", "--group-by", "reason,state")
    assert [
        ["reason", "state", "letters"],
        ["permanent", "open", "3"],
        ["-", "open", "2"],
        ["exhausted", "open", "2"],
        ["exhausted", "resolved", "1"],
        ["permanent", "replayed", "1"],
    ] == output.rows
    objects = _run(topic, "list", "--group-by", "origin", "--json").objects
    assert [
        {"origin": "orders", "letters": 7},
        {"origin": None, "letters": 1},
        {"origin": "parcels", "letters": 1},
    ] == objects


def test_show_prints_everything(topic: _Topic) -> None:
    """Headers, exception with stack, and who has dealt with it; the payload on demand."""
    output = _run(topic, "show", _IDS[0])
    assert 0 == output.code
    for line in (
        f"id          {_IDS[0]}",
        "state       resolved by ann at 2026-11-21 09:33:20Z: paid by hand",
        f"stored at   {topic.name}[0]@0",
        "origin      orders[0]@0 of 2026-11-21 09:32:16Z",
        "exception   requests.exceptions.Timeout",
        "message     payments:8080 is late",
        "  Traceback",
        "  tenant = acme",
        "  retry-strategy = short-outage@0123456789ab",
        "key         5 bytes, not printed without --payload",
        "value       12 bytes, not printed without --payload",
    ):
        assert line in output.out.splitlines()
    assert '"order"' not in output.out


def test_show_has_all_generations(topic: _Topic) -> None:
    """A message that died again after its replay is there with both of its letters, in order."""
    output = _run(topic, "show", _IDS[1])
    assert ["1", "2"] == re.findall(r"^generation  (\d)$", output.out, re.MULTILINE)
    assert ["replayed by bob at 2026-11-21 09:33:20Z (r-1)", "open"] == re.findall(
        r"^state       (.*)$", output.out, re.MULTILINE
    )
    one = _run(topic, "show", f"{_IDS[1]}#2")
    assert ["2"] == re.findall(r"^generation  (\d)$", one.out, re.MULTILINE)


def test_payloads_are_shown_as_what_they_are(topic: _Topic) -> None:
    """Text as text; bytes that are none as a dump."""
    lines = _run(topic, "show", _IDS[5], "--payload").out.splitlines()
    assert ["value       12 bytes", '  {"order": 5}'] == lines[-2:]
    assert f"  {'00000000  ff 00':<59}.." == lines[-3]


def test_show_in_json(topic: _Topic) -> None:
    """The same as an object, with the headers in their order."""
    first, second = _run(topic, "show", _IDS[1], "--json", "--payload").objects
    assert (1, 2) == (first["generation"], second["generation"])
    assert {
        "state": "replayed",
        "by": "bob",
        "at_ms": 1_795_253_600_000,
        "why": "",
        "replay_id": "r-1",
    } == first["resolution"]
    assert second["resolution"] is None
    assert {"name": "tenant", "value": "acme"} == first["headers"][0]
    assert ("key-1", 5, '{"order": 1}') == (first["key"], first["key_bytes"], first["value"])


def test_no_such_letter(topic: _Topic) -> None:
    """The answer is no: exit code 1, and where ids are to be had."""
    output = _run(topic, "show", "billing/orders/9/9/9")
    reported = f"no letter billing/orders/9/9/9 in {topic.name}; see `linear-retry dlq list`\n"
    assert (1, "", reported) == (output.code, output.out, output.err)


def test_stats_from_afar(topic: _Topic) -> None:
    """How many, how many are dealt with, who wrote them, and what is most frequent."""
    lines = [line.rstrip("# ") for line in _run(topic, "stats").out.splitlines()]
    for line in (
        "letters     9",
        "open        7",
        "done        2 (22 %): 1 replayed, 1 resolved",
        "written by  linear-retry: 7, none: 1, spring-kafka: 1",
        "top exceptions",
        "  billing.CardRefused              4",
        "  orders     7",
        "  key-1      3",
        "  0xff00     1",
    ):
        assert line in lines
    assert 3 == len([line for line in lines if line.startswith(("oldest ", "newest "))])


def test_stats_in_json(topic: _Topic) -> None:
    """The same as one object; the counts over time add up to all."""
    (stats,) = _run(topic, "stats", "--json", "--reason", "permanent").objects
    assert {"open": 3, "replayed": 1, "resolved": 0, "retry": 0} == stats["states"]
    assert 4 == stats["letters"] == sum(span["letters"] for span in stats["over_time"])
    assert [{"exception": "billing.CardRefused", "letters": 4}] == stats["top_exceptions"]
    assert stats["oldest_ms"] <= stats["newest_ms"]


def test_an_export_has_all_of_it(topic: _Topic, tmp_path: Path) -> None:
    """What is read back is what lies in the topic, with what became of it, and in its order."""
    target = tmp_path / "looking.jsonl"
    output = _run(topic, "export", "--to", str(target))
    assert (0, f"{target}: 9 letters\n") == (output.code, output.out)
    with DeadLetterTopic(topic.name, {"bootstrap.servers": topic.bootstrap}) as letters:
        expected = [Exported(each, letters.resolution(each)) for each, _ in letters.letters()]

    def place(exported: Exported) -> tuple[int, int]:
        return exported.letter.partition, exported.letter.offset

    assert sorted(expected, key=place) == sorted(read_export(target), key=place)


def test_an_export_takes_filters(topic: _Topic, tmp_path: Path) -> None:
    """What is not meant is not in it; nothing meant is an empty file, and said."""
    target = tmp_path / "some.jsonl"
    output = _run(topic, "export", "--to", str(target), "--state", "resolved", "--json")
    (reported,) = output.objects
    assert {"file": str(target), "letters": 1, "bytes": target.stat().st_size} == reported
    assert [_IDS[0]] == [each.letter.id for each in read_export(target)]
    output = _run(topic, "export", "--to", str(target), "--key", "nobody", "--overwrite")
    assert (0, b"") == (output.code, target.read_bytes())
    assert "no letters" in output.err


def test_an_export_overwrites_nothing_by_itself(topic: _Topic, tmp_path: Path) -> None:
    """An older export may hold what has been purged since."""
    target = tmp_path / "older.jsonl"
    target.write_text("older")
    output = _run(topic, "export", "--to", str(target))
    assert (2, "older") == (output.code, target.read_text())
    assert "--overwrite" in output.err


def test_an_export_to_nowhere(topic: _Topic, tmp_path: Path) -> None:
    """A directory that is not there is one sentence, with exit code 3."""
    target = tmp_path / "gone" / "x.jsonl"
    output = _run(topic, "export", "--to", str(target))
    reported = f"{target}: cannot be written (No such file or directory)\n"
    assert (3, reported) == (output.code, output.err)


def test_no_such_topic(topic: _Topic) -> None:
    """Every command says so in one sentence that names this topic, with exit code 3."""
    gone = _Topic(topic.bootstrap, "gone.dlq")
    for command in ("list", "stats"):
        output = _run(gone, command)
        reported = f"{topic.bootstrap}: topic 'gone.dlq' does not exist; check its name\n"
        assert (3, "", reported) == (output.code, output.out, output.err)


def test_no_such_name(topic: _Topic) -> None:
    """Of a name that no topic can have that name is told, and not the other that goes with it."""
    output = _run(_Topic(topic.bootstrap, "orders dlq"), "list")
    assert (3, "") == (output.code, output.out)
    assert "topic 'orders dlq' is refused: Broker: Invalid topic" in output.err


def test_no_topic_of_resolutions(kafka: RealKafka) -> None:
    """Before anybody has dealt with a letter, there is none: all are open."""
    kafka.create_topic("fresh.dlq")
    letter = our_record()
    kafka.produce("fresh.dlq", [(0, letter.key, letter.value, letter.headers)])
    output = _run(_Topic(kafka.bootstrap, "fresh.dlq"), "list", "--json")
    assert ["open"] == [each["state"] for each in output.objects]


def _command(topic: _Topic, *arguments: str) -> list[str]:
    code = "from linear_retry.cli import main; main()"
    first, *rest = arguments
    where = ("--bootstrap", topic.bootstrap)
    return [sys.executable, "-c", code, "dlq", first, topic.name, *rest, *where]


def test_a_terminal_gets_tables(topic: _Topic) -> None:
    """On a terminal what is in a pipe one line is drawn; nothing is cut that is needed."""
    for arguments, expected in (
        (("list",), _IDS[4]),
        (("list", "--group-by", "reason"), "exhausted"),
        (("stats",), "####"),
    ):
        text = _on_a_terminal(_command(topic, *arguments))
        assert expected in text
        assert "\t" not in text


def _on_a_terminal(command: list[str]) -> str:
    master, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "PYTHONIOENCODING": "utf-8"}
    process = subprocess.Popen(command, stdout=terminal, stderr=terminal, env=environment)
    os.close(terminal)
    found = b"".join(_until_closed(master))
    os.close(master)
    assert 0 == process.wait(PATIENCE_S)
    return found.decode()


def _until_closed(master: int) -> Iterator[bytes]:
    while True:
        try:
            chunk = os.read(master, 1 << 16)
        except OSError:  # EIO: the other side has gone
            return
        if not chunk:
            return
        yield chunk


def test_no_terminal_is_moved_by_a_message(topic: _Topic) -> None:
    """An escape sequence in an exception's text is shown as what it is not: a character."""
    for arguments in (("show", _IDS[1]), ("list", "--id", _IDS[1])):
        text = _on_a_terminal(_command(topic, *arguments))
        assert "CardRefused: c" in text.replace("message     card", "CardRefused: card")
        assert "\x1b[2J" not in text


def test_a_reader_that_goes_away(topic: _Topic) -> None:
    """`| head -1` ends it, without a traceback."""
    process = subprocess.Popen(
        _command(topic, "list"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.close()
    _, output = process.communicate(timeout=PATIENCE_S)
    assert (1, "") == (process.returncode, output)


def test_ctrl_c(tmp_path: Path) -> None:
    """While it waits for a broker that is silent, it ends with 130; no part of an export stays."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        topic = _Topic(f"127.0.0.1:{silent.getsockname()[1]}", "orders.dlq")
        command = _command(topic, "export", "--to", str(tmp_path / "x"))
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        silent.settimeout(30)
        connection, _ = silent.accept()  # it is at work
        process.send_signal(signal.SIGINT)
        _, output = process.communicate(timeout=PATIENCE_S)
        connection.close()
    assert (130, "interrupted\n") == (process.returncode, output)
    assert [] == list(tmp_path.iterdir())
