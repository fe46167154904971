"""The tests name the remedy where there is no browser."""

from pathlib import Path

import pytest

from tests.chromium import NoChromiumError, chromium


def test_where_there_is_none_and_no_apt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One line that says what to install, and no test that is skipped."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoChromiumError, match="install a Chromium, so that `chromium` is on the"):
        chromium()


def test_where_apt_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What apt-get said last."""
    apt = tmp_path / "apt-get"
    apt.write_text("#!/bin/sh\necho 'E: no network' >&2\nexit 100\n")
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(NoChromiumError, match=r"failed \(E: no network\): install a Chromium"):
        chromium()
