"""Waits for the name of a static member that was killed (KIP-848)."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Protocol

from linear_retry.consumer.state import Parts
from linear_retry.events import InstanceIdTaken
from linear_retry.kafka import KafkaError
from linear_retry.kafka.consumer.fatal_errors import raise_if_fatal

# What Kafka's brokers have by default (group.consumer.session.timeout.ms).
_SESSION_S = 45.0
_MARGIN_S = 10.0
_TRY_EVERY_S = 1.0
_SAY_EVERY_S = 10.0
# How long the first word waits for the session's length.
_UNANSWERED_S = 2.0


class Describer(Protocol):
    """Asks the brokers how long a member of a KIP-848 group may be silent."""

    def ask_session_timeout_ms(self, group: str) -> Future[int]: ...


class InstanceIdWait:
    """The broker refuses a second member of one `group.instance.id` until the first one's session
    is over (`UNRELEASED_INSTANCE_ID`), and whether that is dead nobody can tell before.

    librdkafka makes the refusal fatal, so each try needs a client of its own.
    """

    def __init__(self, parts: Parts, describer: Describer, at_least_s: float) -> None:
        """`at_least_s` is waited, even where the session is shorter."""
        self._parts = parts
        self._describer = describer
        self._at_least_s = at_least_s
        self._session: Future[int] | None = None
        self._since_s = 0.0
        self._try_at_s = 0.0
        self._say_at_s = 0.0
        self._is_said = False

    def forget(self) -> None:
        """The name is ours."""
        self._session = None

    def may_try(self, refusal: KafkaError) -> bool:
        """Whether it is time for another client. Raises `FencedError` where it stays taken."""
        now_s = self._parts.clock.now_s()
        if self._session is None:
            self._session = self._describer.ask_session_timeout_ms(self._parts.settings.group_id)
            self._since_s, self._try_at_s = now_s, now_s + _TRY_EVERY_S
            self._say_at_s, self._is_said = now_s + _UNANSWERED_S, False
        left_s = self._since_s + self._wait_s(self._session) - now_s
        if left_s <= 0:
            raise_if_fatal(refusal)
        if now_s >= self._say_at_s or (self._session.done() and not self._is_said):
            self._say_at_s, self._is_said = now_s + _SAY_EVERY_S, True
            name = self._parts.settings.static_member or ""
            self._parts.emit(InstanceIdTaken(name, left_s))
        if now_s < self._try_at_s:
            return False
        self._try_at_s = now_s + _TRY_EVERY_S
        return True

    def _wait_s(self, session: Future[int]) -> float:
        is_known = session.done() and not session.cancelled() and session.exception() is None
        session_s = session.result() / 1000 if is_known else _SESSION_S
        return max(session_s + _MARGIN_S, self._at_least_s)
