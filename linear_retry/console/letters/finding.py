"""Finds dead-letter topics by what was written to them last."""

import re

from linear_retry.dlq.letters.letter import NONE, read_letter
from linear_retry.errors import UnknownTopicError
from linear_retry.kafka.topics.reader import TopicReader
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
