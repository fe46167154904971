"""Which layers are there?"""

from __future__ import annotations

from tests.torture.fuzz import FUZZ
from tests.torture.layer import Layer

LAYERS: tuple[Layer, ...] = (FUZZ,)
"""From the cheapest to the dearest."""
