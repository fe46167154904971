"""Replaces a client that cannot continue, or has lost all brokers, by a new one."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future

from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.partitions.client_events import ClientErrors
from linear_retry.consumer.settings.line import is_pattern
from linear_retry.events import ClientReplaced, Event, InstanceIdTaken, Lost
from linear_retry.kafka import KafkaError
from linear_retry.kafka.consumer.client import Client
from linear_retry.kafka.consumer.fatal_errors import is_name_taken, raise_if_fatal
from linear_retry.kafka.consumer.settings import ConsumerSettings
from linear_retry.retry.clock import NowS
from linear_retry.scope import Partition

# The brokers' default (group.consumer.session.timeout.ms).
_SESSION_S = 45.0
_MARGIN_S = 10.0
_TRY_EVERY_S = 1.0
# How long the first event waits for the broker to report the session timeout.
_UNANSWERED_S = 2.0
_REPORT_EVERY_S = 10.0

CHECK_EVERY_S = 5.0
_UNSEEN_S = 10.0


class InstanceIdWait:
    """Waits for the `group.instance.id` of a static member that was killed (KIP-848).

    The broker refuses a second member with the same name until the first one's session ends
    (`UNRELEASED_INSTANCE_ID`); until then nobody can tell whether the first is dead. librdkafka
    treats the refusal as fatal, so each try needs a new client.
    """

    def __init__(
        self,
        settings: ConsumerSettings,
        now_s: NowS,
        ask_session_timeout_ms: Callable[[str], Future[int]],
        at_least_s: float,
        emit: Callable[[Event], None],
    ) -> None:
        """`at_least_s` is the minimum wait, even if the session is shorter."""
        self._settings = settings
        self._now_s = now_s
        self._ask_session_timeout_ms = ask_session_timeout_ms
        self._at_least_s = at_least_s
        self._emit = emit
        self._session: Future[int] | None = None
        self._since_s = 0.0
        self._try_at_s = 0.0
        self._report_at_s = 0.0
        self._is_emitted = False

    def forget(self) -> None:
        """Forgets the refusals, as the name was ours since."""
        self._session = None

    def may_try(self, refusal: KafkaError) -> bool:
        """Whether to try another client now. Raises `FencedError` if the name stays taken."""
        now_s = self._now_s()
        if self._session is None:
            self._session = self._ask_session_timeout_ms(self._settings.group_id)
            self._since_s, self._try_at_s = now_s, now_s + _TRY_EVERY_S
            self._report_at_s, self._is_emitted = now_s + _UNANSWERED_S, False
        left_s = self._since_s + self._wait_s(self._session) - now_s
        if left_s <= 0:
            raise_if_fatal(refusal)
        if now_s >= self._report_at_s or (self._session.done() and not self._is_emitted):
            self._report_at_s, self._is_emitted = now_s + _REPORT_EVERY_S, True
            self._emit(InstanceIdTaken(self._settings.static_member or "", left_s))
        if now_s < self._try_at_s:
            return False
        self._try_at_s = now_s + _TRY_EVERY_S
        return True

    def _wait_s(self, session: Future[int]) -> float:
        is_known = session.done() and not session.cancelled() and session.exception() is None
        session_s = session.result() / 1000 if is_known else _SESSION_S
        return max(session_s + _MARGIN_S, self._at_least_s)


class ClientReplacement:
    """Replaces the client, and keeps no state of the old one."""

    def __init__(
        self,
        client: Client,
        assignment: Assignment,
        errors: ClientErrors,
        drop: Callable[[Sequence[Partition]], None],
        instance_id_wait: InstanceIdWait,
        emit: Callable[[Event], None],
    ) -> None:
        """`drop` drops the state of partitions, and circuits with nothing left to probe."""
        self._client = client
        self._assignment = assignment
        self._errors = errors
        self._drop = drop
        self._instance_id_wait = instance_id_wait
        self._emit = emit

    def tick(self) -> None:
        """Replaces a client that cannot continue.

        Raises `FencedError` if its name stays taken by another member.
        """
        useless = self._errors.useless
        if useless is None:
            return
        if not is_name_taken(useless):
            self.replace(f"it can no longer join: {useless.str()}")
        elif self._instance_id_wait.may_try(useless):
            self._client.renew()
            self._errors.forget()

    def replace(self, reason: str) -> None:
        """Replaces it. Never in the old client's callback, or while a message is being handled."""
        had = self._assignment.partitions
        if self._client.member.was_member:
            self._instance_id_wait.forget()
        self._client.renew()
        self._errors.forget()
        self._drop(had)
        if had:
            self._emit(Lost(had, reason))
        self._assignment.forget_suspects()
        self._emit(ClientReplaced(reason))


class BrokerWatchdog:
    """The watchdog for a client that has lost all brokers without reporting an error.

    After all brokers were away, they may first report a cluster without brokers. librdkafka (2.13
    and 2.16, not 2.11) then forgets every broker it knows, and has none left to ask, for ever: no
    error, no partition, no message (librdkafka #5301; 4 of 4 consumers whose broker was frozen for
    5 s, past their session). Only a new client helps. To tell this from brokers that are down,
    another client must find them.
    """

    def __init__(
        self,
        client: Client,
        assignment: Assignment,
        topics: Sequence[str],
        ask_brokers: Callable[[], Future[int]],
        report: Callable[[KafkaError], None],
        replace: Callable[[str], None],
    ) -> None:
        """`ask_brokers` returns how many brokers a new client finds from the configuration alone.

        `report` reports a problem of the client; `replace` creates a new client, for a reason.
        """
        self._client = client
        self._assignment = assignment
        self._named = next((topic for topic in topics if not is_pattern(topic)), None)
        self._ask_brokers = ask_brokers
        self._report = report
        self._replace = replace
        self.due_at_s = 0.0
        self._unseen_since_s: float | None = None
        self._found_at_s: float | None = None
        self._asked: Future[int] | None = None

    def sees(self) -> bool:
        """Whether the client knows a broker that could have told it something.

        Asks about one existing topic: all of them every few seconds would be a burden.
        """
        owned = self._assignment.partitions
        return self._client.sees_brokers(owned[0][0] if owned else self._named)

    def tick(self) -> None:
        """Checks every few seconds, and replaces a client that has lost all brokers."""
        now_s = self._assignment.now_s()
        self.due_at_s = now_s + CHECK_EVERY_S
        if self.sees():
            self._note_seen()
            return
        if self._unseen_since_s is None:
            self._unseen_since_s = now_s
        unseen_s = now_s - self._unseen_since_s
        if unseen_s >= _UNSEEN_S:
            self._compare(now_s, unseen_s)

    def _compare(self, now_s: float, unseen_s: float) -> None:
        """Replaces the client if other clients have long found brokers, and it still has not."""
        asked = self._asked
        if asked is not None and not asked.done():
            return
        self._asked = self._ask_brokers()
        if asked is None:
            return
        if asked.exception() is not None or asked.result() == 0:
            self._found_at_s = None
            text = f"no broker reachable for {unseen_s:.0f} s"
            self._report(KafkaError(KafkaError._ALL_BROKERS_DOWN, text))
        elif self._found_at_s is None:
            self._found_at_s = now_s
        elif now_s - self._found_at_s >= self._client.reconnect_within_s:
            self._note_seen()
            self._replace(f"it reached no broker for {unseen_s:.0f} s, and other clients did")

    def _note_seen(self) -> None:
        self._unseen_since_s = self._found_at_s = self._asked = None
