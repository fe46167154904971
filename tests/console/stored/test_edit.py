"""A dead letter of a store is edited, compared, and forwarded, as a letter of Kafka is."""

import re
from html import unescape

import httpx
import pytest

from linear_retry.store import audit, dead_letters, messages
from linear_retry.store.database import Database
from linear_retry.store.records import StoredMessage
from tests.store.contents import new_dead_letter

_DEAD = "/stored/scheduler/dead"
_INPUT = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)">')
_AREA = re.compile(r'<textarea name="(\w+)"[^>]*>\n(.*?)</textarea>', re.DOTALL)


def _add(database: Database, **parts: object) -> str:
    """Adds a dead letter; returns the address of its page."""
    with database.begin() as connection:
        dead_letters.add(database, connection, [new_dead_letter(**parts)])
    return f"{_DEAD}/4"


def _waiting(database: Database) -> list[StoredMessage]:
    """What came to wait behind the 150 messages."""
    with database.reading() as connection:
        found = (messages.get(connection, number) for number in range(151, 160))
        return [each for each in found if each is not None]


def _form(**parts: str) -> dict[str, str | list[str]]:
    form: dict[str, str | list[str]] = {"key_form": "text", "key": "key", "value_form": "text"}
    form |= {"value": "value", "header": ["trace"], "header_form": ["text"]}
    return form | {"header_text": ["1"], "to": "orders", "reason": "the tenant was wrong"} | parts


def test_an_edited_dead_letter_waits_again(operator: httpx.Client, database: Database) -> None:
    """With what the page compared, and no other change, under an id that names the old one."""
    own = (("trace", b"1"), ("tenant", b"\xff"))
    headers = (*own, ("retry-id", b"billing/orders/0/1"), ("retry-reason", b"exhausted"))
    address = _add(database, value=b'{"tenant": "acme"}', headers=headers)
    form = operator.get(f"{address}/edit").text
    assert "retry-reason" not in form
    fields = _form(value='{"tenant": "umbra"}') | {
        "header": ["trace", "tenant"],
        "header_form": ["text", "hex"],
        "header_text": ["1", "ff"],
    }
    compared = operator.post(f"{address}/compare", data=fields).text
    assert "-  &#34;tenant&#34;: &#34;acme&#34;\n+  &#34;tenant&#34;: &#34;umbra&#34;" in compared
    assert "What changes in the headers" not in compared
    kept = {name: unescape(text) for name, text in _AREA.findall(compared)}
    assert ("key", '{"tenant": "umbra"}') == (kept["key"], kept["value"])
    done = operator.post(f"{address}/forward", data=fields, follow_redirects=True).text
    [found] = _waiting(database)
    assert f"1 message is due now, as {found.retry_id}." in done
    assert (b"key", b'{"tenant": "umbra"}', "0") == (found.key, found.value, found.slot)
    edited = ("retry-edited-from", b"billing/orders/0/1")
    ids = ((name, found.retry_id.encode()) for name in ("retry-id", "retry-message-id"))
    expected = (*own, ("retry-reason", b"exhausted"), *ids, edited)
    assert expected == found.headers
    with database.reading() as connection:
        [change] = audit.read(connection, limit=9)
    assert ("ann", "edit-and-forward", ["value"]) == (
        change.actor,
        change.action,
        change.details["edited"],
    )
    assert 404 == operator.post(f"{address}/forward", data=fields).status_code


def test_an_edited_message_keeps_its_place(operator: httpx.Client, database: Database) -> None:
    """A message that its topic did not take is mended where it waits, before its lane's others."""
    address = "/stored/scheduler/waiting/2"
    page = operator.get(address).text
    assert f'href="{address}/edit"' in page
    assert "keeps its place" in operator.get(f"{address}/edit").text
    fields = _form(key="secret", value="small")
    assert "Replace message 2" in operator.post(f"{address}/compare", data=fields).text
    done = operator.post(f"{address}/forward", data=fields, follow_redirects=True).text
    with database.reading() as connection:
        first, found, *_ = messages.waiting(connection, "scheduler")
        [change] = audit.read(connection, limit=9)
    assert f"1 message is edited, as {found.retry_id}." in done
    assert (1, 2, b"small") == (first.id, found.id, found.value)
    assert (first.lane_id, first.due_ms + 1) == (found.lane_id, found.due_ms)
    assert ("ann", "edit-message") == (change.actor, change.action)
    assert 404 == operator.get("/stored/scheduler/waiting/999/edit").status_code


def test_another_key_or_topic_is_not_bound_to_the_old_partition(
    operator: httpx.Client, database: Database
) -> None:
    """Its messages are in the partition of the key."""
    address = _add(database)
    operator.post(f"{address}/forward", data=_form(key="other"))
    [found] = _waiting(database)
    assert (b"other", None) == (found.key, found.partition)


@pytest.mark.parametrize(
    ("parts", "status", "text"),
    [
        ({"to": "payments"}, 409, "--allow has orders*"),
        ({"to": "linear-retry.control"}, 409, "the topic of operators"),
        ({"to": "orders.dlq"}, 409, "a topic of dead letters"),
        ({"value_form": "hex", "value": "xy"}, 422, "hexadecimal digits"),
        ({"reason": ""}, 422, "give a reason"),
    ],
)
def test_what_may_not_be_sent_is_refused(
    operator: httpx.Client, database: Database, parts: dict[str, str], status: int, text: str
) -> None:
    """In words, and the dead letter stays."""
    address = _add(database)
    answer = operator.post(f"{address}/forward", data=_form(**parts))
    assert (status, True) == (answer.status_code, text in unescape(answer.text))
    assert 200 == operator.get(address).status_code
    assert [] == _waiting(database)


def test_a_long_value_is_not_edited_in_a_form(operator: httpx.Client, database: Database) -> None:
    """A browser would send megabytes of hidden fields."""
    address = _add(database, value=b"x" * 300_000)
    for answer in (
        operator.get(f"{address}/edit"),
        operator.post(f"{address}/compare", data=_form()),
    ):
        assert (413, True) == (answer.status_code, "too long for a form" in answer.text)
