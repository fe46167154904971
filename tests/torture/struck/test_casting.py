"""The seeds of the long forms strike everywhere, those of the short a little."""

from itertools import product
from typing import get_args

from linear_retry.scope import ScopeKind
from tests.scenarios.protocols import PROTOCOLS
from tests.torture.struck import crash_points, weather
from tests.torture.struck.points import POINTS, STATES
from tests.torture.struck.weather_kinds import ROUND

_KINDS = list(dict.fromkeys(kind.name for kind in ROUND))
_SCOPES = get_args(ScopeKind)


def test_the_weather_strikes_everywhere() -> None:
    """Each kind in each state, with each scope and with each protocol."""
    casts = [weather.cast(seed) for seed in range(weather.WEATHER.long)]
    assert set(product(_KINDS, STATES, _SCOPES)) == {
        (one.kind.name, one.state, one.scope) for one in casts
    }
    assert set(product(_KINDS, STATES, PROTOCOLS)) == {
        (one.kind.name, one.state, one.protocol) for one in casts
    }


def test_each_is_killed_everywhere() -> None:
    """At each point 50 times, with each protocol, and each scope that the point has."""
    casts = [crash_points.cast(seed) for seed in range(crash_points.CRASH_POINTS.long)]
    assert {
        (number, protocol, scope)
        for number, point in enumerate(POINTS)
        for protocol, scope in product(PROTOCOLS, point.plot.scopes)
    } == {(one.number, one.protocol, one.scope) for one in casts}
    assert 50 == min(sum(one.number == number for one in casts) for number in range(len(POINTS)))


def test_short_forms_leave_no_protocol_and_no_scope_out() -> None:
    """Each pair of them comes in what `make test` plays, and each state and plot."""
    pairs = set(product(PROTOCOLS, _SCOPES))
    struck = [weather.cast(seed) for seed in range(weather.WEATHER.short)]
    killed = [crash_points.cast(seed) for seed in range(crash_points.CRASH_POINTS.short)]
    assert pairs == {(one.protocol, one.scope) for one in struck}
    assert pairs == {(one.protocol, one.scope) for one in killed}
    assert set(STATES) == {one.point.state for one in killed}
    plots = [one.point.plot for one in killed]
    assert [] == [each.plot for each in POINTS if each.plot not in plots]
