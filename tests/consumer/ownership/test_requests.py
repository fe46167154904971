"""An operator's request takes effect once, and is answered truthfully."""

import random
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, Literal, TypeAlias

import pytest
from confluent_kafka import KafkaError

from linear_retry import BrokerError, LinearConsumer, RetryTopics, Strategy, UsageError, events
from linear_retry.consumer.ownership.requests import GiveUp, Requests, Retry
from linear_retry.consumer.settings.checks import Strategies
from linear_retry.consumer.settings.line import WhenExhausted
from linear_retry.kafka import Message
from linear_retry.scope import Scope, ScopeKind
from linear_retry.testing import AttemptStarted, EventEmitted, EventLog, Place
from tests.consumer.group import (
    GROUP,
    LETTERS,
    TOPIC,
    FakeGroup,
    Member,
    OutageError,
    Protocol,
    consumer_on,
)
from tests.consumer.misbehaviours.misbehaving import emitted, turn_until
from tests.fake.cluster import FakeKafka
from tests.patience import PATIENCE_S
from tests.testing.violations import violations

_FIRST = ((TOPIC, 0), 0)
_Kind: TypeAlias = Literal["retry", "give-up"]
_KINDS: tuple[_Kind, ...] = ("retry", "give-up")


def ask(member: Member, kind: _Kind, offset: int = 0, partition: int = 0) -> Future[bool]:
    place = (TOPIC, partition), offset
    return member.parts.requests.submit(Retry(place) if kind == "retry" else GiveUp(place))


def retry(member: Member, offset: int = 0, partition: int = 0) -> Future[bool]:
    return ask(member, "retry", offset, partition)


def give_up(member: Member, offset: int = 0, partition: int = 0) -> Future[bool]:
    return ask(member, "give-up", offset, partition)


def attempts(group: FakeGroup) -> list[Place]:
    return [entry.place for entry in group.witness.entries if isinstance(entry, AttemptStarted)]


def reasons(group: FakeGroup) -> list[str]:
    """Those of the letters that are in the topic."""
    partitions = group.fake.topics[LETTERS].partitions
    records = [record for partition in partitions for record in partition.records if record]
    return [(dict(record.headers or [])["retry-reason"] or b"").decode() for record in records]


def waiting(
    strategy: tuple[Any, ...] | Strategy = (30, 60),
    scope: ScopeKind = "consumer",
    partitions: int = 1,
    protocol: Protocol = "eager",
    on_exhausted: WhenExhausted = "dead-letter",
    *,
    remember_failures: bool = True,
    given: Strategies | None = None,
) -> tuple[FakeGroup, Member]:
    """A member that holds the first message of partition 0 for a while; two more are behind it."""
    fake = FakeKafka()
    if isinstance(on_exhausted, RetryTopics):
        for topic in on_exhausted.topics:
            fake.create_topic(topic, partitions, {"message.timestamp.type": "LogAppendTime"})
    group = FakeGroup(
        protocol=protocol,
        partitions=partitions,
        strategy=strategy,
        scope=scope,
        on_exhausted=on_exhausted,
        fake=fake,
        remember_failures=remember_failures,
        given=given,
    )
    group.produce(0, 3)
    group.dependency.down = True
    member = group.join()
    group.share([0] * partitions)
    turn_until(group, member, events.CircuitOpened)
    return group, member


def test_a_held_message_is_attempted_now() -> None:
    """In the next turn, before its time; the record says that it was an operator's word."""
    group, member = waiting()
    group.dependency.down = False
    answer = retry(member)
    assert not answer.done()
    group.turn()
    assert answer.result(0)
    (retried,) = emitted(member, events.RetriedNow)
    assert (TOPIC, 0, 0, 1) == (
        retried.topic,
        retried.partition,
        retried.offset,
        retried.failures,
    )
    assert 28 < retried.remaining_s <= 30
    assert ["recovered"] == [event.outcome for event in emitted(member, events.CircuitClosed)]
    group.finish()
    assert [] == group.violations()


