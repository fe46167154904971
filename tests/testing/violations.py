"""The guarantees that a group broke, by its log and by what the broker has."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from linear_retry import events
from linear_retry.scope import Partition, Scope
from linear_retry.testing import (
    Committed,
    Entry,
    EventEmitted,
    NothingLost,
    Place,
    all_guarantees,
    broken,
)
from linear_retry.testing.guarantees.done import done_by
from linear_retry.testing.guarantees.lanes import Keys
from linear_retry.testing.guarantees.retries import Retries


def violations(
    log: Sequence[Entry],
    visible: Mapping[Partition, Iterable[int]],
    *,
    committed: Mapping[Partition, int],
    strategy_length: int,
    max_elapsed: bool = False,
    letter_limit: int | None = None,
    alive_within_s: float = 10.0,
    asked_at_s: float | None = None,
    finished: bool = True,
    retries: Retries | None = None,
    retry_strategy_length: int = 0,
    skew_s: float = 0.0,
    batches: bool = False,
    keys: Keys | None = None,
) -> list[str]:
    """Every guarantee that holds on any clock; empty where all hold.

    `committed` is what the broker has in the end; it is asked at `asked_at_s`, and nothing more has
    happened by then. `finished`: the last fault is long past, so everything must be done and
    committed. `retries`, `retry_strategy_length`, `skew_s`: of a log with a retry line. `batches`:
    of one with `run_batches`. `keys`: the unit of order is the key.
    """
    last_s = log[-1].at_s if log else 0.0
    at_s = last_s if asked_at_s is None else asked_at_s
    chosen = all_guarantees(
        visible,
        strategy_length=strategy_length,
        max_elapsed=max_elapsed,
        limit=letter_limit,
        alive_within_s=alive_within_s,
        retries=retries,
        retry_strategy_length=retry_strategy_length,
        skew_s=skew_s,
        batches=batches,
        keys=keys,
    )
    asked = [one for one in chosen if finished or not isinstance(one, NothingLost)]
    return [str(one) for one in broken([*log, Committed(at_s, "", dict(committed))], asked)]


def done_places(log: Iterable[Entry]) -> set[Place]:
    """Handled, dead-lettered, skipped, passed over, or gone by retention."""
    return {place for entry in log for place in done_by(entry)}


def others_go_on(
    log: list[Entry], visible: Mapping[Partition, list[int]], keys: Keys | None = None
) -> Iterator[str]:
    """After a stretch without faults everything is done that no open circuit stops.

    `keys` are those of messages of which a circuit may hold one key, and no other.
    """
    keys = keys or {}
    done, stopped, held = done_places(log), _stopped(log), _held_keys(log, keys)
    for partition, found in visible.items():
        undone = [
            offset
            for offset in found
            if (*partition, offset) not in done
            and (partition, keys.get(Place(*partition, offset))) not in held
        ]
        if undone and not stopped(partition):
            yield f"{partition}: nothing stops it, and {undone[0]} is not done"


def _held_keys(log: list[Entry], keys: Keys) -> set[tuple[Partition, object]]:
    """The keys, each in its partition, that a circuit holds in the end."""
    held: dict[Scope, tuple[Partition, object]] = {}
    for entry in log:
        match entry:
            case EventEmitted(event=events.CircuitOpened(scope) as event) if scope.key is not None:
                held[scope] = event.place[:2], keys.get(event.place)
            case EventEmitted(event=events.CircuitClosed(scope)):
                held.pop(scope, None)
    return {*held.values()}


def _stopped(log: list[Entry]) -> Callable[[Partition], bool]:
    """Whether a circuit of its owner's stops a partition, at the end of `log`."""
    owners: dict[Partition, str] = {}
    open_now: set[tuple[str, Scope]] = set()
    for entry in log:
        match entry:
            case EventEmitted(_, member, events.Assigned(partitions)):
                owners |= dict.fromkeys(partitions, member)
            case EventEmitted(_, member, events.CircuitOpened(scope)):
                open_now.add((member, scope))
            case EventEmitted(_, member, events.CircuitClosed(scope)):
                open_now.discard((member, scope))
    return lambda key: any(
        scope.covers(key) for member, scope in open_now if member == owners.get(key)
    )
