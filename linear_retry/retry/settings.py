"""What the user chose for failures: transient or permanent, which strategy, which scope."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from linear_retry.errors import UsageError
from linear_retry.records.exception_text import brief
from linear_retry.retry.decision import Failure, IsTransient, Policy, classify
from linear_retry.scope import ScopeKind


@dataclass(frozen=True, slots=True)
class RetrySettings:
    """The policy, and what it is applied to. `rng` draws the jitter, in [0, 1)."""

    policy: Policy
    is_transient: IsTransient
    scope: ScopeKind
    rng: Callable[[], float] = random.random

    def classify(self, error: Exception) -> Failure:
        """Transient or permanent. Raises `UsageError` where `is_transient` raises."""
        try:
            return classify(error, self.is_transient)
        except Exception as raised:
            raise UsageError(
                f"transient= raised {brief(raised)} when asked about {brief(error)}: it must "
                "answer True or False for any exception; nothing was decided about the message"
            ) from raised