def test_it_is_true_when_the_attempt_starts() -> None:
    """Before its outcome is known: whoever waits for it need not wait for the handler."""
    group, member = waiting()
    answers: list[bool] = []
    asked = retry(member)
    group.dependency.advance = lambda _: answers.append(asked.done())
    group.turn()
    assert [True] == answers


def test_two_at_once_are_one_attempt() -> None:
    """Both are true, the attempt serves both, and the record has one event."""
    group, member = waiting()
    answers = [retry(member), retry(member)]
    group.turn()
    assert [True, True] == [answer.result(0) for answer in answers]
    assert 2 == attempts(group).count(Place(TOPIC, 0, 0))
    assert 1 == len(emitted(member, events.RetriedNow))


def test_where_only_the_letter_waits_the_sending_is_tried() -> None:
    """The handler has had its last call: it is the letter that is sent now."""
    group, member = _with_a_letter_that_was_not_sent()
    before = attempts(group)
    answer = retry(member)
    group.turn()
    assert answer.result(0)
    assert 1 == len(emitted(member, events.DeadLettered))
    assert before == attempts(group)
    group.finish()
    assert [] == group.violations()


def _with_a_letter_that_was_not_sent() -> tuple[FakeGroup, Member]:
    group = FakeGroup(partitions=1)
    group.produce(0, 2)
    group.dependency.refuses = {(0, 0)}
    group.fake.faults.fail_delivery(KafkaError._MSG_TIMED_OUT)
    member = group.join()
    group.share([0])
    turn_until(group, member, events.DeadLetterFailed)
    return group, member


def test_a_narrow_scope_is_retried_by_itself() -> None:
    """Only the circuit that holds the message is probed."""
    group, member = waiting(scope="partition", partitions=2)
    group.produce(1, 1)
    turn_until(group, member, events.CircuitOpened, 2)
    before = attempts(group)
    answer = retry(member, 0, 1)
    group.turn()
    assert answer.result(0)
    assert [(TOPIC, 1, 0)] == attempts(group)[len(before) :]
    assert [] == group.violations(finished=False)


def everything(member: Member) -> Future[bool]:
    """What `consumer.retry_now()` asks for."""
    return member.parts.requests.submit(Retry(None))


@pytest.mark.parametrize("protocol", ["eager", "cooperative", "consumer"])
def test_a_wait_without_a_message_can_be_ended(protocol: Protocol) -> None:
    """After a rebalance a circuit stood open until retry_at, for days, and nothing could end that.

    Its message had gone, and every request wanted one. The first to come is its probe now.
    """
    group, member = waiting(
        strategy=(100_000, 5), partitions=2, protocol=protocol, remember_failures=False
    )
    group.fake.lose(member.consumer)
    group.share([0, 0])
    group.turn(3)
    assert [None] == [circuit.held for _, circuit in member.circuits]
    before = attempts(group)
    answer = everything(member)
    group.turn()
    assert answer.result(0)
    (ended,) = emitted(member, events.WaitEnded)
    assert (Scope(), True) == (ended.scope, 99_000 < ended.remaining_s <= 100_000)
    turn_until(group, member, events.ProbeFailed)
    assert [(TOPIC, 0, 0)] == attempts(group)[len(before) :]
    group.dependency.down = False
    everything(member)
    group.finish()
    assert [] == group.violations()


def test_all_circuits_are_retried_at_once() -> None:
    """Each held message is attempted, in this turn; one event each."""
    group, member = waiting(strategy=(100_000,), scope="partition", partitions=2)
    group.produce(1, 1)
    turn_until(group, member, events.CircuitOpened, 2)
    group.dependency.down = False
    answer = everything(member)
    group.turn()
    assert answer.result(0)
    assert [0, 1] == sorted(event.partition for event in emitted(member, events.RetriedNow))
    assert 2 == len(emitted(member, events.CircuitClosed))
    group.finish()
    assert [] == group.violations()


