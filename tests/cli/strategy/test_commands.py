"""`linear-retry strategy` describes a file right, to people and to programs."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from linear_retry.cli import app
from linear_retry.cli.options import values
from linear_retry.strategy.strategy import Strategy

runner = CliRunner()


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.json"
    path.write_text('[1, "30s", {"every": "5m", "times": 2}]')
    return path


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "bad.json"
    path.write_text('[true, 1, "5 m"]')
    return path


def child(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """The console script in a process of its own."""
    code = "from linear_retry.cli import main; main()"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(
        command, **{"capture_output": True, "text": True, "check": False, **options}
    )


def test_check_says_what_a_good_file_comes_to(good: Path) -> None:
    """A file without problems is one line, and the exit code is 0."""
    result = runner.invoke(app, ["strategy", "check", str(good)])
    assert (0, f"{good}: ok, 4 waits, 10m31s\n") == (result.exit_code, result.output)


def test_check_says_every_problem_of_every_file(good: Path, bad: Path, tmp_path: Path) -> None:
    """No problem hides another, in the same file or in the next, and the exit code is 1."""
    missing = tmp_path / "missing.json"
    files = [str(path) for path in (bad, good, missing)]
    result = runner.invoke(app, ["strategy", "check", *files])

    assert 1 == result.exit_code
    assert [f"{bad} [0]", f"{bad} [2]", f"{good}", f"{missing}"] == [
        line.partition(":")[0] for line in result.stdout.splitlines()
    ]


def test_check_speaks_json_too(good: Path, bad: Path) -> None:
    """With --json each file is one object on one line: right or not, and why."""
    result = runner.invoke(app, ["strategy", "check", "--json", str(good), str(bad)])
    right, wrong = map(json.loads, result.stdout.splitlines())
    strategy = Strategy.load(good)

    assert 1 == result.exit_code
    assert {
        "file": str(good),
        "ok": True,
        "problems": [],
        "name": "good",
        "fingerprint": strategy.fingerprint,
        "description": "",
        "jitter": 0.0,
        "max_elapsed_s": None,
        "delays": 4,
        "total_s": 631.0,
        "total_max_s": 631.0,
    } == right
    assert {"file", "ok", "problems"} == wrong.keys()
    assert (str(bad), False, 2) == (wrong["file"], wrong["ok"], len(wrong["problems"]))


def test_show_is_a_table_of_failures(good: Path) -> None:
    """Each failure has its wait and the time since the first; then it gives up; then the total."""
    result = runner.invoke(app, ["strategy", "show", str(good)])

    assert 0 == result.exit_code
    assert [
        Strategy.load(good).label.split(),
        ["failure", "wait", "since", "the", "first", "failure"],
        ["1", "1s", "1s"],
        ["2", "30s", "31s"],
        ["3", "5m", "5m31s"],
        ["4", "5m", "10m31s"],
        ["5", "gives", "up"],
        ["in", "total:", "4", "waits,", "10m31s"],
    ] == [line.split() for line in result.stdout.splitlines()]


def test_show_gives_the_range_where_there_is_jitter(tmp_path: Path) -> None:
    """With jitter, each wait and each sum is shown from its shortest to its longest."""
    path = tmp_path / "spread.json"
    path.write_text('{"delays": [10, "1m"], "jitter": 0.25, "description": "to see [red]it[/red]"}')
    lines = runner.invoke(app, ["strategy", "show", str(path)]).stdout.splitlines()

    assert "to see [red]it[/red]" == lines[1]
    assert [
        ["1", "10s", "to", "12s500ms", "10s", "to", "12s500ms"],
        ["2", "1m", "to", "1m15s", "1m10s", "to", "1m27s500ms"],
    ] == [line.split() for line in lines[3:5]]
    assert "in total: 2 waits, 1m10s to 1m27s500ms" == lines[-1]


def test_show_speaks_json_too(tmp_path: Path) -> None:
    """With --json the summary and the rows are one object on one line."""
    path = tmp_path / "spread.json"
    path.write_text('{"delays": [10, "1m"], "jitter": 0.25}')
    (line,) = runner.invoke(app, ["strategy", "show", "--json", str(path)]).stdout.splitlines()
    shown = json.loads(line)
    columns = ("failure", "wait_s", "wait_max_s", "since_first_s", "since_first_max_s")

    assert (70.0, 87.5, 0.25) == (shown["total_s"], shown["total_max_s"], shown["jitter"])
    assert [
        dict(zip(columns, (1, 10.0, 12.5, 10.0, 12.5), strict=True)),
        dict(zip(columns, (2, 60.0, 75.0, 70.0, 87.5), strict=True)),
    ] == shown["waits"]


def test_max_elapsed_ends_the_table(tmp_path: Path) -> None:
    """Waits that end behind it are none; with jitter the bounds end at it."""
    path = tmp_path / "limited.json"
    path.write_text('{"delays": [10, "1m", "5m"], "jitter": 0.5, "max_elapsed": "90s"}')
    strategy = Strategy.load(path)
    lines = runner.invoke(app, ["strategy", "show", str(path)]).stdout.splitlines()
    assert [
        strategy.label,
        "no retry begins later than 1m30s after the first failure",
        "failure         wait  since the first failure",
        "      1   10s to 15s               10s to 15s",
        "      2  1m to 1m30s           1m10s to 1m30s",
        "      3     gives up",
        "in total: 2 of 3 waits, 1m10s to 1m30s",
    ] == lines
    checked = runner.invoke(app, ["strategy", "check", str(path)]).stdout
    assert f"{path}: ok, 2 of 3 waits, 1m10s to 1m30s\n" == checked
    shown = json.loads(runner.invoke(app, ["strategy", "show", "--json", str(path)]).stdout)
    assert (90.0, 70.0, 90.0, 2) == (
        *(shown["max_elapsed_s"], shown["total_s"], shown["total_max_s"]),
        len(shown["waits"]),
    )


def test_an_empty_strategy_gives_up_at_once(tmp_path: Path) -> None:
    """`[]` is shown as what it is: the first failure gives up."""
    path = tmp_path / "none.json"
    path.write_text("[]")
    lines = runner.invoke(app, ["strategy", "show", str(path)]).stdout.splitlines()
    assert [["1", "gives", "up"], ["in", "total:", "0", "waits,", "0s"]] == [
        line.split() for line in lines[2:]
    ]


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.json"
    first = {"errors": ["httpx.ReadTimeout"], "topics": ["orders.*"], "delays": [1, 5]}
    path.write_text(json.dumps({"rules": [first, {"delays": ["30s"], "jitter": 0.5}]}))
    return path


def test_a_file_of_rules_is_checked_and_shown_one_by_one(rules: Path) -> None:
    """Each is a strategy; which one is to be shown must be said."""
    checked = runner.invoke(app, ["strategy", "check", str(rules)])
    assert (0, f"{rules}: ok, 2 rules: 2 waits, 6s; 1 wait, 30s to 45s\n") == (
        checked.exit_code,
        checked.output,
    )
    lines = runner.invoke(app, ["strategy", "check", "--json", str(rules)]).stdout.splitlines()
    assert ["rules.1", "rules.2"] == [json.loads(line)["name"] for line in lines]
    shown = runner.invoke(app, ["strategy", "show", str(rules), "--rule", "2"])
    assert (0, True) == (shown.exit_code, shown.stdout.startswith("rules.2@"))
    simulated = runner.invoke(
        app, ["strategy", "simulate", str(rules), "--rule", "1", "--outage", "4s"]
    )
    assert "succeeds at 6s" in simulated.stdout
    for given, wrong in (
        ([], ""),
        (["--rule", "3"], "--rule 3: "),
        (["--rule", "0"], "--rule 0: "),
    ):
        for command in (["show"], ["simulate", "--outage", "4s"]):
            result = runner.invoke(app, ["strategy", *command, str(rules), *given])
            said = f"{wrong}{rules} has 2 rules; give --rule, from 1 on\n"
            assert (1, said) == (result.exit_code, result.stderr)


def test_show_has_no_output_for_a_bad_file(bad: Path) -> None:
    """The problems of a file that cannot be shown are on stderr, and the exit code is 1."""
    result = runner.invoke(app, ["strategy", "show", str(bad)])

    assert (1, "") == (result.exit_code, result.stdout)
    assert 2 == len(result.stderr.splitlines())


def test_show_json_of_a_bad_file_is_json(bad: Path) -> None:
    """With --json a program always gets its one object."""
    result = runner.invoke(app, ["strategy", "show", "--json", str(bad)])
    shown = json.loads(result.stdout)
    assert (1, False, []) == (result.exit_code, shown["ok"], shown["waits"])


@pytest.mark.parametrize(
    "arguments", [[], ["strategy"], ["strategy", "check"], ["strategy", "show"], ["--nope"]]
)
def test_wrong_usage_has_its_own_exit_code(arguments: list[str]) -> None:
    """Exit code 2, and a word about what is missing, never a traceback."""
    result = child(*arguments)
    assert 2 == result.returncode
    assert "Usage: linear-retry" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_file_name_that_is_not_text_can_be_shown(tmp_path: Path, options: list[str]) -> None:
    """A name with bytes that are no UTF-8 is shown with a replacement character."""
    path = tmp_path / "n\udcffight.json"
    path.write_text("[1]")
    ended = child("strategy", "check", *options, path)

    assert (0, "") == (ended.returncode, ended.stderr)
    assert "n\ufffdight.json" in ended.stdout


def test_help_and_version_load_nothing_heavy() -> None:
    """Asking for help loads neither rich nor orjson."""
    code = (
        "import sys, linear_retry.cli as cli\n"
        "for option in ('--help', '--version'):\n"
        "    try: cli.app([option])\n"
        "    except SystemExit as end: assert end.code == 0\n"
        "print([m for m in ('rich', 'orjson') if m in sys.modules])\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "[]" == ended.stdout.splitlines()[-1]
    assert "linear-retry 0." in ended.stdout


def test_a_reader_that_has_gone_is_no_error_message(good: Path) -> None:
    """`linear-retry ... | head`: exit code 1, and not a word on stderr."""
    for arguments in (["strategy", "show", good], ["strategy", "check", good], ["--help"]):
        reader, writer = os.pipe()
        os.close(reader)
        ended = child(*arguments, capture_output=False, stdout=writer, stderr=subprocess.PIPE)
        os.close(writer)
        assert (1, "") == (ended.returncode, ended.stderr)


def test_ctrl_c_ends_quietly(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C is exit code 130 without a traceback."""

    def interrupted(path: Path) -> Strategy:
        raise KeyboardInterrupt

    monkeypatch.setattr(values, "load_arguments", interrupted)
    result = runner.invoke(app, ["strategy", "check", str(good)])
    assert (130, "") == (result.exit_code, result.output)


