"""Rejects configurations that cannot work, before any message is read."""

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, cast, get_args

from linear_retry.consumer.partitions.commit_notes import OnUnreadableNote
from linear_retry.consumer.settings.by_key import ByKey
from linear_retry.consumer.settings.consumer_config import (
    ConsumerConfig,
    Dependencies,
    this_process,
)
from linear_retry.consumer.settings.dead_letters import DeadLetters
from linear_retry.consumer.settings.inbox import Inbox
from linear_retry.consumer.settings.line import (
    IGNORED,
    LineConfig,
    Recovery,
    Retries,
    Topics,
    WhenExhausted,
    line_config,
    refuse_own_topics,
)
from linear_retry.consumer.settings.rules import Rule, Rules, check_rules
from linear_retry.consumer.settings.strategy_file import FileRules, StrategyFile
from linear_retry.consumer.settings.values import Errors, as_strategy, predicate_of
from linear_retry.errors import ConfigurationError, StoreError
from linear_retry.events import Listener
from linear_retry.journal.journal import Journal
from linear_retry.kafka.consumer.settings import ConsumerSettings, consumer_settings
from linear_retry.kafka.producers.settings import (
    delivery_timeout_ms,
    producer_config,
    refuse_another_cluster,
    transactional_config,
)
from linear_retry.log.client_log import with_log
from linear_retry.records.dead_letter import resolutions_topic
from linear_retry.records.lineage import Line
from linear_retry.records.topics.names import check_topic_name
from linear_retry.retry.callables import why_not
from linear_retry.retry.circuits import BreakerError
from linear_retry.retry.decision import (
    Delays,
    IsTransient,
    OnExhausted,
    OnPermanent,
    Policy,
    RetrySettings,
    check_repeated,
)
from linear_retry.scope import AnyScope
from linear_retry.strategy.delays import Element
from linear_retry.strategy.strategy import Strategy

Strategies: TypeAlias = Strategy | Sequence[Element] | Sequence[Rule] | StrategyFile

MOST_CONCURRENT = 256
GROUP_PAUSE_MAX_S = 3600.0
GROUP_BREAKER_MAX_S = 60.0
_MOST_NOTED = 160
_ANSWER_MARGIN_S = 10.0
_READ_HERE = (
    "the same producer sends what is retried, and that is read from the consumer's cluster: it "
    "would never come back"
)


