"""Reports a repeated error at its first time and each tenfold."""

FORGOTTEN_AFTER_S = 60.0
_KINDS = 1_000


class ErrorThrottle:
    """Counts each kind of problem by itself.

    With a broker down several kinds take turns, hundreds of times a minute: counting only the same
    in a row would report each of them each time.
    """

    def __init__(self) -> None:
        self._counted: dict[int | str, tuple[int, float]] = {}

    def count(self, code: int | str, now_s: float) -> int | None:
        """How often this kind has come, where that is to be reported; else None.

        A kind that has not come for a minute is counted from one again.
        """
        count, last_s = self._counted.get(code, (0, now_s))
        count = 1 if now_s - last_s > FORGOTTEN_AFTER_S else count + 1
        if count == 1 and len(self._counted) >= _KINDS:
            self._counted.clear()
        self._counted[code] = count, now_s
        return count if str(count).strip("0") == "1" else None
