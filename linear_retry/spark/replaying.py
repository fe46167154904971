"""Replays the dead letters that an SQL condition chooses.

The lake only says which: `linear_retry.dlq` reads letters from their topic and sends them.
The lake is no source of messages, not even of those that the topic has no longer: what is recorded
of a removed letter may be gone too, and nobody could tell whether it was sent already.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

from linear_retry.dlq import DeadLetterTopic, Filter
from linear_retry.dlq.spill import SpilledSet
from linear_retry.errors import ConfigurationError
from linear_retry.spark.errors import JavaError, is_sql_error, last_cause
from linear_retry.spark.ingestion.kafka_options import librdkafka_keys
from linear_retry.spark.ingestion.sources import find_sources, other_topic
from linear_retry.spark.lake.lake import DEAD_LETTERS, Lake, LakeError
from linear_retry.strategy.delays import shown


@dataclass(slots=True)
class Chosen:
    """The letters that a condition has chosen, all of one topic; None if there are none.

    `gone` of the `letters` are no longer in the topic: retention or a purge has removed them.
    """

    names: SpilledSet
    topic: str | None = None
    letters: int = 0
    gone: int = 0

    @property
    def filter(self) -> Filter:
        """The filter of `linear_retry.dlq` that chooses them."""
        return Filter(chosen=self.names)


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of a replay; `chosen` and `gone` as in `Chosen`, `left` as in a `Plan`."""

    topic: str | None = None
    chosen: int = 0
    gone: int = 0
    sent: int = 0
    left: Mapping[str, int] = field(default_factory=dict)


def replay(
    spark: SparkSession,
    config: Mapping[str, Any],
    lake: str | Lake,
    where: str,
    *,
    by: str,
    why: str = "",
    to: str | None = None,
    to_retry: str | None = None,
    rate: float | None = None,
    keep_timestamp: bool = False,
    for_group: str | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Replayed:
    """Sends the open letters again that `where` chooses from the table `dead_letters`.

    `config` are librdkafka's keys; `where` is SQL, a condition on the table's columns. The rest is
    as in `DeadLetterTopic.plan_replay` and `replay`, which do it: in the original order, each once.

    Raises `ConfigurationError` for an invalid condition, or one that chooses letters of several
    topics, and `LakeError`; and what those two raise. Nothing is sent then.
    """
    source = Lake(spark, lake) if isinstance(lake, str) else lake
    with choose(source, config, where) as letters:
        if letters.topic is None:
            return Replayed()
        with DeadLetterTopic(letters.topic, librdkafka_keys(config)) as topic:
            plan = topic.plan_replay(
                letters.filter,
                to=to,
                to_retry=to_retry,
                keep_timestamp=keep_timestamp,
                for_group=for_group,
            )
            with plan:
                sent = topic.replay(plan, by=by, why=why, rate=rate, progress=progress)
                return Replayed(
                    letters.topic, letters.letters, letters.gone, sent, dict(plan.not_replayable)
                )


@contextmanager
def choose(lake: Lake, config: Mapping[str, Any], where: str) -> Iterator[Chosen]:
    """Chooses letters by `where`. Their names are in a temporary file, removed at the end."""
    with SpilledSet() as names:
        letters = Chosen(names)
        bounds: Mapping[int, tuple[int, int]] = {}
        for topic, partition, offset, name in _rows(lake, where):
            if letters.topic is None:
                letters.topic, bounds = topic, _bounds(lake, config, topic)
            elif topic != letters.topic:
                raise ConfigurationError(
                    f"{shown(where)} chooses letters of {letters.topic!r} and of {topic!r}, and a "
                    f"replay is of one topic; add, for example: AND topic = '{letters.topic}'"
                )
            letters.letters += 1
            first, end = bounds.get(partition, (0, 0))
            if first <= offset < end:
                names.add(name)
            else:
                letters.gone += 1
        yield letters


def _bounds(lake: Lake, config: Mapping[str, Any], topic: str) -> Mapping[int, tuple[int, int]]:
    (source,) = find_sources(config, [topic])
    known = lake.topic_id(DEAD_LETTERS, topic)
    if known != source.topic_id:
        raise other_topic(lake, source, known)
    return source.bounds


def _rows(lake: Lake, where: str) -> Iterator[tuple[str, int, int, str]]:
    """Topic, partition, offset and resolution key of each letter that is chosen.

    In one job, as a condition may give different results in two. The driver holds the rows of one
    task at a time; shuffling bounds their size, and uses all cores.
    """
    name = F.concat_ws("#", "id", "generation").alias("name")
    try:
        rows = lake.table(DEAD_LETTERS).where(where).select("topic", "partition", "offset", name)
        # In order, each name is compared with the one before it.
        yield from rows.repartition("name").sortWithinPartitions("name").toLocalIterator()
    except (PySparkException, JavaError) as error:
        raise _error_of(error, where) from error


def _error_of(error: Exception, where: str) -> Exception:
    text = str(error)
    if isinstance(error, AnalysisException) or is_sql_error(text):
        return ConfigurationError(
            f"{shown(where)} is not a condition on letters: {last_cause(text)}; "
            "docs/spark/ingest.md has the columns"
        )
    return LakeError(f"the table `dead_letters` cannot be read: {last_cause(text)}")