def plan(
    config: Mapping[str, Any],
    topics: Topics,
    *,
    strategy: Strategies,
    transient: Errors | None,
    dead_letters: str | DeadLetters | None,
    scope: AnyScope | ByKey,
    concurrency: int = 1,
    on_exhausted: WhenExhausted,
    on_permanent: OnPermanent,
    start_timeout_s: float,
    close_timeout_s: float,
    group_pause_max_s: float = GROUP_PAUSE_MAX_S,
    group_breaker: bool = False,
    group_breaker_max_s: float = GROUP_BREAKER_MAX_S,
    dependencies: Dependencies,
    journals: Sequence[Journal] = (),
    control: str | None = None,
    remember_failures: bool = True,
    on_unreadable_note: OnUnreadableNote = "refuse",
    inbox: Inbox | None = None,
) -> ConsumerConfig:
    """Checks all arguments and returns them as one value. Raises `ConfigurationError`."""
    line = line_config(config, topics, on_exhausted)
    given = chosen_strategy(
        strategy, has_transient=transient is not None, repeats=line.on_exhausted == "repeat"
    )
    rules = given if isinstance(given, Rules) else None
    kind, by_key = _scope_of(scope)
    policy, letters = policy_of(
        given,
        line.on_exhausted,
        on_permanent,
        dead_letters,
        line.retries,
        line.recovery,
        may_block=by_key is not None,
    )
    _check_retry_line(line, letters, rules)
    _warn_of_long_notes(by_key, concurrency)
    _check_concurrency(concurrency, kind, reads_retries=line.reads_retries)
    _check_choice("on_unreadable_note", on_unreadable_note, get_args(OnUnreadableNote))
    if not isinstance(remember_failures, bool):
        raise ConfigurationError(f"remember_failures={remember_failures!r}: must be True or False")
    _check_timeout("start_timeout_s", start_timeout_s)
    _check_timeout("close_timeout_s", close_timeout_s)
    _check_timeout("group_pause_max_s", group_pause_max_s)
    _check_timeout("group_breaker_max_s", group_breaker_max_s)
    _check_group_breaker(group_breaker, scope, control)
    if inbox is not None:
        _check_inbox(inbox, concurrency, kind)
    settings = consumer_settings(with_log(line.config))
    if line.retries is not None and letters is not None:
        refuse_another_cluster(settings, letters.config, _READ_HERE)
    for_letters = _producer_config(settings, letters)
    retries = None if line.reads_retries else line.retries
    own_topics = check_own_topics(letters, journals, control, retries)
    refuse_own_topics(line.topics, own_topics, settings.config.get(IGNORED, ""))
    return ConsumerConfig(
        settings=settings,
        producer_config=for_letters,
        answer_within_s=answer_within_s(for_letters),
        topics=line.topics,
        own_topics=own_topics,
        line=_line(line, settings, reads_all=inbox is not None and inbox.reads_all),
        retries=line.retries,
        recovery=line.recovery,
        reads_retries=line.reads_retries,
        retry=RetrySettings(
            policy,
            is_transient(transient, rules, with_inbox=inbox is not None),
            kind,
            dependencies.rng,
            rules=rules,
        ),
        by_key=by_key,
        concurrency=concurrency,
        dead_letters=letters,
        journals=tuple(journals),
        control=control,
        strategy_total_s=given.total_s,
        start_timeout_s=start_timeout_s,
        close_timeout_s=close_timeout_s,
        group_pause_max_s=group_pause_max_s,
        group_breaker_max_s=group_breaker_max_s if group_breaker else None,
        remember_failures=remember_failures,
        on_unreadable_note=on_unreadable_note,
        inbox=inbox,
        dependencies=dependencies,
        process=this_process(settings.config),
    )


def _check_group_breaker(
    group_breaker: object, scope: AnyScope | ByKey, control: str | None
) -> None:
    if not isinstance(group_breaker, bool):
        raise ConfigurationError(f"group_breaker={group_breaker!r}: must be True or False")
    if not group_breaker:
        return
    if control is None:
        raise ConfigurationError(
            "group_breaker=True: members tell each other by the control topic; give it control="
        )
    opens = scope.opens if isinstance(scope, ByKey) else "consumer" if scope == "key" else scope
    if opens != "consumer":
        raise ConfigurationError(
            f"group_breaker=True with scope={scope!r}: a group waits for what stops a whole "
            'consumer; write scope="consumer", or scope="key" with ByKey(opens="consumer")'
        )


def _check_inbox(inbox: object, concurrency: int, scope: AnyScope) -> None:
    if not isinstance(inbox, Inbox):
        raise ConfigurationError(
            f"inbox={inbox!r}: must be an Inbox; write inbox=Inbox(engine), from linear_retry.inbox"
        )
    if not inbox.has_one_writer:
        return
    if scope == "key":
        raise ConfigurationError(
            'inbox on SQLite with scope="key": the consumer writes what is done while handlers '
            'do, and SQLite has one writer at a time; use PostgreSQL, or scope="partition"'
        )
    if concurrency > 1:
        raise ConfigurationError(
            f"concurrency={concurrency} with an inbox on SQLite, which has one writer at a time: "
            "write concurrency=1, or use PostgreSQL"
        )


def _scope_of(scope: AnyScope | ByKey) -> tuple[AnyScope, ByKey | None]:
    if isinstance(scope, ByKey):
        return "key", scope
    _check_choice("scope", scope, get_args(AnyScope))
    return scope, ByKey() if scope == "key" else None


