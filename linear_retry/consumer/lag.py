"""How much has the group still to read, whatever is paused here?"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from typing import Protocol, TypeVar

from linear_retry.consumer.offsets import Offsets
from linear_retry.consumer.ownership import Ownership
from linear_retry.kafka.settings import ConsumerSettings
from linear_retry.scope import Partition

_T = TypeVar("_T")


class Figures(Protocol):
    """What is asked of the brokers, without waiting."""

    def ask_ends(self, partitions: Sequence[Partition]) -> dict[Partition, Future[int]]: ...

    def ask_beginnings(self, partitions: Sequence[Partition]) -> dict[Partition, Future[int]]: ...

    def ask_committed(
        self, group_id: str, partitions: Sequence[Partition]
    ) -> Future[Mapping[Partition, int]]: ...

    def close(self) -> None: ...


class Lag:
    """Asks the brokers: librdkafka's own lag stands still while a partition is paused.

    For any thread but the owner's, which it would keep waiting.
    """

    def __init__(
        self,
        settings: ConsumerSettings,
        ownership: Ownership,
        offsets: Offsets,
        figures: Figures,
    ) -> None:
        self._settings = settings
        self._ownership = ownership
        self._offsets = offsets
        self._figures = figures
        self._asking = threading.Lock()
        self._closed = False

    def ask(self, timeout_s: float) -> dict[Partition, int]:
        """Of each partition that is ours now; without those that had no answer in time."""
        give_up_at_s = time.monotonic() + timeout_s
        partitions = self._ownership.partitions
        with self._asking:  # the handle is for one thread at a time, and its answers for any
            if self._closed or not partitions:
                return {}
            # Before the ends: what is committed meanwhile must not make the lag negative.
            committed = self._figures.ask_committed(self._settings.group_id, partitions)
            ends = self._figures.ask_ends(partitions)
        starts = _answer(committed, give_up_at_s)
        if starts is None:
            return {}
        starts = {**self._first(set(partitions) - starts.keys(), give_up_at_s), **starts}
        return {
            key: self._offsets.to_read(key, starts[key], end)
            for key, answer in ends.items()
            if key in starts and (end := _answer(answer, give_up_at_s)) is not None
        }

    def close(self) -> None:
        """Drop the handle; nothing is asked any more."""
        with self._asking:
            self._closed = True
            self._figures.close()

    def _first(self, partitions: set[Partition], give_up_at_s: float) -> dict[Partition, int]:
        """Where those begin of which the group has committed nothing yet."""
        known = {key: self._offsets.where(key) for key in partitions}
        found = {key: offset for key, offset in known.items() if offset is not None}
        unknown = sorted(partitions - found.keys())
        with self._asking:
            if self._closed or not unknown:
                return found
            edge = self._figures.ask_ends if self._skips else self._figures.ask_beginnings
            answers = edge(unknown)
        asked = {key: _answer(answer, give_up_at_s) for key, answer in answers.items()}
        return found | {key: offset for key, offset in asked.items() if offset is not None}

    @property
    def _skips(self) -> bool:
        return self._settings.reset == "latest"


def _answer(answer: Future[_T], give_up_at_s: float) -> _T | None:
    """None: it was refused, or has not come in time."""
    done, _ = wait_for([answer], max(give_up_at_s - time.monotonic(), 0.0))
    return answer.result() if done and answer.exception() is None else None
