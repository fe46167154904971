"""Begins and ends the pauses that operators wish for."""

from collections.abc import Callable

from linear_retry.consumer.control.pausing import Pausing
from linear_retry.consumer.ownership.requests import EndPause, PauseWish, Requests
from linear_retry.events import Event, PausedByHand, PauseEnded
from linear_retry.retry.clock import Clock
from linear_retry.retry.pauses import Pause

_MOST = 100
"""Pauses at once: anyone who may write to the control topic could name any number of topics."""


class OperatorPauses:
    """Carries out requests for pauses on the owner thread, and ends those that are over.

    No pause lasts longer than `longest_s`.
    """

    def __init__(
        self,
        pausing: Pausing,
        requests: Requests,
        clock: Clock,
        longest_s: float,
        emit: Callable[[Event], None],
    ) -> None:
        self._pausing = pausing
        self._known = pausing.known
        self._requests = requests
        self._clock = clock
        self._longest_s = longest_s
        self._emit = emit

    @property
    def due_at_s(self) -> float:
        """When the first pause is over."""
        return self._known.next_end_s

    def consider(self) -> None:
        """Begins and ends pauses as requested. Called once a turn, after the poll."""
        for request in self._requests.pending():
            match request.wish:
                case PauseWish() as wish if self._requests.claim(request):
                    self._requests.answer(request, self._begin(wish))
                case EndPause() as wish if self._requests.claim(request):
                    ending = [each for each in self._known.by_operators if wish.ends(each.scope)]
                    for each in ending:
                        self._end(each, is_closed=True)
                    self._requests.answer(request, bool(ending))

    def tick(self) -> None:
        """Ends the pauses that are over."""
        now_s = self._clock.now_s()
        for pause in self._known.by_operators:
            if pause.until_s <= now_s:
                self._end(pause, is_closed=False)

    # -- inside ----------------------------------------------------------------------------

    def _begin(self, wish: PauseWish) -> bool:
        """Returns whether it has begun: not if its end has passed, nor as one of too many."""
        left_s = min((wish.until_ms - self._clock.utc_ms()) / 1000, self._longest_s)
        is_new = self._known.get("pause", wish.scope) is None
        if left_s <= 0 or (is_new and len(self._known.by_operators) >= _MOST):
            return False
        pause = self._pausing.begin(wish.scope, "pause", left_s, wish.by, wish.reason)
        self._emit(PausedByHand(wish.scope, wish.by, wish.reason, pause.until))
        return True

    def _end(self, pause: Pause, *, is_closed: bool) -> None:
        self._emit(PauseEnded(pause.scope, is_closed, self._pausing.end(pause)))
