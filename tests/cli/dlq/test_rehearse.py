"""`linear-retry dlq rehearse` says what a replay would come to, and sends nothing."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from linear_retry.cli import app
from linear_retry.records.dead_letter import DeadLetter
from linear_retry.records.text import ErrorText
from tests.cli.result import Result
from tests.dlq.conftest import scene  # noqa: F401  (a fixture)
from tests.dlq.scene import NewScene, Scene

pytestmark = pytest.mark.broker

_MAKE = """
import os
from linear_retry import BatchError, LinearConsumer, current_attempt, message_id

def consumer():
    return LinearConsumer(
        {"bootstrap.servers": "127.0.0.1:1", "group.id": "billing"},
        ["orders"],
        strategy=[1, 2],
        transient=ConnectionError,
        dead_letters="orders.dlq",
    )

def made():
    return consumer(), handle

def handle(message):
    print("a line of the handler's own")
    with open("effects", "a") as file:
        print(message.offset(), current_attempt().message_id == message_id(message), file=file)
    match message.value():
        case b"unknown":
            raise ValueError(f"no such customer: {message.key()}")
        case b"down":
            raise ConnectionError("the bank is down")
        case b"dies":
            os._exit(3)

async def awaited(message):
    handle(message)

def of_lists(messages):
    try:
        handle(*messages)
    except Exception as error:
        raise BatchError(0, error)

def made_async():
    return consumer(), awaited

def made_batches():
    return consumer(), of_lists

def wrong():
    return consumer()

def raises():
    raise RuntimeError("no settings")
"""


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The program's, in which the command is run."""
    (tmp_path / "billing.py").write_text(_MAKE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _run(given: Scene, *arguments: str, make: str = "billing:made") -> Result:
    options = ["--bootstrap", given.kafka.bootstrap, "--consumer", make, *arguments]
    done = CliRunner().invoke(app, ["dlq", "rehearse", given.letters, *options])
    return Result(done.exit_code, done.stdout, done.stderr)


def _letter(given: Scene, offset: int, value: bytes, key: bytes | None, **more: Any) -> DeadLetter:
    error = ErrorText("builtins.ValueError", "no such customer", None)
    return replace(given.letter(0, offset, value=value, key=key), error=error, **more)


def _effects(directory: Path) -> list[str]:
    file = directory / "effects"
    return file.read_text().splitlines() if file.exists() else []


def test_each_letter_has_its_verdict(scene: NewScene, directory: Path) -> None:  # noqa: F811
    """In the order of a replay; nothing is sent, and none is replayed or resolved by it."""
    given = scene(1)
    values = {9: b"well", 4: b"down", 7: b"unknown", 5: b"well"}
    given.add_letters([_letter(given, place, value, b"k") for place, value in values.items()])
    planned = _run(given)
    assert (0, "4 letters would be handed to") == (planned.code, planned.out[:28])
    assert [] == _effects(directory)
    done = _run(given, "--yes")
    head, *rows, (last,) = done.rows
    assert (1, ["letter", "from", "before", "now", "error"]) == (done.code, head)
    assert [4, 5, 7, 9] == [int(row[1].rpartition("@")[2]) for row in rows]
    assert [
        "fails otherwise",
        "would succeed",
        "fails as before",
        "would succeed",
    ] == [row[3] for row in rows]
    assert "builtins.ConnectionError: the bank is down (transient)" == rows[0][4]
    assert "builtins.ValueError: no such customer: b'k'" == rows[2][4]
    assert "would succeed: 2, fails as before: 1, fails otherwise: 1" == last
    assert "2 letters would overtake one of their key that fails" in done.err
    assert [f"{offset} True" for offset in (4, 5, 7, 9)] == _effects(directory)
    assert {} == given.arrived()


def test_what_succeeds_is_replayed_in_order(scene: NewScene) -> None:  # noqa: F811
    """And what would overtake a failing one of its key is left where it is."""
    given = scene(1)
    given.commits("billing")
    keys = {3: b"a", 4: b"b", 5: b"a", 6: b"b", 7: None}
    values = {5: b"unknown", 6: b"down"}
    letters = [_letter(given, n, values.get(n, b"well"), key) for n, key in keys.items()]
    given.add_letters([*letters, _letter(given, 8, b"well", b"a")])
    done = _run(given, "--yes", "--then-replay", "--why", "mended")
    assert (1, "3 letters sent") == (done.code, done.rows[-1][0])
    assert {0: [(3, 1), (4, 1), (7, 1)]} == given.arrived()
    assert "mended" == json.loads(given.recorded()[0][1] or b"")["why"]
    again = _run(given, "--yes", "--json")
    assert [5, 6, 8] == [each["offset"] for each in again.objects[:-1]]
    assert {"succeeds": 1, "as_before": 1, "otherwise": 1, "behind": 1, "left_out": 0} == (
        again.objects[-1]
    )
    assert [False, False, True] == [each["follows_failure"] for each in again.objects[:-1]]
    assert "ConnectionError" in again.objects[1]["stack"]
    assert 2 == _run(given, "--then-replay").code


def test_a_handler_that_ends_its_process(scene: NewScene, directory: Path) -> None:  # noqa: F811
    """Only its letter fails; the others have a new process."""
    given = scene(1)
    given.add_letters([_letter(given, n, b"dies" if n == 2 else b"well", None) for n in range(4)])
    *found, _ = _run(given, "--yes", "--json").objects
    assert ["succeeds", "succeeds", "otherwise", "succeeds"] == [each["verdict"] for each in found]
    assert "the handler's process ended with exit code 3" == found[2]["message"]
    assert 4 == len(_effects(directory))


@pytest.mark.parametrize(
    ("make", "more"), [("billing:made_async", ()), ("billing:made_batches", ("--batches",))]
)
def test_other_handlers(scene: NewScene, make: str, more: tuple[str, ...]) -> None:  # noqa: F811
    """A coroutine is awaited; a list has one message, and `BatchError` says what is behind it."""
    given = scene(1)
    given.add_letters([_letter(given, 0, b"well", None), _letter(given, 1, b"down", None)])
    well, down, _ = _run(given, "--yes", "--json", *more, make=make).objects
    assert ("succeeds", "builtins.ConnectionError", True) == (
        well["verdict"],
        down["exception"],
        down["transient"],
    )


def test_letters_of_other_groups_are_left_out(
    scene: NewScene,  # noqa: F811
    directory: Path,
) -> None:
    """Their handler is another one."""
    given = scene(1)
    given.add_letters([_letter(given, 0, b"well", None, group_id="shipping")])
    done = _run(given, "--yes")
    assert (0, '1 letter left out: of group "shipping"\n') == (done.code, done.err)
    assert [] == _effects(directory)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        ("billing", "'billing' is not module:function, such as app:make"),
        ("bills:made", "bills:made: ModuleNotFoundError(\"No module named 'bills'\")"),
        ("billing:mad", "has no attribute 'mad'"),
        ("billing:raises", "billing:raises: RuntimeError('no settings')"),
        ("billing:wrong", "returned LinearConsumer, must return a LinearConsumer, which is not"),
        ("os:abort", "os:abort: the process was killed by SIGABRT"),
    ],
)
def test_a_program_that_cannot_be_used(scene: NewScene, make: str, problem: str) -> None:  # noqa: F811
    """It says why, in one sentence, and what to correct."""
    given = scene(1)
    given.add_letters([_letter(given, 0, b"well", None)])
    done = _run(given, "--yes", make=make)
    assert (2, True) == (done.code, problem in done.err), done.err
    assert "Traceback" not in done.err
