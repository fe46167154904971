"""The layer: a member is stopped, bounced, grown, emptied, impersonated or held up."""

import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from linear_retry.scope import ScopeKind
from tests.real_kafka import RealKafka
from tests.scenarios.protocols import PROTOCOLS
from tests.torture.layer import Broker, Counts, Tally, play_all
from tests.torture.schedules.schedule import State
from tests.torture.struck.points import POINTS, STATES, Point
from tests.torture.struck.scene import struck_scene
from tests.torture.struck.weather_kinds import ROUND, Kind, Play

_AT_ONCE = 6
_SCOPES: tuple[ScopeKind, ...] = get_args(ScopeKind)


@dataclass(frozen=True, slots=True)
class Cast:
    """What a seed stands for."""

    kind: Kind
    state: State
    point: Point
    protocol: str
    scope: ScopeKind
    rng: random.Random
    leaves: bool
    """Whether what can never be handled leaves the line, and has no dead letter."""


def cast(seed: int) -> Cast:
    """Kinds go round; each time that one comes, its state, protocol and scope are the next ones.

    In 24 times each state has come in each scope, and in each protocol.
    """
    lap, number = divmod(seed, len(ROUND))
    kind, rng = ROUND[number], random.Random(seed)
    times = lap * ROUND.count(kind) + ROUND[:number].count(kind)
    state = STATES[(STATES.index(kind.first_state) + times) % len(STATES)]
    protocol = list(PROTOCOLS)[(ROUND.index(kind) + times) % len(PROTOCOLS)]
    # Not in step with the protocols, which also are three.
    turns = times - times // len(STATES) + times // 24 + ROUND.index(kind) // 2
    scope = _SCOPES[turns % len(_SCOPES)]
    fitting = [one for one in POINTS if one.state == state and scope in one.plot.scopes]
    point = rng.choice(fitting)
    leaves = bool(point.plot.refused) and random.Random(f"leaves {seed}").random() < 0.5
    return Cast(kind, state, point, protocol, scope, rng, leaves)


def play(seed: int, kafka: RealKafka) -> Counts:
    """It stands still at its point, the weather strikes, and it goes on: the guarantees hold."""
    given = cast(seed)
    kind, rng = given.kind, given.rng
    config = {**PROTOCOLS[given.protocol], **(kind.config or {})}
    options = {"scope": given.scope, "config": config, "transaction_ms": kind.transaction_ms}
    with (
        struck_scene(kafka, given.point, leaves=given.leaves, **options) as scene,
        ExitStack() as standing,
    ):
        first = scene.strike(rng, kind.signal, **(kind.own_config or {}))
        others = scene.company(first)
        scene.wait_until_struck(first)
        standing.enter_context(scene.disturbing(kind.name))
        kind.strike(Play(scene, kafka, rng, first, others, standing.close))
        broken = [*scene.violations(), *scene.letters_amiss(lambda *_: True)]
        assert not broken, "\n".join([kind.name, *broken, scene.report()])
        return Counter(
            {
                f"{kind.name}": 1,
                f"while {given.state}": 1,
                f"in {given.protocol} groups": 1,
                f"in scope {given.scope}": 1,
                "with a retry topic": int(given.leaves),
                "attempts": len(scene.attempts()),
            }
        )


class Weather:
    """Some plays at once on the shared broker; on one that is bounced, one after the other."""

    name = "weather"
    unit = "plays"
    short = len(ROUND)
    long = 24 * len(ROUND)

    def run(self, first: int, amount: int, broker: Broker) -> Iterator[Tally]:
        """See `Layer`."""
        seeds = range(first, first + amount)
        calm = [seed for seed in seeds if not cast(seed).kind.bounces]
        rough = [seed for seed in seeds if cast(seed).kind.bounces]
        if calm:
            broker()  # in this thread, as the fixtures are its
        with (
            Bounced() as bounced,
            ThreadPoolExecutor(1, "bounced") as alone,
            ThreadPoolExecutor(_AT_ONCE, self.name) as together,
        ):
            plays = [alone.submit(_tally, seed, bounced) for seed in rough]
            plays += [together.submit(_tally, seed, broker) for seed in calm]
            try:
                for part in as_completed(plays):
                    yield part.result()
            finally:
                for left in plays:
                    left.cancel()


class Bounced(ExitStack):
    """A broker that is started when it is asked for, again and again."""

    _kafka: RealKafka | None = None

    def __call__(self) -> RealKafka:
        if self._kafka is None:
            directory = Path(self.enter_context(tempfile.TemporaryDirectory()))
            self._kafka = self.enter_context(RealKafka(directory / "kafka"))
        elif self._kafka.pid is None:
            self._kafka.start()
        return self._kafka


def _tally(seed: int, broker: Broker) -> Tally:
    return play_all(lambda each: play(each, broker()), range(seed, seed + 1))


WEATHER = Weather()
