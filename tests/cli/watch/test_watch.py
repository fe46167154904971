"""`linear-retry watch` shows what members report, as they report it."""

import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from linear_retry import events as e
from linear_retry.journal.entry import DEFAULT_TOPIC, Entry, encode
from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from tests.cli.terminal import Piped, terminal
from tests.journal.journal_story import GROUP, Life, opened, outage, write
from tests.kafka_operations import wait_until

_P9 = ("orders", 9)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    """The journal of an outage, in one of two partitions."""
    with EmbeddedKafka() as broker:
        broker.create_topic(DEFAULT_TOPIC, 2)
        write(broker, DEFAULT_TOPIC, outage(_now_ms()))
        yield broker


@contextmanager
def _watching(kafka: EmbeddedKafka, directory: Path, *more: str) -> Iterator[Piped]:
    arguments = ("--group", GROUP, "--bootstrap", kafka.bootstrap, *more)
    with Piped(directory, "watch", *arguments) as watch:
        yield watch


def _output(watch: Piped) -> list[str]:
    """What was said beside the events, but for the groups, which this broker cannot list."""
    return [line for line in watch.output if "liveness unknown" not in line]


def _group(watch: Piped) -> dict[str, Any]:
    """How it stands, as was said last."""
    output = [one for one in watch.objects if one["kind"] == "group"]
    return output[-1] if output else {"members": [], "unreadable": 0}


def _says(kafka: EmbeddedKafka, event: e.Event, member: str = "pod-9") -> None:
    write(kafka, DEFAULT_TOPIC, [Life(member).says(_now_ms(), event)])


def test_a_pipe_gets_a_line_for_each_event(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """The last ones first, by time; then what comes, whether the brokers were away or not."""
    with _watching(kafka, tmp_path) as watch:
        wait_until(lambda: len(watch.lines) == len(outage(0)), "what there was")
        assert watch.lines == sorted(watch.lines)
        assert watch.lines[-1].endswith("Z  pod-1  assigned: orders[3], orders[4]")
        with kafka.down():
            wait_until(lambda: len(_output(watch)) == 1, "that they are away")
        wait_until(lambda: len(_output(watch)) == 2, "that they are back")
        _says(kafka, opened(_P9, 7, _now_ms()))
        wait_until(lambda: "pod-9" in watch.lines[-1], "the event")
        assert "circuit open (consumer): orders[9]@7, failures" in watch.lines[-1]
        away, back = _output(watch)
        assert away.startswith(kafka.bootstrap)
        assert away.endswith("; it continues once they are back")
        assert "the brokers are back" == back
        assert 130 == watch.interrupted()
        assert "interrupted" == watch.output[-1]
    assert "\x1b" not in "".join(watch.lines)


def test_json_has_events_and_how_the_group_stands(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """At first, and after each event; garbled records are counted, and stop nothing."""
    with _watching(kafka, tmp_path, "--json") as watch:
        wait_until(lambda: _group(watch)["members"], "how it stands")
        *events, group = watch.objects
        assert ["event"] * len(outage(0)) == [one["kind"] for one in events]
        assert {"pod-1", "billing-consumer-7d9c5c7b9-x2x4z"} == {
            one["member"] for one in group["circuits"]
        }
        assert {"open": 2, "silent": 1, "stopped": 1} == _states(group)
        kafka.produce(DEFAULT_TOPIC, [b"{"], partition=1)
        wait_until(lambda: _group(watch)["unreadable"] == 1, "the garbled one")
        entry = Life("pod-9").says(_now_ms(), e.Assigned((("orders", 0),)))
        kafka.produce(DEFAULT_TOPIC, [encode(entry)] * 2, partition=1)
        wait_until(lambda: _states(_group(watch)).get("closed"), "the new member")
        *_, event, group = watch.objects
        assert {"kind": "event", **json.loads(encode(entry))} == event
        assert ("group", GROUP, 9) == (group["kind"], group["group"], group["counts"]["entries"])
        assert 130 == watch.interrupted()


def _states(group: dict[str, Any]) -> dict[str, int]:
    states = [member["state"] for member in group["members"]]
    return {state: states.count(state) for state in states}


def test_a_group_may_speak_later(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """Watched before its first member is there: said, and waited for."""
    with Piped(tmp_path, "watch", "--group", "new", "--bootstrap", kafka.bootstrap) as watch:
        wait_until(lambda: watch.output, "that it is not there")
        assert f"groups with entries: {GROUP}" in watch.output[0]
        first = Life("n-1", group="new").says(_now_ms(), e.Assigned((("orders", 0),)))
        write(kafka, DEFAULT_TOPIC, [*_others(), first])
        wait_until(lambda: watch.lines, "its first word")
        assert ["assigned: orders[0]"] == [line.split("  ")[2] for line in watch.lines]


def _others() -> list[Entry]:
    return [Life("x").says(_now_ms(), e.Assigned(()))]


def test_what_cannot_be_watched(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """No such journal: a sentence, and an exit code."""
    with _watching(kafka, tmp_path, "--journal", "nowhere") as watch:
        assert 3 == watch.ends()
        (sentence,) = watch.output
        assert "topic 'nowhere' does not exist; check its name" in sentence


def test_a_terminal_gets_a_picture_that_lives(kafka: EmbeddedKafka) -> None:
    """On a screen of its own, without what an error holds; at the end the last one stays."""
    arguments = ("--group", GROUP, "--bootstrap", kafka.bootstrap)
    with terminal("watch", *arguments, height=50) as shown:
        shown.wait_for("orders[0]@1042")
        _says(kafka, opened(_P9, 7, _now_ms() + 60_000))
        shown.wait_for("orders[9]@7")
        shown.wait_for("in 5")  # it counts down
        with kafka.down():
            shown.wait_for("it continues once they")
        assert 130 == shown.end(signal.SIGINT), str(shown)[-3000:]
        picture, last = shown.text.rsplit("\x1b[?1049l", 1)
    assert "\x1b[?1049h" in picture
    assert '\x1b[2J"' not in picture
    assert "\x1b[?25h" in shown.text[-len(last) - 100 :]  # the cursor is back
    assert "orders[9]@7" in last
    assert last.rstrip().endswith("interrupted")


def test_a_terminal_is_put_back_after_a_signal(kafka: EmbeddedKafka) -> None:
    """As one that ends a session: not left on a screen without a cursor."""
    with terminal("watch", "--group", GROUP, "--bootstrap", kafka.bootstrap) as shown:
        shown.wait_for("orders[0]@1042")
        assert 128 + signal.SIGTERM == shown.end(signal.SIGTERM)
        assert "\x1b[?1049l" in shown.text
        assert "\x1b[?25h" in shown.text
