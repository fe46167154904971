"""`linear-retry dlq replay|resolve|reopen|purge` do what they say, and say what they do."""

import getpass
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import IsolationLevel
from typer.testing import CliRunner

from linear_retry import LinearConsumer
from linear_retry.cli import app
from linear_retry.dlq import Filter, State
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import read
from tests.dlq.conftest import scene  # noqa: F401  (a fixture)
from tests.dlq.scene import NewScene, Scene
from tests.kafka_operations import wait_until
from tests.living import living
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.broker

_SOON_S = 15.0
"""Half of what the broker would let a transaction stay open for."""


def _run(
    given: Scene, command: str, *arguments: str, stdin: bytes | None = None
) -> tuple[int, str, str]:
    options = ["--bootstrap", given.kafka.bootstrap, *arguments]
    result = CliRunner().invoke(app, ["dlq", command, given.letters, *options], input=stdin)
    return result.exit_code, result.stdout, result.stderr


def _objects(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_a_replay_into_a_retry_topic(scene: NewScene) -> None:  # noqa: F811
    """The plan names it and its reader; what is there is shown as waiting, and not sent again."""
    given = scene(1)
    topic = f"{given.source}.billing.retry.5m"
    given.kafka.create_topic(topic, 1, {"message.timestamp.type": "LogAppendTime"})
    given.add_letters([given.letter(0, 2)])
    code, out, err = _run(given, "replay", "--to-retry", topic, "--yes")
    assert (0, "1 letter sent") == (code, out.splitlines()[-1])
    assert f"{given.source}[0]\t{topic}[0]\tbilling\t1" in out
    assert 'consumer group "billing.retry" has no members and no committed offsets in the' in err
    assert "--for-group" not in err
    retry = replace(given, letters=topic)
    code, out, err = _run(retry, "list")
    assert (0, ["replayed", "retry"]) == (code, [out.split()[-4], out.split()[-1]])
    assert err.startswith("state retry: messages of a retry topic")
    code, out, err = _run(retry, "list", "--json")
    (waiting,) = _objects(out)
    assert ("retry", None, "retry") == (waiting["state"], waiting["step"], waiting["send_to"])
    shown = CliRunner().invoke(
        app, ["dlq", "show", topic, waiting["id"], "--bootstrap", given.kafka.bootstrap]
    )
    assert "state       retry: a message of a retry topic, no dead letter" in shown.stdout
    assert "retry at    20" in shown.stdout
    code, out, err = _run(retry, "replay", "--yes")
    assert (1, "") == (code, out)
    assert "1 letter left open: of a retry topic, whose retry line brings it back" in err
    code, out, err = _run(given, "replay", "--to", topic, "--to-retry", topic)
    assert (2, True) == (code, "write --to or --to-retry, not both" in err)


def test_a_replay_is_a_plan_unless_it_is_meant(scene: NewScene) -> None:  # noqa: F811
    """Where from, where to, how many, which, from when; with --yes it is done; then it is over."""
    given = scene(2)
    given.commits("billing")
    given.add_letters([given.letter(1, n) for n in (5, 3)] + [given.letter(0, 2)])
    code, out, err = _run(given, "replay")
    head, *rows, last = out.splitlines()
    assert "from\tto\tfor\tletters\toffsets\toldest\tnewest" == head
    times = "2026-11-18 11:06:40Z\t2026-11-18 11:06:40Z"
    source = given.source
    assert [
        f"{source}[0]\t{source}[0]\tbilling\t1\t2 to 2\t{times}",
        f"{source}[1]\t{source}[1]\tbilling\t2\t3 to 5\t{times}",
    ] == rows
    assert ("3 letters would be sent; --yes does it", 0, "") == (last, code, err)
    assert {} == given.arrived()
    code, out, err = _run(given, "replay", "--yes", "--why", "fixed")
    became = "0 handled, 3 not read yet, 0 came back as new dead letters\n"
    assert (0, "3 letters sent", became) == (code, out.splitlines()[-1], err)
    assert {0: [(2, 1)], 1: [(3, 1), (5, 1)]} == given.arrived()
    output = json.loads(given.recorded()[0][1] or b"")
    assert "fixed" == output["why"]
    assert output["by"].startswith(f"{getpass.getuser()}@")
    nothing = f"nothing to do: no open letters in {given.letters}\n"
    assert [(0, "", nothing)] * 2 == [_run(given, "replay"), _run(given, "replay", "--yes")]


def test_a_replay_in_json(scene: NewScene) -> None:  # noqa: F811
    """One object for each origin partition, then what came of it; an empty one has only that."""
    given = scene()
    given.add_letters([given.letter(0, 1), given.letter(0, 2)])
    _, out, _ = _run(given, "replay", "--json", "--yes", "--rate", "1000/s")
    lane, end = _objects(out)
    assert ["billing"] == lane["groups"] == end["absent_groups"]
    assert (given.source, 0, 2, 1, 2) == (
        *(lane["to_topic"], lane["to_partition"], lane["letters"]),
        *(lane["first_offset"], lane["last_offset"]),
    )
    assert (2, 2, False, {}) == (end["letters"], end["sent"], end["dry_run"], end["left"])
    code, out, err = _run(given, "replay", "--json")
    expected = {"letters": 0, "sent": 0, "dry_run": True, "left": {}, "earlier_open": 0}
    expected |= {"absent_groups": [], "unknown_ids": 0, "replay_id": None}
    assert (0, [expected], "") == (code, _objects(out), err)


def test_a_replay_of_ids_in_a_file(scene: NewScene, tmp_path: Path) -> None:  # noqa: F811
    """Those letters and no others are sent in their original order, from a file or from stdin, with
    or without their generations, whatever their order there and the blanks around them."""
    given = scene(2)
    given.commits("billing")
    given.add_letters([given.letter(1, n) for n in (5, 4, 3)] + [given.letter(0, 2)])
    ids = [f" {given.letter(1, 5).retry_id}#1\r\n", "\n", f"{given.letter(1, 3).retry_id}\n"] * 2
    file = tmp_path / "ids.txt"
    file.write_text("".join(ids), "utf-8-sig")
    code, out, err = _run(given, "replay", "--ids", str(file), "--key", "key")
    assert (0, "2 letters would be sent; --yes does it") == (code, out.splitlines()[-1])
    assert "warning: 1 older open letter of the same keys would stay" in err
    code, out, _ = _run(given, "replay", "--ids", "-", "--yes", stdin="".join(ids).encode())
    assert (0, "2 letters sent") == (code, out.splitlines()[-1])
    assert {1: [(3, 1), (5, 1)]} == given.arrived()
    nothing = f"nothing to do: no open letters in {given.letters} that match\n"
    assert (0, "", nothing) == _run(given, "replay", "--ids", str(file), "--yes")


def test_ids_of_no_letter_are_counted(scene: NewScene) -> None:  # noqa: F811
    """What a query names may be gone from the topic: the others are sent, and it is a no. No ids
    are no letters, and not all of them."""
    given = scene()
    given.commits("billing")
    given.add_letters([given.letter(0, 1), given.letter(0, 2)])
    nothing = f"nothing to do: no open letters in {given.letters} that match\n"
    assert (0, "", nothing) == _run(given, "replay", "--ids", "-", "--yes", stdin=b"\n")
    known = given.letter(0, 1).retry_id
    ids = f"{known}\n{known}#2\n".encode() + b"garbled\xff\n"
    code, out, err = _run(given, "replay", "--ids", "-", "--yes", stdin=ids)
    assert (1, "1 letter sent") == (code, out.splitlines()[-1])
    assert f"warning: ids without a letter in {given.letters}: 2, such as {known}#2; ret" in err
    code, out, _ = _run(given, "replay", "--ids", "-", "--json", stdin=ids)
    assert (1, 2, 0) == (code, _objects(out)[-1]["unknown_ids"], _objects(out)[-1]["letters"])
    assert ["replayed", "open"] == given.states()


def test_a_plan_warns_of_older_letters_of_the_same_keys(scene: NewScene) -> None:  # noqa: F811
    """Which the options have left out, in words and as a number."""
    given = scene()
    given.add_letters([given.letter(0, 1), given.letter(0, 2, reason="permanent")])
    _, _, err = _run(given, "replay", "--reason", "permanent")
    assert "warning: 1 older open letter of the same keys would stay, and be handled after" in err
    _, out, _ = _run(given, "replay", "--reason", "permanent", "--json")
    assert 1 == _objects(out)[-1]["earlier_open"]


def test_what_cannot_be_sent_is_reported(scene: NewScene) -> None:  # noqa: F811
    """A record that is no dead letter is left by rule; a letter that should be sent is a no."""
    given = scene()
    given.write(("a", b"1"))
    code, out, err = _run(given, "replay", "--yes")
    assert (0, "") == (code, out)
    assert "1 letter left open: not a dead letter: it is sent only to a topic" in err
    given.add_letters([given.letter(0, 1)])
    odd = given.letter(0, 2)
    given.write(*odd.headers(), ("retry-oversized", b"reference"), value=b"{}")
    code, out, err = _run(given, "replay", "--yes")
    assert (1, "1 letter sent") == (code, out.splitlines()[-1])
    assert "1 letter left open: a reference whose envelope is unreadable" in err
    assert ["open", "replayed", "open"] == given.states()


def test_what_stands_in_the_way_is_reported_at_once(scene: NewScene) -> None:  # noqa: F811
    """Exit code 3, one sentence for each, and nothing is sent."""
    given = scene()
    elsewhere = [replace(given, source=f"{name}-{given.source}") for name in ("a", "b")]
    given.add_letters([given.letter(0, 1), *(each.letter(0, 1) for each in elsewhere)])
    code, out, err = _run(given, "replay", "--yes")
    assert (3, "") == (code, out)
    assert [each.source for each in elsewhere] == [line.split(":")[0] for line in err.splitlines()]
    assert {} == given.arrived()
    code, _, err = _run(given, "replay", "--yes", "--to", "nowhere-at-all")
    assert 3 == code
    assert err.startswith("nowhere-at-all: no such topic in this cluster")
    code, _, err = _run(given, "replay", "--to", "no name")
    assert (3, True) == (code, "'no name' is refused: Broker: Invalid topic" in err)


def test_a_group_without_members_is_reported(scene: NewScene) -> None:  # noqa: F811
    """A replay for a group that was renamed said "6 letters sent", and no group handled them."""
    given = scene()
    given.add_letters([given.letter(0, n) for n in range(2)])
    given.write(
        ("kafka_dlt-original-topic", given.source.encode()),
        ("kafka_dlt-original-consumer-group", b"shipping"),
    )
    code, out, err = _run(given, "replay")
    assert (0, ["billing", "shipping"]) == (code, sorted(row[2] for row in _rows(out)))
    names = ("billing", "shipping")
    assert [f'warning: consumer group "{name}" has no members' for name in names] == [
        line.partition(" and ")[0] for line in err.splitlines()
    ]
    given.commits("billing")
    _, _, err = _run(given, "replay")
    assert ["shipping"] == [line.split('"')[1] for line in err.splitlines()]
    for options, reported in (
        (("--for-group", "billing"), "billing"),
        (("--for-group", ""), "every"),
    ):
        code, out, err = _run(given, "replay", *options)
        assert (0, "") == (code, err)
        assert [reported, reported] == [row[2].split()[0] for row in _rows(out)]
    code, out, err = _run(given, "replay", "--for-group", "billing", "--yes")
    assert (0, "3 letters sent", 1) == (code, out.splitlines()[-1], len(err.splitlines()))
    sent = [dict(read(each).headers)["retry-group-id"] for each in given.kafka.read(given.source)]
    assert [b"billing"] * 3 == sent


def _rows(out: str) -> list[list[str]]:
    return [line.split("\t") for line in out.splitlines()[1:] if "\t" in line]


def test_newer_messages_hold_up_a_replay_that_asks(scene: NewScene) -> None:  # noqa: F811
    """They are told by key; with --yes nothing is sent then, and without the option it is."""
    given = scene()
    given.kafka.produce(given.source, [(0, key, b"v", ()) for key in (b"ann", b"bob", b"ann")])
    given.add_letters([given.letter(0, n, key=key) for n, key in enumerate((b"ann", b"bob"))])
    code, out, _ = _run(given, "replay", "--check-newer")
    assert (1, True) == (code, f"ann\t{given.source}[0]\t0\t1\t2" in out.splitlines())
    code, _, err = _run(given, "replay", "--check-newer", "--yes")
    assert 1 == code
    assert "nothing is sent; leave out --check-newer to send them anyway" == err.splitlines()[-1]
    assert ["open", "open"] == given.states()
    code, out, _ = _run(given, "replay", "--check-newer", "--key", "ann", "--json")
    assert {"key": "ann", "newer_messages": 1}.items() <= _objects(out)[1].items()
    code, out, _ = _run(given, "replay", "--check-newer", "--yes", "--key", "bob")
    assert (0, True) == (code, "none of their keys has newer messages" in out)


def test_a_replay_says_what_became_of_its_letters(scene: NewScene) -> None:  # noqa: F811
    """It was "2 letters sent" and exit code 0, though nobody read them, or all were dead again."""
    given = scene()
    given.add_letters([given.letter(0, n) for n in range(2)])
    code, out, err = _run(given, "replay", "--yes")
    assert (0, "2 letters sent") == (code, out.splitlines()[-1])
    assert "0 handled, 2 not read yet, 0 came back as new dead letters" in err
    given.add_letters([given.letter(0, n, 2) for n in range(2)])

    def fail(message: Message) -> None:
        raise ValueError("refused")

    config = given.kafka.client_settings(**{"group.id": "billing", "auto.offset.reset": "earliest"})
    consumer = LinearConsumer(
        config, [given.source], strategy=[], transient=OSError, dead_letters=given.letters
    )
    with living(consumer, fail):
        wait_until(lambda: consumer.health().state == "consuming", "it consumes")
        wait_until(lambda: "billing" in given.cluster.groups.active(), "it is in its group")
        code, out, err = _run(given, "replay", "--yes", "--wait", "60", "--json")
    became = _objects(out)[-1]["became"]
    assert (1, 2, 2, 0) == (code, became["sent"], became["returned"], became["handled"])
    assert [given.letters] * 2 == [place["topic"] for place in became["letters"]]


def test_resolve_reopen_and_purge(scene: NewScene) -> None:  # noqa: F811
    """Each says what it would do, does it with --yes, and has nothing to do then."""
    given = scene(2)
    given.add_letters([given.letter(p, n) for p in range(2) for n in range(3)])
    name = given.letters
    chosen = ("--origin", f"{given.source}:1")
    assert (0, f"3 letters would be resolved in {name}; --yes does it\n", "") == _run(
        given, "resolve", *chosen
    )
    assert (0, f"3 letters resolved in {name}\n", "") == _run(given, "resolve", *chosen, "--yes")
    nothing = f"nothing to do: no open letters in {name} that match\n"
    assert (0, "", nothing) == _run(given, "resolve", *chosen, "--yes")
    assert (0, f"1 letter would be reopened in {name}; --yes does it\n", "") == _run(
        given, "reopen", "--limit", "1"
    )
    code, out, _ = _run(given, "reopen", "--limit", "1", "--yes", "--json")
    assert (0, [{"topic": name, "reopened": 1, "dry_run": False}]) == (code, _objects(out))
    code, out, _ = _run(given, "resolve", "--yes", "--json")
    assert [{"topic": name, "resolved": 4, "dry_run": False}] == _objects(out)
    _run(given, "reopen", "--yes", "--id", given.letter(1, 1).retry_id)
    code, out, _ = _run(given, "purge")
    assert [
        "partition\tdeleted before",
        f"{name}[0]\t3",
        f"{name}[1]\t1",
        "4 letters would be deleted; 2 letters left, 1 of them open",
        "4 resolutions of deleted letters would be deleted",
        "--yes does it; this cannot be undone",
    ] == out.splitlines()
    code, out, _ = _run(given, "purge", "--yes", "--json")
    assert {"deleted": 4, "remaining": 2, "remaining_open": 1}.items() <= _objects(out)[0].items()
    assert ["open", "resolved"] == given.states()
    stays = f"nothing to do in {name}: 2 letters left, 1 of them open\n"
    assert (0, "", stays) == _run(given, "purge", "--yes")
    code, out, _ = _run(given, "purge", "--all", name, "--yes")
    assert (0, "2 letters deleted; none left") == (code, out.splitlines()[2])
    assert [] == given.states()


def test_a_purge_of_letters_that_are_not_known_here(scene: NewScene) -> None:  # noqa: F811
    """Its refusal names the way round: the topic's name again, in a flag of its own."""
    given = replace(made := scene(), letters=made.source)
    given.write()
    name = given.letters
    code, _, err = _run(given, "purge", "--all", name, "--yes")
    assert (3, True) == (code, f"`linear-retry dlq purge {name} --unknown-letters {name}`" in err)
    code, out, _ = _run(given, "purge", "--unknown-letters", name, "--all", name, "--yes")
    assert (0, "1 letter deleted; none left") == (code, out.splitlines()[2])


@pytest.mark.parametrize("command", ["replay", "resolve", "reopen"])
@pytest.mark.parametrize("more", [(), ("--yes",), ("--json",)])
def test_an_unknown_id_is_a_no(scene: NewScene, command: str, more: tuple[str, ...]) -> None:  # noqa: F811
    """It was "nothing to do" and exit code 0: a misspelt id looked like one dealt with."""
    given = scene()
    given.add_letters([given.letter(0, 1)])
    known = given.letter(0, 1).retry_id
    output = f"no letter orders/x, {known}#2 in {given.letters}; see `linear-retry dlq list`\n"
    unknown = ("--id", "orders/x", "--id", known, "--id", f"{known}#2")
    assert (1, "", output) == _run(given, command, *unknown, *more)
    assert ["open"] == given.states()


def test_nothing_to_reopen_says_why(scene: NewScene) -> None:  # noqa: F811
    """It said that no letter matches, though some do: none was dealt with."""
    given = scene()
    given.add_letters([given.letter(0, n) for n in range(3)])
    name = given.letters
    for options, which in (
        ((), f"replayed or resolved letters in {name}"),
        (("--key", "key"), f"replayed or resolved letters in {name} that match"),
        (("--state", "replayed", "--limit", "1"), f"replayed letters in {name}"),
    ):
        output = f"nothing to do: no {which}\n"
        assert (0, "", output) == _run(given, "reopen", *options, "--yes")


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (("replay", "--rate", "0"), '"0" is not a rate'),
        (("replay", "--rate", "nan"), '"nan" is not a rate'),
        (("replay", "--rate", "-5"), '"-5" is not a rate'),
        (("replay", "--rate", "9" * 400), "is not a rate"),
        (("replay", "--state", "replayed"), "this is for open letters only"),
        (("replay", "--to", ""), "the topic's name is empty"),
        (("replay", "--ids", "nowhere.txt"), "'nowhere.txt': No such file or directory"),
        (("resolve", "--state", "resolved"), "this is for open letters only"),
        (("reopen", "--state", "open"), "cannot be opened again"),
        (("purge", "--all", "orders"), '"orders" is not "orders.dlq"'),
        (("purge", "--unknown-letters", "orders"), '"orders" is not "orders.dlq"'),
        (("purge", "--state", "open"), "No such option"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], output: str) -> None:
    """Before any broker is asked: exit code 2, and what is right."""
    command, *options = arguments
    result = CliRunner().invoke(
        app, ["dlq", command, "orders.dlq", "--bootstrap", "127.0.0.1:1", *options]
    )
    assert 2 == result.exit_code
    assert output in " ".join(result.stderr.split())


