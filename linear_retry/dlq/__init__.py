"""Dead letters: read them, search them, and deal with them. The names that users need."""

from linear_retry.dlq.dead_letter_topic import DeadLetterTopic
from linear_retry.dlq.export import Exported, read_export
from linear_retry.dlq.filters import EVERYTHING, Filter
from linear_retry.dlq.letter import Letter, State
from linear_retry.dlq.origin import Origin
from linear_retry.dlq.resolutions import Resolution
from linear_retry.dlq.stats import Stats, Top

__all__ = [
    "EVERYTHING",
    "DeadLetterTopic",
    "Exported",
    "Filter",
    "Letter",
    "Origin",
    "Resolution",
    "State",
    "Stats",
    "Top",
    "read_export",
]
