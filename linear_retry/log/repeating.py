"""A thread of ours that is begun again whatever ends it, and errors said once in a while."""

from collections.abc import Callable
from threading import Event, Thread
from typing import TypeAlias

from linear_retry.errors import LinearRetryError
from linear_retry.log.lines import log_thread_failed

Work: TypeAlias = Callable[[Event], None]
"""Works until it is done, or until the event is set; it may wait for the event itself."""

_AGAIN_S = 5.0
_CLOSE_S = 0.5

FORGOTTEN_AFTER_S = 60.0
_KINDS = 1_000


class Repeating:
    """Does `work` in a thread, again and again, until it is closed.

    A thread that ends in silence would look as if all were well, and what waits for it would wait
    for ever. `note` is called with what an error of the work says; the work itself says when it is
    over.
    """

    def __init__(
        self,
        name: str,
        work: Work,
        note: Callable[[str], None] = lambda _: None,
        again_s: float = _AGAIN_S,
    ) -> None:
        """`again_s`: how long it waits after an error."""
        self._name, self._work, self._note, self._again_s = name, work, note, again_s
        self._stop = Event()
        self._thread = Thread(target=self._run, name=f"linear_retry {name}", daemon=True)

    @property
    def is_stopped(self) -> bool:
        """Whether the work was asked to end."""
        return self._stop.is_set()

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Asks the work to end."""
        self._stop.set()

    def close(self, timeout_s: float = _CLOSE_S) -> None:
        """Ends the thread, and waits for it; not for long, since brokers may be away."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._work(self._stop)
                continue
            except LinearRetryError as error:
                self._note(str(error))
            # What a user's function raises may be a SystemExit, which would end the thread unsaid.
            except BaseException as error:  # noqa: BLE001
                log_thread_failed(self._name)
                self._note(f"an unexpected error: {error!r}")
            self._stop.wait(self._again_s)


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
