"""Which misbehaviour of librdkafka or of the broker comes next? None unless a test says so.

Which misbehaviour is which switch, and which is always there: `tests/fake/misbehaviours.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

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
