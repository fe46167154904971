"""Takes a whole world back to an earlier state."""

import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, is_dataclass
from datetime import date, timedelta, tzinfo
from functools import lru_cache, partial
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MethodType,
)
from typing import Any, TypeAlias

from confluent_kafka import KafkaError, Message, TopicPartition

from linear_retry.consumer.ownership.requests import Request
from linear_retry.consumer.settings.consumer_config import ConsumerConfig, Dependencies

_Restore: TypeAlias = Callable[[Any, Any], None]
_Keep: TypeAlias = Callable[["_Kept", Any], Iterable[Any]]

_MADE_BY_CLASS = 1 << 9  # Py_TPFLAGS_HEAPTYPE: not one of C, whose content cannot be seen

_JOINTS = frozenset({Dependencies, ConsumerConfig, Request})
"""Frozen, but what they hold is not."""
_ATOMS: tuple[type, ...] = (
    *(bool, bytes, complex, float, int, str, type(None), type(...), date, timedelta, tzinfo),
    *(BaseException, BuiltinFunctionType, CodeType, re.Pattern, type),
    *(KafkaError, Message, TopicPartition),
    # `Circuits.views` is replaced, and what is behind it never changed.
    MappingProxyType,
    type(iter(())),  # of nothing
    type(lru_cache(len)),  # of a pure function: what it remembers is always right
    # Between two turns nobody holds one.
    type(threading.Lock()),
    type(threading.RLock()),
    type(threading.Event()),
)


@dataclass(frozen=True, slots=True)
class _Kept:
    """What there was, and what it held. By kind: a call for each would take twice the time."""

    attributes: list[tuple[dict[str, Any], dict[str, Any]]] = field(default_factory=list)
    mappings: list[tuple[Any, Any]] = field(default_factory=list)
    sequences: list[tuple[Any, tuple[Any, ...]]] = field(default_factory=list)
    cells: list[tuple[CellType, Any]] = field(default_factory=list)
    others: list[tuple[_Restore, Any, Any]] = field(default_factory=list)


class Snapshot:
    """What every mutable object within reach of `world` held at this moment.

    `restore` writes all of it back, in place, so everything that refers to anything still does, in
    closures too: much faster than a copy (`copy.deepcopy` shares closures, and does not know
    librdkafka's types). What is frozen is not looked into. A type that nobody has thought of is
    refused, or it might keep what a later step has left there. `met` is all of it, by id.
    """

    __slots__ = ("_kept", "met")

    def __init__(self, world: object) -> None:
        self._kept = kept = _Kept()
        self.met: dict[int, Any] = {}
        to_visit: list[Any] = [world]
        while to_visit:
            thing = to_visit.pop()
            kind = type(thing)
            keep = _KEEPERS.get(kind)
            if keep is None:
                keep = _KEEPERS[kind] = _keeper_for(kind)
            if keep is not _pass_over and id(thing) not in self.met:
                self.met[id(thing)] = thing
                to_visit += keep(kept, thing)

    def restore(self) -> None:
        """Everything is as it was. What was made since is forgotten where nobody outside has it."""
        for own, attributes in self._kept.attributes:
            own.update(attributes)
            if len(own) != len(attributes):  # hardly ever
                own.clear()
                own.update(attributes)
        # Most are empty, and were: that is looked at first.
        for thing, content in self._kept.mappings:
            if thing:
                thing.clear()
            if content:
                thing.update(content)
        for thing, items in self._kept.sequences:
            if thing:
                thing.clear()
            if items:
                thing.extend(items)
        for cell, held in self._kept.cells:
            if cell.cell_contents is not held:
                cell.cell_contents = held
        for restore, thing, content in self._kept.others:
            restore(thing, content)


def _pass_over(kept: _Kept, thing: Any) -> Iterable[Any]:
    return ()


def _keep_tuple(kept: _Kept, thing: Iterable[Any]) -> Iterable[Any]:
    return thing


def _keep_dict(kept: _Kept, thing: dict[Any, Any]) -> Iterable[Any]:
    content = thing.copy()
    kept.mappings.append((thing, content))
    return [*content, *content.values()]


def _keep_items(kept: _Kept, thing: Iterable[Any]) -> Iterable[Any]:
    items = tuple(thing)
    kept.sequences.append((thing, items))
    return items


def _keep_set(kept: _Kept, thing: set[Any]) -> Iterable[Any]:
    kept.mappings.append((thing, thing.copy()))
    return thing


def _keep_function(kept: _Kept, thing: FunctionType) -> Iterable[Any]:
    return thing.__closure__ or ()


def _keep_cell(kept: _Kept, thing: CellType) -> Iterable[Any]:
    kept.cells.append((thing, thing.cell_contents))
    return (thing.cell_contents,)


def _keep_method(kept: _Kept, thing: MethodType) -> Iterable[Any]:
    return (thing.__self__, thing.__func__)


def _keep_partial(kept: _Kept, thing: partial[Any]) -> Iterable[Any]:
    return (thing.func, thing.args, thing.keywords)


_KEEPERS: dict[type, _Keep] = {
    tuple: _keep_tuple,
    frozenset: _keep_tuple,
    list: _keep_items,
    deque: _keep_items,
    set: _keep_set,
    FunctionType: _keep_function,
    CellType: _keep_cell,
    MethodType: _keep_method,
    partial: _keep_partial,
}


def _keeper_for(kind: type) -> _Keep:
    if issubclass(kind, _ATOMS) or (_is_frozen(kind) and kind not in _JOINTS):
        return _pass_over
    if issubclass(kind, dict):
        return _keep_dict
    names, frozen, has_dict = tuple(_slots(kind)), _is_frozen(kind), kind.__dictoffset__ != 0
    if not kind.__flags__ & _MADE_BY_CLASS:
        raise TypeError(f"nobody knows how a {kind} goes back to what it was")
    restore = partial(_restore_slots, names)

    def keep(kept: _Kept, thing: Any) -> Iterable[Any]:
        held: tuple[Any, ...] = ()
        if has_dict:
            content = thing.__dict__.copy()
            kept.attributes.append((thing.__dict__, content))
            held = tuple(content.values())
        if names:
            values = tuple([getattr(thing, name) for name in names])
            held += values
            if not frozen:
                kept.others.append((restore, thing, values))
        return held

    return keep


def _is_frozen(kind: type) -> bool:
    return is_dataclass(kind) and bool(kind.__dataclass_params__.frozen)  # type: ignore[attr-defined]


def attributes(thing: object) -> tuple[str, ...]:
    """The names of all that an instance holds, in slots or not."""
    return *_slots(type(thing)), *getattr(thing, "__dict__", ())


def _slots(kind: type) -> Iterator[str]:
    for one in kind.__mro__:
        names = one.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if name not in ("__dict__", "__weakref__"):
                yield name


def _restore_slots(names: tuple[str, ...], thing: Any, values: tuple[Any, ...]) -> None:
    for name, value in zip(names, values, strict=True):
        setattr(thing, name, value)
