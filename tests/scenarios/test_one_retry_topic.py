"""One retry topic: an update that comes before its create is retried until the create is there."""

import itertools
from typing import Any

import pytest

from linear_retry import RetryTopics, events
from linear_retry.kafka import Message
from linear_retry.testing import AttemptStarted
from tests.scenarios.handlers import OutageError
from tests.scenarios.protocols import EAGER, KIP_848
from tests.scenarios.retry_scene import RetryScene, RetrySceneFactory

pytestmark = pytest.mark.broker

_EVERY_S = 0.4


def _single(prefix: str, **options: Any) -> RetryTopics:
    options = {"every": _EVERY_S, "max_duration": 120} | options
    return RetryTopics.single(prefix, **options)


class Accounts:
    """Creates and updates by key, as `create` and `update` say."""

    def __init__(self) -> None:
        self.known: dict[bytes, int] = {}

    def __call__(self, message: Message) -> None:
        key = message.key() or b""
        if message.value() == b"create":
            self.known[key] = 0
        elif key not in self.known:
            raise OutageError(f"no account {key!r}")
        else:
            self.known[key] += 1


def _are_apart(group: RetryScene) -> bool:
    """Whether the attempts of the one message that is retried keep the interval."""
    times = [
        entry.at_s
        for entry in group.log()
        if isinstance(entry, AttemptStarted) and entry.hop is not None
    ]
    return all(later - earlier >= _EVERY_S for earlier, later in itertools.pairwise(times))


@pytest.mark.parametrize(
    ("transactional", "protocol"),
    [pytest.param(False, EAGER, id="plain"), pytest.param(True, KIP_848, id="transactional")],
)
def test_an_update_before_its_create(
    retry_scene: RetrySceneFactory, transactional: bool, protocol: dict[str, str]
) -> None:
    """It fails until the create is there, and succeeds then; it says all the while when it was
    written first, and where."""
    group = retry_scene(_single, strategy=[], transactional=transactional, config=protocol)
    accounts = Accounts()
    group.live(accounts)
    group.retry(accounts)
    group.write([(0, b"one", b"update", [("trace", b"7")])])
    group.wait_for(events.SentToRetry, 3)
    assert {} == accounts.known
    group.write([(0, b"one", b"create", ())])
    group.wait_for_ends(2)
    assert [] == group.end_well()
    assert {b"one": 1} == accounts.known
    source, (topic,) = group.kafka.read(group.topic)[0], group.retries.topics
    first_ms = source.timestamp()[1]
    retries = group.headers(topic)
    assert len(retries) >= 3
    for number, headers in enumerate(retries, 1):
        assert (b"%d" % first_ms, group.topic.encode()) == (
            headers["original-received-timestamp"],
            headers["original-received-topic"],
        )
        assert (b"%d" % number, b"7") == (headers["retry-step"], headers["trace"])
    assert _are_apart(group)


@pytest.mark.parametrize("on_expired", ["discard", "dead-letter"])
def test_an_update_whose_create_never_comes(
    retry_scene: RetrySceneFactory, on_expired: str
) -> None:
    """It is attempted every so long until its time is over; then it is discarded or dead-lettered,
    as it was chosen, and nothing waits any more."""

    def single(prefix: str) -> RetryTopics:
        return _single(prefix, max_duration=3 * _EVERY_S + 0.3, on_expired=on_expired)

    group = retry_scene(single, strategy=[])
    accounts = Accounts()
    group.live(accounts)
    group.retry(accounts)
    group.write([(0, b"one", b"update", ()), (0, b"two", b"create", ())])
    group.wait_for_ends(2)
    assert [] == group.end_well()
    assert {b"two": 0} == accounts.known
    failed = len(group.failed())
    assert 2 <= failed <= 4  # the line's, and up to three retries: each takes a while itself
    assert _are_apart(group)
    discarded = group.emitted(events.Skipped)
    letters = group.headers(group.letters)
    if on_expired == "discard":
        (event,) = discarded
        assert ([], group.retries.prefix) == (letters, event.topic)
        return
    (letter,) = letters
    assert (b"exhausted", b"%d" % failed, b"%d" % (failed - 1)) == (
        letter["retry-reason"],
        letter["retry-counter"],
        letter["retry-step"],
    )
    assert group.topic.encode() == letter["original-received-topic"]
    assert [] == discarded


@pytest.mark.parametrize("shared", [False, True], ids=["a topic each", "one topic by mistake"])
def test_two_groups_on_one_source(retry_scene: RetrySceneFactory, shared: bool) -> None:
    """No group sees the other's retries; one that reads the other's retry topic passes over them
    and says so."""
    one = retry_scene(_single, strategy=[])
    options: dict[str, Any] = {"source": one.topic, "group": "another", "strategy": []}
    prefix = one.retries.prefix if shared else f"{one.topic}.another"
    other = retry_scene(lambda _: _single(prefix), creates=not shared, **options)
    dependencies = Accounts(), Accounts()
    for group, accounts in zip((one, other), dependencies, strict=True):
        group.live(accounts)
        group.retry(accounts)
    one.write([(0, b"a", b"update", ())])
    for group in (one, other):
        group.wait_for(events.SentToRetry, 2)
    one.write([(0, b"a", b"create", ())])
    for group in (one, other):
        group.wait_for_ends(2)
    if shared:
        sent = {group: len(group.emitted(events.SentToRetry)) for group in (one, other)}
        one.wait_for(events.PassedOver, sent[other])
        other.wait_for(events.PassedOver, sent[one])
    for group, accounts in zip((one, other), dependencies, strict=True):
        assert [] == group.end_well()
        assert {b"a": 1} == accounts.known
        passed_over = group.emitted(events.PassedOver)
        names = {one.group, other.group} - {group.group} if shared else set()
        assert names == {event.retry_group_id for event in passed_over}
