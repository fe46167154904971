"""Reads, searches, replays, resolves and purges dead letters: the names that users need."""

from linear_retry.dlq.dead_letter_topic import DeadLetterTopic
from linear_retry.dlq.export import Exported, read_export
from linear_retry.dlq.forward import Message
from linear_retry.dlq.letters.foreign import Origin
from linear_retry.dlq.letters.letter import EVERYTHING, Filter, Letter, State
from linear_retry.dlq.purge import Purge
from linear_retry.dlq.reading.resolutions import Resolution
from linear_retry.dlq.replay.checks import RefusedError
from linear_retry.dlq.replay.newer_messages import NewerMessages
from linear_retry.dlq.replay.outcome import Mark, Outcome
from linear_retry.dlq.replay.plan import NO_LETTER, PartitionPlan, Plan, Source
from linear_retry.dlq.stats import Stats, Top
from linear_retry.kafka.consumer.messages import read as read_record
from linear_retry.records.dead_letter import DeadLetter, parse

__all__ = [
    "EVERYTHING",
    "NO_LETTER",
    "DeadLetter",
    "DeadLetterTopic",
    "Exported",
    "Filter",
    "Letter",
    "Mark",
    "Message",
    "NewerMessages",
    "Origin",
    "Outcome",
    "PartitionPlan",
    "Plan",
    "Purge",
    "RefusedError",
    "Resolution",
    "Source",
    "State",
    "Stats",
    "Top",
    "parse",
    "read_export",
    "read_record",
]
