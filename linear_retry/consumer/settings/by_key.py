"""Order by key: what opens the wide circuit, and how much may be held."""

from dataclasses import dataclass
from typing import get_args

from linear_retry.errors import ConfigurationError
from linear_retry.scope import ScopeKind


@dataclass(frozen=True, slots=True)
class ByKey:
    """The scope in which a failure holds the later messages of its key, and of no other.

    Many keys that fail at once are an outage: where `trip` distinct keys fail for the first time
    and no message succeeds in between, or `most_held` are held, a wide circuit opens, over what
    `opens` says: all assigned partitions, the topic, or the partition. Then one message at a time
    is attempted, after waits of at most `probe_max_s`, until one succeeds. A topic with fewer keys
    than `trip` has no wide circuit.

    Raises `ConfigurationError`.
    """

    trip: int = 5
    opens: ScopeKind = "consumer"
    most_held: int = 100
    probe_max_s: float = 60.0

    def __post_init__(self) -> None:
        for name, least in (("trip", 2), ("most_held", 1)):
            value: object = getattr(self, name)
            if type(value) is not int or value < least:
                raise ConfigurationError(
                    f"ByKey({name}={value!r}): must be a whole number from {least} on"
                )
        if self.opens not in get_args(ScopeKind):
            raise ConfigurationError(
                f"ByKey(opens={self.opens!r}): must be one of "
                f"{', '.join(map(repr, get_args(ScopeKind)))}"
            )
        longest: object = self.probe_max_s
        if type(longest) not in (int, float) or not 0 < self.probe_max_s < float("inf"):
            raise ConfigurationError(
                f"ByKey(probe_max_s={longest!r}): must be a number of seconds above 0"
            )
