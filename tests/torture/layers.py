"""The layers of the torture."""

from tests.torture.embedded.layer import EMBEDDED_RUNS
from tests.torture.exhaustive.layer import EXHAUSTIVE
from tests.torture.fuzz.layer import FUZZ
from tests.torture.inbox_kills.layer import INBOX_KILLS
from tests.torture.lake_kills.layer import LAKE_KILLS
from tests.torture.layer import Layer
from tests.torture.long_tests import LONG_TESTS
from tests.torture.pause_race.layer import PAUSE_RACE
from tests.torture.replays.layer import REPLAY_KILLS
from tests.torture.retry_kills.layer import RETRY_KILLS
from tests.torture.retry_lines.layer import RETRY_LINES
from tests.torture.schedules.layer import SCHEDULES
from tests.torture.spark_scheduler.layer import SPARK_SCHEDULER
from tests.torture.struck.crash_points import CRASH_POINTS
from tests.torture.struck.weather import WEATHER

LAYERS: tuple[Layer, ...] = (
    *(FUZZ, EXHAUSTIVE, PAUSE_RACE, SCHEDULES, RETRY_LINES, EMBEDDED_RUNS),
    *(CRASH_POINTS, RETRY_KILLS, REPLAY_KILLS, INBOX_KILLS, WEATHER),
    *(SPARK_SCHEDULER, LONG_TESTS, LAKE_KILLS),
)
"""From the cheapest to the dearest."""