def _warn_of_long_notes(by_key: ByKey | None, concurrency: int) -> None:
    """Warns of more keys than a note has room for, which is what a broker takes by default."""
    most = 0 if by_key is None else by_key.most_held + concurrency
    if most > _MOST_NOTED:
        warnings.warn(
            f"concurrency and most_held are {most} together: of more than {_MOST_NOTED} keys that "
            "are held or in a handler, what was done behind them may be handled again after a "
            "stop; lower one of them, or accept that",
            stacklevel=4,
        )


def _check_concurrency(concurrency: object, scope: AnyScope, *, reads_retries: bool) -> None:
    if type(concurrency) is not int or not 1 <= concurrency <= MOST_CONCURRENT:
        raise ConfigurationError(
            f"concurrency={concurrency!r}: must be a whole number from 1 to {MOST_CONCURRENT}"
        )
    if reads_retries and scope == "key":
        raise ConfigurationError(
            'scope="key": a retry line is read in the order of its partitions; write '
            'scope="partition" or a wider one'
        )
    if concurrency == 1:
        return
    if scope not in ("partition", "key"):
        raise ConfigurationError(
            f"concurrency={concurrency} with scope={scope!r}: partitions that are handled side by "
            "side cannot stop for each other's failure before it is known; write "
            'scope="partition" or scope="key", or concurrency=1'
        )
    if reads_retries:
        raise ConfigurationError(
            f"concurrency={concurrency}: a retry line attempts one message at a time; write "
            "concurrency=1, and run more members"
        )


def _check_retry_line(line: LineConfig, letters: DeadLetters | None, rules: Rules | None) -> None:
    if not line.reads_retries:
        return
    if rules is not None:
        raise ConfigurationError(
            "strategy: rules, and a file that may have them, are for messages of their own topics, "
            "and a retry line reads retry topics; give one strategy there"
        )
    is_safe = letters is not None and letters.transactional
    if line.retries and line.retries.back_to_source and not is_safe:
        raise ConfigurationError(
            "back_to_source=True: a message and its offset go in one transaction, or it could "
            "come back twice; write dead_letters=DeadLetters(topic, transactional=True)"
        )


def _line(line: LineConfig, settings: ConsumerSettings, *, reads_all: bool) -> Line:
    made = Line(line.live_group(settings.group_id), reads_all=reads_all)
    return made if line.retries is None else replace(made, delay_ms=line.retries.delay_ms)


def _producer_config(settings: ConsumerSettings, letters: DeadLetters | None) -> dict[str, Any]:
    if letters is None:
        return {}
    config_for = transactional_config if letters.transactional else producer_config
    return config_for(settings, letters.config)


def answer_within_s(for_letters: Mapping[str, Any]) -> float:
    """The time after which a producer's missing delivery report will not come any more."""
    return delivery_timeout_ms(for_letters) / 1000 + _ANSWER_MARGIN_S if for_letters else 0.0


def is_transient(
    transient: Errors | None, rules: Rules | None = None, *, with_inbox: bool = False
) -> IsTransient:
    """Returns `transient` as a predicate, which is always true for pybreaker's own error.

    And, `with_inbox`, for that of an inbox whose database is away. None: whatever `rules` take.
    Warns about `Exception`: bugs in the handler would then be retried like an outage.
    """
    if transient is None:
        if rules is None:
            raise ConfigurationError(
                "transient is missing: name the exception types that are worth another attempt, "
                "such as transient=ConnectionError"
            )
        return lambda _: True
    takes = predicate_of("transient", transient, depth=5)
    always = (BreakerError, StoreError) if with_inbox else BreakerError
    return lambda error: isinstance(error, always) or takes(error)


