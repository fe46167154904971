"""Everything is checked before the consumer joins its group."""

import gc
import threading
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from linear_retry.consumer.operations.lifecycle import Brokers, missing_topics
from linear_retry.errors import BrokerError, ConfigurationError
from linear_retry.events import ClientError, Event, Revoked, Stopped
from tests.consumer.group import FakeGroup
from tests.consumer.joined_parts import Joined

_TIMED_OUT = KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer"))


def _metadata(**partitions: int | None) -> Any:
    """None: the broker knows no such topic."""
    topics = {
        name: SimpleNamespace(
            partitions=dict.fromkeys(range(count or 0)), error=None if count else "unknown"
        )
        for name, count in partitions.items()
    }
    return SimpleNamespace(topics=topics)


def test_brokers_that_come_up_late_are_waited_for() -> None:
    """Asked again each second; between two questions librdkafka may say why."""
    joined = Joined()
    answers = [_TIMED_OUT, _TIMED_OUT, _metadata(orders=1, gone=None)]

    def list_topics(timeout: float) -> Any:
        joined.clock.advance(timeout)
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    joined.librdkafka.answers["list_topics"] = list_topics
    assert {"orders": 1} == Brokers(
        joined.client, joined.settings, joined.clock.now_s, 30.0, lambda: False
    ).topics()
    asked = ["list_topics", "poll", "list_topics", "poll", "list_topics"]
    assert asked == joined.librdkafka.names


def _never(joined: Joined) -> None:
    def list_topics(timeout: float) -> Any:
        joined.clock.advance(timeout)
        raise _TIMED_OUT

    joined.librdkafka.answers["list_topics"] = list_topics


def test_brokers_that_never_answer_end_the_start() -> None:
    """After the time given, with their address and what librdkafka says."""
    joined = Joined()
    _never(joined)
    with pytest.raises(BrokerError) as caught:
        Brokers(joined.client, joined.settings, joined.clock.now_s, 3.0, lambda: False).topics()
    for part in ("localhost:9092", "within 3 s", "no answer", "check the address"):
        assert part in str(caught.value)
    assert 3 == joined.librdkafka.names.count("list_topics")
    assert _TIMED_OUT is caught.value.__cause__


def test_a_stop_ends_the_wait_for_brokers() -> None:
    """Ctrl-C is heard between two questions: nothing is known, and nothing raised."""
    joined = Joined()
    _never(joined)
    librdkafka = joined.librdkafka
    assert (
        {}
        == Brokers(
            joined.client,
            joined.settings,
            joined.clock.now_s,
            30.0,
            lambda: len(librdkafka.calls) > 3,
        ).topics()
    )
    assert ["list_topics", "poll"] * 2 == librdkafka.names


def test_every_missing_topic_is_named() -> None:
    """All at once; a pattern may match nothing yet."""
    with pytest.raises(ConfigurationError, match=r"no such topic: refunds, orders\.dlq; create it"):
        missing_topics({"orders": 1}, ["orders", "refunds", "^later", "orders.dlq"])
    missing_topics({"orders": 1}, ["orders", "^later"])


_P0, _P1 = ("orders", 0), ("orders", 1)


def _closed(joined: Joined, *, commit: bool = True, timeout_s: float = 10.0) -> list[str]:
    joined.shutdown.close(commit=commit, timeout_s=timeout_s)
    return joined.librdkafka.names


def _acknowledging(joined: Joined) -> None:
    """The broker answers a commit in the next poll."""
    joined.librdkafka.answers["poll"] = lambda timeout_s: joined.acknowledge()


def _silent(joined: Joined) -> None:
    """The brokers are down: polls take their time, and nothing is answered."""
    joined.librdkafka.answers["poll"] = joined.clock.advance


def test_it_stops_commits_says_goodbye_and_leaves() -> None:
    """Everything is paused before the commit: what arrives now is for the next owner."""
    joined = Joined()
    joined.own(_P0, _P1, done=5)
    _acknowledging(joined)
    assert ["pause", "commit", "poll", "close"] == _closed(joined)
    assert ([("orders", 0, 5), ("orders", 1, 5)], True) == joined.librdkafka.calls[1][1]
    assert [Revoked((_P0, _P1)), Stopped(left_group=True)] == joined.happened


def test_with_nothing_to_commit_it_only_leaves() -> None:
    """No pause, no commit, and no `Revoked` of nothing."""
    joined = Joined()
    assert ["close"] == _closed(joined)
    assert [Stopped(left_group=True)] == joined.happened


def test_a_fenced_consumer_commits_nothing() -> None:
    """Whoever took its place has the partitions: what is done is theirs to commit."""
    joined = Joined()
    joined.own(_P0, done=5)
    assert ["close"] == _closed(joined, commit=False)
    assert {_P0: 5} == joined.offsets.uncommitted()


def test_a_static_member_leaves_its_partitions_standing() -> None:
    """They wait for its return until the session ends, and the event says so."""
    joined = Joined({"group.instance.id": "pod-0"})
    _closed(joined)
    assert [Stopped(left_group=False)] == joined.happened


def test_an_unanswered_commit_is_waited_for_half_the_time() -> None:
    """With the brokers down a synchronous commit would take 45 s."""
    joined = Joined()
    joined.own(_P0, done=5)
    _silent(joined)
    before_s = joined.clock.now_s()
    names = _closed(joined, timeout_s=10.0)
    assert ["pause", "commit"] == names[:2]
    assert {"poll"} == set(names[2:-1])
    assert "close" == names[-1]
    assert 5.0 == pytest.approx(joined.clock.now_s() - before_s, abs=0.1)


