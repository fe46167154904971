"""Which layers are there?"""

from __future__ import annotations

from tests.torture.crash_points import CRASH_POINTS
from tests.torture.fuzz import FUZZ
from tests.torture.layer import Layer

LAYERS: tuple[Layer, ...] = (FUZZ, CRASH_POINTS)
"""From the cheapest to the dearest."""
