"""What leaves the line comes back at its time, until its sequence ends."""

import signal
from collections.abc import Callable
from typing import Any

import pytest

from linear_retry import LinearConsumer, RetryTopics, events
from linear_retry.kafka.consumer.messages import read
from linear_retry.scope import ScopeKind
from tests.kafka_operations import wait_until
from tests.scenarios.process import Process
from tests.scenarios.protocols import COOPERATIVE, EAGER, KIP_848, both_protocols
from tests.scenarios.retry_scene import Outage, RetrySceneFactory, own_loop, run_async

pytestmark = pytest.mark.broker

_SIX = ["200ms", "200ms", "400ms", "400ms", "400ms", "600ms"]
"""The documents' `5m, 5m, 30m, 30m, 30m, 1h`: six retries, three topics."""


def _six(prefix: str) -> RetryTopics:
    return RetryTopics(prefix, strategy=_SIX, limit=None)


@pytest.mark.parametrize(
    ("transactional", "protocol", "scope", "run"),
    [
        pytest.param(False, EAGER, "consumer", LinearConsumer.run, id="plain, a handler"),
        pytest.param(True, KIP_848, "topic", own_loop, id="transactional, a loop of one's own"),
        pytest.param(False, COOPERATIVE, "partition", run_async, id="plain, async"),
        pytest.param(True, EAGER, "consumer", run_async, id="transactional, async"),
    ],
)
def test_six_retries_in_three_topics(
    retry_scene: RetrySceneFactory,
    transactional: bool,
    protocol: dict[str, str],
    scope: ScopeKind,
    run: Callable[..., Any],
) -> None:
    """What the dependency refuses until the fourth retry is handled once, at the fifth; what it
    refuses for ever is dead-lettered after exactly six; what is behind both waits for neither."""
    group = retry_scene(_six, transactional=transactional, strategy=[], config=protocol)
    group.write([(0, b"key", value, ()) for value in (b"saved 5", b"lost *", b"fine 0")])
    group.write([(1, None, b"fine too 0", ()), (1, None, b"lost too *", ())])
    dependency = Outage()
    for join in (group.live, group.retry):
        join(dependency, scope=scope, run=run)
    group.wait_for_ends(5)
    assert [] == group.end_well()
    assert [(b"fine 0", 1), (b"fine too 0", 1), (b"saved 5", 6)] == sorted(dependency.seen)
    first, second, third = group.retries.topics
    six = [(first, 1), (first, 2), (second, 3), (second, 4), (second, 5), (third, 6)]
    assert sorted([*six, *six, *six[:5]]) == sorted(group.steps())
    assert 2 == len(group.dead_letters())
    for letter in group.headers(group.letters):
        assert (b"6", b"7") == (letter["retry-step"], letter["retry-counter"])
        assert (b"exhausted", group.group.encode()) == (
            letter["retry-reason"],
            letter["retry-group-id"],
        )
        assert group.topic.encode() == letter["retry-destination"]
    assert 5 == len(group.attempts("live"))


def test_the_step_survives_restarts(retry_scene: RetrySceneFactory) -> None:
    """Each retry is another process's: the steps are taken one after another all the same."""
    group = retry_scene(_six, strategy=[])
    group.write([(0, None, b"lost *", ())])
    dependency = Outage()
    group.live(dependency)
    for number in range(1, 6):
        name = f"retry {number}"
        member = group.retry(dependency, name)
        group.wait_for(events.SentToRetry, member=name)
        member.stop()
    group.retry(dependency)
    group.wait_for_ends(1)
    assert [] == group.end_well()
    (letter,) = group.headers(group.letters)
    assert (b"6", b"7") == (letter["retry-step"], letter["retry-counter"])


def _back(prefix: str) -> RetryTopics:
    return RetryTopics(prefix, strategy=["300ms", "600ms"], limit=None, back_to_source=True)