def test_a_wait_that_is_over_is_not_ended_again() -> None:
    """Its probe is awaited already: nothing to do, and that is well."""
    group, member = waiting(strategy=(30, 60))
    group.fake.lose(member.consumer)
    group.share([0])
    group.fake.clock.advance(31)
    while "half-open" not in {circuit.state for _, circuit in member.circuits}:
        member.turn()
    answer = everything(member)
    group.turn()
    assert answer.result(0)
    assert [] == emitted(member, events.WaitEnded)
    group.dependency.down = False
    group.finish()
    assert [] == group.violations()


def test_a_held_message_is_dead_lettered_now() -> None:
    """With the reason given-up, its failures and its error as they are, and no further attempt."""
    group, member = waiting()
    answer = give_up(member)
    group.turn()
    assert answer.result(0)
    (letter,) = emitted(member, events.DeadLettered)
    assert ("given-up", 1, "OutageError()") == (letter.reason, letter.failures, letter.error)
    assert ["given-up"] == reasons(group)
    assert 1 == attempts(group).count(Place(TOPIC, 0, 0))
    assert ["dead-lettered"] == [event.outcome for event in emitted(member, events.CircuitClosed)]
    group.dependency.down = False
    group.finish()
    assert [] == group.violations()


def test_it_is_pending_while_the_sending_is_tried_again() -> None:
    """True means that the letter is acknowledged, and nothing less."""
    group, member = waiting()
    group.fake.faults.fail_delivery(KafkaError._MSG_TIMED_OUT, 2)
    answer = give_up(member)
    turn_until(group, member, events.DeadLetterFailed, 2)
    assert not answer.done()
    turn_until(group, member, events.DeadLettered)
    assert answer.result(0)
    assert ["given-up"] == reasons(group)
    group.dependency.down = False
    group.finish()
    assert [] == group.violations()


def test_a_letter_that_waits_to_be_sent_is_given_up() -> None:
    """It is sent now, and with the operator's reason."""
    group, member = _with_a_letter_that_was_not_sent()
    answer = give_up(member)
    group.turn()
    assert answer.result(0)
    assert ["given-up"] == reasons(group)


def test_two_give_ups_are_one_letter() -> None:
    """Both are true, also where the second comes while the letter is tried again."""
    group, member = waiting()
    group.fake.faults.fail_delivery(KafkaError._MSG_TIMED_OUT)
    first = give_up(member)
    turn_until(group, member, events.DeadLetterFailed)
    second = give_up(member)
    group.turn()
    assert (True, True) == (first.result(0), second.result(0))
    assert ["given-up"] == reasons(group)


def test_a_message_that_is_lost_while_its_letter_is_tried_again() -> None:
    """False: whoever has it next begins again."""
    group, member = waiting()
    group.fake.faults.fail_delivery(KafkaError._MSG_TIMED_OUT)
    answer = give_up(member)
    turn_until(group, member, events.DeadLetterFailed)
    group.fake.lose(member.consumer)
    group.turn(2)
    assert not answer.result(0)
    assert [] == reasons(group)


def test_a_message_that_went_and_came_back_while_its_letter_was_awaited() -> None:
    """A life of its own: the word was about the one before, so False, and not pending for ever."""
    group, member = waiting(strategy=(30, 60, 90))
    group.fake.faults.delivery_s = 8.0
    group.fake.faults.fail_delivery(KafkaError._MSG_TIMED_OUT)

    def go_and_come_back() -> None:
        group.fake.lose(member.consumer)
        group.share([0])

    group.fake.clock.at(2.5, go_and_come_back)
    answer = give_up(member)
    turn_until(group, member, events.Assigned, 2)
    while (TOPIC, 0, 0) not in attempts(group)[1:]:
        group.turn()
    group.turn()
    assert not answer.result(0)
    group.fake.faults.clear()
    group.dependency.down = False
    group.finish()
    assert [] == group.violations()


