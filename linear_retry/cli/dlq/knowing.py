"""Refuses ids that no letter has, before a command deals with letters."""

from __future__ import annotations

from linear_retry.cli.dlq import formats
from linear_retry.cli.output.exit_codes import NEGATIVE, fail
from linear_retry.cli.output.progress import ProgressBar
from linear_retry.dlq import DeadLetterTopic, Filter


def require_known_ids(topic: DeadLetterTopic, letter_filter: Filter) -> None:
    """End with exit code 1 where an id in `letter_filter` is no letter's, whatever its state."""
    unknown = dict.fromkeys(letter_filter.ids)
    if not unknown:
        return
    with ProgressBar(f"reading {topic.topic}") as bar:
        for letter, _ in topic.letters(Filter(ids=letter_filter.ids), bar):
            unknown.pop(letter.id, None)
            unknown.pop(letter.resolution_key, None)
            if not unknown:
                return
    fail(formats.no_such(unknown, topic.topic), NEGATIVE)
