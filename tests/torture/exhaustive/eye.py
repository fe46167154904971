"""What is seen of a small world: all that matters, and nothing else."""

import marshal
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache, partial
from hashlib import blake2b
from operator import attrgetter
from types import BuiltinFunctionType, CellType, FunctionType, MethodType
from typing import Any, TypeAlias

from confluent_kafka import KafkaError, Message, TopicPartition

from linear_retry.consumer.lanes.workers import Work
from linear_retry.consumer.ownership.requests import Request
from linear_retry.records.dead_letter import DeadLetter
from linear_retry.scope import Partition, Scope
from linear_retry.testing import (
    AttemptFinished,
    AttemptStarted,
    Committed,
    Disturbed,
    EventEmitted,
    Idle,
    NothingEarly,
    StateSize,
)
from linear_retry.testing.guarantees.guarantee import Guarantee
from tests.fake.clock import VirtualClock
from tests.testing.nothing_late import NothingLate
from tests.torture.exhaustive import left_out
from tests.torture.exhaustive.small_world import Shape, World
from tests.torture.exhaustive.snapshot import attributes

_Seer: TypeAlias = Callable[["Eye", Any], Any]
_Getter: TypeAlias = Callable[[Any], tuple[Any, ...]]


@cache
def _salt(shape: Shape) -> bytes:
    """States of two worlds are never the same."""
    return blake2b(repr(shape).encode()).digest()


