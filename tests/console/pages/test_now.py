"""The page Now says in words why there is nothing to see, and who may do what."""

import re
from datetime import UTC, datetime
from uuid import NAMESPACE_DNS, uuid5

import httpx

from linear_retry.console.frame.services import Services
from linear_retry.events import (
    Assigned,
    CircuitOpened,
    Event,
    HeldByGroup,
    KeyBlocked,
    LimitReached,
    PausedByHand,
    WaitingBehind,
)
from linear_retry.journal.entry import Entry
from linear_retry.journal.group_state import GroupStates
from linear_retry.journal.standing import Lag
from linear_retry.retry.clock import now_ms
from linear_retry.scope import Scope
from linear_retry.web import HttpServer
from tests.console.conftest import address, signed_in
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S

_ORDER = {"command": "retry", "group": "billing"}


def test_the_brokers_are_away(local: HttpServer) -> None:
    """It says which, since when, and that nothing has been read."""
    with httpx.Client(base_url=address(local), timeout=PATIENCE_S) as anyone:
        wait_until(lambda: "has been read so far" in anyone.get("/now").text, "it says so")
        text = anyone.get("/now").text
        assert "localhost:1: no answer about topic" in text
        assert "This is so since" in text


def test_an_order_without_its_reason(server: HttpServer, services: Services) -> None:
    """Is refused before anything is sent, in words, as a page."""
    with signed_in(server, "ann") as operator:
        order = _ORDER | {"command": "lift-limit", "reason": "  "}
        answer = operator.post("/now/order", data=order)
        assert (422, True) == (answer.status_code, "give a reason" in answer.text)
    assert ["sign in"] == [each.action for each in services.audit.read(limit=9)]


def test_a_viewer_is_told_that_it_needs_an_operator(server: HttpServer) -> None:
    """On the page that asks, which has no button."""
    with signed_in(server, "vic") as viewer:
        page = viewer.get("/now/order", params=_ORDER).text
        assert "This needs an operator." in page
        assert 'method="post" action="/now/order"' not in page


def _entry(group: str, number: int, event: Event) -> Entry:
    return Entry(str(uuid5(NAMESPACE_DNS, group)), number, now_ms(), group, "member", event)


def test_many_groups(server: HttpServer, services: Services) -> None:
    """Those with open circuits come first; the others are counted, and found by their name."""
    states = GroupStates()
    for number in range(130):
        states.take(_entry(f"group-{number:03}", 1, Assigned((("orders", 0),))))
    at = datetime.now(UTC)
    opened = CircuitOpened(Scope(), "orders", 0, 42, "the bank refuses", 1, 5.0, at)
    states.take(_entry("group-129", 2, opened))
    services.live.hub.change(views=tuple(map(states.view, states.groups)), is_complete=True)
    with signed_in(server, "vic") as viewer:
        page = viewer.get("/now").text
        assert 100 == page.count('class="card group"')
        assert page.index("group-129") < page.index("group-000")
        assert "30 more groups are not shown" in page
        found = viewer.get("/now?group=group-12").text
        assert (10, True) == (found.count('class="card group"'), "group-125" in found)
        assert "No group has nobody in its name" in viewer.get("/now?group=nobody").text


def _now(server: HttpServer) -> str:
    with signed_in(server, "vic") as viewer:
        return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", viewer.get("/now").text))


