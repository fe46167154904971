"""The state of one shard, in memory, and its timers."""

from collections.abc import Iterator
from typing import Any, cast

import pandas as pd  # type: ignore[import-untyped]  # it has no types
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessorHandle,
    TimerValues,
)

from linear_retry.spark.scheduler.held import Held, bucket_of, bucket_of_timer, pack
from linear_retry.spark.scheduler.processor import SchedulerProcessor


class _Map:
    """One of Spark's maps."""

    def __init__(self) -> None:
        content = self.content = dict[Any, Any]()
        self.getValue = content.get
        self.updateValue = content.__setitem__
        self.removeKey = content.pop

    def iterator(self) -> Iterator[Any]:
        return iter(self.content.items())


class InMemory:
    """What a processor asks of Spark."""

    def __init__(self) -> None:
        self.maps = dict[str, _Map]()
        self.timers = set[int]()

    @property
    def handle(self) -> StatefulProcessorHandle:
        return cast(StatefulProcessorHandle, self)

    @property
    def is_empty(self) -> bool:
        return not any(each.content for each in self.maps.values())

    def getMapState(self, name: str, key: str, value: str) -> _Map:  # noqa: N802  (Spark's name)
        return self.maps.setdefault(name, _Map())

    def registerTimer(self, expiry_ms: int) -> None:  # noqa: N802  (Spark's name)
        self.timers.add(expiry_ms)

    def micro_batch(
        self, processor: SchedulerProcessor, arriving: list[Held], until_ms: int
    ) -> list[tuple[int, int, int]]:
        """Runs one task, whose timers are those until then; returns its counts, by bucket."""
        processor.init(self.handle)
        rows = [(bucket_of(each.due_ms), pack([each])) for each in arriving]
        frame = pd.DataFrame(rows, columns=["bucket", "content"])
        list(processor.handleInputRows((1,), iter([frame]), TimerValues()))
        found = list[tuple[int, int, int]]()
        for each in sorted(expiry_ms for expiry_ms in self.timers if expiry_ms <= until_ms):
            self.timers.remove(each)
            expired = ExpiredTimerInfo(each)
            (row,) = processor.handleExpiredTimer((1,), TimerValues(), expired)
            found.append(tuple(row.iloc[0, :3].tolist()))
        processor.close()
        return found

    @property
    def buckets(self) -> list[int]:
        """Those that have a timer."""
        return sorted(map(bucket_of_timer, self.timers))
