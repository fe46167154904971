"""Several strategies in one line: by error, by topic, the first that takes it."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pybreaker
import pytest

from linear_retry import (
    ConfigurationError,
    RetryAfter,
    RetryTopics,
    Rule,
    Scheduler,
    Strategy,
    StrategyError,
    UsageError,
    events,
)
from linear_retry.consumer.settings.checks import chosen_strategy, is_transient
from linear_retry.consumer.settings.rules import Rules
from linear_retry.events import Event
from linear_retry.kafka import Message
from linear_retry.retry.decision import Permanent, Transient, classify
from tests.consumer.group import LETTERS, PoisonError, consumer_on
from tests.consumer.settings.failing import delays, run_failing
from tests.fake.cluster import FakeKafka

_SLOW, _QUICK = Strategy([60, 600]), Strategy([1])


_ANY: Any = "OSError"
_SEVEN: Any = 7


class _BusyError(TimeoutError):
    """The dependency asks to be left alone."""


def _rules(*rules: Rule) -> Rules:
    found = chosen_strategy(rules, has_transient=True, repeats=False)
    assert isinstance(found, Rules)
    return found


def _strategy(error: Exception, *rules: Rule, topic: str = "orders") -> object:
    """The strategy for an error without `transient=`; None: it is permanent."""
    failure = classify(error, is_transient(None, _rules(*rules)), _rules(*rules), topic)
    assert isinstance(failure, Transient | Permanent)
    return failure.strategy if isinstance(failure, Transient) else None


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (_BusyError(), _SLOW),
        (TimeoutError(), _QUICK),
        (ConnectionError(), _QUICK),
        (KeyError(), None),
        (ExceptionGroup("two", [ConnectionError(), _BusyError()]), _SLOW),
        (ExceptionGroup("two", [ConnectionError(), KeyError()]), None),
    ],
)
def test_the_first_that_takes_an_error(error: Exception, expected: object) -> None:
    """By its class, in order; one that no rule takes is permanent, and so is a group with one."""
    rules = Rule(_SLOW, errors=_BusyError), Rule(_QUICK, errors=(OSError, TimeoutError))
    assert expected == _strategy(error, *rules)


def test_by_topic() -> None:
    """Its globs are of whole names; where none matches, the error is permanent there."""
    rules = Rule(_SLOW, errors=OSError, topics=["pay.*", "refunds"]), Rule(_QUICK, errors=OSError)
    topics = ("pay.in", "refunds", "payments", "refunds.eu")
    assert [_SLOW, _SLOW, _QUICK, _QUICK] == [
        _strategy(OSError(), *rules, topic=topic) for topic in topics
    ]
    assert _strategy(OSError(), rules[0], topic="orders") is None


@pytest.mark.parametrize("error", [RetryAfter(3), pybreaker.CircuitBreakerError()])
def test_what_is_transient_in_any_case(error: Exception) -> None:
    """It goes by a rule that names it, or else by the last one."""
    named = Rule(_SLOW, errors=type(error))
    other, last = Rule(Strategy([7]), errors=OSError), Rule(_QUICK, errors=KeyError)
    assert _QUICK == _strategy(error, other, last)
    assert _SLOW == _strategy(error, other, named, last)


def test_both_must_take_it() -> None:
    """With `transient=`, a rule without errors takes what that names, and no more."""
    rules, transient = _rules(Rule(_SLOW, errors=_BusyError), Rule(_QUICK)), is_transient(OSError)
    assert Transient(0.0, _SLOW) == classify(_BusyError(), transient, rules, "orders")
    assert Transient(0.0, _QUICK) == classify(OSError(), transient, rules, "orders")
    assert Permanent() == classify(KeyError(), transient, rules, "orders")


def _run(
    fake: FakeKafka, errors: Sequence[Exception], strategy: Sequence[Rule], **options: Any
) -> list[Event]:
    """What happens where the first attempts raise these, until a message is handled."""
    chosen: dict[str, Any] = {"transient": None, "strategy": strategy} | options
    return run_failing(fake, errors, **chosen)


_BY_ERROR = (
    Rule([60, 600, 3600], errors=_BusyError),
    Rule([1, 5], errors=ConnectionError),
)


def test_the_count_is_the_messages(fake: FakeKafka) -> None:
    """The array of the rule for the last failure is indexed by all of them."""
    happened = _run(fake, [ConnectionError(), _BusyError(), _BusyError()], _BY_ERROR)
    assert [1.0, 600.0, 3600.0] == delays(happened)


def test_only_the_rule_that_saw_it_fail_before_exhausts_it(fake: FakeKafka) -> None:
    """After the last delay of another's array it is attempted once more."""
    errors = [_BusyError(), _BusyError(), ConnectionError(), ConnectionError()]
    happened = _run(fake, errors, _BY_ERROR)
    assert [60.0, 600.0, 5.0] == delays(happened)
    (letter,) = [event for event in happened if isinstance(event, events.DeadLettered)]
    assert ("exhausted", 4) == (letter.reason, letter.failures)
    log = fake.log_of((LETTERS, 0))
    assert log is not None
    headers = dict(log.records[0].headers or [])
    assert _BY_ERROR[1].strategy.label.encode() == headers["retry-strategy"]


