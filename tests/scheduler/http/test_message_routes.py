"""Messages that wait are listed, shown and changed over HTTP."""

from typing import Any

import httpx
import pytest

from linear_retry.scheduler.changes import MOST_IDS
from linear_retry.scheduler.destination_setting import remember
from linear_retry.scheduler.destinations import Destinations
from linear_retry.store import audit, messages
from linear_retry.store.database import Database
from tests.store.contents import new_message

_PATH = "/api/v1/messages"
_LETTERS = "/api/v1/dead-letters"
_FAR_MS = 10**14


@pytest.fixture
def stored(database: Database) -> list[int]:
    """Three messages: two for orders, one with bytes that are not UTF-8."""
    rows = [
        new_message(due_ms=_FAR_MS + 2),
        new_message(due_ms=_FAR_MS + 1, slot="key-7", retry_id="a/1"),
        new_message(
            due_ms=_FAR_MS + 3, destination="payments", key=b"\xff", value=None, timestamp_ms=None
        ),
    ]
    with database.begin() as connection:
        messages.add(database, connection, rows)
        return [each.id for each in messages.waiting(connection, "scheduler")]


def _listed(client: httpx.Client, **query: object) -> list[int]:
    answer = client.get(_PATH, params={name: str(value) for name, value in query.items()})
    return [each["id"] for each in answer.raise_for_status().json()["messages"]]


def _changed(client: httpx.Client, action: str, given: dict[str, Any]) -> dict[str, int]:
    answer: dict[str, int] = client.post(f"{_PATH}/{action}", json=given).raise_for_status().json()
    return answer


def test_the_list(operator: httpx.Client, stored: list[int]) -> None:
    """By the time they are due, without values."""
    first, second, third = stored
    found = operator.get(_PATH).json()["messages"]
    assert [second, first, third] == [each["id"] for each in found]
    assert (None, {"base64": "/w=="}) == (found[2]["value_bytes"], found[2]["key"])
    assert {
        "id": first,
        "service": "scheduler",
        "destination": "orders",
        "slot": "0",
        "retry_id": "billing/orders/0/1",
        "group_id": "billing",
        "origin": "billing.scheduled[0]@1",
        "due_ms": _FAR_MS + 2,
        "stored_ms": found[1]["stored_ms"],
        "hold_until_ms": 0,
        "error": None,
        "key": "key",
        "value_bytes": 5,
    } == found[1]


def test_filters(operator: httpx.Client, stored: list[int]) -> None:
    """Each narrows the list down; one that does not exist is refused, and selects nothing."""
    first, second, third = stored
    assert [third] == _listed(operator, destination="payments")
    assert [third] == _listed(operator, key_base64="/w==")
    assert [second, first] == _listed(operator, key="key")
    assert [second] == _listed(operator, retry_id="a/1")
    assert [first] == _listed(operator, since_ms=_FAR_MS + 2, until_ms=_FAR_MS + 3)
    assert [] == _listed(operator, is_held="true")
    assert [] == _listed(operator, service="outbox")
    answer = operator.get(_PATH, params={"destinaton": "payments"})
    assert (422, "query.destinaton: unknown, or misspelt") == (
        answer.status_code,
        answer.json()["error"],
    )


def test_pages(operator: httpx.Client, stored: list[int]) -> None:
    """`next` leads from each page to the following one, and is null after the last."""
    first = operator.get(_PATH, params={"limit": "2"}).json()
    last = operator.get(_PATH, params={"limit": "2", "after": first["next"]}).json()
    found = [each["id"] for page in (first, last) for each in page["messages"]]
    assert [stored[1], stored[0], stored[2]] == found
    assert last["next"] is None


def test_one_message(operator: httpx.Client, viewer: httpx.Client, stored: list[int]) -> None:
    """Its payload is for operators."""
    path = f"{_PATH}/{stored[0]}"
    assert {
        "key": "key",
        "value": "value",
        "headers": [["trace", "1"]],
        "timestamp_ms": 1_700_000_000_000,
    } == operator.get(path).json()["payload"]
    assert viewer.get(path).json()["payload"] is None
    assert 404 == operator.get(f"{_PATH}/{10**6}").status_code


def test_a_viewer_sees_no_key(viewer: httpx.Client, stored: list[int]) -> None:
    """In no list, and no value either."""
    answer = viewer.get(_PATH)
    assert [None] * 3 == [each["key"] for each in answer.json()["messages"]]


