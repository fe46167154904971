"""A letter is there exactly when its offset is, whatever the transaction goes through."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from linear_retry import BrokerError, ConfigurationError, DeadLetters, FencedError, events
from linear_retry.testing import AttemptStarted
from tests.consumer.group import GROUP, LETTERS, TOPIC, FakeGroup, Member, Protocol, consumer_on
from tests.fake.cluster import FakeKafka

FENCED = KafkaError(KafkaError._FENCED, "fenced", True)
TIMED_OUT = KafkaError(KafkaError._TIMED_OUT, "timed out", False, True)
INVALID = KafkaError(KafkaError.INVALID_TXN_STATE, "invalid", False, False, True)
OUTDATED = KafkaError(KafkaError.ILLEGAL_GENERATION, "generation", False, False, True)


def abortable(code: int) -> KafkaError:
    return KafkaError(code, "to be aborted", False, False, True)


def letter_offsets(fake: FakeKafka) -> list[bytes | None]:
    """The offsets of the messages that a `read_committed` reader finds letters of."""
    (log,) = fake.topics[LETTERS].partitions
    return [dict(record.headers or ())["retry-original-offset"] for record in log.records]


class Group(FakeGroup):
    """Three messages, of which the second is refused, and one member that has them."""

    def __init__(self, *, oversized: Any = "hold", config: Any = None, **options: Any) -> None:
        super().__init__(partitions=1, **options)
        self.dead_letters = DeadLetters(
            LETTERS, transactional=True, oversized=oversized, config=config or {}
        )
        self.dependency.refuses.add((0, 1))
        self.produce(0, 3)

    def begin(self) -> Member:
        self.join()
        self.share([0])
        return self.members[0]

    @property
    def letters(self) -> list[bytes | None]:
        """What a `read_committed` reader finds."""
        return letter_offsets(self.fake)

    @property
    def committed(self) -> int | None:
        return self.fake.group(GROUP).get((TOPIC, 0))

    def attempts(self, offset: int) -> int:
        """How often the handler was called for this message."""
        calls = [entry for entry in self.witness.entries if isinstance(entry, AttemptStarted)]
        return len([call for call in calls if call.place[2] == offset])

    def calls(self, *names: str) -> list[str]:
        """The calls of all producers among these, in order."""
        return [
            call
            for _, client, call, _ in self.fake.log
            if client.startswith("producer") and call in names
        ]

    def finish_well(self, letters: int = 1) -> None:
        """To the end: every promise kept, and so many letters."""
        self.finish()
        assert [] == self.violations()
        assert [b"1"] * letters == self.letters


def errors(member: Member) -> list[str]:
    return [
        emitted.error for emitted in member.events if isinstance(emitted, events.DeadLetterFailed)
    ]


def test_letter_and_offset_come_together() -> None:
    """Neither is there before the commit; both are there when the event says so."""
    group = Group()
    member = group.begin()
    before = group.letters, group.committed
    while not any(isinstance(emitted, events.DeadLettered) for emitted in member.events):
        before = group.letters, group.committed or 0
        member.turn()
    assert ([], 0) == (before[0], before[1] if (before[1] or 0) > 1 else 0)
    assert ([b"1"], 2) == (group.letters, group.committed)
    group.finish_well()


def test_each_consumer_has_an_id_of_its_own() -> None:
    """One that was shared would have members fence each other for ever."""
    group = Group()
    group.join()
    group.join()
    ids = [str(producer.config["transactional.id"]) for producer in group.fake.producers]
    assert 2 == len(set(ids))
    assert all(name.startswith(f"{GROUP}-") for name in ids)


@pytest.mark.parametrize("call", ["begin", "send_offsets", "commit"])
@pytest.mark.parametrize("error", [INVALID, FENCED, TIMED_OUT], ids=lambda error: error.name())
def test_what_is_not_done_is_sent_again(call: str, error: KafkaError) -> None:
    """Aborted or by a new producer of the same id; the handler is not called again."""
    group = Group()
    member = group.begin()
    group.fake.faults.fail_transaction(call, error, 3 if error is TIMED_OUT else 1, takes_s=3.0)
    group.finish_well()
    assert 1 == group.attempts(1)
    assert 1 == len([one for one in member.events if isinstance(one, events.DeadLettered)])


@pytest.mark.parametrize("error", [INVALID, FENCED, TIMED_OUT], ids=lambda error: error.name())
def test_a_commit_whose_answer_is_lost(error: KafkaError) -> None:
    """The group is asked, and knows of it: the letter is acknowledged, and not sent again."""
    group = Group()
    member = group.begin()
    group.fake.faults.fail_transaction("commit", error, acts=True, takes_s=11.0)
    group.finish_well()
    assert [] == errors(member)
    assert 1 == len(group.calls("produce"))


@pytest.mark.parametrize("error", [INVALID, FENCED, TIMED_OUT], ids=lambda error: error.name())
def test_a_commit_that_never_was(error: KafkaError) -> None:
    """The group has committed everything before the message, and not the message: sent again."""
    group = Group()
    member = group.begin()
    group.dependency.takes_s = 1.1
    group.fake.faults.fail_transaction("commit", error, 30 if error is TIMED_OUT else 1, takes_s=1)
    _turn_until(member, lambda: errors(member))
    assert ([], 1) == (group.letters, group.committed)
    group.fake.faults.clear()
    group.finish_well()


@pytest.mark.parametrize("failing", ["delivery", "send_offsets"])
def test_what_is_not_sent_is_aborted_at_once(failing: str) -> None:
    """Until then nobody reads what comes after it in the dead-letter topic."""
    group = Group()
    member = group.begin()
    if failing == "delivery":
        group.fake.faults.fail_delivery(KafkaError.NOT_ENOUGH_REPLICAS)
    else:
        group.fake.faults.fail_transaction(failing, INVALID)
    _turn_until(member, lambda: errors(member))
    names = ("begin_transaction", "abort_transaction")
    assert list(names) == group.calls(*names)
    (log,) = group.fake.topics[LETTERS].partitions
    assert log.stable_end == log.end
    group.finish_well()


def test_what_the_transaction_has_committed_is_not_committed_again() -> None:
    """The offset is known as committed, and the consumer says nothing more of it."""
    group = Group()
    group.dependency.refuses = {(0, 2)}
    group.begin()
    group.finish()
    group.turn(5)
    commits = [entry for entry in group.fake.log if entry[2] == "commit"]
    assert (3, []) == (group.committed, [one for one in commits if "3)" in str(one[3])])
    assert [] == group.violations()


def test_a_fresh_membership_comes_after_a_poll() -> None:
    """Or it could be that of a member that has lost the partition, and has not been told."""
    group = Group()
    group.begin()
    group.fake.faults.fail_transaction("send_offsets", OUTDATED)
    group.finish_well()
    calls = [call for _, _, call, _ in group.fake.log]
    first, second = (n for n, call in enumerate(calls) if call == "send_offsets_to_transaction")
    between = calls[first:second]
    assert between.index("consume") < between.index("consumer_group_metadata")


def test_revoked_as_the_commit_is_answered() -> None:
    """In one poll: what was awaited is there, and the partition is not ours any more."""
    group = Group()
    first = group.begin()
    group.join()
    group.fake.faults.commit_answer_s = 3.0
    group.dependency.takes_s = 1.1
    first.turn()
    # The next turn commits the first message, and sends the letter of the second.
    group.fake.clock.at(3.0, lambda: group.share([1]))
    _turn_until(first, lambda: group.calls("abort_transaction"))
    assert [] == group.calls("send_offsets_to_transaction")
    group.fake.faults.clear()
    group.finish_well()


def test_a_new_producer_has_the_old_ones_id() -> None:
    """Only so does its initialisation end what the old one has left open."""
    group = Group()
    group.begin()
    group.fake.faults.fail_transaction("send_offsets", FENCED)
    group.finish_well()
    first, second = group.fake.producers
    assert first.config["transactional.id"] == second.config["transactional.id"]


def test_an_offset_without_an_answer() -> None:
    """It may reach the broker late, and must not be the next transaction's: a new epoch begins."""
    group = Group()
    member = group.begin()
    group.fake.faults.fail_transaction("send_offsets", TIMED_OUT, 60, takes_s=0.25)
    _turn_until(member, lambda: errors(member))
    group.fake.faults.clear()
    group.finish_well()
    assert 2 == len(group.fake.producers)


