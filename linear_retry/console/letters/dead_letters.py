"""The dead-letter topics that the console shows, each with its index."""

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import BoundedSemaphore, Event, Lock
from typing import Any, Self

from linear_retry.console.letters.index import Index, remove_others
from linear_retry.console.letters.indexer import Indexer
from linear_retry.dlq.letters.letter import NONE, read_letter
from linear_retry.errors import BrokerError, UnknownTopicError
from linear_retry.kafka.topics.reader import TopicReader
from linear_retry.log.repeating import Repeating
from linear_retry.records.dead_letter import resolutions_topic

# The last offset of a transaction is its marker, which nobody sees.
_LAST = 3
_LIKELY = re.compile(r"dlq|dlt|dead", re.IGNORECASE)
_RESOLUTIONS = resolutions_topic("")


def names_to_look_at(reader: TopicReader) -> list[str]:
    """Returns the topics that may have dead letters, likely names first. Raises `BrokerError`."""
    names = [n for n in reader.topics() if not n.startswith("__") and not n.endswith(_RESOLUTIONS)]
    return sorted(names, key=lambda name: (_LIKELY.search(name) is None, name))


def has_letters(reader: TopicReader, topic: str) -> bool:
    """Whether a dead letter is among the last two or three records of a partition.

    None is found in a topic without records, and a retry topic has none. Raises `BrokerError`.
    """
    try:
        bounds = reader.bounds(topic)
        starts = {n: max(first, end - _LAST) for n, (first, end) in bounds.items() if first < end}
        letters = [
            read_letter(each) for records in reader.read(topic, None, starts) for each in records
        ]
    except UnknownTopicError:  # deleted meanwhile
        return False
    return any(letter.format != NONE and not letter.is_retry for letter in letters)


TOPICS_FOUND = 50
_BUILT_AT_ONCE = 4
"""An index that is behind takes two clients, their queues and a cache: up to 60 MiB."""
_MISSED = 3
"""Answers in a row that lack a topic: one may lack it because a broker has just started."""
_FIND_EVERY_S = 300.0
_FIND_AGAIN_S = 5.0
_CLOSE_S = 2.0


@dataclass(frozen=True, slots=True)
class Indexed:
    """A dead-letter topic: its index, and the thread that keeps it."""

    index: Index
    indexer: Indexer


class DeadLetters:
    """The dead-letter topics of a cluster: those that are given, or else those that are found.

    In its `with` each is indexed by a thread.
    """

    def __init__(
        self, config: Mapping[str, Any], directory: Path, topics: Sequence[str] = ()
    ) -> None:
        """`config` holds librdkafka's keys; `directory` is for the indexes. Asks nobody yet."""
        self.trouble: str | None = None
        """What keeps it from looking at all topics."""
        self.looked_at, self.names = 0, 0
        """How far it is: the number of topics, and of all in the cluster."""
        self.has_looked = bool(topics)
        """Whether it has looked through the cluster once."""
        self.has_more = False
        """Whether more topics were found than are indexed."""
        self._config, self._directory, self._given = dict(config), directory, tuple(topics)
        self._indexed: dict[str, Indexed] = {}
        self._missed: dict[str, int] = {}
        self._looks = 0
        self._building = BoundedSemaphore(_BUILT_AT_ONCE)
        self._lock = Lock()
        self._finder = Repeating("finding dead letters", self._find, self._note, _FIND_AGAIN_S)

    def __enter__(self) -> Self:
        """Starts the threads. Raises `StateError` if an index cannot be written."""
        if self._given:
            remove_others(self._directory, self._given)
        for topic in self._given:
            self._add(topic)
        if not self._given:
            self._finder.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the threads; what is indexed stays."""
        self._finder.stop()
        for each in self.topics():
            each.indexer.stop()
        # One time for all: while the brokers are away, each of fifty threads would need it.
        until_s = time.monotonic() + _CLOSE_S
        self._finder.close(_CLOSE_S)
        for each in self.topics():
            each.indexer.close(max(until_s - time.monotonic(), 0.0))

    def topics(self) -> list[Indexed]:
        """Returns the topics, by name."""
        with self._lock:
            return [self._indexed[name] for name in sorted(self._indexed)]

    def get(self, topic: str) -> Indexed | None:
        """Returns this topic; None: it is not given, or not found."""
        with self._lock:
            return self._indexed.get(topic)

    def _add(self, topic: str) -> None:
        index = Index(self._directory, topic)
        added = Indexed(index, Indexer(index, self._config, self._building))
        with self._lock:
            self._indexed[topic] = added
        added.indexer.start()

    def _find(self, stop: Event) -> None:
        self.trouble = self._find_once(TopicReader(self._config), stop)
        self.has_looked = True
        is_settled = self.trouble is None and not self._missed
        stop.wait(_FIND_EVERY_S if is_settled else _FIND_AGAIN_S)

    def _note(self, trouble: str | None) -> None:
        self.trouble = trouble

    def _find_once(self, reader: TopicReader, stop: Event) -> str | None:
        """Adds what is found, and drops what is gone; returns what could not be looked at."""
        names, unreadable = names_to_look_at(reader), list[str]()
        self._drop_missing(names)
        self.names = len(names)
        for self.looked_at, topic in enumerate(names):
            if stop.is_set():
                break
            try:
                if topic not in self._indexed and has_letters(reader, topic):
                    self._found(topic)
            except BrokerError as error:
                reader.topics()  # fails too, if it is not this topic alone
                unreadable.append(f"{topic}: {error}")
        if not unreadable:
            self._looks += not stop.is_set()
            if self._looks >= _MISSED:
                remove_others(self._directory, self._indexed)
            return None
        return f"{len(unreadable)} of {len(names)} topics cannot be read, such as {unreadable[0]}"

    def _found(self, topic: str) -> None:
        if len(self._indexed) < TOPICS_FOUND:
            self._add(topic)
        else:
            self.has_more = True

    def _drop_missing(self, names: Iterable[str]) -> None:
        """Drops the topics that several answers have lacked: an index may take hours to build."""
        missing = self._indexed.keys() - set(names)
        self._missed = {topic: self._missed.get(topic, 0) + 1 for topic in missing}
        for topic in [each for each, times in self._missed.items() if times >= _MISSED]:
            del self._missed[topic]
            with self._lock:
                gone = self._indexed.pop(topic)
            gone.indexer.close()
            gone.index.remove()
