"""Shrinks a schedule to the shortest that breaks the same guarantee."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeAlias

from tests.torture.schedules.schedule import Argument, Kind, Schedule, Setting, Step

Break: TypeAlias = Callable[[Schedule], str | None]
"""Which guarantee a schedule breaks; None where none."""

_PLAINEST = Setting()


@dataclass(slots=True)
class Shrinking:
    """Tries what is shorter, then what is plainer, as long as it breaks the same."""

    breaks: Break
    kinds: Mapping[str, Kind]
    plays: int
    """So many at most."""

    def shrink(self, schedule: Schedule) -> Schedule:
        wanted = self.breaks(schedule)
        if wanted is None:
            raise ValueError("a schedule that breaks nothing cannot be shrunk")
        before = None
        while before != schedule and self.plays > 0:
            before = schedule
            schedule = self._shorter(schedule, wanted)
            schedule = self._plainer(schedule, wanted)
        return schedule

    def _still(self, schedule: Schedule, wanted: str) -> bool:
        self.plays -= 1
        return self.plays >= 0 and self.breaks(schedule) == wanted

    def _shorter(self, schedule: Schedule, wanted: str) -> Schedule:
        """Without half of the steps, a quarter of them, ..., one of them (Zeller's ddmin)."""
        length = max(len(schedule.steps) // 2, 1)
        while True:
            start = 0
            while start < len(schedule.steps):
                left = schedule.steps[:start] + schedule.steps[start + length :]
                without = replace(schedule, steps=left)
                if self._still(without, wanted):
                    schedule = without
                else:
                    start += length
            if length == 1:
                return schedule
            length = max(length // 2, 1)

    def _plainer(self, schedule: Schedule, wanted: str) -> Schedule:
        for index in range(len(schedule.steps)):
            for step in self._plainer_steps(schedule.steps[index]):
                steps = (*schedule.steps[:index], step, *schedule.steps[index + 1 :])
                if self._still(plainer := replace(schedule, steps=steps), wanted):
                    schedule = plainer
                    break
        for setting in _plainer_settings(schedule.setting):
            if self._still(plainer := replace(schedule, setting=setting), wanted):
                schedule = plainer
        return schedule

    def _plainer_steps(self, step: Step) -> Iterator[Step]:
        if step.inside is not None:
            yield replace(step, inside=None, skip=0)
        if step.skip:
            yield replace(step, skip=0)
            yield replace(step, skip=step.skip - 1)
        for index, (name, value) in enumerate(step.arguments):
            for less in _less(self.kinds[step.name].ranges[name], value):
                others = list(step.arguments)
                others[index] = name, less
                yield replace(step, arguments=tuple(others))


def _less(values: Sequence[Argument], value: Argument) -> Iterator[Argument]:
    at = list(values).index(value)
    yield from (values[index] for index in dict.fromkeys((0, at // 2, at - 1)) if 0 <= index < at)


def _plainer_settings(setting: Setting) -> Iterator[Setting]:
    """Each with one value that is the plainest; they are tried one after another."""
    for each in fields(Setting):
        plainest = getattr(_PLAINEST, each.name)
        if getattr(setting, each.name) != plainest:
            yield replace(setting, **{each.name: plainest})