def test_no_member_sends_nothing() -> None:
    """Nothing names us to the group at the moment: no transaction is begun, the sending waits."""
    group = Group()
    member = group.begin()
    member.turn()
    member.consumer.membership.is_out = True
    member.parts.client.member.capture()
    _turn_until(member, lambda: errors(member))
    assert ["not a member of the group at the moment"] == errors(member)
    assert [] == group.calls("begin_transaction")
    member.consumer.membership.is_out = False
    group.finish_well()


def test_while_nobody_knows_nothing_of_it_is_committed() -> None:
    """With the brokers gone in the midst of a commit, a lower one afterwards would undo it."""
    group = Group()
    member = group.begin()
    group.fake.faults.fail_transaction("commit", FENCED, acts=True)
    group.fake.faults.fail_transaction("init", TIMED_OUT, 3, takes_s=20.0)
    while not errors(member):
        member.turn()
    assert 2 == group.committed
    member.parts.close(commit=True, timeout_s=5)
    assert 2 == group.committed


@pytest.mark.parametrize("protocol", ["eager", "cooperative", "consumer"])
def test_the_group_has_moved_on(protocol: Protocol) -> None:
    """A partition that stays through another's joining: its letter goes out at once, and once."""
    group = Group(protocol=protocol)
    member = group.begin()
    member.turn()
    group.fake.move_on(member.consumer)
    group.finish_well()
    assert [] == errors(member)
    assert ["abort_transaction"] == group.calls("abort_transaction")


