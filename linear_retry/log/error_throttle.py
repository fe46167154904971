"""Reports a repeated error at its 1st, 10th, 100th ... occurrence."""

FORGOTTEN_AFTER_S = 60.0
_KINDS = 1_000


class ErrorThrottle:
    """Counts each kind of error separately.

    With a broker down several kinds alternate, hundreds of times a minute: counting only equal ones
    in a row would report every one.
    """

    def __init__(self) -> None:
        self._counted: dict[int | str, tuple[int, float]] = {}

    def count(self, code: int | str, now_s: float) -> int | None:
        """Counts one error; returns the count if it is to be reported, else None.

        The count of a kind restarts after a minute without it.
        """
        count, last_s = self._counted.get(code, (0, now_s))
        count = 1 if now_s - last_s > FORGOTTEN_AFTER_S else count + 1
        if count == 1 and len(self._counted) >= _KINDS:
            self._counted.clear()
        self._counted[code] = count, now_s
        return count if str(count).strip("0") == "1" else None
