"""Explains the end of a program by its setting, or by what has befallen it."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from linear_retry import BrokerError, ExhaustedError, FencedError, HandlerTooSlowError, RetryAfter
from linear_retry.errors import PermanentError
from linear_retry.testing import AttemptFinished, AttemptStarted, Entry, Place
from tests.consumer.group import START_TIMEOUT_S, OutageError, PoisonError
from tests.torture.schedules.kafka import PlayedKafka
from tests.torture.schedules.players import Player
from tests.torture.schedules.schedule import Setting

_HOPELESS_AFTER = 3
_SHOWN_VIOLATIONS = 3


class BrokenError(AssertionError):
    """A guarantee is broken; its text says which, and where."""


def hold(violations: Iterable[str]) -> None:
    """Raises `BrokenError` with the first few, where there are any."""
    found = list(violations)
    if found:
        raise BrokenError("\n".join(found[:_SHOWN_VIOLATIONS]))


class Ends:
    """What a program ends with is its proper end only where something in the play leads to it."""

    def __init__(self, setting: Setting, fake: PlayedKafka) -> None:
        self._setting = setting
        self._fake = fake

    def require(self, player: Player, error: Exception, log: list[Entry]) -> None:
        """Raises `BrokenError` where nothing explains that `player` ends with this."""
        if not self._is_explained(player, error, log):
            raise _unexplained(player.name, error) from error

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Its body starts a member. Raises `BrokenError` for a `BrokerError` out of nowhere."""
        faults, clock = self._fake.faults, self._fake.clock
        begun_s, to_come = clock.now_s(), faults.transactions_to_fail("init")
        try:
            yield
        except BrokerError as error:
            met = to_come[: len(to_come) - len(faults.transactions_to_fail("init"))]
            refused = any(not fault.error.retriable() for fault in met)
            waited = (met or faults.brokers_down) and clock.now_s() - begun_s >= START_TIMEOUT_S
            if not (refused or waited):
                raise _unexplained("a start", error) from error
            raise

    def _is_explained(self, player: Player, error: Exception, log: list[Entry]) -> bool:
        by_key = self._setting.loop == "keys"
        match error:
            case FencedError():
                return any(map(self._fake.was_fenced, player.handles))
            case ExhaustedError():
                wanted = self._setting.on_exhausted == "stop"
                by_time = self._setting.max_elapsed_s is not None
                due = by_time or error.failures > len(self._setting.strategy)
                transient = isinstance(error.__cause__, OutageError | RetryAfter)
                return (
                    wanted
                    and due
                    and transient
                    and _has_just_failed(player, error, log, by_key=by_key)
                )
            case PermanentError():
                wanted = self._setting.on_permanent == "stop"
                permanent = isinstance(error.__cause__, PoisonError)
                return wanted and permanent and _has_just_failed(player, error, log, by_key=by_key)
            case HandlerTooSlowError():
                overruns = sum(map(self._fake.overruns, player.handles))
                return min(_attempts(player, error, log), overruns) >= _HOPELESS_AFTER
            case _:
                return False


class Raised:
    """What was raised inside of a member's handler or callback is raised, whoever has caught it."""

    def __init__(self) -> None:
        self._first: Exception | None = None

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Its body may run inside a member, which would take this for its handler's failure."""
        try:
            yield
        except Exception as error:
            self._first = self._first or error
            raise

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Raises the first, alone: what came of it in the one around it is nobody's fault."""
        try:
            yield
        except Exception as error:
            if self._first is not None and self._first is not error:
                raise self._first from error
            raise
        if self._first is not None:
            raise self._first


def _has_just_failed(
    player: Player, error: ExhaustedError | PermanentError, log: list[Entry], *, by_key: bool
) -> bool:
    """Whether the last thing that it did was to attempt this message, in vain.

    With workers, the last thing in its partition, or of it, where each key has its order.
    """
    for entry in reversed(log):
        if not isinstance(entry, AttemptStarted | AttemptFinished) or entry.member != player.name:
            continue
        lane = 3 if by_key else 2
        is_beside = player.parts.lanes is not None and entry.place[:lane] != _place(error)[:lane]
        if not is_beside:
            return entry.place == _place(error) and getattr(entry, "outcome", "") == "failed"
    return False


def _attempts(player: Player, error: HandlerTooSlowError, log: list[Entry]) -> int:
    """How often it has attempted this message."""
    begun = (entry for entry in log if isinstance(entry, AttemptStarted))
    return sum((one.member, one.place) == (player.name, _place(error)) for one in begun)


def _place(error: ExhaustedError | PermanentError | HandlerTooSlowError) -> Place:
    return Place(error.topic, error.partition, error.offset)


def _unexplained(who: str, error: Exception) -> BrokenError:
    name = type(error).__name__
    return BrokenError(f"Unexplained{name}: {who} ended with {error!r}, and nothing led to it")
