"""A scope covers what it says, and nothing else."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry.scope import Partition, Scope, ScopeKind

_partitions = st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 2))
_kinds = st.sampled_from(get_args(ScopeKind))


@pytest.mark.parametrize(
    ("kind", "expected", "text"),
    [
        ("consumer", Scope(), "consumer"),
        ("topic", Scope("orders"), "orders"),
        ("partition", Scope("orders", 0), "orders[0]"),
    ],
)
def test_a_scope_is_named_by_what_it_stops(kind: ScopeKind, expected: Scope, text: str) -> None:
    """Each kind makes its own scope of a partition; partition 0 is a partition."""
    assert expected == Scope.of(kind, ("orders", 0))
    assert text == str(expected)


@given(_kinds, _partitions, _partitions)
def test_a_scope_covers_the_partition_it_was_made_of(
    kind: ScopeKind, own: Partition, other: Partition
) -> None:
    """It covers its own partition, and another one exactly if both have the same scope."""
    scope = Scope.of(kind, own)
    assert scope.covers(own)
    assert (Scope.of(kind, other) == scope) == scope.covers(other)


@given(_partitions, _partitions)
def test_a_narrower_scope_stops_no_more(own: Partition, other: Partition) -> None:
    """What a partition's scope stops its topic's stops too, and what that stops, the consumer's."""
    stopped = [Scope.of(kind, own).covers(other) for kind in get_args(ScopeKind)]
    assert sorted(stopped, reverse=True) == stopped
