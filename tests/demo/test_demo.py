"""`linear-retry demo` ends with a proof that holds, or with one sentence."""

import json
import os
import re
import signal
import subprocess
import sys
from typing import NoReturn

import pytest
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

from linear_retry.cli import app
from linear_retry.demo import run as demo_run
from linear_retry.demo.evidence import Verdict
from linear_retry.errors import BrokerError
from linear_retry.kafka.topics.temporary import temporary_topics
from tests.patience import PATIENCE_S
from tests.real_kafka import RealKafka

COMMAND = (sys.executable, "-c", "from linear_retry.cli import main; main()", "demo")
_NOBODY = "127.0.0.1:1"


def ran(*arguments: str) -> subprocess.CompletedProcess[str]:
    # FORCE_COLOR must not bring colours into a pipe, nor a proxy stand before the loopback.
    environment = os.environ | {"FORCE_COLOR": "1", "HTTP_PROXY": f"http://{_NOBODY}"}
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=PATIENCE_S,
        check=False,
    )


def test_the_demo_on_its_own_broker_proves_itself() -> None:
    """Plain lines in a pipe: the circuit opens and closes twice, and no claim fails."""
    ended = ran()
    assert (0, "") == (ended.returncode, ended.stderr)
    assert 2 == ended.stdout.count("circuit open")
    assert 2 == ended.stdout.count("circuit closed")
    assert 2 == ended.stdout.count("dead letter: ")
    assert 8 == ended.stdout.count("OK")
    assert "\x1b" not in ended.stdout


@pytest.mark.broker
def test_the_demo_on_a_real_cluster_leaves_nothing_behind(kafka: RealKafka) -> None:
    """As JSON: events, then a proof that holds; topics and group are gone afterwards."""
    ended = ran("--bootstrap", kafka.bootstrap, "--json")
    assert (0, "") == (ended.returncode, ended.stderr)
    *events, proof = (json.loads(line) for line in ended.stdout.splitlines())
    assert [] == [verdict for verdict in proof["proof"] if not verdict["holds"]]
    names = [event["event"] for event in events]
    assert [2, 2, 2] == [
        names.count(name) for name in ("CircuitOpened", "CircuitClosed", "DeadLettered")
    ]
    admin = AdminClient(kafka.client_settings())
    groups = admin.list_consumer_groups().result().valid
    left = {*admin.list_topics(timeout=PATIENCE_S).topics, *(group.group_id for group in groups)}
    assert set() == {name for name in left if name.startswith("linear-retry-demo")}


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_a_signal_ends_it_with_a_message(number: signal.Signals, code: int, word: str) -> None:
    """Its exit code and one line, while the circuit is open."""
    with subprocess.Popen(
        [*COMMAND, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if json.loads(line)["event"] == "CircuitOpened":
                break
        child.send_signal(number)
        _, errors = child.communicate(timeout=PATIENCE_S)
    assert code == child.returncode
    assert re.fullmatch(rf"{word}: \d+ of 400 orders were done\n", errors)


def test_a_reader_that_goes_away_ends_it() -> None:
    """`| head` is no traceback."""
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as (
        child
    ):
        assert child.stdout is not None
        assert child.stdout.readline().startswith("400 orders")
        child.stdout.close()
        assert child.stderr is not None
        errors = child.stderr.read()
    assert (1, "") == (child.returncode, errors)


def test_without_httpx_it_says_what_to_install() -> None:
    """The extra is named; nothing else of the command line needs it."""
    code = "import sys; sys.modules['httpx'] = None; from linear_retry.cli import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", code, "demo"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert 3 == ended.returncode
    assert "the demo needs httpx: pip install 'linear-retry[demo]'\n" == ended.stderr


def test_nobody_there_is_an_error_that_names_the_address() -> None:
    """Bounded, and before a topic is asked for."""
    with (
        pytest.raises(BrokerError, match=f"{_NOBODY}: no answer about its topics"),
        temporary_topics(_NOBODY, {"a": 1}, groups=["a"], complain=lambda _: None, within_s=0.01),
    ):
        pass


def _unreachable(bootstrap: str, _: object) -> NoReturn:
    raise BrokerError(f"{bootstrap}: no broker answers")


def test_nobody_there_is_one_sentence_for_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 3, on stderr."""
    monkeypatch.setattr(demo_run, "cluster_topics", _unreachable)
    ended = CliRunner().invoke(app, ["demo", "--json", "--bootstrap", _NOBODY])
    assert 3 == ended.exit_code
    assert ("", f"{_NOBODY}: no broker answers\n") == (ended.stdout, ended.stderr)


@pytest.mark.parametrize("as_json", [["--json"], []])
def test_a_proof_that_fails_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, as_json: list[str]
) -> None:
    """The violation is shown, and, for people, the claim in the last line."""
    verdicts = (Verdict("in order", "1 out of order", ("order-007 overtook order-003",)),)
    monkeypatch.setattr(demo_run, "run", lambda *_: verdicts)
    ended = CliRunner().invoke(app, ["demo", *as_json])
    assert 1 == ended.exit_code
    assert "order-007 overtook order-003" in ended.stdout
    assert ("Not proved: in order." in ended.stdout.splitlines()[-1]) is not bool(as_json)


def test_a_proof_that_holds_ends_with_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence says that everything is proved, and where to go from there."""
    monkeypatch.setattr(demo_run, "run", lambda *_: (Verdict("in order", "0 out of order", ()),))
    ended = CliRunner().invoke(app, ["demo"])
    assert 0 == ended.exit_code
    assert "docs/getting-started.md" in ended.stdout.splitlines()[-1]