def test_the_group_moves_on_again_and_again() -> None:
    """A fifth refusal in a row opens the circuit, and the sending is tried again."""
    group = Group()
    member = group.begin()
    group.fake.faults.fail_transaction("send_offsets", OUTDATED, 5)
    group.finish_well()
    assert ["ILLEGAL_GENERATION: generation"] == errors(member)


def test_who_is_out_sends_nothing() -> None:
    """Out of the group and not told yet: the letter is the next owner's to send."""
    group = Group()
    first = group.begin()
    first.turn()
    second = group.join()
    group.fake.faults.delivery_s = 0.05
    group.fake.clock.at(0.02, lambda: group.fake.lose(first.consumer))
    group.fake.clock.at(0.03, lambda: group.fake.assign(second.consumer, [(TOPIC, 0)]))
    group.finish_well()
    assert [] == [one for one in first.events if isinstance(one, events.DeadLettered)]
    assert [1] == [one.offset for one in second.events if isinstance(one, events.DeadLettered)]


@pytest.mark.parametrize("code", [KafkaError.UNKNOWN_MEMBER_ID, KafkaError.FENCED_MEMBER_EPOCH])
def test_not_a_member_any_more(code: int) -> None:
    """Everything is given up, nothing was sent; what is still assigned is begun again."""
    group = Group()
    member = group.begin()
    group.fake.faults.fail_transaction("send_offsets", abortable(code))
    while not any(isinstance(emitted, events.Lost) for emitted in member.events):
        member.turn()
    assert ([], 0) == (group.letters, group.committed or 0)
    group.finish_well()


def test_fenced_static_member() -> None:
    """Another member has its `group.instance.id`: it raises, as at a commit."""
    group = Group()
    member = group.begin()
    error = abortable(KafkaError.FENCED_INSTANCE_ID)
    group.fake.faults.fail_transaction("send_offsets", error)
    with pytest.raises(FencedError):
        _turn_until(member, lambda: False)
    member.parts.close(commit=False, timeout_s=5)
    assert [] == group.letters


def test_revoked_while_the_report_is_awaited() -> None:
    """Aborted: the next owner reads the message again, and sends the only letter."""
    group = Group()
    first = group.begin()
    second = group.join()
    group.fake.faults.delivery_s = 2.5
    first.turn()
    group.fake.clock.at(0.5, lambda: group.share([1]))
    _turn_until(first, lambda: group.calls("abort_transaction"))
    assert ([], 1) == (group.letters, group.committed)
    group.finish_well()
    assert [] == [one for one in first.events if isinstance(one, events.DeadLettered)]
    assert [1] == [one.offset for one in second.events if isinstance(one, events.DeadLettered)]


def test_waits_for_commits_under_way() -> None:
    """A lower one that arrived after the transaction's would undo it."""
    group = Group()
    member = group.begin()
    group.fake.faults.commit_answer_s = 3.0
    group.fake.faults.commits_land_late = True
    group.dependency.takes_s = 1.1
    _turn_until(member, lambda: group.letters)
    log = [entry for entry in group.fake.log if entry[2] in ("commit", "commit_transaction")]
    assert "commit_transaction" == log[-1][2]
    assert 3.0 <= log[-1][0] - log[0][0]
    assert [] == errors(member)
    group.fake.clock.advance(5)
    member.turn()
    assert 2 <= (group.committed or 0)
    group.finish_well()


