"""A command cleans up whatever signal ends it."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

_ROOT = Path(__file__).parents[3]
_EXPORT = """
import sys, time
from linear_retry.cli.output.exit_codes import exit_on_error
from linear_retry.dlq.export import Exported, write_export
from tests.dlq.sample_letters import our_letter

def letters():
    yield Exported(our_letter())
    print("at work", flush=True)
    while True:  # not signal.pause(): a signal that comes just before it does not end it
        time.sleep(0.05)

with exit_on_error():
    write_export(sys.argv[1], letters())
"""
_CLEANING = """
import sys
from linear_retry.cli.output.exit_codes import exit_on_error

with exit_on_error():
    try:
        print("at work", flush=True)
        sys.stdin.readline()
    finally:
        print("cleaning", flush=True)
        sys.stdin.readline()
        print("clean", flush=True)
"""
_ASKING = """
from linear_retry.cli.output.exit_codes import confirmed

print("at work", flush=True)
print(confirmed("Really?"))
"""
_ENDED = (
    "import typer\ntry:\n{}\nexcept typer.Exit as ended:\n    raise SystemExit(ended.exit_code)"
)


@contextmanager
def _at_work(program: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    indented = _ENDED.format("\n".join(f"    {line}" for line in program.strip().splitlines()))
    with subprocess.Popen(
        [sys.executable, "-c", indented, *arguments],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert "at work\n" == process.stdout.readline()
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("number", "code", "output"),
    [
        (signal.SIGINT, 130, "interrupted\n"),
        (signal.SIGTERM, 143, "terminated\n"),
        (signal.SIGHUP, 129, ""),
    ],
)
def test_no_part_of_an_export_stays(
    tmp_path: Path, number: signal.Signals, code: int, output: str
) -> None:
    """SIGTERM left a partial file of payloads behind."""
    with _at_work(_EXPORT, str(tmp_path / "orders.jsonl")) as process:
        process.send_signal(number)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert (code, output, []) == (process.returncode, err, list(tmp_path.iterdir()))


def test_a_second_sigterm_does_not_end_the_cleaning() -> None:
    """`timeout` sends two at once; what the first has begun is finished."""
    with _at_work(_CLEANING) as process:
        process.terminate()
        assert process.stdout is not None
        assert "cleaning\n" == process.stdout.readline()
        process.terminate()
        process.send_signal(signal.SIGHUP)
        out, err = process.communicate("\n", timeout=PATIENCE_S)
    assert (143, "clean\n", "terminated\n") == (process.returncode, out, err)


def test_nohup_is_respected() -> None:
    """A signal that was ignored when the command began does not end it."""
    ignoring = "import signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    with _at_work(ignoring + _CLEANING) as process:
        process.send_signal(signal.SIGHUP)
        out, err = process.communicate("\n\n", timeout=PATIENCE_S)
    assert (0, "cleaning\nclean\n", "") == (process.returncode, out, err)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_is_no_answer(number: signal.Signals, code: int) -> None:
    """Ctrl-C at a question ended with the exit code of a no."""
    with _at_work(_ASKING) as process:
        assert process.stderr is not None
        assert "Really? [y/N]:" == process.stderr.read(14)
        process.send_signal(number)
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert (code, "") == (process.returncode, out.strip())


@pytest.mark.parametrize(("typed", "answer"), [("y\n", "True"), ("n\n", "False"), ("", "False")])
def test_the_end_of_the_input_is_a_no(typed: str, answer: str) -> None:
    """As where nobody is there to be asked."""
    with _at_work(_ASKING) as process:
        out, _ = process.communicate(typed, timeout=PATIENCE_S)
    assert (0, answer) == (process.returncode, out.strip())