def test_giving_up_ends_the_row_at_the_limit() -> None:
    """An operator says that it is this message: the next ones are sent again."""
    group = FakeGroup(partitions=1, letter_limit=1)
    group.produce(0, 4)
    group.dependency.refuses = {(0, 0), (0, 1), (0, 2)}
    member = group.join()
    group.share([0])
    turn_until(group, member, events.LimitReached)
    assert 1 == emitted(member, events.LimitReached)[0].offset
    answer = give_up(member, 1)
    group.turn()
    assert answer.result(0)
    group.finish()
    assert ["permanent", "given-up", "permanent"] == reasons(group)
    assert 1 == len(emitted(member, events.LimitReached))
    assert [] == group.violations()


def test_give_up_after_retry_now() -> None:
    """The attempt comes first. It fails: given up in the next turn, two failures in the letter."""
    group, member = waiting()
    attempt, letter = retry(member), give_up(member)
    group.turn()
    assert attempt.result(0)
    assert not letter.done()
    group.turn()
    assert letter.result(0)
    assert [2] == [event.failures for event in emitted(member, events.DeadLettered)]


def test_retry_now_after_give_up() -> None:
    """The message has a letter by then: the sending is what is tried, and serves both."""
    group, member = waiting()
    letter, attempt = give_up(member), retry(member)
    group.turn()
    assert (True, True) == (letter.result(0), attempt.result(0))
    assert 1 == attempts(group).count(Place(TOPIC, 0, 0))


@pytest.mark.parametrize(("partition", "offset"), [(0, 1), (0, 99), (5, 0)])
@pytest.mark.parametrize("kind", ["retry", "give-up"])
def test_what_is_not_held(kind: _Kind, partition: int, offset: int) -> None:
    """Behind the held one, not there yet, on no such partition: False, and nothing happens."""
    group, member = waiting()
    before = list(member.events)
    answer = ask(member, kind, offset, partition)
    group.turn()
    assert not answer.result(0)
    assert before == member.events


@pytest.mark.parametrize("kind", ["retry", "give-up"])
def test_a_request_for_another_life_of_the_message(kind: _Kind) -> None:
    """Given back in the same turn it is not held yet; nothing of the request is left for later."""
    group, member = waiting()
    group.fake.lose(member.consumer)
    group.share([0])
    answer = ask(member, kind)
    group.turn(5)
    assert not answer.result(0)
    group.dependency.down = False
    group.finish()
    assert [] == emitted(member, events.RetriedNow)
    assert [] == group.violations()


def test_what_went_while_another_letter_was_awaited() -> None:
    """Nothing is brought forward for the message that takes its place: its circuit stays open."""
    group, member = waiting(scope="partition", partitions=2, protocol="cooperative")
    group.produce(1, 1)
    turn_until(group, member, events.CircuitOpened, 2)
    group.join()
    group.fake.faults.delivery_s = 4.0
    group.fake.clock.at(1.5, lambda: group.share([1, 0]))
    letter, attempt = give_up(member, 0, 1), retry(member, 0, 0)
    member.turn()
    assert letter.result(0)
    assert [(TOPIC, 0)] == [
        p for event in emitted(member, events.Revoked) for p in event.partitions
    ]
    assert "open" == member.circuits.views[Scope(TOPIC, 0)].state
    member.turn()
    assert not attempt.result(0)
    group.dependency.down = False
    group.finish()
    assert [] == group.violations()


