"""Runs the retry line in a thread of the live line's process."""

import threading
from collections.abc import Callable

from linear_retry.consumer.runners.together.child import Work, run_line


class RetryThread:
    """The retry line beside the live one, as `RetryProcess`, for handlers that wait for I/O."""

    def __init__(self, work: Work) -> None:
        """Raises what creating the consumer raises."""
        self._work = work
        self._consumer = work.live.retry_line(work.retry)
        self._asked = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="linear_retry retry line")
        self._thread.daemon = True  # an interrupted program does not wait for its handler

    def start(self, on_end: Callable[[], object]) -> None:
        """Starts the thread; `on_end` is called if it ends before it was told to stop."""
        self._on_end = on_end
        self._thread.start()

    def stop(self) -> None:
        self._asked = True
        self._consumer.stop()

    def end(self, within_s: float | None = None) -> BaseException | None:
        """Waits until it has ended, at most for that time, and returns the error."""
        if not self._asked:
            self.stop()
        self._thread.join(within_s)
        return self._error

    def _run(self) -> None:
        try:
            run_line(self._consumer, self._work)
        except BaseException as error:  # noqa: BLE001  (raised by the thread that ends it)
            self._error = error
        finally:
            if not self._asked:
                self._on_end()
