"""Which layers are there?"""

from __future__ import annotations

from tests.torture.crash_points import CRASH_POINTS
from tests.torture.embedded_runs import EMBEDDED_RUNS
from tests.torture.exhaustive import EXHAUSTIVE
from tests.torture.fuzz import FUZZ
from tests.torture.layer import Layer
from tests.torture.pause_race import PAUSE_RACE
from tests.torture.schedules.layer import SCHEDULES
from tests.torture.weather import WEATHER

LAYERS: tuple[Layer, ...] = (
    *(FUZZ, EXHAUSTIVE, PAUSE_RACE, SCHEDULES, EMBEDDED_RUNS, CRASH_POINTS, WEATHER),
)
"""From the cheapest to the dearest."""
