"""Measures an outage of a whole group in which one member attempts for all."""

import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from confluent_kafka import Message

from benchmarks.child import in_child
from benchmarks.contestants import Config
from benchmarks.figures import Figure, Result, Target, percentile
from benchmarks.scale import Scale
from benchmarks.topics import config_of_new_group, filled_topic
from linear_retry import ByKey, LinearConsumer, events
from tests.kafka_operations import wait_until
from tests.real_kafka import RealKafka

_MEMBERS, _MESSAGES_EACH, _KEYS = 20, 600, 1_000
_HANDLER_S, _BEFORE_S = 0.01, 1.0
_STRATEGY = [1, 2, 4, 8]  # the last one again and again


@dataclass(frozen=True, slots=True)
class Outage:
    """What came of one outage. `holding_ms` of each member that held, from its handler's end."""

    holding_ms: list[float]
    members_that_attempt: int
    attempts: int
    resumed_ms: float


@dataclass(slots=True)
class _Watch:
    """When each member attempted, held and went on, in seconds."""

    is_down: bool = False
    began_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    ended_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    held_s: dict[str, float] = field(default_factory=dict)
    resumed_s: dict[str, float] = field(default_factory=dict)
    has_partitions: set[str] = field(default_factory=set)

    def handle(self, name: str, _: Message) -> None:
        self.began_s[name].append(time.perf_counter())
        time.sleep(_HANDLER_S)
        self.ended_s[name].append(time.perf_counter())
        if self.is_down:
            raise ConnectionError("down")

    def listen(self, name: str, event: events.Event) -> None:
        match event:
            case events.Assigned(partitions) if partitions:
                self.has_partitions.add(name)
            case events.HeldByGroup():
                self.held_s.setdefault(name, time.perf_counter())
            case events.GroupHoldEnded():
                self.resumed_s[name] = time.perf_counter()


def run(kafka: RealKafka, scale: Scale) -> Result:
    """Members of one process, each with a partition, a client and a thread of its own."""
    figures: list[Figure] = []
    for scope in ("consumer", "key"):
        rounds = [_outage(kafka, scope, 3 * scale.open_s) for _ in range(min(scale.rounds, 3))]
        figures += _figures(f'scope="{scope}"', rounds)
    lasts = f"{_MEMBERS} members, handlers of 10 ms, an outage of {3 * scale.open_s:g} s"
    return Result(tuple(figures), notes=(lasts,))


def _figures(scope: str, rounds: list[Outage]) -> Iterable[Figure]:
    held = tuple(percentile(each.holding_ms, 99) for each in rounds)
    alone = tuple(float(each.members_that_attempt) for each in rounds)
    attempts = tuple(float(each.attempts) for each in rounds)
    resumed = tuple(each.resumed_ms for each in rounds)
    yield Figure(f"{scope}: a member holds, p99", "ms", held, Target("at most", 200.0))
    yield Figure(f"{scope}: members that attempt", "members", alone, Target("at most", 1.0))
    yield Figure(f"{scope}: attempts once all hold", "attempts", attempts)
    yield Figure(f"{scope}: all go on after the recovery", "ms", resumed, Target("at most", 500.0))


def _outage(kafka: RealKafka, scope: str, for_s: float) -> Outage:
    topic = filled_topic(kafka, _MEMBERS * _MESSAGES_EACH, _MEMBERS, keys=_KEYS)
    control = f"{topic}-control"
    kafka.create_topic(control)
    return in_child(outage, config_of_new_group(kafka), topic, control, scope, for_s)


def outage(config: Config, topic: str, control: str, scope: str, for_s: float) -> Outage:
    """Waits until all members are busy, lets the dependency fail, and answer again."""
    watch = _Watch()
    names = [f"member-{number}" for number in range(_MEMBERS)]
    consumers = [_member(watch, name, config, topic, control, scope) for name in names]
    for name, consumer in zip(names, consumers, strict=True):
        threading.Thread(target=consumer.run, args=(partial(watch.handle, name),)).start()
    wait_until(lambda: len(watch.has_partitions) == _MEMBERS, "all have a partition")
    time.sleep(_BEFORE_S)
    watch.is_down, down_s = True, time.perf_counter()
    wait_until(lambda: len(watch.held_s) == _MEMBERS - 1, "all but one hold")
    all_hold_s = time.perf_counter()
    time.sleep(for_s)
    watch.is_down, up_s = False, time.perf_counter()
    wait_until(lambda: len(watch.resumed_s) == _MEMBERS - 1, "all go on")
    for consumer in consumers:
        consumer.stop()
    for consumer in consumers:
        consumer.close()
    first_s = min(
        ended_s for each in watch.ended_s.values() for ended_s in each if ended_s > down_s
    )
    attempts = {
        name: sum(all_hold_s < began_s < up_s for began_s in each)
        for name, each in watch.began_s.items()
    }
    answered_s = min(
        ended_s
        for each in watch.ended_s.values()
        for ended_s in each
        if ended_s > up_s + _HANDLER_S
    )
    return Outage(
        [_holding_ms(watch, name, first_s) for name in watch.held_s],
        sum(count > 0 for count in attempts.values()),
        sum(attempts.values()),
        (max(watch.resumed_s.values()) - answered_s) * 1000,
    )


def _holding_ms(watch: _Watch, name: str, first_s: float) -> float:
    """From the end of the handler that was in progress, if that was after the first failure."""
    held_s = watch.held_s[name]
    last_s = max((each for each in watch.ended_s[name] if each <= held_s), default=first_s)
    return (held_s - max(first_s, last_s)) * 1000


def _member(
    watch: _Watch, name: str, config: Config, topic: str, control: str, scope: str
) -> LinearConsumer:
    return LinearConsumer(
        config,
        [topic],
        strategy=_STRATEGY,
        transient=OSError,
        scope=ByKey() if scope == "key" else "consumer",
        on_exhausted="repeat",
        on_permanent="stop",
        listeners=[partial(watch.listen, name)],
        control=control,
        group_breaker=True,
        group_breaker_max_s=600.0,
    )