def test_the_first_after_a_loss_is_given_up_after_its_attempt() -> None:
    """It is held, and has not failed yet: its letter could not say why."""
    group, member = waiting(strategy=(3, 60), remember_failures=False)
    group.fake.lose(member.consumer)
    group.share([0])
    answers = []
    while len(attempts(group)) < 2:
        answers.append(give_up(member))
        group.turn()
    group.turn()
    assert answers[-1].result(0)
    assert [1] == [event.failures for event in emitted(member, events.DeadLettered)]
    group.dependency.down = False
    group.finish()
    assert [] == group.violations()


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("kind", ["retry", "give-up"])
def test_asked_for_in_the_handler(kind: _Kind, down: bool) -> None:
    """It waits until the handler has ended: then nothing is held, or the message is held again and
    is attempted, or given up, at once."""
    group, member = waiting(strategy=(30, 60, 90))
    answers: list[Future[bool]] = []

    def ask_once(_: float) -> None:
        if not answers:
            answers.append(ask(member, kind))

    group.dependency.advance = ask_once
    group.dependency.down = down
    group.fake.clock.advance(31)
    group.turn()
    assert not answers[0].done()
    group.turn()
    assert down == answers[0].result(0)
    given_up = [event.failures for event in emitted(member, events.DeadLettered)]
    assert ([2] if down and kind == "give-up" else []) == given_up
    assert [] == group.violations(finished=False)


@pytest.mark.parametrize("kind", ["retry", "give-up"])
def test_a_cancelled_future_has_no_effect(kind: _Kind) -> None:
    """Cancelled before it was looked at: whoever waits for it is told, and nothing happens."""
    group, member = waiting()
    before = list(member.events)
    answer = ask(member, kind)
    assert answer.cancel()
    group.turn(2)
    assert {answer} == wait([answer], timeout=0).done
    assert before == member.events


def test_what_is_under_way_cannot_be_cancelled() -> None:
    """A letter that is being sent will be sent."""
    group, member = waiting()
    group.fake.faults.fail_delivery(KafkaError._MSG_TIMED_OUT)
    answer = give_up(member)
    turn_until(group, member, events.DeadLetterFailed)
    assert not answer.cancel()
    turn_until(group, member, events.DeadLettered)
    assert answer.result(0)


def test_what_is_hung_on_to_the_future_cannot_disturb() -> None:
    """A callback that raises is Python's to log; one that asks again is answered."""
    group, member = waiting(strategy=(30, 60, 90))
    again: list[Future[bool]] = []

    def ask_again(_: Future[bool]) -> None:
        again.append(retry(member))
        raise LookupError("bug in the callback")

    retry(member).add_done_callback(ask_again)
    group.turn(2)
    assert again[0].result(0)
    assert [] == group.violations(finished=False)


@pytest.mark.parametrize("kind", ["retry", "give-up"])
def test_at_close_all_that_is_pending_is_false(kind: _Kind) -> None:
    """And so is what is asked for later; nothing waits for ever."""
    group, member = waiting()
    group.fake.faults.fail_delivery(KafkaError._MSG_TIMED_OUT, 99)
    looked_at, cancelled = ask(member, kind), ask(member, kind)
    cancelled.cancel()
    if kind == "give-up":
        turn_until(group, member, events.DeadLetterFailed)
    fresh = ask(member, kind)
    group.leave(member)
    later = ask(member, kind)
    assert [False, False, False] == [answer.result(0) for answer in (looked_at, fresh, later)]
    assert cancelled.cancelled()


def test_closed_while_others_ask() -> None:
    """Whatever the order of an asking and the closing, there is one answer."""
    for _ in range(200):
        requests = Requests()
        answers: list[Future[bool]] = []
        start = threading.Barrier(3)

        def asking(
            requests: Requests = requests,
            answers: list[Future[bool]] = answers,
            start: threading.Barrier = start,
        ) -> None:
            start.wait()
            answers.extend(requests.submit(Retry(_FIRST)) for _ in range(20))

        threads = [threading.Thread(target=asking) for _ in range(2)]
        for thread in threads:
            thread.start()
        start.wait()
        requests.close()
        for thread in threads:
            thread.join()
        assert [False] * 40 == [answer.result(0) for answer in answers]


_METHODS = ["retry_now", "give_up"]


