"""What the pages share, for as long as the console runs."""

import re
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import ExitStack
from http import HTTPStatus
from typing import Self

from fastapi import Depends

from linear_retry.console.decoding.views import DECODERS
from linear_retry.console.jobs.jobs import Jobs
from linear_retry.console.letters.dead_letters import DeadLetters
from linear_retry.console.live.threads import Live
from linear_retry.console.state.audit import Audit
from linear_retry.console.state.settings import Settings
from linear_retry.console.state.state import State
from linear_retry.errors import LinearRetryError
from linear_retry.kafka.schema_registry import SchemaRegistry
from linear_retry.log.repeating import ErrorThrottle
from linear_retry.records import control
from linear_retry.records.topics.names import is_dead_letter_name
from linear_retry.web import Access
from linear_retry.web.security.authentication import Actor, Authentication, RefusedError

_WORK = re.compile(r"\.(jsonl|bin|csv|json)$|/(edit|selection|stream|value)$")
"""What reads much, or writes files: downloads, and what counts or follows."""
_BROKERS_ASKED = _STORE_ASKED = 8


class Services:
    """The console's parts behind its pages; threads of theirs end with its `with`."""

    def __init__(self, settings: Settings, access: Access) -> None:
        """Raises `StateError`, and `ConfigurationError` for a registry that cannot be used."""
        url = settings.schema_registry
        self.decoders = DECODERS if url is None else (SchemaRegistry(url), *DECODERS)
        """What shows keys and values, the most telling first."""
        self.asks_brokers = Depends(Places("the brokers", _BROKERS_ASKED).take)
        """A dependency of the routes that ask the brokers while somebody waits."""
        self.asks_store = Depends(Places("the store", _STORE_ASKED).take)
        """A dependency of the routes that ask the store."""
        self._ends = ExitStack()
        self.settings = settings
        self.access = access
        self.authentication = Authentication(
            access, has_forms=True, not_linked=_WORK, is_read_only=settings.is_read_only
        )
        self.state = self._ends.enter_context(State(settings.state))
        self.audit = Audit(self.state)
        self.unaudited = ErrorThrottle()
        """Of the lines of the log about what could not be written there."""
        self.targets = Targets(settings, lambda topic: self.letters.get(topic) is not None)
        self.jobs = Jobs(self.state, self.audit, settings.kafka, self.targets.check)
        self._ends.callback(self.jobs.close)
        self.letters = self._ends.enter_context(
            DeadLetters(settings.kafka, settings.state, settings.dead_letters)
        )
        self.live = self._ends.enter_context(Live(settings))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def may_change(self, actor: Actor | None) -> bool:
        """Whether there are buttons for changes on this actor's pages."""
        is_operator = actor is not None and actor.role == "operator"
        return is_operator and not self.settings.is_read_only

    def sees_values(self, actor: Actor | None) -> bool:
        """Whether keys, values and headers are on this actor's pages."""
        return actor is not None and (actor.sees_payloads or self.settings.shows_values)

    def check_values(self, actor: Actor) -> None:
        """Raises `RefusedError` unless keys, values and headers may be shown to this actor."""
        if not self.sees_values(actor):
            raise RefusedError(HTTPStatus.FORBIDDEN, "keys and values are for operators")


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


class TargetError(LinearRetryError):
    """Nothing may be sent to this topic."""


class Targets:
    """Checks where letters and their edited copies go to.

    A letter names its topic itself, and anybody who writes to a dead-letter topic could have it
    sent to the control topic as an order, or have other letters look resolved. Which other topics
    may be written to is for the ACLs of the console's user.
    """

    def __init__(self, settings: Settings, is_indexed: Callable[[str], bool]) -> None:
        """`is_indexed` says of a topic whether the console shows it as dead letters."""
        self._control = {control.DEFAULT_TOPIC, settings.control}
        self._journal = settings.journal
        self._is_indexed = is_indexed

    def check(self, topics: Iterable[str]) -> None:
        """Raises `TargetError` for the first of them that may not be sent to."""
        for topic in topics:
            if (reason := self._refusal(topic)) is not None:
                raise TargetError(f"{topic}: nothing is sent there, since it is {reason}")

    def _refusal(self, topic: str) -> str | None:
        if topic.startswith("__"):
            return "an internal topic of Kafka"
        if topic in self._control:
            return "the topic of operators' commands"
        if topic == self._journal:
            return "the journal"
        if is_dead_letter_name(topic) or self._is_indexed(topic.removesuffix(".resolved")):
            return "a topic of dead letters or of their resolutions"
        return None
