"""The pages of a store show what it holds, and change it in two steps."""

from dataclasses import replace

import httpx
import pytest

from linear_retry.console.app import create_app
from linear_retry.console.frame.services import Services
from linear_retry.console.state.settings import Settings
from linear_retry.store import audit, messages
from linear_retry.store.database import Database
from linear_retry.web import HttpServer, serve
from tests.console.conftest import signed_in
from tests.console.stored.conftest import HOSTILE
from tests.scheduler.http.conftest import ACCESS
from tests.store.contents import new_message

_WAITING, _DEAD = "/stored/scheduler/waiting", "/stored/scheduler/dead"


def test_a_list_is_paged_and_searched(operator: httpx.Client) -> None:
    """By due time; what matches nothing says so, and so does a field that makes no sense."""
    first = operator.get(_WAITING)
    assert 100 == first.text.count('name="number"')
    after = first.text.partition(f'href="{_WAITING}?after=')[2].partition('"')[0]
    assert 50 == operator.get(f"{_WAITING}?after={after}").text.count('name="number"')
    assert "Nothing matches." in operator.get(f"{_WAITING}?destination=other").text
    assert 422 == operator.get(f"{_WAITING}?since=yesterday").status_code
    assert "Nothing waits." in operator.get("/stored/outbox/waiting").text


def test_all_that_match_are_counted_before_they_are_changed(
    operator: httpx.Client, database: Database
) -> None:
    """The form of the second step has the numbers themselves: what comes later stays as it is."""
    asked = operator.get(f"{_WAITING}/change?action=delete&all=on&destination=orders").text
    assert "Delete: 150 messages" in asked
    numbers = asked.partition('name="numbers" value="')[2].partition('"')[0]
    with database.begin() as connection:
        messages.add(database, connection, [new_message()])
    form = {"action": "delete", "numbers": numbers, "reason": "the tests are over"}
    done = operator.post(f"{_WAITING}/change", data=form, follow_redirects=True)
    assert "150 messages are deleted." in done.text
    with database.reading() as connection:
        assert 1 == len(messages.waiting(connection, "scheduler"))
        [change] = audit.read(connection, limit=9)
    assert ("ann", "delete-message", 150) == (change.actor, change.action, change.count)


def test_a_message_is_postponed(operator: httpx.Client, database: Database) -> None:
    """For a while, or until a time; what is gone is said."""
    form = {"action": "postpone", "numbers": "1 999", "delay": "", "due": "2040-01-01T00:00"}
    done = operator.post(
        f"{_WAITING}/change", data=form | {"reason": "holiday"}, follow_redirects=True
    )
    assert "1 message is postponed until 2040-01-01 00:00:00Z." in done.text
    assert "1 other was gone already." in done.text
    with database.reading() as connection:
        found = messages.get(connection, 1)
    assert 2_208_988_800_000 == (found and found.due_ms)


def test_a_link_cannot_say_that_something_was_done(operator: httpx.Client) -> None:
    """Only the page that follows a change says what came of it."""
    form = {"action": "delete", "numbers": "1", "reason": "a test"}
    done = operator.post(f"{_WAITING}/change", data=form).headers["Location"]
    assert "1 message is deleted." in operator.get(done).text
    for link in ("done=delete&count=9&of=9", "done=", f"{done.partition('?')[2]}x"):
        page = operator.get(f"{_WAITING}?{link}")
        assert (200, False) == (page.status_code, "deleted." in page.text)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ({"numbers": "1"}, "give a reason"),
        ({"numbers": "", "reason": "x"}, "nothing is chosen"),
        ({"numbers": "3", "reason": "x"}, "may not be sent to"),
        ({"numbers": "1", "reason": "x", "action": "postpone", "delay": "1h"}, "only a message"),
        ({"numbers": "1", "reason": "x", "action": "give-up"}, "only a message"),
        ({"numbers": "1", "reason": "x", "action": "postpone", "delay": "", "due": ""}, "missing"),
        ({"numbers": "1", "reason": "x", "action": "postpone", "delay": "2y"}, "not one of 15m"),
        (
            {
                "numbers": "1",
                "reason": "x",
                "action": "postpone",
                "delay": "1h",
                "due": "2040-01-01",
            },
            "not both",
        ),
    ],
)
def test_what_is_refused_says_why(operator: httpx.Client, form: dict[str, str], text: str) -> None:
    """And changes nothing."""
    answer = operator.post(f"{_DEAD}/change", data={"action": "send-now"} | form)
    assert (422, True) == (answer.status_code, text in answer.text)
    assert 200 == operator.get(f"{_DEAD}/1").status_code


def test_hostile_texts_are_texts(operator: httpx.Client) -> None:
    """Errors, keys and values with HTML, ANSI and marks that turn the text around."""
    for path in (_DEAD, f"{_DEAD}/1"):
        page = operator.get(path).text
        assert "&lt;script&gt;alert(1)" in page
        assert set() == set(page) & {"\x1b", "\u202e"}
    answer = operator.get(f"{_DEAD}/1/value")
    assert (HOSTILE, "application/octet-stream") == (answer.text, answer.headers["Content-Type"])
    assert "attachment" in answer.headers["Content-Disposition"]


def test_a_viewer_sees_no_keys_and_values(server: HttpServer) -> None:
    """Nor finds out a key by searching for it, nor comes to the form of a change."""
    with signed_in(server, "vic") as viewer:
        assert "secret" not in viewer.get(_WAITING).text
        assert 100 == viewer.get(f"{_WAITING}?key=wrong").text.count(f'href="{_WAITING}/')
        assert "Keys, values and headers are for operators." in viewer.get(f"{_WAITING}/1").text
        assert 403 == viewer.get(f"{_WAITING}/1/value").status_code
        assert 403 == viewer.get(f"{_WAITING}/change?action=delete&all=on").status_code


def test_a_store_that_cannot_be_read_says_so(settings: Settings) -> None:
    """In words, on a page."""
    store = Database("postgresql://nobody@localhost:1/none")
    with (
        Services(replace(settings, store=store), ACCESS) as services,
        serve(create_app(services), services.access, 0) as server,
        signed_in(server, "ann") as operator,
    ):
        answer = operator.get(_WAITING)
        assert (503, True) == (answer.status_code, "postgresql://nobody@localhost" in answer.text)


def test_without_a_store_there_is_no_page(settings: Settings) -> None:
    """Nor an entry that leads there."""
    with (
        Services(replace(settings, store=None), ACCESS) as services,
        serve(create_app(services), services.access, 0) as server,
        signed_in(server, "ann") as operator,
    ):
        assert 404 == operator.get(_WAITING).status_code
        assert "Stored" not in operator.get("/now").text