def test_a_commit_that_is_never_answered() -> None:
    """Not waited for longer than a transaction may last: the sending is tried again."""
    group = Group()
    member = group.begin()
    group.fake.faults.commit_answer_s = 15.0
    group.dependency.takes_s = 1.1
    _turn_until(member, lambda: errors(member))
    assert ["a commit of its partition is under way and not answered"] == errors(member)
    group.fake.faults.clear()
    group.finish_well()


def test_too_large_begins_a_new_transaction_for_each_form() -> None:
    """A record that is refused spoils its transaction, and its producer for the next record.

    The bug: the next form went out on the same producer, where librdkafka purged it, and again
    with each sending: no form of the letter ever got out.
    """
    group = Group(oversized="reference")
    group.fake.topics[LETTERS].max_message_bytes = 700
    member = group.begin()
    group.finish_well()
    assert [] == errors(member)
    begun, aborted = len(group.calls("begin_transaction")), len(group.calls("abort_transaction"))
    assert (begun - 1, True) == (aborted, begun > 1)
    assert begun == len(group.calls("init_transactions"))


def test_too_large_until_the_topic_takes_more() -> None:
    """Held, and sent as it is as soon as the topic takes it, by the first sending after that."""
    group = Group()
    group.fake.topics[LETTERS].max_message_bytes = 300
    member = group.begin()
    _turn_until(member, lambda: len(errors(member)) == 2)
    group.fake.topics[LETTERS].max_message_bytes = 10_000
    group.finish_well()
    assert 2 == len(errors(member))


def test_broker_that_times_a_transaction_out() -> None:
    """It lasted too long, so it is aborted and its producer fenced: nobody has taken our place."""
    group = Group(config={"transaction.timeout.ms": 1000})
    member = group.begin()
    group.fake.faults.fail_transaction("send_offsets", TIMED_OUT, takes_s=1.5)
    group.finish_well()
    assert [] == [one for one in member.events if isinstance(one, events.Lost)]


def test_a_stop_in_the_midst_of_it() -> None:
    """Aborted within the grace, nothing stored; the next consumer sends the letter."""
    group = Group()
    first = group.begin()
    group.fake.faults.delivery_s = 9.0
    group.fake.clock.at(0.2, first.stop.ask)
    begun_s = group.fake.clock.now_s()
    _turn_until(first, lambda: first.stop.asked)
    assert group.fake.clock.now_s() - begun_s < 2.0
    group.leave(first)
    assert ([], 1) == (group.letters, group.committed)
    group.fake.faults.clear()
    group.begin()
    group.finish_well()


def test_a_stop_while_the_commit_hangs() -> None:
    """Waited for a second; nothing is stored over what the broker may have committed."""
    group = Group()
    first = group.begin()
    group.fake.faults.fail_transaction("commit", TIMED_OUT, 50, acts=True, takes_s=0.25)
    group.fake.clock.at(0.2, first.stop.ask)
    _turn_until(first, lambda: first.stop.asked)
    group.leave(first)
    assert ([b"1"], 2) == (group.letters, group.committed)
    group.fake.faults.clear()
    group.begin()
    group.finish_well()


