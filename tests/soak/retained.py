"""Counts the state that a consumer retains."""

from collections.abc import Mapping
from typing import Any

from linear_retry.consumer.lanes.in_memory import InMemory
from linear_retry.consumer.operations.monitor import Monitor

_CONTAINERS = (dict, list, set, frozenset, tuple)
_OURS = "linear_retry."
_LEFT_OUT = ("messages", "_ready")
"""What has been read and is not handled yet, which comes and goes; as does what is `InMemory`."""


def entries(root: object) -> int:
    """The entries of all containers that it and what it consists of keep, however deep.

    Whatever is forgotten in one of them is seen, without knowing its name. But for the counts, one
    for each partition and kind of event: after hours there are all that there can be, and no more.
    To be called by the thread that owns it.
    """
    seen: set[int] = set()
    waiting: list[Any] = [root]
    total = 0
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, Monitor | InMemory):
            continue
        if isinstance(one, _CONTAINERS):
            total += len(one)
            waiting += [*one.keys(), *one.values()] if isinstance(one, Mapping) else one
        elif type(one).__module__.startswith(_OURS):
            waiting += _attributes(one)
    return total


def _attributes(one: Any) -> list[Any]:
    slots = [name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ())]
    named = {name: getattr(one, name) for name in slots if hasattr(one, name)}
    named |= getattr(one, "__dict__", {})
    return [value for name, value in named.items() if name not in _LEFT_OUT]