def test_groups_by_what_kafka_says(server: HttpServer, services: Services) -> None:
    """A group whose only member was killed was "closed", green, below the rest.

    Neither it nor one that nobody knows about is green, and what is past comes last.
    """
    states = GroupStates()
    for name in ("alive", "asked", "killed", "past"):
        states.take(_entry(name, 1, Assigned((("orders", 0),))))
    opened = CircuitOpened(Scope(), "orders", 0, 42, "refused", 1, 5.0, datetime.now(UTC))
    states.take(_entry("past", 2, opened))
    views = tuple(map(states.view, states.groups))
    services.live.hub.change(views=views, is_complete=True)
    assert "asking Kafka" in _now(server)
    services.live.hub.change(
        liveness={"alive": "live", "asked": "unknown", "killed": "no-member", "past": "past"},
        lags={
            "killed": {("orders", 0): Lag(500, 500)},
            "alive": {("orders", 0): Lag(7, 2), ("orders", 1): None},
        },
    )
    shown = _now(server)
    words = (
        *("1 group has no live member no circuit is open", "of 1 group it is unknown whether"),
        *("killed no live member, 500 waiting lag 500", "member gone", "asked liveness unknown"),
        *(
            "alive closed lag at least 7, 2 besides held keys",
            "past past: Kafka knows no such group any more lag unknown",
        ),
    )
    places = [shown.find(each) for each in words]
    assert (sorted(places), True) == (places, min(places) >= 0), shown
    with signed_in(server, "vic") as viewer:
        assert 2 == viewer.get("/now").text.count("badge good")  # the group alive, and its member


def test_no_two_elements_have_one_id(server: HttpServer, services: Services) -> None:
    """Focus went to the button of another circuit when the page changed."""
    states, at = GroupStates(), datetime.now(UTC)
    states.take(_entry("billing", 1, Assigned((("orders", 0), ("orders", 1)))))
    for number in range(2):
        place = (Scope("orders", number), "orders", number, 42)
        states.take(_entry("billing", 2 + number, LimitReached(*place, "refused", 1, 5.0, at, 3)))
    view = states.view("billing")
    services.live.hub.change(views=(view,), is_complete=True)
    with signed_in(server, "ann") as operator:
        page = operator.get("/now").text
    ids = re.findall(r' id="([^"]*)"', page)
    assert 2 == page.count("Lift the limit")
    assert sorted(set(ids)) == sorted(ids)


def test_a_pause_says_who_and_why(server: HttpServer, services: Services) -> None:
    """And until when; nothing of it can be retried from here."""
    states = GroupStates()
    states.take(_entry("billing", 1, Assigned((("orders", 0),))))
    until = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    states.take(_entry("billing", 2, PausedByHand(Scope(), "ops@desk", "the ledger moves", until)))
    services.live.hub.change(views=(states.view("billing"),), is_complete=True)
    shown = _now(server)
    assert "paused by hand until 2026-01-02 03:04:05" in shown
    assert "paused by ops@desk: the ledger moves" in shown
    with signed_in(server, "ann") as operator:
        page = operator.get("/now").text
    assert "Retry now" not in page
    assert "Retry all now" not in page


def test_a_member_that_holds_for_its_group_names_the_other(
    server: HttpServer, services: Services
) -> None:
    """And offers no retry, which would wait too."""
    states = GroupStates()
    states.take(_entry("billing", 1, Assigned((("orders", 0),))))
    until = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    states.take(_entry("billing", 2, HeldByGroup("pod-2", "refused", until)))
    services.live.hub.change(views=(states.view("billing"),), is_complete=True)
    shown = _now(server)
    assert "held for its group until 2026-01-02 03:04:05" in shown
    assert "pod-2 attempts for the group: refused" in shown
    with signed_in(server, "ann") as operator:
        assert "Retry now" not in operator.get("/now").text


def test_a_blocked_key_has_no_next_attempt(server: HttpServer, services: Services) -> None:
    """The page says what it waits for, and offers both."""
    states = GroupStates()
    states.take(_entry("billing", 1, Assigned((("orders", 0),))))
    scope = Scope("orders", 0, "5a1b7acd8a3f")
    states.take(_entry("billing", 2, KeyBlocked(scope, "orders", 0, 42, "refused", 3)))
    states.take(_entry("billing", 3, WaitingBehind(scope, "orders", 0, 42, 1)))
    services.live.hub.change(views=(states.view("billing"),), is_complete=True)
    shown = _now(server)
    assert "1 circuit open 1 key blocked" in shown
    assert "blocked orders[0]@42 waits until it is retried or given up" in shown
    assert "1 message waits behind it" in shown
    assert "next attempt" not in shown
    with signed_in(server, "ann") as operator:
        page = operator.get("/now").text
    assert ("Retry now" in page, "Give up" in page) == (True, True)
