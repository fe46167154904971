"""Rejects handler results that are work not run: a coroutine, a generator."""

from linear_retry.retry.callables import check_result

_KNOWN_TYPES = 64


class Results:
    """Checks what the handler of one `run` returns. `harmless` has the types already checked.

    Checking a type costs some 500 ns, so the caller looks into `harmless` first, and only the first
    result of each type is checked. It is bounded: each mock has its own type.
    """

    def __init__(self) -> None:
        self.harmless: set[type] = {type(None)}

    def check(self, result: object) -> None:
        """Raises `UndoneError`."""
        check_result(result)
        if len(self.harmless) < _KNOWN_TYPES:
            self.harmless.add(type(result))
