"""Refuses what cannot work, before any message is touched."""

import inspect
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, cast, get_args

from linear_retry.consumer.config.consumer_config import ConsumerConfig, Dependencies
from linear_retry.consumer.config.topics import check_topics, refuse_own_topics
from linear_retry.consumer.dead_letters.settings import DeadLetters
from linear_retry.consumer.monitoring.client_log import with_log
from linear_retry.consumer.monitoring.identity import this_process
from linear_retry.consumer.runners.handler_checks import why_not
from linear_retry.errors import ConfigurationError
from linear_retry.events import Listener
from linear_retry.journal.journal import Journal
from linear_retry.kafka.consumer.settings import consumer_settings
from linear_retry.kafka.producers.settings import (
    delivery_timeout_ms,
    producer_config,
    transactional_config,
)
from linear_retry.kafka.topics.names import check_topic_name
from linear_retry.records.dead_letter import resolutions_topic
from linear_retry.retry.circuits import BreakerError
from linear_retry.retry.decision import (
    IsTransient,
    OnExhausted,
    OnPermanent,
    Policy,
    RetrySettings,
    is_any_of,
)
from linear_retry.scope import ScopeKind
from linear_retry.strategy.delays import Element
from linear_retry.strategy.strategy import Strategy

Transient: TypeAlias = (
    type[BaseException] | Iterable[type[BaseException]] | Callable[[Exception], object]
)

_ANSWER_MARGIN_S = 10.0
_TOO_WIDE = (Exception, BaseException)
# Not exceptions themselves, and yet what they name includes some.
_WITH_EXCEPTIONS = ("BaseException", "BaseExceptionGroup")


def plan(
    config: Mapping[str, Any],
    topics: list[str] | tuple[str, ...],
    *,
    strategy: Strategy | Sequence[Element],
    transient: Transient,
    dead_letters: str | DeadLetters | None,
    scope: ScopeKind,
    on_exhausted: OnExhausted,
    on_permanent: OnPermanent,
    start_timeout_s: float,
    close_timeout_s: float,
    dependencies: Dependencies,
    journals: Sequence[Journal] = (),
    control: str | None = None,
) -> ConsumerConfig:
    """Everything that a consumer is made of, checked. Raises `ConfigurationError`."""
    delays = as_strategy(strategy)
    policy = policy_of(delays, on_exhausted, on_permanent)
    letters = DeadLetters(dead_letters) if isinstance(dead_letters, str) else dead_letters
    _check_choice("scope", scope, get_args(ScopeKind))
    check_topics(topics)
    names = tuple(topics)
    check_letters(letters, policy, names)
    check_journals(journals, letters, names)
    _check_control(control, journals, letters, names)
    _check_timeout("start_timeout_s", start_timeout_s)
    _check_timeout("close_timeout_s", close_timeout_s)
    settings = consumer_settings(with_log(config))
    config_for = transactional_config if letters and letters.transactional else producer_config
    for_letters = config_for(settings, letters.config) if letters else {}
    return ConsumerConfig(
        settings=settings,
        producer_config=for_letters,
        answer_within_s=answer_within_s(for_letters),
        topics=names,
        retry=RetrySettings(
            limited(policy, letters),
            is_transient(transient),
            scope,
            dependencies.rng,
        ),
        dead_letters=letters,
        journals=tuple(journals),
        control=control,
        strategy_total_s=delays.total_s,
        start_timeout_s=start_timeout_s,
        close_timeout_s=close_timeout_s,
        dependencies=dependencies,
        process=this_process(settings.config),
    )


def answer_within_s(for_letters: Mapping[str, Any]) -> float:
    """When a producer that has not told what became of a letter will not tell any more."""
    return delivery_timeout_ms(for_letters) / 1000 + _ANSWER_MARGIN_S if for_letters else 0.0


def is_transient(transient: Transient) -> IsTransient:
    """The question that `transient` answers, with pybreaker's own error always a yes.

    Warns about `Exception`: a bug of the handler's would then be waited for.
    """
    if isinstance(transient, type):
        transient = (transient,)
    if isinstance(transient, str | bytes):
        raise ConfigurationError(
            f"transient={transient!r}: a text; give the exception type itself, such as "
            "transient=OSError, or several"
        )
    if isinstance(transient, Iterable):
        types = tuple(transient)
        _check_types(types)
        return is_any_of((*types, BreakerError))
    if not callable(transient):
        raise ConfigurationError(
            f"transient={transient!r}: exception types, or a predicate on the exception"
        )
    # What a handler raises is an Exception, and so is each error of its groups.
    predicate = cast(Callable[[BaseException], object], transient)
    _check_predicate(predicate)
    return lambda error: isinstance(error, BreakerError) or bool(predicate(error))


def as_strategy(strategy: object) -> Strategy:
    """A list is `Strategy(list)`. Raises `ConfigurationError` for what is none."""
    if isinstance(strategy, list | tuple):
        return Strategy(strategy)
    if not isinstance(strategy, Strategy):
        raise ConfigurationError(
            f"strategy={strategy!r}: a Strategy; write Strategy([1, 5, 30]) or Strategy.load(path)"
        )
    return strategy


