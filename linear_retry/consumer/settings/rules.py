"""Several strategies in one line: which of them counts, by the error and the topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from os import PathLike

from linear_retry.consumer.settings.values import Errors, as_strategy, predicate_of
from linear_retry.errors import ConfigurationError
from linear_retry.events import StrategyRefused, StrategyReloaded
from linear_retry.retry.circuits import BreakerError
from linear_retry.retry.retry_after import RetryAfter
from linear_retry.strategy.delays import Element
from linear_retry.strategy.file import RuleArguments, load_rules
from linear_retry.strategy.strategy import Strategy

_ALL = ("*",)
_PYTHONS = "builtins."


@dataclass(frozen=True, slots=True, init=False)
class Rule:
    """A strategy for some errors and topics, as one of several: `strategy=[Rule(...), ...]`.

    `errors` are exception types, or a predicate on the exception; None: whatever `transient` takes.
    `topics` are globs of names, such as `"orders.*"`. Of several rules the first counts that takes
    an error in its topic; an error that none takes is permanent.
    """

    strategy: Strategy
    errors: Errors | None
    topics: tuple[str, ...]
    _takes: Callable[[BaseException], bool] = field(repr=False, compare=False)

    def __init__(
        self,
        strategy: Strategy | Sequence[Element],
        *,
        errors: Errors | None = None,
        topics: str | Sequence[str] = "*",
    ) -> None:
        """Raises `ConfigurationError`, and `StrategyError` for delays that are none."""
        globs = (topics,) if isinstance(topics, str) else tuple(topics)
        if not globs or not all(isinstance(each, str) and each for each in globs):
            raise ConfigurationError(
                f'topics={topics!r}: must be globs of topics\' names, such as "orders.*"'
            )
        takes = (lambda _: True) if errors is None else predicate_of("errors", errors, depth=3)
        object.__setattr__(self, "strategy", as_strategy(strategy))
        object.__setattr__(self, "errors", errors)
        object.__setattr__(self, "topics", globs)
        object.__setattr__(self, "_takes", takes)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> list[Rule]:
        """Reads a file of rules, which name errors as logs and letters do: `httpx.ReadTimeout`.

        A rule takes an error if that is the name of its class or of one that this derives from.
        Raises `StrategyError` with all problems of the file.
        """
        return list(map(rule_of, load_rules(path)))

    def takes(self, error: BaseException, topic: str) -> bool:
        """Whether it is for this error of a message of `topic`. Raises what its predicate does."""
        return any(fnmatchcase(topic, glob) for glob in self.topics) and self._takes(error)


def rule_of(arguments: RuleArguments) -> Rule:
    """Makes a rule of what a file has."""
    names = arguments["errors"]
    return Rule(
        Strategy(**arguments["strategy"]),
        errors=None if names is None else _Named(names),
        topics=arguments["topics"],
    )


class _Named:
    """Takes errors by the names of their classes, with the module but for Python's own."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = frozenset(name.removeprefix(_PYTHONS) for name in names)

    def __call__(self, error: BaseException) -> bool:
        kinds = (f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__)
        return any(name.removeprefix(_PYTHONS) in self._names for name in kinds)

    def __repr__(self) -> str:
        return f"<errors named {', '.join(sorted(self._names))}>"


class Rules:
    """The rules of a line, in their order. To those who ask for one strategy, it is the last one's.

    That is the strategy of the probes of a wide circuit, and of a `RetryAfter` and an open breaker
    that no rule takes: they are transient in any case.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = tuple(rules)

    @property
    def strategies(self) -> tuple[Strategy, ...]:
        return tuple(rule.strategy for rule in self._rules)

    @property
    def total_s(self) -> float:
        """The longest sum of all waits of a strategy, in seconds."""
        return max(each.total_s for each in self.strategies)

    @property
    def are_several(self) -> bool:
        return len(self._rules) > 1

    def find(self, errors: Sequence[BaseException], topic: str) -> Strategy | None:
        """Returns the strategy for an error, of which these are the leaves; None: one has none."""
        found: list[int] = []
        for error in errors:
            numbers = (n for n, rule in enumerate(self._rules) if rule.takes(error, topic))
            first = next(numbers, None)
            if first is not None:
                found.append(first)
            elif not isinstance(error, BreakerError | RetryAfter):
                return None
        return self._rules[min(found, default=-1)].strategy

    def labelled(self, label: str) -> Strategy | None:
        """Returns the strategy with this label."""
        return next((each for each in self.strategies if each.label == label), None)

    def look(self) -> StrategyReloaded | StrategyRefused | None:
        """Returns None: rules in the program do not change."""
        return None

    # -- the last one's ----------------------------------------------------------------------

    @property
    def label(self) -> str:
        return self._rules[-1].strategy.label

    @property
    def max_elapsed_s(self) -> float | None:
        return self._rules[-1].strategy.max_elapsed_s

    def __len__(self) -> int:
        return len(self._rules[-1].strategy)

    def __bool__(self) -> bool:
        """Always true, as of a strategy."""
        return True

    def delay_s(self, failures: int, rng: Callable[[], float] | None = None) -> float | None:
        return self._rules[-1].strategy.delay_s(failures, rng)


def check_rules(rules: Sequence[object], *, has_transient: bool, by_topic: bool) -> None:
    """Raises `ConfigurationError` for rules that cannot be in force.

    `has_transient`: the user said which errors are transient. Without `by_topic` a rule may not
    name topics.
    """
    for one in rules:
        if not isinstance(one, Rule):
            raise ConfigurationError(
                f"strategy: {one!r} is among rules; write Rule({one!r}), as the last one, for a "
                "strategy of all other errors"
            )
        if one.errors is None and not has_transient:
            raise ConfigurationError(
                "strategy: a rule without errors= takes every error that transient= names, and "
                "there is no transient=; name the errors in one of them"
            )
        if one.topics != _ALL and not by_topic:
            raise ConfigurationError(
                f"topics={one.topics!r}: a micro-batch may be of several topics; leave it out"
            )
