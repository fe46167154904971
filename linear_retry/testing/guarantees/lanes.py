"""The units of order of a log: its partitions, or the keys within them."""

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeAlias

from linear_retry.scope import Partition, Place

Keys: TypeAlias = Mapping[Place, Hashable]
"""The key of each message, where a key is the unit of order."""


class Lanes:
    """Says in which lane a message is. `offsets` are the visible ones of each lane, sorted."""

    def __init__(
        self, visible: Mapping[Partition, Iterable[int]] | None = None, keys: Keys | None = None
    ) -> None:
        """Without `keys` a lane is a partition."""
        self._keys = keys
        self.offsets: dict[Hashable, list[int]] = {}
        for partition, offsets in (visible or {}).items():
            for offset in sorted(offsets):
                lane = self.of(Place(*partition, offset))
                self.offsets.setdefault(lane, []).append(offset)

    def of(self, place: Place) -> Hashable:
        """Returns the lane of this message."""
        return place[:2] if self._keys is None else (*place[:2], self._keys.get(place))