@contextmanager
def _slow_replay(given: Scene) -> Iterator[subprocess.Popen[str]]:
    """A replay in a process of its own, which has sent some of its letters and has more."""
    given.commits("billing")  # else a warning comes first
    program = "from linear_retry.cli import main; main()"
    slowly = ("--bootstrap", given.kafka.bootstrap, "--yes", "--rate", "1/s")
    with subprocess.Popen(
        [sys.executable, "-c", program, "dlq", "replay", given.letters, *slowly],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            wait_until(given.arrived, "some letters are sent")
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("number", "code", "output"),
    [
        (signal.SIGINT, 130, "interrupted: {} of 200 letters sent; run it again to continue\n"),
        (signal.SIGTERM, 143, "terminated: {} of 200 letters sent; run it again to continue\n"),
        (signal.SIGHUP, 129, ""),
    ],
)
def test_a_signal_ends_it(
    scene: NewScene,  # noqa: F811
    number: signal.Signals,
    code: int,
    output: str,
) -> None:
    """Its exit code, how many are sent, nothing half-done; the next one goes on.

    One a transaction: a letter that the signal interrupts while its commit is answered is not
    counted.
    """
    given = scene()
    given.add_letters([given.letter(0, n) for n in range(200)])
    with _slow_replay(given) as process:
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert code == process.returncode, (out, err)
    sent = len(given.arrived()[0])
    assert err in {output.format(sent), output.format(sent - 1)}
    assert 0 < sent < 200
    ended, out, _ = _run(given, "replay", "--yes")
    assert (0, f"{200 - sent} letters sent") == (ended, out.splitlines()[-1])
    assert {0: [(n, 1) for n in range(200)]} == given.arrived()