class Eye:
    """Sees everything within reach of a world, but for what `left_out` names, with reasons.

    Partitions are their places in a naming, and topics the places of their first partitions, so two
    states that differ in nothing but names look the same under some naming of each. Times are
    distances from now. What is met again is only named: so who refers to whom is seen as well.

    The member, and what the guarantees remember, change only where the loop turns, the clock moves
    or something is logged: until then what was seen of them stands, for it is the most to look at.
    """

    def __init__(self, world: World, naming: tuple[Partition, ...]) -> None:
        self.now_s: float = world.now_s
        self._world = world
        self._naming = naming
        self._names: dict[object, int] = {key: place for place, key in enumerate(naming)}
        places = reversed([*enumerate(naming)])  # the first of a topic is the one that stays
        self._topics = {topic: f"topic {place}" for place, (topic, _) in places}
        self._met: set[int] = set()

    def digest(self) -> bytes:
        world = self._world
        moment = self._naming, self.now_s, world.turns, world.fed
        within = world.seen_within.get(moment)
        if within is None:
            within = world.seen_within[moment] = self._digest((world.member, world.guarantees))
            self._met.clear()
        return self._digest((world, within))

    def _digest(self, thing: Any) -> bytes:
        seen = marshal.dumps(self.see(thing), 2)
        return blake2b(seen, digest_size=16, key=_salt(self._world.shape)).digest()

    def see(self, thing: Any) -> Any:
        """As a nest of tuples of numbers and texts. Raises `TypeError` for what nobody knows."""
        return _SEERS[type(thing)](self, thing)

    def each(self, things: Iterable[Any]) -> Any:
        return tuple(
            [
                thing
                if (kind := type(thing)) in _NAMELESS
                else (_SEERS[kind](self, thing) if thing or kind not in _MOSTLY_EMPTY else ())
                for thing in things
            ]
        )

    def text(self, text: str) -> str:
        """It may be the name of a topic."""
        return self._topics.get(text, text)

    def pair_or_more(self, thing: Any) -> Any:
        """A partition, or a message's place in one, has a name."""
        if len(thing) in (2, 3) and type(thing[0]) is str:
            name = self._names.get(thing[:2])
            if name is not None:
                return (name, *thing[2:])
        return self.each(thing)

    def set(self, things: Iterable[Any]) -> Any:
        return tuple(sorted([self.see(thing) for thing in things]))

    def mapping(self, thing: Mapping[Any, Any]) -> Any:
        seers = _SEERS  # looked up once: most that is looked at are small mappings
        pairs = [
            (seers[type(key)](self, key), seers[type(held)](self, held))
            for key, held in thing.items()
        ]
        return tuple(sorted(pairs))

    def place(self, topic: str | None, partition: int | None) -> Any:
        return self.pair_or_more((topic or "", partition))

    def until(self, time_s: Any) -> Any:
        if isinstance(time_s, dict):
            return tuple(
                sorted([(self.see(key), self.until(at_s)) for key, at_s in time_s.items()])
            )
        return round(max(time_s - self.now_s, 0.0), 6)

    def since(self, time_s: Any) -> Any:
        if isinstance(time_s, dict):
            return tuple(sorted([(self.see(key), self.since(at)) for key, at in time_s.items()]))
        return None if time_s is None else round(self.now_s - time_s, 6)

    def keys(self, thing: Mapping[Any, Any]) -> Any:
        return tuple(
            sorted(
                (self.see(key), self.keys(held)) if isinstance(held, dict) else self.see(key)
                for key, held in thing.items()
            )
        )

    def firsts(self, thing: Mapping[Any, Any]) -> Any:
        return tuple(sorted([(self.see(key), self.see(held[0])) for key, held in thing.items()]))

    def current(self, thing: Mapping[Any, int]) -> Any:
        """The partitions whose epoch is that of the assignment."""
        epochs = self._world.parts.assignment.epochs
        return tuple(sorted(self.see(key) for key in thing if thing[key] == epochs.get(key)))

    def in_order(self, thing: Mapping[Any, Any]) -> Any:
        return self.each(thing.items())

    def instance(self, thing: Any, plainly: _Getter, otherwise: list[tuple[str, _Seer]]) -> Any:
        if id(thing) in self._met:
            return type(thing).__name__
        self._met.add(id(thing))
        # By its kind too: a message that fails and one that the limit holds have the same fields.
        seen = (type(thing).__name__, self.each(plainly(thing)))
        if not otherwise:
            return seen
        return (*seen, *[see(self, getattr(thing, name)) for name, see in otherwise])

    def work(self, work: Work) -> Any:
        """Not in which assignment it was begun, but whether that is the present one."""
        seen = self.see(work.lane), work.is_ours, self.see(work.task), self.see(work.problem)
        return (*seen, self.until(work._until_s))

    def clock(self, clock: VirtualClock) -> Any:
        """What is scheduled: when, in which order, and what of."""
        actions = sorted(clock._actions, key=lambda action: action[:2])
        return tuple([(self.until(due_s), self.see(action)) for due_s, _, action in actions])

    def early(self, guarantee: NothingEarly) -> Any:
        """Nothing may begin before these times; what is past forbids nothing."""
        waiting = guarantee._not_before.items()
        return tuple(
            sorted(
                (self.see(key), self.until(time_s))
                for key, (time_s, _) in waiting
                if time_s > self.now_s
            )
        )

    def late(self, guarantee: NothingLate) -> Any:
        """How long each circuit was unattended, up to when the member was last at work."""
        seen = []
        for member, items in guarantee._open.items():
            before_s = guarantee._before_s[member]
            rests_s = self._world.member._rests_since_s
            for scope, item in items.items():
                idle_s = item.idle_s + max(rests_s - max(before_s, item.retry_at_s), 0.0)
                retry_s = self.until(item.retry_at_s)
                row = (self.see(scope), self.see(item.held) if item.held else (), retry_s)
                seen.append((*row, round(idle_s, 6), item.others))
        return tuple(sorted(seen))


def _function(eye: Eye, thing: FunctionType) -> Any:
    return (thing.__qualname__, eye.each(thing.__closure__ or ()))


def _method(eye: Eye, thing: MethodType) -> Any:
    return (thing.__func__.__qualname__, eye.see(thing.__self__))


def _partial(eye: Eye, thing: partial[Any]) -> Any:
    return (eye.see(thing.func), eye.each(thing.args))


