"""A few places for requests that wait for what may not answer."""

from collections.abc import AsyncIterator
from http import HTTPStatus

from linear_retry.web.security.authentication import RefusedError


class Places:
    """Lets `most` requests wait for `what` at once, and refuses more.

    The server has 40 threads for everything. While the brokers are away, people who reload their
    pages would take them all, and with them the page Now and the way in.
    """

    def __init__(self, what: str, most: int) -> None:
        self._what, self._most = what, most
        self._taken = 0

    async def take(self) -> AsyncIterator[None]:
        """A dependency of routes: takes a place until the answer is there.

        It waits for nothing and needs no thread. Raises `RefusedError`.
        """
        if self._taken >= self._most:
            raise RefusedError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"{self._taken} requests wait for {self._what} already: try again in a moment",
            )
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1