@pytest.mark.parametrize("method", _METHODS)
def test_a_consumer_that_does_not_run(fake: FakeKafka, method: str) -> None:
    """Before it ran, once a stop is asked for, and closed: a future that is False already."""
    consumer = consumer_on(fake)
    ask_for = getattr(consumer, method)
    answers = [ask_for(TOPIC, 0, 0)]

    def handler(_: Message) -> None:
        answers.append(ask_for(TOPIC, 0, 1))
        consumer.stop()
        answers.append(ask_for(TOPIC, 0, 1))

    with consumer:
        consumer.run(handler)
        assert [False] * 3 == [answer.result(0) for answer in answers]
    assert not ask_for(TOPIC, 0, 0).result(0)


@pytest.mark.parametrize("method", _METHODS)
def test_a_consumer_that_could_not_start(fake: FakeKafka, method: str) -> None:
    """It holds nothing. The bug: the answer was pending, as long as nobody closed it."""
    fake.faults.brokers_down = True
    consumer = consumer_on(fake)
    with pytest.raises(BrokerError):
        consumer.run(lambda _: None)
    assert not getattr(consumer, method)(TOPIC, 0, 0).result(0)


@pytest.mark.parametrize("method", _METHODS)
@pytest.mark.parametrize(
    ("place", "part"),
    [
        ((None, 0, 0), "topic=None"),
        ((b"orders", 0, 0), "topic=b'orders'"),
        ((TOPIC, "0", 0), "partition='0'"),
        ((TOPIC, True, 0), "partition=True"),
        ((TOPIC, -1, 0), "partition=-1"),
        ((TOPIC, 0, -1), "offset=-1"),
        ((TOPIC, 0, 1.0), "offset=1.0"),
        ((TOPIC, 0, False), "offset=False"),
        ((TOPIC, 0, None), "offset=None"),
    ],
)
def test_what_can_be_no_coordinates(
    fake: FakeKafka, method: str, place: tuple[Any, ...], part: str
) -> None:
    """Refused at the call, with what was given: it would only be found never to be held."""
    with pytest.raises(UsageError, match=part):
        getattr(consumer_on(fake), method)(*place)


def test_give_up_without_a_dead_letter_topic(fake: FakeKafka) -> None:
    """Refused at the call: there is no place for the letter."""
    consumer = consumer_on(fake, dead_letters=None, on_exhausted="stop", on_permanent="stop")
    with pytest.raises(UsageError, match="dead_letters="):
        consumer.give_up(TOPIC, 0, 0)
    assert not consumer.retry_now(TOPIC, 0, 0).result(0)