def _is_open(given: Scene) -> bool:
    """Whether readers of the source topic wait for the end of a transaction."""
    ends = [
        given.kafka.end_offsets(given.source, isolation_level=level) for level in IsolationLevel
    ]
    return ends[0] != ends[1]


@contextmanager
def _replay_in_a_transaction(given: Scene) -> Iterator[subprocess.Popen[str]]:
    """A replay in a process of its own, some of whose letters are sent and not committed."""
    given.commits("billing")  # else a warning comes first
    program = """
from linear_retry.cli import main
from linear_retry.kafka.producers.transactional import TransactionalProducer
import time

def commit(self, timeout_s):
    self._producer.flush(timeout_s)
    print("sent, not committed", flush=True)
    while True:  # not signal.pause(): a signal that comes just before it does not end it
        time.sleep(0.05)

TransactionalProducer.commit = commit
main()
"""
    arguments = ["dlq", "replay", given.letters, "--bootstrap", given.kafka.bootstrap, "--yes"]
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("sent, not committed"):
                    break
            wait_until(lambda: _is_open(given), "the transaction is open")
            yield process
        finally:
            process.kill()


def test_sigterm_leaves_no_transaction_open(scene: NewScene) -> None:  # noqa: F811
    """It ended a replay without an abort: readers with read_committed stood still for 32 s."""
    given = scene()
    given.add_letters([given.letter(0, n) for n in range(20)])
    with _replay_in_a_transaction(given) as process:
        process.terminate()
        _, err = process.communicate(timeout=PATIENCE_S)
    assert (143, "terminated: 0 of 20 letters sent; run it again to continue\n") == (
        process.returncode,
        err,
    )
    wait_until(lambda: not _is_open(given), "the transaction is aborted", within_s=_SOON_S)
    assert {} == given.arrived()


