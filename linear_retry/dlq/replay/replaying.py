"""Plans replays, and sends the letters of a plan in order, each once."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace

from linear_retry.dlq.letters.letter import Filter, Letter, State
from linear_retry.dlq.reading import reading
from linear_retry.dlq.reading.reading import Cluster
from linear_retry.dlq.reading.resolutions import Resolution, Resolutions, encoded
from linear_retry.dlq.replay.checks import Facts, RefusedError, check, facts_of
from linear_retry.dlq.replay.order import Earlier, Entry, batches
from linear_retry.dlq.replay.outgoing import place_of, unpacked
from linear_retry.dlq.replay.plan import Plan, Planner, placed
from linear_retry.dlq.replay.recording import Recorder
from linear_retry.kafka.topics.reader import Progress
from linear_retry.records.record import OutgoingRecord
from linear_retry.retry.clock import now_ms

LARGEST_BATCH = 5_000
"""Messages per transaction: larger ones take longer and gain nothing."""

_BATCH_BYTES = 8 * 2**20
_SLICE_S = 0.5  # Ctrl-C takes effect between two waits


class RateLimit:
    """Paces batches of messages: never more than `rate` a second since the first."""

    def __init__(
        self,
        rate: float | None,
        largest_batch: int = LARGEST_BATCH,
        now_s: Callable[[], float] = time.monotonic,
        wait: Callable[[float], object] = time.sleep,
    ) -> None:
        """`rate` None: no limit."""
        self._rate = rate
        self.largest_batch = largest_batch
        if rate is not None:  # about half a second's worth
            self.largest_batch = max(1, min(largest_batch, int(rate / 2)))
        self._now_s = now_s
        self._wait = wait
        self._next_s: float | None = None

    def acquire(self, messages: int, waiting: Callable[[], object] = lambda: None) -> None:
        """Waits until a batch of this many may be sent; calls `waiting`, which may raise."""
        if self._rate is None:
            return
        now_s = self._now_s()
        begin_s = now_s if self._next_s is None else max(self._next_s, now_s)
        while (left_s := begin_s - self._now_s()) > 0:
            waiting()
            self._wait(min(left_s, _SLICE_S))
        self._next_s = begin_s + messages / self._rate


def plan_replay(
    cluster: Cluster,
    plan: Plan,
    resolutions: Resolutions,
    letter_filter: Filter,
    progress: Progress | None,
) -> Plan:
    """Fills `plan`, which has the targets, with the open letters that the filter selects.

    If the plan cannot be carried out, closes it and raises `RefusedError` with every reason.
    Changes nothing.
    """
    with ExitStack() as unless_planned:
        unless_planned.enter_context(plan)
        if plan.is_to_retry and plan.for_group == "":
            raise RefusedError([f"{plan.to}: a retry topic is one group's; name it (--for-group)"])
        partitions = 1 if plan.to is None else _partitions_of(cluster, plan.to)
        # The planner applies the limit: the first letters read are not the oldest of all.
        # Retries among them are not sent, and that is said: they are no letters.
        to_send = replace(letter_filter, states=(State.OPEN, State.RETRY), limit=None)
        every_open = Filter(states=to_send.states, ranges=to_send.ranges)
        found = reading.letters(cluster.reader, plan.topic, resolutions, every_open, progress)
        with Earlier() as earlier:

            def keep(letter: Letter) -> None:
                if not plan.is_to_retry and not letter.is_retry:
                    earlier.keep(placed(letter))

            letters = _selected(found, to_send, keep)
            planner = Planner(plan, cluster.record_at, partitions)
            planner.take(letters, letter_filter.limit, keep)
            plan.earlier_open = earlier.count(plan.placed())
        _check(cluster, plan)
        unless_planned.pop_all()
    return plan


def _selected(
    found: Iterable[tuple[Letter, State]], to_send: Filter, keep: Callable[[Letter], object]
) -> Iterator[Letter]:
    for letter, state in found:
        if to_send.matches(letter, state):
            yield letter
        else:
            keep(letter)


def replay(
    cluster: Cluster,
    plan: Plan,
    resolutions: Resolutions,
    resolution: Resolution,
    rate_limit: RateLimit,
    progress: Progress | None,
) -> int:
    """Sends the planned letters that are still open, and records that; returns their number.

    `resolutions` are those that the plan was made with: only newer records are read. Every other
    recorder is fenced: the newest wins. Raises `FencedError`, `BrokerError`.
    """
    if not plan.partitions:
        return 0
    recorder = Recorder(plan.topic, cluster, _check(cluster, plan))
    recorder.fence_others()
    # From here on nobody else can commit. `OpenLetters` explains the order of the next two.
    bounds = cluster.reader.bounds(plan.topic)
    reading.read_resolutions(cluster.reader, plan.topic, resolutions)
    beginnings = {number: first for number, (first, _) in bounds.items()}
    open_letters = OpenLetters(beginnings, resolutions)
    sent = send(plan, recorder, open_letters, resolution, rate_limit, progress)
    recorder.wait_until_visible()
    return sent


@dataclass(frozen=True, slots=True)
class OpenLetters:
    """Determines which letters are open, after all other recorders are fenced.

    `beginnings` are the first offsets of the dead-letter topic's partitions, asked before
    `resolutions` were read. The order matters: a purge deletes letters first, then their
    resolutions. The other way round, a resolved letter could look open.
    """

    beginnings: Mapping[int, int]
    resolutions: Resolutions

    def __contains__(self, entry: Entry) -> bool:
        partition, offset = place_of(entry.content)
        is_there = offset >= self.beginnings.get(partition, 0)
        return is_there and not self.resolutions.has(entry.name)


def send(
    plan: Plan,
    recorder: Recorder,
    open_letters: OpenLetters,
    resolution: Resolution,
    rate_limit: RateLimit,
    progress: Progress | None,
) -> int:
    """Sends what is still open, each batch and its resolutions in one transaction; counts it.

    `progress` is called after each batch, and while the rate lets it wait; then it may raise.
    Raises `FencedError`, `BrokerError`.
    """
    sent = passed = 0
    total = plan.letters

    def still_open() -> Iterator[Entry]:
        nonlocal passed
        # Partition by partition, a low rate would make the last wait for all others.
        for entry in plan.order:
            if entry in open_letters:
                yield entry
            else:
                passed += 1

    def tell() -> None:
        if progress is not None:
            progress(sent + passed, total)

    for batch in batches(still_open(), rate_limit.largest_batch, _BATCH_BYTES):
        rate_limit.acquire(len(batch), tell)
        value = encoded(replace(resolution, at_ms=now_ms()))
        records: list[OutgoingRecord] = []
        for entry in batch:
            records.append(_message(entry, plan))
            records.append(recorder.resolution(entry.name, value))
        recorder.commit(records)
        sent += len(batch)
        tell()
    return sent


def _message(entry: Entry, plan: Plan) -> OutgoingRecord:
    partition, message = plan.partitions[entry.source], unpacked(entry.content)
    if plan.is_to_retry:  # it was planned a while ago, and waits from now on
        message = message.to_retry(plan.delay_ms, now_ms())
    keeps = plan.keep_timestamp and message.timestamp_ms >= 0
    return OutgoingRecord(
        partition.to_topic,
        message.key,
        message.value,
        message.headers,
        partition.to_partition,
        message.timestamp_ms if keeps else None,
    )


def _partitions_of(cluster: Cluster, target: str) -> int:
    fact = cluster.topics.describe([target])[target]
    if fact is None:
        raise RefusedError(
            [f"{target}: no such topic in this cluster; create it, or correct its name"]
        )
    return fact.partitions


def _check(cluster: Cluster, plan: Plan) -> Facts:
    facts = facts_of(cluster, plan.topic, plan.targets)
    compressed = any(
        key.startswith("compression.") and value != "none" for key, value in cluster.config.items()
    )
    check(plan, facts, now_ms(), compressed=compressed)
    return facts