def policy_of(strategy: Strategy, on_exhausted: OnExhausted, on_permanent: OnPermanent) -> Policy:
    """What these choices are together. Raises `ConfigurationError`."""
    _check_choice("on_exhausted", on_exhausted, get_args(OnExhausted))
    _check_choice("on_permanent", on_permanent, get_args(OnPermanent))
    if on_exhausted == "repeat" and len(strategy) == 0:
        raise ConfigurationError(
            f"strategy {strategy.name}: it is empty, and on_exhausted='repeat' repeats the last "
            "delay; add a delay"
        )
    return Policy(strategy, on_exhausted, on_permanent)


def limited(policy: Policy, letters: DeadLetters | None) -> Policy:
    """The policy with the topic and the limit of these dead letters."""
    if letters is None:
        return policy
    return replace(
        policy, letter_limit=letters.limit, hold_s=letters.hold_s, dead_letters=letters.topic
    )


def _check_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigurationError(f"{name}={value!r}: one of {', '.join(map(repr, allowed))}")


def check_letters(letters: DeadLetters | None, policy: Policy, topics: Sequence[str]) -> None:
    """Raises `ConfigurationError` where they are missing or wrong."""
    if letters is None:
        if policy.needs_dead_letters:
            raise ConfigurationError(
                f"dead_letters is missing, and on_exhausted={policy.on_exhausted!r}, "
                f"on_permanent={policy.on_permanent!r} need it; name a topic, or choose otherwise"
            )
        return
    if not isinstance(letters, DeadLetters):
        raise ConfigurationError(f"dead_letters={letters!r}: a topic's name, or DeadLetters(...)")
    refuse_own_topics(topics, [letters.topic, resolutions_topic(letters.topic)])


def check_journals(
    journals: Sequence[Journal], letters: DeadLetters | None, topics: Sequence[str]
) -> None:
    """Raises `ConfigurationError` where one would go where it is read as something else."""
    for journal in journals:
        refuse_own_topics(topics, [journal.topic])
        if letters is not None and letters.topic == journal.topic:
            raise ConfigurationError(
                f"Journal topic={journal.topic!r}: it is where the dead letters go, and whoever "
                "replays those would find no letters; choose another topic"
            )


def _check_control(
    control: str | None,
    journals: Sequence[Journal],
    letters: DeadLetters | None,
    topics: Sequence[str],
) -> None:
    if control is None:
        return
    check_topic_name(control, "control")
    refuse_own_topics(topics, [control])
    if control in {journal.topic for journal in journals} | ({letters.topic} if letters else set()):
        raise ConfigurationError(
            f"control={control!r}: dead letters or a journal go there, and would be read as "
            "commands; choose another topic"
        )


def _check_predicate(predicate: Callable[..., object]) -> None:
    """What is decided by it is decided in the midst of an outage: too late to find out."""
    if inspect.iscoroutinefunction(predicate):
        raise ConfigurationError(
            f"transient={predicate!r}: a coroutine function, whose answer would always be yes; "
            "give a plain function"
        )
    refusal = why_not(predicate, 1)
    if refusal is not None:
        raise ConfigurationError(
            f"transient={predicate!r}: it cannot be called with an exception ({refusal}); give a "
            "function of one argument"
        )


def check_listeners(listeners: object) -> tuple[Listener, ...]:
    """The listeners, in their order. Raises `ConfigurationError` for what cannot be called."""
    if not isinstance(listeners, Iterable):
        raise ConfigurationError(
            f"listeners={listeners!r}: a list of callables; write listeners=[{listeners!r}]"
            if callable(listeners)
            else f"listeners={listeners!r}: a list of callables of one event"
        )
    found = tuple(listeners)
    wrong = [one for one in found if not callable(one)]
    if wrong:
        raise ConfigurationError(
            f"listeners: {wrong[0]!r} cannot be called; give callables of one event"
        )
    return found


def _check_types(types: tuple[Any, ...]) -> None:
    if not types:
        raise ConfigurationError(
            "transient=(): no error would ever be waited for; name the errors of the dependency, "
            "or write transient=lambda error: False if that is meant"
        )
    wrong = [
        item for item in types if not (isinstance(item, type) and issubclass(item, BaseException))
    ]
    if wrong:
        raise ConfigurationError(
            f"transient: {wrong!r} is no exception type; give types, or one predicate"
        )
    ends = [item.__name__ for item in types if not issubclass(item, Exception)]
    ends = [name for name in ends if name not in _WITH_EXCEPTIONS]
    if ends:
        raise ConfigurationError(
            f"transient: {ends[0]} ends the consumer and is never waited for; name errors that "
            "are an Exception"
        )
    too_wide = [item.__name__ for item in types if item in _TOO_WIDE]
    if too_wide:
        warnings.warn(
            f"transient={too_wide[0]}: every bug of the handler will be waited for as if it were "
            "an outage; name the errors of the dependency instead",
            stacklevel=5,
        )


def _check_timeout(name: str, value_s: object) -> None:
    if (
        isinstance(value_s, bool)
        or not isinstance(value_s, int | float)
        or not (math.isfinite(value_s) and value_s > 0)
    ):
        raise ConfigurationError(f"{name}={value_s!r}: a number of seconds above 0")
