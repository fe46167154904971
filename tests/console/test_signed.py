"""What the audit keeps beside changes: sign-ins, refusals, exports; and what a sign-out ends."""

import httpx

from linear_retry.console.frame.services import Services
from linear_retry.console.state.audit import Audit
from linear_retry.web import HttpServer
from tests.console.conftest import address, signed_in


def _entries(services: Services) -> list[tuple[str, str, str, str]]:
    """The first one first."""
    found = services.audit.read(limit=99)[::-1]
    return [(each.actor, each.action, each.subject, each.outcome) for each in found]


def test_who_signs_in_and_out_is_in_the_audit(server: HttpServer, services: Services) -> None:
    """Nothing said that somebody had, or had tried 30 passwords.

    A name that nobody has may be a password in the wrong field: it is not kept.
    """
    headers = {"Origin": address(server)}
    with httpx.Client(base_url=address(server), headers=headers) as anyone:
        for name in ("ann", "hunter2", "hunter3"):
            wrong = {"name": name, "password": "wrong", "next": "/now"}
            assert 401 == anyone.post("/login", data=wrong).status_code
        assert 401 == anyone.get("/now", auth=("ann", "wrong")).status_code
    with signed_in(server, "vic") as viewer:
        assert 303 == viewer.post("/logout").status_code
    wrong_password = "refused: wrong name or password"
    assert [
        ("ann", "sign in", "127.0.0.1", wrong_password),
        ("unknown name", "sign in", "127.0.0.1", f"{wrong_password}, 2 times"),
        ("unknown", "sign in", "127.0.0.1", wrong_password),
        ("vic", "sign in", "127.0.0.1", "signed in"),
        ("vic", "sign out", "127.0.0.1", "signed out"),
    ] == _entries(services)


def test_refused_changes_and_exports_are_in_the_audit(
    server: HttpServer, services: Services
) -> None:
    """A viewer tried to replay, and somebody had taken the audit along: neither left a trace."""
    with signed_in(server, "vic") as viewer:
        assert 403 == viewer.post("/jobs", data={"topic": "orders.dlq"}).status_code
        assert 200 == viewer.get("/audit.csv?who=ann").status_code
    with httpx.Client(base_url=address(server)) as stranger:
        headers = {"Sec-Fetch-Site": "cross-site"}
        for number in range(3):
            path = f"/jobs/{number}/start"
            assert 403 == stranger.post(path, headers=headers).status_code
    refused = "refused: another site's page may change nothing here, 3 times"
    assert [
        (
            *("vic", "change", "/jobs, from 127.0.0.1"),
            "refused: vic is a viewer: a change needs an operator",
        ),
        ("vic", "export", "the audit, who=ann", "csv"),
        ("unknown", "change", "127.0.0.1", refused),
    ] == _entries(services)[1:]


def test_the_same_within_a_minute_is_one_entry(services: Services) -> None:
    """A program that tries passwords would fill the disk."""
    audit: Audit = services.audit
    for _ in range(50):
        audit.note("ann", "sign in", "10.0.0.1", "refused: 100 % wrong")
    audit.note("bob", "sign in", "10.0.0.1", "refused: 100 % wrong")
    services.state.change("UPDATE audit SET at_ms = at_ms - 60000 WHERE actor = 'ann'")
    audit.note("ann", "sign in", "10.0.0.1", "refused: 100 % wrong")
    assert [
        ("ann", "refused: 100 % wrong, 50 times"),
        ("bob", "refused: 100 % wrong"),
        ("ann", "refused: 100 % wrong"),
    ] == [(each[0], each[3]) for each in _entries(services)]


def test_a_stream_ends_with_its_session(server: HttpServer) -> None:
    """It went on for ten minutes after Sign out, with all that the page shows."""
    with signed_in(server, "vic") as viewer, viewer.stream("GET", "/now/stream") as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith("event: part")
        assert 303 == viewer.post("/logout").status_code
        # What was under way is sent, and its end; before, a hundred rounds came.
        assert 2 >= sum(line == ": " for line in lines)
        again = viewer.get("/now/stream", headers={"Accept": "text/event-stream"})
        assert 401 == again.status_code
