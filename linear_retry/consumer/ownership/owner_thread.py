"""Guards a consumer: one owner thread, one process, no use after close."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from linear_retry.consumer.ownership.stop import forked_error
from linear_retry.errors import ConfigurationError, FencedError, LinearRetryError, UsageError


class OwnerThread:
    """The thread that owns one consumer, from its first use to its end.

    `running`: the owner is inside. `joined`: we have subscribed. `commits`: we may commit what is
    done at the end. `closes_at_end`: `close` was called while the owner was inside, so the owner
    closes when it leaves.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._owner: threading.Thread | None = None
        self._fatal: LinearRetryError | None = None
        self._lender: int | None = None
        self.running = False
        self.joined = False
        self.commits = True
        self.closes_at_end = False
        self.closing = False
        self.closed = threading.Event()

    @property
    def forked(self) -> bool:
        return os.getpid() != self._pid

    @property
    def elsewhere(self) -> bool:
        """Whether another thread owns it and is alive."""
        owner = self._owner
        return owner is not None and owner is not threading.current_thread() and owner.is_alive()

    @property
    def here(self) -> bool:
        """Whether the current thread owns it; or, in the child of a fork, no thread does."""
        return self.forked or self._owner is threading.current_thread()

    def check_open(self) -> None:
        """Raises `UsageError` after a fork or `close`."""
        self.check_process()
        if self.closing:
            raise UsageError("this LinearConsumer is closed; create a new one")

    def check_process(self) -> None:
        """Raises `UsageError` after a fork."""
        if self.forked:
            raise forked_error()

    @contextmanager
    def use(self) -> Iterator[None]:
        """Makes the current thread the owner. Raises `UsageError`.

        Raises an earlier fatal error again.
        """
        self.check_process()  # first: another thread may have held the lock at the fork
        with self._lock:
            self.check_open()
            if self._fatal is not None:
                raise self._fatal
            self._check_here()
            if self.running:
                raise UsageError(
                    "this LinearConsumer was used from within its handler, or a listener; return "
                    "from it instead"
                )
            self._owner = threading.current_thread()
        try:
            self.running = True  # inside, or an interrupt before it would leave it set for good
            with self.keeping_fatal_errors():
                yield
        finally:
            self.running = False

    @contextmanager
    def keeping_fatal_errors(self) -> Iterator[None]:
        """Keeps an error that no further use can fix."""
        try:
            yield
        except FencedError as error:
            # The member that took our place has the partitions: we may not commit anything.
            self.commits = False
            self._fatal = error
            raise
        except ConfigurationError as error:
            # We were assigned what we must not read: no further run may read it either.
            if self.joined:
                self._fatal = error
            raise

    def abort(self) -> None:
        """Abandons the current work. For signal handlers.

        It may leave a circuit half changed or a partition paused, so the consumer cannot continue;
        but what is done is recorded, and can be committed.
        """
        self._fatal = UsageError(
            "this LinearConsumer was interrupted a second time while at work; "
            "close it and create a new one: messages that are not done are delivered again"
        )
        # `use` may be cut short as it ends, too, and `close` would then wait for it for ever.
        self.running = False

    @contextmanager
    def delegated(self) -> Iterator[None]:
        """Lets a thread of ours own it in place of the current one. Raises `UsageError`.

        If the current thread was the owner, that thread takes over. The current thread must not
        wait for it: it would wait for itself.
        """
        self.check_open()
        with self._lock:
            if self._lender is not None or self.running:
                raise UsageError(
                    "this LinearConsumer is already running; await that, or create another"
                )
            self._check_here()
            self._owner = None
            self._lender = threading.get_ident()
        try:
            yield
        finally:
            self._lender = None

    def claim_close(self) -> Literal["ours", "another's", "later", "done"]:
        """Claims the duty to close: only the first caller gets "ours"."""
        if self._lender == threading.get_ident():
            self.closes_at_end = True
            return "later"
        if self.elsewhere:
            return "another's"
        if self.running:  # the loop is running, perhaps inside librdkafka
            self.closes_at_end = True
            return "later"
        with self._lock:
            begun, self.closing = self.closing, True
        return "done" if begun else "ours"

    def _check_here(self) -> None:
        if self.elsewhere:
            raise UsageError(
                f"this LinearConsumer belongs to the thread {self._owner!r}; only stop, close, "
                "retry_now, give_up, lift_limit, open_circuit, close_circuit, skip_unreadable, "
                "circuits, breaker, health, counts and lag are for other threads"
            )