@both_protocols
def test_back_to_its_source(retry_scene: RetrySceneFactory, protocol: dict[str, str]) -> None:
    """Each retry returns a message once, to its partition, where it is attempted once; another
    group on the source passes over what is not its own; a restart of the retry line returns nothing
    again."""
    group = retry_scene(_back, transactional=True, strategy=[0.1], config=protocol)
    options = {"source": group.topic, "group": "another", "config": protocol}
    other = retry_scene(lambda _: _back(f"{group.topic}.another"), **options)
    dependency = Outage()
    group.write([(0, b"key", b"lost *", [("trace", b"7")]), (1, None, b"saved 3", ())])
    group.live(dependency)
    other.live(lambda _: None)
    first = group.retry(dependency)
    group.wait_for(events.ReturnedToSource, 2)
    first.stop()
    group.retry(dependency, "second")
    group.wait_for_ends(2)
    other.wait_for(events.PassedOver, 4)
    assert [] == group.end_well()
    assert [] == other.end_well()
    assert [(b"saved 3", 4)] == dependency.seen
    assert set() == {*group.attempts("retry"), *group.attempts("second")}
    returned = [
        (message.partition(), message.value(), dict(headers)["retry-step"])
        for message in group.kafka.read(group.topic)
        if (headers := read(message).headers) and dict(headers).get("retry-send-to") == b"retry"
    ]
    assert [
        (0, b"lost *", b"1"),
        (0, b"lost *", b"2"),
        (1, b"saved 3", b"1"),
        (1, b"saved 3", b"2"),
    ] == sorted(returned)
    (letter,) = group.headers(group.letters)
    assert (b"2", b"4", b"7", group.topic.encode(), b"0") == (
        letter["retry-step"],
        letter["retry-counter"],
        letter["trace"],
        letter["retry-destination"],
        letter["retry-original-partition"],
    )
    assert [2] * 2 == [len(other.attempts()), len(group.emitted(events.CircuitOpened))]


def test_other_groups_on_the_source(
    retry_scene: RetrySceneFactory, caplog: pytest.LogCaptureFixture
) -> None:
    """At the start of a line to which retries come back, those who would read them again are
    named."""
    group = retry_scene(_back, transactional=True, strategy=[0.1])
    audit = f"audit.{group.topic}"
    group.write([(0, None, b"fine 0", ())])
    group.kafka.commit(audit, group.topic, {0: 1})
    group.live(lambda _: None)
    group.wait_for_ends(1)
    (said,) = [each for each in caplog.messages if "retries come back" in each]
    assert f"which other groups read too ({audit}): " in said


def _one_second(prefix: str) -> RetryTopics:
    return RetryTopics(prefix, strategy=["1s"], limit=None)


@pytest.mark.parametrize("protocol", [COOPERATIVE, KIP_848], ids=["cooperative", "consumer"])
def test_another_member_comes_and_goes_while_messages_wait(
    retry_scene: RetrySceneFactory, protocol: dict[str, str]
) -> None:
    """Nobody has attempted what waits: wherever its partition goes, it is attempted once, and not
    before its time."""

    group = retry_scene(_one_second, strategy=[], config=protocol)
    names = [b"%d 1" % number for number in range(6)]
    group.write([(number % 2, None, name, ()) for number, name in enumerate(names)])
    dependency = Outage()
    first = group.retry(dependency, "first")
    group.live(dependency)
    group.wait_for(events.SentToRetry, 6)
    second = group.retry(dependency, "second")
    group.wait_for(events.Assigned, member="second")
    first.stop()
    group.wait_for_ends(6)
    second.stop()
    assert [] == group.end_well()
    assert [(name, 2) for name in names] == sorted(dependency.seen)


def test_both_lines_are_killed(retry_scene: RetrySceneFactory) -> None:
    """Before what they did is committed: messages may be in the retry topic twice, with one id, and
    may be handled twice; none is lost, and none is attempted before its time."""
    group = retry_scene(_one_second, strategy=[])
    group.produce(3)
    failing = {f"0@{number}": ["outage"] for number in range(3)}
    retries = {"prefix": group.retries.prefix, "strategy": ["1s"], "limit": None}

    def spawn(line: str, name: str) -> Process:
        options: dict[str, Any] = {"topics": []} if line == "retry" else {"script": failing}
        return group.spawn(name, retries=retries, **options)

    live, retry = spawn("live", "first live"), spawn("retry", "first retry")
    group.wait_for(events.SentToRetry, 3)
    live.kill()
    group.wait_for_attempts(1, "first retry")
    retry.kill()
    group.produce(1)
    members = [spawn(line, f"second {line}") for line in ("live", "retry")]
    wait_until(lambda: len(group.handled("second live")) == 1, "the last", detail=group.story)
    group.wait_until_done()
    for member in members:
        member.signal(signal.SIGTERM)
        assert 0 == member.exit_code()
    assert [] == group.end_well()
    (topic,) = group.retries.topics
    assert 3 == len({headers["retry-id"] for headers in group.headers(topic)})
