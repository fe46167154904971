"""The console's own database survives a restart, and belongs to one process and one user."""

import stat
from pathlib import Path

import pytest

from linear_retry.console.state.audit import Audit
from linear_retry.console.state.state import State, StateError
from tests.console.recording import record


def test_the_audit_survives_a_restart(tmp_path: Path) -> None:
    """A change that was written is there after a restart, the latest first, page by page."""
    state = State(tmp_path / "state")
    for number in range(3):
        record(Audit(state), "ada", "retry now", f"orders/{number}", why="fixed", outcome="done")
    state.close()
    audit = Audit(State(tmp_path / "state"))
    newest = audit.read(limit=2)
    assert ["orders/2", "orders/1"] == [change.subject for change in newest]
    assert ["orders/0"] == [
        change.subject for change in audit.read(limit=2, before_id=newest[-1].id)
    ]


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    """Nobody else on the machine reads who did what, or which letters there are."""
    State(tmp_path / "state")
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "state").iterdir()]
    assert {0o600} == set(modes)
    assert 0o700 == stat.S_IMODE((tmp_path / "state").stat().st_mode)


def test_a_second_console_on_the_same_state_is_refused(tmp_path: Path) -> None:
    """Two servers would take each other's running jobs for interrupted ones."""
    State(tmp_path)
    with pytest.raises(StateError, match="another console has it open"):
        State(tmp_path)


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    """What cannot be read is said with the file and the option."""
    (tmp_path / "console.sqlite").write_text("not a database at all, and long enough to be read")
    with pytest.raises(StateError, match=r"console\.sqlite: cannot be used .* see --state"):
        State(tmp_path)
