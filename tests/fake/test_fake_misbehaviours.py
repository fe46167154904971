"""The table of misbehaviours names every switch, and tests that are there."""

import ast
from pathlib import Path

import pytest

from tests.consumer.group import FakeGroup
from tests.fake.clock import VirtualClock
from tests.fake.cluster import FakeKafka
from tests.fake.faults import Faults
from tests.fake.misbehaviours import ALWAYS, MISBEHAVIOURS, Misbehaviour

_TESTS = Path(__file__).parents[1]
_ASKED_BY_THE_FAKE = ("takes_", "has_")
_NO_MISBEHAVIOUR = {"clear", "left", "forget_transactions", "transactions_to_fail"}


def test_every_switch_is_in_the_table() -> None:
    """A switch that nobody finds is one that nobody uses."""
    public = {name for name in dir(Faults()) if not name.startswith("_")}
    switches = {name for name in public if not name.startswith(_ASKED_BY_THE_FAKE)}
    named = {one.how for one in MISBEHAVIOURS}
    assert set() == switches - _NO_MISBEHAVIOUR - named


@pytest.mark.parametrize("misbehaviour", MISBEHAVIOURS, ids=lambda one: one.what)
def test_what_it_names_is_there(misbehaviour: Misbehaviour) -> None:
    """The switch or command, and the test."""
    places = (Faults(), FakeKafka, FakeGroup, VirtualClock)
    assert misbehaviour.how == ALWAYS or any(hasattr(one, misbehaviour.how) for one in places)
    file, *names = misbehaviour.test.split("::")
    found: list[ast.stmt] = ast.parse((_TESTS / file).read_text(encoding="utf-8")).body
    for name in names:
        (inner,) = [
            one
            for one in found
            if isinstance(one, ast.FunctionDef | ast.ClassDef) and one.name == name
        ]
        found = inner.body