@pytest.mark.parametrize("acts", [True, False])
def test_an_exception_in_the_midst_of_it(acts: bool) -> None:
    """Whatever leaves a poll while a commit's fate is unknown: the partition is begun again."""
    group = Group()
    member = group.begin()
    group.fake.faults.fail_transaction("commit", FENCED, acts=acts)
    group.fake.faults.fail_transaction("init", TIMED_OUT, 20, takes_s=0.5)
    group.fake.clock.at(1.5, lambda: group.fake.faults.raise_in_poll(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        _turn_until(member, lambda: False)
    assert [(TOPIC, 0)] == [
        partition
        for emitted in member.events
        if isinstance(emitted, events.Lost)
        for partition in emitted.partitions
    ]
    group.fake.faults.clear()
    group.finish()
    assert ([b"1"], 3) == (group.letters, group.committed)
    # Where it was committed, the message is done, and nobody has learned of it.
    assert (1 if acts else 2) == group.attempts(1)


def test_closing_never_leaves_a_transaction_open() -> None:
    """An exception in the midst of one, and the close that follows, abort it."""
    group = Group()
    member = group.begin()
    group.fake.faults.delivery_s = 5.0
    group.fake.clock.at(1.2, lambda: group.fake.faults.raise_in_poll(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        _turn_until(member, lambda: False)
    group.leave(member)
    assert ["abort_transaction"] == group.calls("commit_transaction", "abort_transaction")
    assert ([], 1) == (group.letters, group.committed)


def test_a_coordinator_that_does_not_answer() -> None:
    """Waited for as long as for a first broker, and no longer."""
    fake = _topics()
    fake.faults.fail_transaction("init", TIMED_OUT, 1000, takes_s=0.25)
    begun_s = fake.clock.now_s()
    with (
        consumer_on(
            fake, dead_letters=DeadLetters(LETTERS, transactional=True), start_timeout_s=5
        ) as consumer,
        pytest.raises(BrokerError, match="_TIMED_OUT"),
    ):
        consumer.run(lambda _: None)
    assert 5 <= fake.clock.now_s() - begun_s < 6


def test_a_stop_at_the_start_takes_effect() -> None:
    """Between two slices of the initialisation."""
    fake = _topics()
    fake.faults.fail_transaction("init", TIMED_OUT, 1000, takes_s=0.25)
    begun_s = fake.clock.now_s()
    with consumer_on(fake, dead_letters=DeadLetters(LETTERS, transactional=True)) as consumer:
        fake.clock.at(0.7, consumer.stop)
        consumer.run(lambda _: None)
    assert fake.clock.now_s() - begun_s < 2


@pytest.mark.parametrize("acts", [True, False])
def test_the_limit_is_kept_while_nobody_knows(acts: bool) -> None:
    """A letter may be there or not: it counts, and once it is known the row is no longer."""
    group = FakeGroup(partitions=2, scope="partition", letter_limit=1)
    group.dead_letters = replace(group.dead_letters, transactional=True)
    group.dependency.refuses = {(0, 1), (1, 0)}
    group.produce(0, 4)
    member = group.join()
    group.share([0, 0])
    group.fake.faults.fail_transaction("commit", FENCED, acts=acts)
    group.fake.faults.fail_transaction("init", TIMED_OUT, 100, takes_s=20.0)
    _turn_until(member, lambda: errors(member))
    group.produce(1, 1)
    _turn_until(
        member, lambda: any(isinstance(emitted, events.LimitReached) for emitted in member.events)
    )
    group.fake.faults.clear()
    _turn_until(
        member, lambda: any(isinstance(emitted, events.DeadLettered) for emitted in member.events)
    )
    group.dependency.refuses = set()
    group.finish()
    held_back = {
        (emitted.partition, emitted.offset)
        for emitted in member.events
        if isinstance(emitted, events.LimitReached)
    }
    assert {(1, 0)} == held_back
    letters, others = group.fake.topics[LETTERS].partitions
    assert (1, 0) == (len(letters.records), len(others.records))
    assert [] == group.violations()


def test_an_interrupt_while_nobody_knows() -> None:
    """A loop of one's own goes on after Ctrl-C: from what is committed, and it commits again."""
    fake = _topics()
    for _ in range(3):
        fake.append(TOPIC, 0)
    with (
        _sigint_raises(),
        consumer_on(fake, dead_letters=DeadLetters(LETTERS, transactional=True)) as consumer,
    ):
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012  (a loop is needed for it)
            for attempt in consumer:
                with attempt:
                    fake.faults.fail_transaction("commit", TIMED_OUT, 100, takes_s=0.25)
                    fake.faults.fail_transaction("init", TIMED_OUT, 100, takes_s=0.25)
                    fake.clock.at(1.0, lambda: signal.raise_signal(signal.SIGINT))
                    raise ValueError
        fake.faults.clear()
        for attempt in consumer:
            with attempt as message:
                if message.offset() == 2:
                    consumer.stop()
    assert 3 == fake.group(GROUP)[TOPIC, 0]


@pytest.mark.parametrize("value", [1, None, "yes", 0])
def test_transactional_is_a_choice(value: Any) -> None:
    """True or False, nothing that merely counts as one."""
    with pytest.raises(ConfigurationError, match=f"transactional={value!r}: must be True or False"):
        DeadLetters(LETTERS, transactional=value)


def _topics() -> FakeKafka:
    fake = FakeKafka(balanced=True)
    for topic in (TOPIC, LETTERS):
        fake.create_topic(topic)
    return fake


@contextmanager
def _sigint_raises() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _turn_until(member: Member, done: Callable[[], object]) -> None:
    for _ in range(200):
        if done():
            return
        member.turn()
    raise AssertionError("it never came")
