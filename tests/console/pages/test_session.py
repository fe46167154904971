"""Signing in works as long as it safely can."""

import itertools

import pytest

from linear_retry.console.frame.services import Services
from linear_retry.console.state.state import StateError
from linear_retry.web import HttpServer
from tests.console.conftest import signed_in


def _fill(services: Services) -> None:
    """Lets the disk be full, for all that SQLite can tell."""
    services.state.change("PRAGMA max_page_count = 1")

    def note_more() -> None:
        for number in itertools.count():
            services.audit.note("ann", "sign in", f"10.0.0.{number}", "signed in")

    with pytest.raises(StateError, match="full"):
        note_more()


def test_a_full_disk_locks_nobody_out(
    server: HttpServer, services: Services, caplog: pytest.LogCaptureFixture
) -> None:
    """The bug: the audit could not be written, so nobody could sign in to see what is wrong.

    The log has what the audit lacks, each page says so, and a change is still refused.
    """
    _fill(services)
    with signed_in(server, "ann") as operator:
        assert "own file cannot be written" in operator.get("/now").text
        wrong = operator.post("/login", data={"name": "ann", "password": "no", "next": "/now"})
        assert 401 == wrong.status_code
        order = {"command": "retry", "group": "billing", "reason": "it is back"}
        assert 503 == operator.post("/now/order", data=order).status_code
        entries = [vars(each).get("linear_retry_entry") for each in caplog.records]
        peer = "sign in, 127.0.0.1"
        expected = [f"ann, {peer}: signed in", f"ann, {peer}: refused: wrong name or password"]
        assert expected == [each for each in entries if each]
        services.state.change("PRAGMA max_page_count = 1000000")
        assert "/login" == operator.post("/logout").headers["Location"]
    with signed_in(server, "ann") as operator:
        assert "cannot be written" not in operator.get("/now").text