@pytest.mark.parametrize("path", [_PATH, f"{_PATH}/selection", _LETTERS, f"{_LETTERS}/selection"])
@pytest.mark.parametrize("asked", [{"key": "7"}, {"key_base64": "Nw=="}])
def test_a_viewer_may_not_ask_by_key(
    operator: httpx.Client, viewer: httpx.Client, path: str, asked: dict[str, str]
) -> None:
    """Keys were in no answer, and could be guessed: the list had only those with that key."""
    assert 200 == operator.get(path, params=asked).status_code
    answer = viewer.get(path, params=asked)
    assert 403 == answer.status_code
    assert answer.json()["error"].endswith("is a viewer: keys are for operators")
    assert 200 == viewer.get(path, params={"destination": "orders"}).status_code


def test_send_now(operator: httpx.Client, database: Database, stored: list[int]) -> None:
    """Due now; what is gone is said."""
    given = {"ids": [stored[0], 10**6], "comment": "the bank is back"}
    assert {"changed": 1, "gone": 1, "due": 0} == _changed(operator, "send-now", given)
    with database.reading() as connection:
        found = messages.get(connection, stored[0])
        (entry,) = audit.read(connection, limit=10)
    assert found is not None
    assert found.due_ms < _FAR_MS
    assert ("ann", "send-now", 1) == (entry.actor, entry.action, entry.count)
    assert "the bank is back" == entry.details["comment"]


def test_postpone(operator: httpx.Client, stored: list[int]) -> None:
    """To the time that is given."""
    given = {"ids": [stored[0]], "due_ms": _FAR_MS + 9}
    assert {"changed": 1, "gone": 0, "due": 0} == _changed(operator, "postpone", given)
    assert [stored[1], stored[2], stored[0]] == _listed(operator)


def test_give_up(operator: httpx.Client, stored: list[int]) -> None:
    """It waits no more, and is a dead letter."""
    given = {"ids": [stored[0]], "comment": "too large"}
    assert {"changed": 1, "gone": 0, "due": 0} == _changed(operator, "give-up", given)
    assert [stored[1], stored[2]] == _listed(operator)
    (letter,) = operator.get(_LETTERS).json()["dead_letters"]
    assert ("given-up", "given up by ann: too large") == (letter["reason"], letter["error"])


def test_edit(operator: httpx.Client, database: Database, stored: list[int]) -> None:
    """Only what is given is replaced; one that is gone is not found."""
    remember(database, Destinations("billing.scheduled", ("orders*",)))
    path = f"{_PATH}/{stored[1]}"
    edited = operator.post(f"{path}/edit", json={"value": "other", "partition": 3}).json()
    found = operator.get(path).json()
    assert (edited["retry_id"], "3", "other", "key") == (
        found["retry_id"],
        found["slot"],
        found["payload"]["value"],
        found["payload"]["key"],
    )
    assert [stored[1], stored[0], stored[2]] == _listed(operator)
    answer = operator.post(f"{_PATH}/{10**6}/edit", json={"value": "other"})
    assert (404, True) == (answer.status_code, "does not wait" in answer.json()["error"])


def test_a_bulk_is_made_of_the_ids_that_were_counted(
    operator: httpx.Client, database: Database, stored: list[int]
) -> None:
    """What matches the filter later is not changed."""
    selected = operator.get(f"{_PATH}/selection", params={"destination": "orders"}).json()
    assert {"count": 2, "ids": stored[:2]} == selected | {"ids": sorted(selected["ids"])}
    with database.begin() as connection:
        messages.add(database, connection, [new_message(due_ms=_FAR_MS)])
    given = {"ids": selected["ids"]}
    assert {"changed": 2, "gone": 0, "due": 0} == _changed(operator, "delete", given)
    assert 2 == len(_listed(operator))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"ids": []},
        {"ids": [0]},
        {"ids": [2**63]},
        {"ids": ["1 or 1=1"]},
        {"ids": [True]},
        {"ids": ["1"]},
        {"ids": [1.0]},
        {"ids": [1], "due_ms": True},
        {"ids": [1], "all": True},
        {"ids": [1], "comment": "x" * 1001},
        {"ids": list(range(1, MOST_IDS + 2))},
    ],
)
def test_what_is_no_change(ann: httpx.Client, given: dict[str, Any]) -> None:
    """Ids are required, within bounds, and nothing else is."""
    for action in ("send-now", "delete", "postpone", "give-up"):
        answer = ann.post(f"{_PATH}/{action}", json=given)
        assert (422, ["error"]) == (answer.status_code, list(answer.json()))