def test_letters_that_the_output_lacks_are_escaped(tmp_path: Path) -> None:
    """A description beyond the output's encoding is shown escaped, not as a traceback."""
    path = tmp_path / "snow.json"
    path.write_text('{"delays": [], "description": "snow ☃"}', encoding="utf-8")
    ended = child("strategy", "show", path, env={**os.environ, "PYTHONIOENCODING": "latin-1"})

    assert (0, "snow \\u2603") == (ended.returncode, ended.stdout.splitlines()[1])


def test_a_pipe_gets_no_colours(good: Path) -> None:
    """Outside a terminal there are no escape sequences, whatever the environment asks for."""
    ended = child("strategy", "show", good, env={**os.environ, "FORCE_COLOR": "1"})
    assert (0, False) == (ended.returncode, "\x1b" in ended.stdout)


def test_a_terminal_gets_a_table(good: Path) -> None:
    """On a terminal the same rows are a drawn table."""
    master, terminal = pty.openpty()
    ended = child(
        *("strategy", "show", good),
        capture_output=False,
        stdout=terminal,
        stderr=subprocess.PIPE,
        env={**os.environ, "TERM": "xterm", "PYTHONIOENCODING": "utf-8"},
    )
    os.close(terminal)
    text = os.read(master, 1 << 16).decode()
    os.close(master)

    assert (0, "") == (ended.returncode, ended.stderr)
    assert "─" in text
    assert "10m31s" in text
