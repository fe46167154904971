"""The misbehaviours of librdkafka and of the broker that come next: none by itself.

Which misbehaviour is which switch, and which is always there: `tests/fake/misbehaviours.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache

from tests.fake.group_faults import GroupFaults
from tests.fake.producer_faults import ProducerFaults
from tests.fake.reading_faults import ReadingFaults


@dataclass
class Faults(ReadingFaults, GroupFaults, ProducerFaults):
    """Switches, all off. Those with `times`, a count or a queue are used up, one by one."""

    def clear(self) -> None:
        """Everything works again from here on."""
        fresh = Faults()
        for one in fields(self):
            setattr(self, one.name, getattr(fresh, one.name))

    def left(self) -> list[str]:
        """What was switched on to be used up, and is not: it has not struck, or not so often."""
        return [name[1:] for name in _used_up() if _is_left(getattr(self, name))]


@cache
def _used_up() -> list[str]:
    return [one.name for one in fields(Faults) if one.name.startswith("_")]


def _is_left(used_up: object) -> bool:
    if used_up and isinstance(used_up, Mapping):
        return any(map(_is_left, used_up.values()))
    return bool(used_up)