def test_after_sigkill_the_next_run_ends_the_transaction(scene: NewScene) -> None:  # noqa: F811
    """Nobody has aborted it; a run with nothing to send ends it as well, long before the broker."""
    given = scene()
    given.add_letters([given.letter(0, n) for n in range(20)])
    with _replay_in_a_transaction(given) as process:
        process.kill()
        process.communicate(timeout=PATIENCE_S)
    assert _is_open(given)
    code, _, err = _run(given, "replay", "--yes", "--limit", "1")
    assert (0, 1) == (code, len(err.splitlines()))
    wait_until(lambda: not _is_open(given), "the transaction is ended", within_s=_SOON_S)
    assert {0: [(0, 1)]} == given.arrived()


def test_the_older_of_two_replays_ends_with_its_own_exit_code(scene: NewScene) -> None:  # noqa: F811
    """One sentence that says why, and how many it has sent; the newer sends the rest."""
    given = scene()
    given.add_letters([given.letter(0, n) for n in range(200)])
    with _slow_replay(given) as process:
        code, _, _ = _run(given, "replay", "--yes")
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (0, 4) == (code, process.returncode), (out, err)
    (line,) = err.splitlines()
    assert line.startswith(
        f"{given.letters}: a newer replay, resolve, reopen or purge has taken over"
    )
    assert line.endswith(" of 200 letters sent")
    assert {0: [(n, 1) for n in range(200)]} == given.arrived()
    with given.topic as topic:
        assert 200 == sum(1 for _ in topic.letters(Filter(states=(State.REPLAYED,))))