def test_a_commit_under_way_is_waited_for() -> None:
    """Though more is committed by then: what librdkafka sends once more would undo that."""
    joined = Joined()
    joined.own(_P0, done=5)
    joined.client.commit({_P0: 5})
    joined.offsets.committed({_P0: (5, "")})
    _acknowledging(joined)
    assert ["commit", "pause", "poll", "close"] == _closed(joined)


def test_the_last_commit_follows_no_unanswered_one() -> None:
    """The bug: stopped when the brokers were just back, a consumer committed everything, and then
    librdkafka sent once more what had been committed before: until the next commit the group was
    to begin again there."""
    joined = Joined()
    joined.own(_P0, done=3)
    joined.client.commit({_P0: 3})
    joined.offsets.done({_P0: 5})
    _acknowledging(joined)
    assert ["commit", "pause", "poll", "commit", "poll", "close"] == _closed(joined)


def test_a_commit_refused_in_a_rebalance_is_sent_again() -> None:
    """Members that end one after another disturb one another: the last commit of one was refused,
    with several seconds left, and what it had done was handled again."""
    group = FakeGroup(partitions=1)
    group.produce(0, 5)
    member = group.join()
    group.share([0])
    group.turn(4)
    group.fake.faults.fail_commit(KafkaError.ILLEGAL_GENERATION, 2)
    group.leave(member)
    assert group.all_done()
    assert [] == group.violations()


def test_a_refused_commit_is_reported_and_does_not_keep_it_from_leaving() -> None:
    """What was not committed is handled again by the next owner."""
    joined = Joined()
    joined.own(_P0, done=5)
    error = KafkaError(KafkaError.UNKNOWN_MEMBER_ID, "not a member")
    joined.librdkafka.answers["commit"] = KafkaException(error)
    assert ["pause", "commit", "close"] == _closed(joined)
    assert [
        ClientError("UNKNOWN_MEMBER_ID", "at close: not a member", 1),
        Revoked((_P0,)),
        Stopped(left_group=True),
    ] == joined.happened


def test_a_refused_pause_does_not_keep_it_from_committing() -> None:
    """The bug: where librdkafka refused to pause one partition, that was told as a `ClientError`,
    and what had been done in all of them was committed by nobody."""
    joined = Joined()
    joined.own(_P0, _P1, done=5)
    joined.librdkafka.answers["assignment"] = [TopicPartition(*_P1)]
    refusal = KafkaException(KafkaError(KafkaError._STATE, "not now"))
    joined.librdkafka.answers["pause"] = refusal
    _acknowledging(joined)
    names = _closed(joined)
    assert ["pause", "assignment", "commit", "poll", "close"] == names
    # What librdkafka has not any more may be another's, whose commits ours would undo.
    assert ([("orders", 1, 5)], True) == joined.librdkafka.calls[2][1]


def test_no_callback_runs_while_librdkafka_closes() -> None:
    """`close` revokes on a thread that owns nothing: what is ours has been said goodbye to."""
    reported: list[object] = []
    joined = Joined({"error_cb": reported.append})
    on_error = joined.librdkafka.config["error_cb"]
    joined.librdkafka.answers["close"] = lambda: on_error(KafkaError(KafkaError._TRANSPORT))
    _closed(joined)
    assert [] == reported


@pytest.fixture
def hanging() -> Iterator[threading.Event]:
    """Set at the end, so that no thread is left behind by the test."""
    released = threading.Event()
    yield released
    released.set()


def test_a_client_that_does_not_close_is_left_behind(hanging: threading.Event) -> None:
    """A fenced member's close takes minutes (295 s, measured): ours returns, and says so."""
    joined = Joined()
    joined.librdkafka.answers["close"] = hanging.wait
    joined.shutdown.close(commit=True, timeout_s=0.2)
    stopped, left = joined.happened
    assert Stopped(left_group=True) == stopped
    assert isinstance(left, ClientError)
    assert ("_TIMED_OUT", 1) == (left.code, left.count)
    assert "had not closed after 0.2 s and is left behind" in left.error


def test_a_client_that_takes_a_moment_is_waited_for(hanging: threading.Event) -> None:
    """Leaving the group needs an answer of the broker's: it is not left behind for that."""
    joined = Joined()
    joined.librdkafka.answers["close"] = lambda: hanging.wait(0.05)
    _closed(joined)
    assert [Stopped(left_group=True)] == joined.happened


def test_librdkafka_closes_on_a_thread_of_its_own() -> None:
    """Its close takes no timeout, and may never return: the owner must be able to go on."""
    joined, threads = Joined(), list[threading.Thread]()
    joined.librdkafka.answers["close"] = lambda: threads.append(threading.current_thread())
    _closed(joined)
    (closing,) = threads
    assert closing is not threading.current_thread()
    assert closing.daemon


def test_what_is_left_behind_is_never_freed(hanging: threading.Event) -> None:
    """Freed, librdkafka would wait for the hanging close again, and nothing could end that."""
    joined = Joined()
    joined.librdkafka.answers["close"] = hanging.wait
    joined.shutdown.close(commit=True, timeout_s=0.2)
    handle = weakref.ref(joined.librdkafka)
    hanging.set()
    for thread in threading.enumerate():
        if thread.name == "linear_retry close":
            thread.join()
    del joined
    gc.collect()
    assert handle() is not None


def test_goodbye_is_reported_before_leaving() -> None:
    """Listeners learn of the end while this is still the owner; the close itself emits nothing."""
    joined = Joined()
    joined.own(_P0)
    seen: list[list[Event]] = []
    joined.librdkafka.answers["close"] = lambda: seen.append(list(joined.happened))
    _closed(joined)
    assert [[Revoked((_P0,)), Stopped(left_group=True)]] == seen