def chosen_strategy(
    strategy: object, *, has_transient: bool, repeats: bool, by_topic: bool = True
) -> Strategy | Rules:
    """Returns the strategy given, or the rules among which an error chooses.

    `repeats`: an exhausted strategy repeats its last delay. `has_transient` and `by_topic` as in
    `check_rules`. Raises `ConfigurationError`.
    """

    def check(rules: Sequence[Any]) -> None:
        check_rules(rules, has_transient=has_transient, by_topic=by_topic)
        for rule in rules if repeats else ():
            check_repeated(rule.strategy)

    if isinstance(strategy, StrategyFile):
        return FileRules(strategy, check)
    if isinstance(strategy, list | tuple) and any(isinstance(one, Rule) for one in strategy):
        check(strategy)
        return Rules(strategy)
    single = as_strategy(strategy)
    if repeats:
        check_repeated(single)
    return single


def policy_of(
    strategy: Delays,
    on_exhausted: OnExhausted,
    on_permanent: OnPermanent,
    dead_letters: str | DeadLetters | None,
    retries: Retries | None = None,
    recovery: Recovery | None = None,
    *,
    may_block: bool = False,
) -> tuple[Policy, DeadLetters | None]:
    """Combines these choices into a policy; `may_block`: each key has its own circuit.

    Raises `ConfigurationError`.
    """
    _check_choice("on_exhausted", on_exhausted, get_args(OnExhausted))
    _check_choice("on_permanent", on_permanent, get_args(OnPermanent))
    letters = DeadLetters(dead_letters) if isinstance(dead_letters, str) else dead_letters
    policy = Policy(strategy, on_exhausted, on_permanent, carrier=retries, recovery=recovery)
    if policy.blocks and not may_block:
        raise ConfigurationError(
            f"on_exhausted={on_exhausted!r}, on_permanent={on_permanent!r}: 'block' is for "
            'scope="key" only, where one key waits for an operator and all others go on; choose '
            "another value"
        )
    if letters is None:
        if policy.needs_dead_letters:
            raise ConfigurationError(
                f"dead_letters is missing, and on_exhausted={on_exhausted!r}, "
                f"on_permanent={on_permanent!r} need it; name a topic, or choose other values"
            )
        return policy, None
    if not isinstance(letters, DeadLetters):
        raise ConfigurationError(
            f"dead_letters={letters!r}: must be a topic's name, or DeadLetters(...)"
        )
    policy = replace(
        policy, letter_limit=letters.limit, hold_s=letters.hold_s, dead_letters=letters.topic
    )
    return policy, letters


def _check_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigurationError(
            f"{name}={value!r}: must be one of {', '.join(map(repr, allowed))}"
        )


def check_own_topics(
    letters: DeadLetters | None,
    journals: Sequence[Journal],
    control: str | None = None,
    retries: Retries | None = None,
) -> frozenset[str]:
    """The topics that we write to. Raises `ConfigurationError` if one has two purposes."""
    written = {journal.topic: "the journal" for journal in journals}
    ours: list[tuple[str, str]] = []
    if letters is not None:
        ours += [(letters.topic, "dead letters")]
        ours += [(resolutions_topic(letters.topic), "their resolutions")]
    if retries is not None:
        ours += [(topic, "retries") for topic in retries.topics]
    if control is not None:
        check_topic_name(control, "control")
        ours += [(control, "commands")]
    for topic, content in ours:
        if topic in written:
            raise ConfigurationError(
                f"{topic!r} is the topic for {content} and for {written[topic]}: each would be "
                "read as the other; choose another topic"
            )
        written[topic] = content
    return frozenset(written)


def check_listeners(listeners: object) -> tuple[Listener, ...]:
    """Returns the listeners in order. Raises `ConfigurationError` if one would not be run."""
    found = tuple(listeners) if isinstance(listeners, Iterable) else (None,)
    for listener in found:
        refusal = why_not(listener, 1)
        if refusal is not None:
            raise ConfigurationError(
                f"listeners={listeners!r}: must be a list of callables of one event "
                f"({listener!r}: {refusal})"
            )
    return found


def _check_timeout(name: str, value_s: object) -> None:
    if type(value_s) not in (int, float) or not 0 < cast(float, value_s) < math.inf:
        raise ConfigurationError(f"{name}={value_s!r}: must be a number of seconds above 0")
