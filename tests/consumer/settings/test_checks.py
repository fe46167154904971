"""What cannot work is refused at construction."""

import math
import re
from typing import Any

import pybreaker
import pytest

from linear_retry import (
    ConfigurationError,
    DeadLetters,
    LinearConsumer,
    RetryTopics,
    Strategy,
    StrategyError,
)
from linear_retry.consumer.settings.by_key import ByKey
from linear_retry.consumer.settings.checks import is_transient, plan
from linear_retry.consumer.settings.consumer_config import ConsumerConfig, Dependencies

_LEAST = {"bootstrap.servers": "localhost:9092", "group.id": "billing"}


def _plan(topics: Any = ("orders",), **changes: Any) -> ConsumerConfig:
    arguments: dict[str, Any] = {
        "strategy": Strategy([1]),
        "transient": OSError,
        "dead_letters": "orders-dead",
        "on_exhausted": "dead-letter",
        "on_permanent": "dead-letter",
        "start_timeout_s": 30.0,
        "close_timeout_s": 10.0,
        "scope": "consumer",
        "dependencies": Dependencies(),
    }
    return plan(_LEAST, topics, **arguments | changes)


def _refusal(topics: Any = ("orders",), **changes: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        _plan(topics, **changes)
    return str(caught.value)


async def _answering_later(_: BaseException) -> bool:
    return True


@pytest.mark.parametrize(
    ("transient", "timeout", "key_error"),
    [
        (OSError, True, False),
        ((OSError,), True, False),
        ([KeyError, OSError], True, True),
        ({LookupError}, False, True),
        (iter([OSError]), True, False),
        (lambda error: isinstance(error, TimeoutError), True, False),
        (lambda error: "yes", True, True),
        (lambda error: 0, False, False),
        (pybreaker.CircuitBreakerError, False, False),
    ],
)
def test_transient_is_types_or_a_predicate(transient: Any, timeout: bool, key_error: bool) -> None:
    """One type, several in any iterable, or any callable: asked again and again the same answer."""
    question = is_transient(transient)
    for _ in range(2):
        assert (timeout, key_error) == (question(TimeoutError()), question(KeyError()))


@pytest.mark.parametrize("transient", [OSError, [KeyError], lambda error: False])
def test_an_open_breaker_of_the_handlers_own_is_transient_unasked(transient: Any) -> None:
    """`CircuitBreakerError` needs not be listed, and a predicate is not asked about it."""
    assert is_transient(transient)(pybreaker.CircuitBreakerError())


@pytest.mark.parametrize(
    "transient",
    [7, None, "OSError", int, (OSError, "TimeoutError"), [OSError()], object()],
    ids=repr,
)
def test_what_says_nothing_about_exceptions_is_refused(transient: Any) -> None:
    """Not a type, not a callable, or a list with something else in it."""
    assert "transient" in _refusal(transient=transient)
    assert re.search("types|subclasses", _refusal(transient=transient))


@pytest.mark.parametrize(
    ("transient", "sentence"),
    [
        ("OSError", "transient='OSError': must be exception types, or a predicate"),
        ((), "transient=(): no error would ever be retried; name the errors"),
        ((OSError, SystemExit), "transient: [<class 'SystemExit'>]: not subclasses of Exception"),
        (BaseException, "transient: [<class 'BaseException'>]: not subclasses of Exception"),
        (lambda: True, "not a predicate on an exception (too many positional arguments)"),
        (lambda error, more: True, "(missing a required argument: 'more')"),
        (
            _answering_later,
            "(a coroutine function would never be awaited)",
        ),
    ],
    ids=repr,
)
def test_what_could_never_answer_is_refused(transient: Any, sentence: str) -> None:
    """All of these were accepted, or named with `'O', 'S', 'E'`, and failed in an outage."""
    assert sentence in _refusal(transient=transient)


@pytest.mark.parametrize("transient", [bool, lambda *errors: True], ids=repr)
def test_what_can_answer_is_taken(transient: Any) -> None:
    """Where Python does not say what a builtin takes, it is believed."""
    if transient is not bool:
        _plan(transient=transient)
        return
    assert "transient" in _refusal(transient=transient)


@pytest.mark.parametrize("listeners", [print, None, [print, 1], "ab"], ids=repr)
def test_listeners_are_a_list_of_callables(listeners: Any) -> None:
    """`listeners=print` was a TypeError; `[1]` was found out by the first event, in the log."""
    with pytest.raises(ConfigurationError) as caught:
        LinearConsumer(
            _LEAST,
            ["orders"],
            strategy=[1],
            transient=OSError,
            dead_letters="dlq",
            listeners=listeners,
        )
    assert f"listeners={listeners!r}: must be a list of callables of one event" in str(caught.value)


@pytest.mark.parametrize("config", ["localhost:9092", None, ["group.id"]], ids=repr)
def test_the_configuration_is_a_mapping(config: Any) -> None:
    """A host's name was an AttributeError."""
    with pytest.raises(ConfigurationError) as caught:
        LinearConsumer(config, ["o"], strategy=[1], transient=OSError, dead_letters="dlq")
    assert f"config={config!r}: must be a mapping of librdkafka's keys" in str(caught.value)


@pytest.mark.parametrize("transient", [Exception, (OSError, Exception)])
def test_everything_transient_is_warned_about_where_it_was_written(transient: Any) -> None:
    """A bug would be waited for as if it were an outage: the warning points at the user's line."""
    with pytest.warns(UserWarning, match="transient=Exception: every bug") as caught:
        LinearConsumer(
            _LEAST,
            ["orders"],
            strategy=Strategy([1]),
            transient=transient,
            dead_letters="dead",
        )
    assert [__file__] == [warning.filename for warning in caught]


@pytest.mark.parametrize("topics", [["a"], ("a", "b"), ["^orders-.*-live"], ["a", "^b"]], ids=repr)
def test_topics_are_names_and_patterns(topics: Any) -> None:
    """Any sequence of them; they are kept in order."""
    assert tuple(topics) == _plan(topics).topics


@pytest.mark.parametrize(
    "topics", ["orders", b"orders", None, 7, [], (), [""], ["a", ""], ["a", 7], {"a"}], ids=repr
)
def test_what_is_no_list_of_names_is_refused(topics: Any) -> None:
    """A single text above all: it would be a list of letters."""
    text = _refusal(topics)
    assert text.startswith(f"topics={topics!r}: ")
    assert "name" in text


@pytest.mark.parametrize(
    ("topics", "sentence"),
    [
        (["orders", "refunds", "orders"], "orders is named twice; name each topic once"),
        (["orders new"], "'orders new' cannot be the name of a topic"),
        (["orders.*"], "write ^ before a pattern"),
        ([".."], "'..' cannot be the name of a topic"),
        (["x" * 250], "at most 249 letters"),
        (["^orders("], "'^orders(' is not a pattern that librdkafka accepts"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_could_not_be_subscribed_to_is_refused(topics: Any, sentence: str) -> None:
    """They ended `run`, in the group's name, with librdkafka's bare `_INVALID_ARG`."""
    assert sentence in _refusal(topics)


def test_dead_letters_may_be_a_name_or_more() -> None:
    """A text is short for `DeadLetters(text)`."""
    assert DeadLetters("dead") == _plan(dead_letters="dead").dead_letters
    letters = DeadLetters("dead", config={"linger.ms": 5}, oversized="reference")
    made = _plan(dead_letters=letters)
    assert letters == made.dead_letters
    assert 5 == made.producer_config["linger.ms"]


@pytest.mark.parametrize("on_exhausted", ["dead-letter", "repeat", "stop"])
@pytest.mark.parametrize("on_permanent", ["dead-letter", "skip", "stop"])
def test_dead_letters_may_be_missing_only_where_none_needs_them(
    on_exhausted: str, on_permanent: str
) -> None:
    """Missing where a choice needs them, the message names both choices and the remedy."""
    choices = {"on_exhausted": on_exhausted, "on_permanent": on_permanent}
    if "dead-letter" not in choices.values():
        made = _plan(dead_letters=None, **choices)
        assert (None, {}) == (made.dead_letters, made.producer_config)
        return
    text = _refusal(dead_letters=None, **choices)
    for part in ("dead_letters", repr(on_exhausted), repr(on_permanent), "name a topic"):
        assert part in text


@pytest.mark.parametrize("letters", [7, b"dead", ["dead"], object(), DeadLetters], ids=repr)
def test_what_names_no_topic_is_refused(letters: Any) -> None:
    """With what would be right."""
    assert "a topic's name, or DeadLetters(...)" in _refusal(dead_letters=letters)


def test_an_empty_name_is_no_topic() -> None:
    """As a text and in `DeadLetters`."""
    assert "dead_letters=''" in _refusal(dead_letters="")
    with pytest.raises(ConfigurationError, match="oversized='drop'"):
        DeadLetters("dead", oversized="drop")  # type: ignore[arg-type]  # what a user may write


def test_the_topic_of_resolutions_has_a_name_too() -> None:
    """Letters went to a topic of 245 characters, and none could ever be replayed or resolved."""
    assert 240 == len(DeadLetters("d" * 240).topic)
    with pytest.raises(ConfigurationError, match=r"the topic of resolutions='d+\.resolved'"):
        DeadLetters("d" * 241)


@pytest.mark.parametrize(
    ("sources", "source"),
    [
        (["orders.dlq"], "orders.dlq"),
        (["orders", "orders.dlq"], "orders.dlq"),
        (["orders", "orders.dlq.resolved"], "orders.dlq.resolved"),
        (["^.*resolved$"], "^.*resolved$"),
        (["^orders.*"], "^orders.*"),
        (["^orders"], "^orders"),
        (["^.*dlq$"], "^.*dlq$"),
        (["clean", "^.*"], "^.*"),
    ],
)
def test_dead_letters_must_not_be_among_the_sources(sources: list[str], source: str) -> None:
    """By name or by pattern: they would be consumed again, and die again; so would resolutions."""
    text = _refusal(sources, dead_letters="orders.dlq")
    for part in (repr(source), "'orders.dlq", "choose another name or pattern"):
        assert part in text


@pytest.mark.parametrize(
    "sources", [["orders"], ["orders.dlq2"], ["^orders$"], ["^dlq"], ["^a{1,2}"], ["^[[:digit:]]"]]
)
def test_sources_that_do_not_match_are_fine(sources: list[str]) -> None:
    """A name is itself only, and a pattern what librdkafka takes for one."""
    _plan(sources, dead_letters="orders.dlq")


@pytest.mark.parametrize("strategy", [None, "strategy.json", 5, {"delays": [1]}], ids=repr)
def test_a_strategy_is_a_strategy(strategy: Any) -> None:
    """Anything else is refused with the form that is meant."""
    text = _refusal(strategy=strategy)
    assert text.startswith(f"strategy={strategy!r}: ")
    assert "Strategy([1, 5, 30])" in text


@pytest.mark.parametrize("strategy", [[1, 5, "30s"], (1, 5, 30)], ids=repr)
def test_a_list_is_a_strategy_of_these_delays(strategy: Any) -> None:
    """`strategy=[1, 2]` was refused, though nothing else can be meant."""
    assert Strategy([1, 5, 30]) == _plan(strategy=strategy).retry.policy.strategy
    with pytest.raises(StrategyError):
        _plan(strategy=[*strategy, "soon"])


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("scope", "keys", "'consumer', 'topic', 'partition', 'key'"),
        ("on_exhausted", "skip", "'dead-letter', 'repeat', 'block', 'stop'"),
        ("on_exhausted", None, "'dead-letter', 'repeat', 'block', 'stop'"),
        ("on_permanent", "repeat", "'dead-letter', 'skip', 'block', 'stop'"),
        ("on_permanent", "Stop", "'dead-letter', 'skip', 'block', 'stop'"),
    ],
)
def test_a_choice_is_one_of_those(name: str, value: Any, allowed: str) -> None:
    """What the other choice allows is not allowed here; all are named."""
    assert f"{name}={value!r}: must be one of {allowed}" == _refusal(**{name: value})


def test_repeating_the_last_delay_needs_one() -> None:
    """An empty strategy is fine for everything else."""
    assert "add a delay" in _refusal(strategy=Strategy([]), on_exhausted="repeat")
    assert 0.0 == _plan(strategy=Strategy([])).strategy_total_s


def test_what_never_ends_has_no_time_limit() -> None:
    """With `max_elapsed` a message ends; for "stop" and the dead letters it is fine."""
    strategy = Strategy([1, 60], max_elapsed="5s")
    assert (
        f"strategy {strategy.label}: it ends after max_elapsed, 5 s, and on_exhausted='repeat' "
        "never ends; remove one of them"
    ) == _refusal(strategy=strategy, on_exhausted="repeat")
    assert 1.0 == _plan(strategy=strategy, on_exhausted="stop").strategy_total_s


@pytest.mark.parametrize("name", ["start_timeout_s", "close_timeout_s", "group_breaker_max_s"])
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, True, "10", None], ids=repr)
def test_a_timeout_is_a_number_of_seconds(name: str, value: Any) -> None:
    """Above 0 and finite: to wait for ever is to hang."""
    assert f"{name}={value!r}: must be a number of seconds above 0" == _refusal(**{name: value})


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"group_breaker": 1}, "group_breaker=1: must be True or False"),
        ({"control": None}, "members tell each other by the control topic; give it control="),
        ({"scope": "topic"}, "group_breaker=True with scope='topic': a group waits for what stops"),
        ({"scope": "partition", "concurrency": 4}, "group_breaker=True with scope='partition'"),
        ({"scope": ByKey(opens="topic")}, 'or scope="key" with ByKey(opens="consumer")'),
    ],
)
def test_a_group_waits_for_what_stops_a_whole_consumer(given: Any, sentence: str) -> None:
    """And its members need a topic to say so."""
    asked: dict[str, Any] = {"group_breaker": True, "control": "control"}
    assert sentence in _refusal(**asked | given)
    for scope in ("consumer", "key", ByKey(trip=9)):
        assert 60.0 == _plan(**asked, scope=scope).group_breaker_max_s
    assert _plan(control="control").group_breaker_max_s is None


@pytest.mark.parametrize("reads", [True, False])
def test_retries_stay_in_the_cluster(reads: bool) -> None:
    """With the dead letters in another cluster, the retries went there too, where nobody read
    them: they are sent by one producer."""
    retries = RetryTopics("orders.retry", strategy=["5m"])
    there = DeadLetters("orders-dead", {"bootstrap.servers": "other:9092"})
    given: dict[str, Any] = {} if reads else {"on_exhausted": retries}
    said = _refusal(retries if reads else ["orders"], dead_letters=there, **given)
    assert "'other:9092'" in said
    assert "consumer's cluster" in said
    here = DeadLetters("orders-dead", {"bootstrap.servers": _LEAST["bootstrap.servers"]})
    assert _plan(retries if reads else ["orders"], dead_letters=here, **given)
