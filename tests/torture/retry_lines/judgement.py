"""What must be true in the end: of every message, by what the broker has and the handler saw."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import chain

from linear_retry.events import Skipped
from linear_retry.records.dead_letter import DeadLetter
from linear_retry.testing import EventEmitted
from tests.consumer.two_lines import TOPIC
from tests.torture.retry_lines.world import EVERY_S, MAX_DURATION_S, World

_FOR_EVER_S = 1e9
"""Whether the lines live is asked at the end: the log does not have what disturbed them."""


def broken(world: World) -> Iterator[str]:
    """Each law that does not hold."""
    yield from (f"Early: {text}" for text in world.lines.early())
    yield from _not_at_an_end(world)
    yield from _steps(world)
    yield from _garbage(world)
    yield from _guarantees(world)
    if world.setting.transactional:
        yield from _twice(world)
    if not world.disturbed:
        yield from _repeated(world)


def _guarantees(world: World) -> Iterator[str]:
    """Those of `linear_retry.testing`, as far as the log of the dead can show them.

    What a member has committed in a transaction, and died before it said so, is not in its log.
    """
    untold = set()
    if world.setting.transactional and world.counts["crashes"]:
        untold |= {"InOrder", "NothingLost", "CommittedOnlyDone"}
    if world.changed:
        untold.add("WithinSequence")
    found = world.lines.violations(skew_s=world.setting.behind_s, alive_within_s=_FOR_EVER_S)
    yield from (text for text in found if text.split(":")[0] not in untold)


def _not_at_an_end(world: World) -> Iterator[str]:
    """Every message was handled, has a letter or was discarded: it was never only forgotten."""
    ended = {each.origin for each in world.lines.dependency.handled}
    ended |= {_origin(letter) for letter in world.lines.letters()}
    if world.setting.on_expired == "discard":
        origins = {each.place: each.origin for each in world.lines.attempts()}
        ended |= {origins[place] for place in _discarded(world)}
    for (topic, partition), offsets in world.lines.live.visible.items():
        for offset in offsets:
            if (topic, partition, offset) not in ended:
                yield f"NothingLost: {topic}[{partition}]@{offset} has no end"
    for group in world.groups:
        if lag := world.lines.lag(group):
            yield f"Liveness: {group.group_id} has not done {lag}"


def _steps(world: World) -> Iterator[str]:
    """One after the other, none left out; exhausted is who has taken all of them."""
    taken: dict[tuple[str, int, int], set[int]] = defaultdict(set)
    for hop in world.lines.waiting():
        taken[_origin(hop)].add(hop.step or 0)
    for origin, steps in taken.items():
        if steps != set(range(1, max(steps) + 1)) and not world.changed:
            yield f"WithinSequence: {origin} took {steps}"
    for letter in world.lines.letters():
        steps = taken[_origin(letter)]
        if letter.reason != "exhausted" or world.changed:
            continue
        if not _is_over(world, letter, len(steps)):
            yield f"WithinSequence: {_origin(letter)} was exhausted after {steps}"
        # Of one that is there twice, each has as many steps as its own time allows.
        may_differ = world.setting.on_expired is not None and world.disturbed
        if letter.step != len(steps) and not may_differ:
            yield f"WithinSequence: the letter of {_origin(letter)} says step {letter.step}"


def _is_over(world: World, letter: DeadLetter, steps: int) -> bool:
    if world.setting.on_expired is None:
        return steps == len(world.setting.delays)
    return letter.last_failure_ms - letter.first_failure_ms > (MAX_DURATION_S - EVERY_S) * 1000


def _discarded(world: World) -> Iterator[tuple[str, int, int]]:
    for entry in world.lines.live.witness.entries:
        if isinstance(entry, EventEmitted) and isinstance(entry.event, Skipped):
            yield entry.event.place


def _garbage(world: World) -> Iterator[str]:
    """What is no retry is dead-lettered from its retry topic, and never attempted."""
    tried = {(each.place[0], each.place[2]) for each in world.lines.attempts() if each.is_garbage}
    yield from (f"Garbage: {place} was attempted" for place in tried)
    reported = {letter.destination for letter in world.lines.letters()} - {TOPIC}
    if not {topic for topic, _ in world.garbage} <= reported:
        yield f"Garbage: {world.garbage} is not all dead-lettered"


def _twice(world: World) -> Iterator[str]:
    """With transactions each hop, letter and return is there once, whoever died."""
    records = chain(world.lines.waiting(), world.lines.letters())
    counts = Counter((each.retry_id, each.send_to, each.generation, each.step) for each in records)
    for key, count in counts.items():
        if count > 1 and not world.changed:
            yield f"InOnePlace: {key} is there {count} times"
    returned = Counter((each.retry_id, each.step) for each in world.lines.returned())
    for hop, count in returned.items():
        if count > 1 and not world.changed:
            yield f"ReturnedOnce: {hop} was returned {count} times"


def _repeated(world: World) -> Iterator[str]:
    """Where nobody lost anything, each record was handled once, and failed as often as it may."""
    handled = Counter(each.place for each in world.lines.dependency.handled)
    yield from (
        f"BoundedDuplicates: {place} {count} times" for place, count in handled.items() if count > 1
    )


def _origin(letter: DeadLetter) -> tuple[str, int, int]:
    return letter.destination, letter.original_partition, letter.original_offset