@pytest.mark.parametrize("method", _METHODS)
def test_after_a_fork(fake: FakeKafka, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody in a child process would ever look at it."""
    consumer = consumer_on(fake)
    monkeypatch.setattr("os.getpid", lambda: -1)
    with pytest.raises(UsageError, match="fork"):
        getattr(consumer, method)(TOPIC, 0, 0)


def test_from_a_listener(fake: FakeKafka) -> None:
    """A listener may ask: the future is there at once, and answered after it has returned."""
    answers: list[Future[bool]] = []

    def listener(event: events.Event) -> None:
        if isinstance(event, events.CircuitOpened):
            answers.append(consumer.retry_now(event.topic, event.partition, event.offset))
            assert not answers[-1].done()

    failing = [OutageError(), OutageError()]

    def handler(_: Message) -> None:
        if failing:
            raise failing.pop()
        consumer.stop()

    witness = EventLog(fake.clock.now_s)
    listeners = [listener, witness.listener("first")]
    consumer = consumer_on(fake, listeners=listeners, strategy=Strategy([3600, 7200]))
    with consumer:
        fake.clock.at(7000, consumer.stop)
        consumer.run(witness.handler("first", handler))
    assert [True] == [answer.result(0) for answer in answers]


def test_in_a_loop_of_ones_own(fake: FakeKafka) -> None:
    """It is looked at when the next attempt is asked for."""
    with consumer_on(fake, strategy=Strategy([3600])) as consumer:
        seen, begun_s = [], fake.clock.now_s()
        for attempt in consumer:
            with attempt as message:
                seen.append(attempt.number)
                if len(seen) == 1:
                    place = message.topic() or "", message.partition() or 0, message.offset() or 0
                    answer = consumer.retry_now(*place)
                    raise OutageError
                waited_s = fake.clock.now_s() - begun_s
                consumer.stop()
    assert answer.result(0)
    assert [1, 2] == seen
    assert waited_s < 2


class Hammer:
    """Asks for whatever is held, and for what is not, until told to end."""

    def __init__(self, consumer: LinearConsumer, seed: int) -> None:
        self.asked: list[tuple[str, Place, Future[bool]]] = []
        self._consumer = consumer
        self._rng = random.Random(seed)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join(PATIENCE_S)

    def _ask(self) -> None:
        while not self._ended.is_set():
            for view in self._consumer.circuits.values():
                if view.offset is not None:
                    self._one(Place(view.topic or "", view.partition or 0, view.offset))
            self._one(Place(TOPIC, self._rng.randrange(3), self._rng.randrange(60)))

    def _one(self, place: Place) -> None:
        method = self._rng.choice(_METHODS)
        answer = getattr(self._consumer, method)(*place)
        if self._rng.random() < 0.1:
            answer.cancel()
        self.asked.append((method, place, answer))
        wait([answer], timeout=0.001)


class Work:
    """Sixty messages in each of three partitions, of which four attempts in ten fail."""

    def __init__(self) -> None:
        self.fake = FakeKafka(balanced=True)
        for topic in (TOPIC, LETTERS):
            self.fake.create_topic(topic, 3)
        for number in range(180):
            self.fake.append(TOPIC, number % 3, b"%d" % number)
        self.witness = EventLog(self.fake.clock.now_s)
        self.all_done: Callable[[], object] = lambda: None
        self._left = 180
        self._rng = random.Random(7)

    def handler(self, _: Message) -> None:
        if self._rng.random() < 0.4:
            raise OutageError
        self._one_less()

    def listener(self, event: events.Event) -> None:
        if isinstance(event, events.DeadLettered):
            self._one_less()

    def places(self, kind: type[events.RetriedNow | events.DeadLettered]) -> set[Place]:
        """What operators had done, as the record shows it."""
        happened = [
            entry.event for entry in self.witness.entries if isinstance(entry, EventEmitted)
        ]
        return {
            event.place
            for event in happened
            if isinstance(event, kind) and getattr(event, "reason", "given-up") == "given-up"
        }

    def _one_less(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.all_done()


@pytest.mark.parametrize("scope", ["consumer", "partition"])
def test_hammered_from_four_threads(scope: ScopeKind) -> None:
    """Every future gets an answer, what it says has happened, and every guarantee holds."""
    work = Work()
    consumer = consumer_on(
        work.fake,
        scope=scope,
        strategy=Strategy([3600, 7200, 3600]),
        listeners=[work.witness.listener("first"), work.listener],
    )
    work.all_done = consumer.stop
    handler = work.witness.handler("first", work.handler)

    def live() -> None:
        with consumer:
            consumer.run(handler)

    running = threading.Thread(target=live)
    running.start()
    hammers = [Hammer(consumer, seed) for seed in range(4)]
    running.join(PATIENCE_S)
    for hammer in hammers:
        hammer.end()
    assert not running.is_alive()
    asked = [each for hammer in hammers for each in hammer.asked]
    assert all(answer.done() for _, _, answer in asked)
    for method, kind in (("retry_now", events.RetriedNow), ("give_up", events.DeadLettered)):
        reported = {
            place
            for how, place, answer in asked
            if how == method and not answer.cancelled() and answer.result(0)
        }
        assert reported
        assert reported == work.places(kind)
    visible = {(TOPIC, number): range(60) for number in range(3)}
    committed = work.fake.group(GROUP)
    assert [] == violations(work.witness.entries, visible, committed=committed, strategy_length=3)