def test_after_a_restart_nobody_knows_which_rule_it_was(fake: FakeKafka) -> None:
    """The count survives, and the message is attempted once more before it is given up."""

    def stop(event: Event) -> None:
        if isinstance(event, events.ProbeFailed):
            consumer.stop()

    def fail(_: Message) -> None:
        raise _BusyError

    consumer = consumer_on(fake, strategy=_BY_ERROR, transient=None, listeners=[stop])
    with consumer:
        consumer.run(fail)
    happened = _run(fake, [ConnectionError(), ConnectionError()], _BY_ERROR)
    failed = [event for event in happened if isinstance(event, events.ProbeFailed)]
    assert [(3, 5.0)] == [(event.failures, event.delay_s) for event in failed]
    (letter,) = [event for event in happened if isinstance(event, events.DeadLettered)]
    assert 4 == letter.failures


def test_what_no_rule_takes_is_dead_lettered_at_once(fake: FakeKafka) -> None:
    """As any permanent error."""
    happened = _run(fake, [PoisonError()], _BY_ERROR)
    assert ["permanent"] == [
        event.reason for event in happened if isinstance(event, events.DeadLettered)
    ]


def test_max_elapsed_is_that_of_the_rule_and_counts_from_the_first_failure(
    fake: FakeKafka,
) -> None:
    """Whichever rule that was for."""
    rules = (
        Rule([4, 4, 4], errors=_BusyError),
        Rule(Strategy([1] * 9, max_elapsed="5s"), errors=ConnectionError),
    )
    errors = [_BusyError(), ConnectionError(), ConnectionError()]
    happened = _run(fake, errors, rules)
    assert [4.0, 1.0] == delays(happened)
    assert 1 == len([event for event in happened if isinstance(event, events.DeadLettered)])


def test_a_file_of_rules(tmp_path: Path) -> None:
    """It names errors as logs and letters do, and takes what derives from them."""
    path = tmp_path / "pay.json"
    busy = {"errors": [f"{__name__}._BusyError"], "topics": ["pay.*"], "delays": [60, 600]}
    quick = {"errors": ["builtins.TimeoutError", "ConnectionError"], "delays": [1], "jitter": 0.1}
    path.write_text(json.dumps({"rules": [busy, quick]}))
    rules = Rule.load(path)
    assert ["pay.1", "pay.2"] == [rule.strategy.name for rule in rules]
    assert [(60.0, 600.0), (1.0,)] == [tuple(rule.strategy) for rule in rules]
    first, second = (rule.strategy for rule in rules)
    assert first == _strategy(_BusyError(), *rules, topic="pay.in")
    assert second == _strategy(_BusyError(), *rules, topic="orders")
    assert second == _strategy(ConnectionResetError(), *rules)
    assert _strategy(OSError(), *rules) is None


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Rule([1], topics=""), "topics='': must be globs"),
        (lambda: Rule([1], topics=[]), r"topics=\[\]: must be globs"),
        (lambda: Rule([1], errors=_ANY), "errors='OSError': must be exception types"),
        (lambda: Rule([1], errors=BaseException), "errors: .*: not subclasses of Exception"),
        (lambda: Rule(_SEVEN), "strategy=7: must be a Strategy"),
        (lambda: _consumer([Rule([1])]), "a rule without errors= takes every error that transient"),
        (lambda: _consumer([Rule([1], errors=OSError), 5]), r"strategy: 5 is among rules; .*Rule"),
        (lambda: _consumer([1, 5]), "transient is missing"),
        (
            lambda: _consumer([Rule([], errors=OSError)], on_exhausted="repeat"),
            "it is empty, and on_exhausted='repeat'",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(make: Callable[[], object], sentence: str) -> None:
    """With the setting, its value and the rule that it breaks."""
    with pytest.raises(ConfigurationError, match=sentence):
        make()


def _consumer(strategy: object, **options: Any) -> object:
    return consumer_on(FakeKafka(), strategy=strategy, transient=None, **options)


def test_off_the_line_there_is_one_strategy() -> None:
    """A topic's delay is that of all its messages, and its name is not theirs."""
    rules: Any = [Rule([60], errors=OSError, topics="orders")]
    with pytest.raises(StrategyError, match="Rule"):
        Scheduler("orders.later", strategy=rules)
    retries = RetryTopics("orders.billing.retry", strategy=["5s"])
    with pytest.raises(ConfigurationError, match="a retry line reads retry topics; give one"):
        _consumer(rules, topics=retries)


def test_a_predicate_that_raises_decides_nothing(fake: FakeKafka) -> None:
    """Neither a wait nor a dead letter follows."""
    rules = [Rule([1], errors=lambda error: error.args[7])]
    with pytest.raises(UsageError, match="errors= of a rule raised IndexError"):
        _run(fake, [ConnectionError()], rules)
    assert [] == list(fake.topics[LETTERS].partitions[0].records)