_ENTRIES = (Idle, AttemptStarted, Committed, Disturbed, AttemptFinished, StateSize, EventEmitted)

_NAMELESS: frozenset[type] = frozenset({bool, int, float, bytes, type(None)})
_MOSTLY_EMPTY: frozenset[type] = frozenset(
    {dict, defaultdict, Counter, list, deque, set, frozenset}
)


class _Seers(dict[type, _Seer]):
    def __missing__(self, kind: type) -> _Seer:
        self[kind] = _seer_for(kind)
        return self[kind]


_SEERS = _Seers(
    {
        **dict.fromkeys(_NAMELESS, lambda _, thing: thing),
        str: Eye.text,
        tuple: Eye.pair_or_more,
        list: Eye.each,
        deque: Eye.each,
        set: Eye.set,
        frozenset: Eye.set,
        FunctionType: _function,
        MethodType: _method,
        partial: _partial,
        type(lru_cache(len)): lambda _, thing: thing.__qualname__,
        BuiltinFunctionType: lambda _, thing: thing.__qualname__,
        CellType: lambda eye, cell: eye.see(cell.cell_contents),
        TopicPartition: lambda eye, item: (eye.place(item.topic, item.partition), item.offset),
        Message: lambda eye, one: (
            eye.place(one.topic(), one.partition()),
            one.offset(),
            eye.see(one.error()),
        ),
        KafkaError: lambda _, error: error.code(),
        Scope: lambda eye, scope: (
            eye.text(scope.topic or ""),
            eye.place(scope.topic, scope.partition),
            scope.key or "",
        ),
        DeadLetter: lambda _, letter: letter.reason,
        Work: Eye.work,
        Request: lambda eye, request: (eye.see(request.wish), request.is_claimed),
        VirtualClock: Eye.clock,
        NothingEarly: Eye.early,
        NothingLate: Eye.late,
        # A guarantee keeps them for the time, and for the story.
        **dict.fromkeys(_ENTRIES, lambda eye, entry: eye.since(entry.at_s)),
    }
)

_HOW: dict[left_out.How, _Seer] = {
    "until": Eye.until,
    "since": Eye.since,
    "keys": Eye.keys,
    "firsts": Eye.firsts,
    "set": Eye.set,
    "in order": Eye.in_order,
    "current": Eye.current,
}


def _seer_for(kind: type) -> _Seer:
    if issubclass(kind, dict):
        return Eye.mapping
    if issubclass(kind, BaseException):
        return lambda eye, thing: kind.__name__
    if not kind.__module__.startswith(("linear_retry.", "tests.")):
        raise TypeError(f"nobody knows what to see of a {kind}")

    def see_the_first(eye: Eye, thing: Any) -> Any:
        plainly, otherwise = _looks_at(thing)
        _SEERS[kind] = lambda eye, thing: eye.instance(thing, plainly, otherwise)
        return eye.instance(thing, plainly, otherwise)

    return see_the_first


def _looks_at(thing: Any) -> tuple[_Getter, list[tuple[str, _Seer]]]:
    """All attributes but those left out: those that are seen plainly, and the others."""
    how: dict[str, left_out.How] = {}
    unseen: set[str] = set()
    for kind in reversed(type(thing).__mro__):
        how |= left_out.SEEN_AS.get(kind, {})
        unseen.update(*(names.get(kind, ()) for names in left_out.EVERYTHING))
    if isinstance(thing, Guarantee):
        unseen.add(left_out.BROKEN)
    seen = sorted(set(attributes(thing)) - unseen)
    plainly = [each for each in seen if each not in how]
    return _getter(plainly), [(each, _HOW[how[each]]) for each in seen if each in how]


def _getter(names: list[str]) -> _Getter:
    match names:
        case []:
            return lambda _: ()
        case [name]:
            return lambda thing: (getattr(thing, name),)
        case _:
            return attrgetter(*names)
