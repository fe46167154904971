"""The letters of a selection, as the filter of a replay or a resolve."""

from linear_retry.console.letters import queries
from linear_retry.console.letters.filters import Selection
from linear_retry.console.letters.index import Index
from linear_retry.dlq.letters.filters import Filter
from linear_retry.dlq.reading.spill import SpilledSet


def filter_of(index: Index, selection: Selection) -> Filter:
    """Selects the letters that were counted, and no other.

    Matching raises `StaleSelectionError` if the index was built again since.
    """
    return Filter(states=selection.filter.states, chosen=_Chosen(index, selection))


class _Chosen:
    """Resolution keys, read once, on first use: by the thread that then asks for each letter."""

    def __init__(self, index: Index, selection: Selection) -> None:
        self._index, self._selection = index, selection
        self._keys: SpilledSet | None = None

    def __contains__(self, key: object) -> bool:
        if self._keys is None:
            self._keys = SpilledSet()
            for each in queries.keys(self._index, self._selection):
                self._keys.add(each)
        return key in self._keys
