"""The journal: consumers write their events to a topic, and operators read them."""

from linear_retry.journal.entry import DEFAULT_TOPIC, Entry, Unreadable, read_entry
from linear_retry.journal.group_state import GroupStates
from linear_retry.journal.journal import Journal
from linear_retry.journal.reader import JournalTail

__all__ = [
    "DEFAULT_TOPIC",
    "Entry",
    "GroupStates",
    "Journal",
    "JournalTail",
    "Unreadable",
    "read_entry",
]
