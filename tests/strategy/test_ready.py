"""The ready strategies are there wherever the package is."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from linear_retry import Strategy, StrategyError
from linear_retry.cli import app
from linear_retry.strategy.file import ready_names
from tests.docs.markdown import ROOT, code, page, table

_FILES = {path.stem: path for path in sorted((ROOT / "strategies").glob("*.json"))}


def test_a_checkout_has_them() -> None:
    """Each file of strategies/ is one, by the name that its page has."""
    reported = [
        name.removesuffix(".json")
        for row in table(page("strategies/README.md"), "file")
        for name in code(row[0])
    ]
    assert sorted(reported) == list(_FILES) == list(ready_names())
    for name, path in _FILES.items():
        assert Strategy.load(path) == Strategy.named(name)


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    """And how a file is read."""
    with pytest.raises(StrategyError) as caught:
        Strategy.named("short-outages")
    assert (
        'no ready-made strategy "short-outages"; there are deploy-blip, exponential, overnight, '
        "rate-limited, retry-topics, short-outage, simple, strict-ledger, and Strategy.load reads "
        "your own file"
    ) == str(caught.value)


def test_the_command_takes_a_name_for_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is a file of that name, the file is meant."""
    monkeypatch.chdir(tmp_path)
    check = ("strategy", "check", "short-outage")
    shown = CliRunner().invoke(app, [*check])
    assert (0, "short-outage: ok, 6 waits, 1h10m36s\n") == (shown.exit_code, shown.stdout)
    Path("short-outage").write_text("[1]")
    shown = CliRunner().invoke(app, [*check])
    assert (0, "short-outage: ok, 1 wait, 1s\n") == (shown.exit_code, shown.stdout)
