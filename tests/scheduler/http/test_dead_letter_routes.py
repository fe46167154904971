"""Dead letters are listed, searched, shown and changed over HTTP."""

import base64
from typing import Any

import httpx
import pytest

from linear_retry.store import dead_letters, messages
from linear_retry.store.database import Database
from linear_retry.store.records import StoredMessage
from tests.store.contents import new_dead_letter

_PATH = "/api/v1/dead-letters"


@pytest.fixture
def letters(database: Database) -> list[int]:
    """Three: too large, unreadable without a destination, and for a topic that is not allowed."""
    rows = [
        new_dead_letter(),
        new_dead_letter(
            destination="", reason="unreadable", error="retry-at-ms is missing", key=None
        ),
        new_dead_letter(destination="payments", reason="not-allowed", error="50% <b>off</b>"),
    ]
    with database.begin() as connection:
        dead_letters.add(database, connection, rows)
    return [1, 2, 3]


def _waiting(database: Database) -> list[StoredMessage]:
    with database.reading() as connection:
        return messages.waiting(connection, "scheduler")


def _listed(client: httpx.Client, **query: str) -> list[int]:
    answer = client.get(_PATH, params=query).raise_for_status()
    return [each["id"] for each in answer.json()["dead_letters"]]


def _error(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]


def test_the_list(operator: httpx.Client, viewer: httpx.Client, letters: list[int]) -> None:
    """The latest first, without values; keys only for operators."""
    found = operator.get(_PATH).json()["dead_letters"]
    assert [3, 2, 1] == [each["id"] for each in found]
    assert {
        "id": 1,
        "service": "scheduler",
        "destination": "orders",
        "partition": 0,
        "retry_id": "billing/orders/0/1",
        "group_id": "billing",
        "origin": "billing.scheduled[0]@1",
        "reason": "too-large",
        "error": "orders[0] refuses a message of 2 MB",
        "died_ms": found[2]["died_ms"],
        "key": "key",
        "value_bytes": 5,
    } == found[2]
    seen = viewer.get(_PATH).json()["dead_letters"]
    assert [None] * 3 == [each["key"] for each in seen]


def test_the_search(operator: httpx.Client, letters: list[int]) -> None:
    """By a part of the error, where % is a character like others, by reason, key and the rest."""
    assert [2] == _listed(operator, error="AT-MS is miss")
    assert [3] == _listed(operator, error="50% <b>")
    assert [] == _listed(operator, error="a%e")
    assert [1] == _listed(operator, reason="too-large")
    assert [3, 1] == _listed(operator, key="key")
    assert [2] == _listed(operator, destination="")


def test_one_dead_letter(operator: httpx.Client, viewer: httpx.Client, letters: list[int]) -> None:
    """Its payload is for operators."""
    assert "value" == operator.get(f"{_PATH}/1").json()["payload"]["value"]
    assert viewer.get(f"{_PATH}/1").json()["payload"] is None
    assert (404, "dead letter 17 is gone: forwarded, or deleted") == _error(
        operator.get(f"{_PATH}/17")
    )


def test_forward(operator: httpx.Client, database: Database, letters: list[int]) -> None:
    """It waits again, and is due now."""
    selected = operator.get(f"{_PATH}/selection", params={"reason": "too-large"}).json()
    assert {"count": 1, "ids": [1]} == selected
    answer = operator.post(f"{_PATH}/forward", json={"ids": selected["ids"]})
    assert {"changed": 1, "gone": 0, "due": 0} == answer.json()
    assert b"value" == _waiting(database)[0].value


def test_forwarding_is_no_way_around_the_destinations(
    operator: httpx.Client, database: Database, letters: list[int]
) -> None:
    """One that may not go to its destination: none is forwarded, edited or not."""
    status, error = _error(operator.post(f"{_PATH}/forward", json={"ids": letters}))
    assert 409 == status
    assert "may not be sent to" in error
    path = f"{_PATH}/1/edit-and-forward"
    for destination in ("payments", "__transaction_state", "billing.scheduled"):
        assert 409 == operator.post(path, json={"destination": destination}).status_code
    assert [] == _waiting(database)


def test_delete(operator: httpx.Client, letters: list[int]) -> None:
    """Gone for good."""
    answer = operator.post(f"{_PATH}/delete", json={"ids": [1, 2, 17]})
    assert {"changed": 2, "gone": 1, "due": 0} == answer.json()
    assert [3] == _listed(operator)


def test_edit_and_forward(operator: httpx.Client, database: Database, letters: list[int]) -> None:
    """What is given replaces what was there, null included; the rest stays byte for byte."""
    edited = {
        "destination": "orders.eu",
        "partition": 3,
        "value": {"base64": "AP8="},
        "headers": [["a", "é"], ["a", None]],
    }
    answer = operator.post(f"{_PATH}/2/edit-and-forward", json=edited).raise_for_status()
    (sent,) = _waiting(database)
    assert ("orders.eu", "3", None) == (sent.destination, sent.slot, sent.key)
    assert b"\x00\xff" == sent.value
    assert (("a", "é".encode()), ("a", None)) == sent.headers[:2]
    assert answer.json()["retry_id"] == sent.retry_id
    assert 404 == operator.post(f"{_PATH}/2/edit-and-forward", json=edited).status_code


def test_a_null_value_is_a_tombstone(
    operator: httpx.Client, database: Database, letters: list[int]
) -> None:
    """Null is not the same as left out."""
    operator.post(f"{_PATH}/1/edit-and-forward", json={"value": None}).raise_for_status()
    (sent,) = _waiting(database)
    assert (None, b"key") == (sent.value, sent.key)


def test_a_large_value(operator: httpx.Client, database: Database, letters: list[int]) -> None:
    """8 MB that are not UTF-8 are edited, sent on and shown byte for byte."""
    value = bytes(range(256)) * (32 * 1024)
    written = {"base64": base64.b64encode(value).decode()}
    operator.post(f"{_PATH}/1/edit-and-forward", json={"value": written}).raise_for_status()
    (sent,) = _waiting(database)
    assert value == sent.value
    shown = operator.get(f"/api/v1/messages/{sent.id}").json()
    assert written == shown["payload"]["value"]


@pytest.mark.parametrize(
    ("edited", "place"),
    [
        ({"destination": "a b"}, "body.destination"),
        ({"destination": None}, "body.destination"),
        ({"partition": -1}, "body.partition"),
        ({"partition": 2**31}, "body.partition"),
        ({"key": {"base64": "?"}}, "body.key"),
        ({"key": {"base64": "AA==", "text": "a"}}, "body.key"),
        ({"headers": [["a"]]}, "body.headers"),
        ({"headers": [["a\0", "b"]]}, "body.headers"),
        ({"headers": None}, "body.headers"),
        ({"valeu": "x"}, "body.valeu"),
    ],
)
def test_what_is_no_edit(ann: httpx.Client, edited: dict[str, Any], place: str) -> None:
    """The answer names the place."""
    status, error = _error(ann.post(f"{_PATH}/1/edit-and-forward", json=edited))
    assert (422, True) == (status, error.startswith(place))
