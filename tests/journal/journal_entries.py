"""Entries of a journal, by Hypothesis."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from linear_retry.journal.entry import LAST_MS, Entry, Process
from linear_retry.scope import Scope

st.register_type_strategy(
    datetime,
    st.integers(0, 10**13).map(
        lambda ms: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    ),
)
# Half a surrogate pair is text in Python, and may be in an exception's.
_TEXTS = st.text(st.characters())
st.register_type_strategy(str, _TEXTS)
st.register_type_strategy(int, st.integers(-(2**63), 2**63 - 1))
st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))
st.register_type_strategy(
    Scope,
    st.one_of(
        st.just(Scope()),
        st.builds(Scope, _TEXTS),
        st.builds(Scope, _TEXTS, st.integers(0, 999)),
        st.builds(Scope, _TEXTS, st.integers(0, 999), _TEXTS),
    ),
)


def entries(kind: type[Any]) -> st.SearchStrategy[Entry]:
    """Entries with an event of this kind, whatever it says."""
    uuids = st.uuids().map(str)
    numbers = st.integers(1, 10**18)
    processes = st.none() | st.builds(Process, _TEXTS, st.integers(), _TEXTS)
    output = _TEXTS, _TEXTS, st.from_type(kind), processes
    return st.builds(Entry, uuids, numbers, st.integers(0, LAST_MS), *output)
