"""Which layers are there?"""

from __future__ import annotations

from tests.torture.layer import Layer

LAYERS: tuple[Layer, ...] = ()
"""From the cheapest to the dearest."""
