"""Sends a dead letter and commits its source offset in one Kafka transaction."""

from collections.abc import Callable
from dataclasses import dataclass

from linear_retry.consumer.letters.publisher import (
    AckWait,
    Steps,
    TooLarge,
    answer_of,
    error_text,
)
from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.errors import BrokerError
from linear_retry.kafka import KafkaError, KafkaException, Message
from linear_retry.kafka.consumer.client import Client
from linear_retry.kafka.consumer.fatal_errors import raise_if_fatal
from linear_retry.kafka.producers.transactional import (
    Broken,
    Completed,
    Refused,
    Step,
    TransactionalProducer,
    Unfinished,
)
from linear_retry.records.record import OutgoingRecord
from linear_retry.retry.case import Held
from linear_retry.retry.engine import Abandoned, Acknowledged, Answer, NotSent
from linear_retry.scope import Partition

_ABORT_WITHIN_S = 1.0
_LOOK_AGAIN_S = 0.01
_MOST_LEFT_BEHIND = 10
# A cooperative group gets two new generations for each member that joins or leaves.
_REBALANCES = 4
_NOT_A_MEMBER = frozenset({KafkaError.UNKNOWN_MEMBER_ID, KafkaError.FENCED_MEMBER_EPOCH})
_OUTDATED = frozenset({KafkaError.ILLEGAL_GENERATION, KafkaError.STALE_MEMBER_EPOCH})


@dataclass(frozen=True, slots=True)
class _Commit:
    """What a transaction commits for a partition, with the letter of the message at `of`."""

    of: int
    offset: int
    note: str


@dataclass(frozen=True, slots=True)
class _Outdated:
    """The group's generation changed after the assignment; the partition may still be ours."""

    error: str


class TransactionalDelivery:
    """Sends the letter and commits its source offset, both or neither, in a transaction.

    The offset is committed with the member id and generation of our assignment (KIP-447): the
    broker rejects it if the group has removed that member meanwhile. Beside it is the note, as
    beside any other: where keys are in order, others below may not be done.
    """

    def __init__(
        self,
        client: Client,
        producer: TransactionalProducer,
        wait: AckWait,
        flow_control: FlowControl,
        commit_of: Callable[[Partition, int], tuple[int, str]],
        *,
        transaction_timeout_s: float,
        start_timeout_s: float,
    ) -> None:
        """`commit_of` gives what to commit once the message there is done: offset and note."""
        self._client = client
        self._offsets = flow_control.offsets
        self._producer = producer
        self.topic = producer.topic
        self.partitions = producer.partitions
        self._wait = wait
        self._flow_control = flow_control
        self._commit_of = commit_of
        self._sent: dict[Partition, _Commit] = {}
        self._group_id = client.group_id
        self._timeout_s = transaction_timeout_s
        self._start_timeout_s = start_timeout_s

    def prepare(self) -> None:
        """Gets the producer's id, within `start_timeout_s`. A stop ends the wait early.

        Raises `ConfigurationError`, and `BrokerError` if transactions can never begin.
        """
        self._producer.check()
        step = self._wait.retry_until(self._producer.initialise, self._start_timeout_s, grace_s=0)
        if not isinstance(step, Completed) and not self._wait.is_stopping:
            self._producer.renew()
            raise BrokerError(
                f"transactional dead letters to {self.topic} cannot begin: "
                f"{error_text(step.error)}; check that the brokers allow transactions, and this "
                "user to write with a "
                f"transactional.id that begins with {self._group_id}-"
            ) from KafkaException(step.error)

    def send(self, held: Held[Message], record: OutgoingRecord) -> Steps[Answer | TooLarge]:
        """Sends the letter and commits the offset, both or neither. Raises `FencedError`.

        Waits in the steps of `AckWait`; waits for the commit without polling the consumer.
        """
        abandoned = True
        try:
            answer = yield from self._send(held, record)
            abandoned = isinstance(answer, Abandoned)
        finally:
            if abandoned and self._is_in_transaction(held):
                # What was committed stays unknown: restart at the committed offset, whatever it is.
                self._flow_control.mark_lost([held.partition], "left inside a transaction")
                self._end(held)
        return answer

    def failed(self) -> None:
        """Does nothing: an uncommitted transaction is already aborted."""

    def poll(self) -> None:
        self._producer.poll(0)

    def close(self) -> bool:
        """Aborts the open transaction, or leaves that to the broker's transaction timeout."""
        if self._producer.in_transaction:
            self._producer.abort(_ABORT_WITHIN_S)
        self._producer.renew()
        return False

    # -- one transaction -------------------------------------------------------------------

    def _send(self, held: Held[Message], record: OutgoingRecord) -> Steps[Answer | TooLarge]:
        before = self._sent.get(held.partition)
        if self._is_in_transaction(held) and before is not None and before.of != held.offset:
            # Its own is what shows whether it happened, and would be no more after another.
            return NotSent(f"whether the letter of offset {before.of} is committed is not known")
        error = ""
        for has_moved_on in (False, *[True] * _REBALANCES):
            if has_moved_on:
                # Members joined or left and this partition stayed, maybe without any callback.
                # Read after a poll: only then has the member been told of everything it lost.
                yield True
                if not self._wait.is_ours(held):
                    return Abandoned()
                self._client.member.capture()
            ended = yield from self._make_ready(held)
            answer = ended or (yield from self._transact(held, record))
            if not isinstance(answer, _Outdated):
                return answer
            error = answer.error
        return NotSent(error)

    def _transact(
        self, held: Held[Message], record: OutgoingRecord
    ) -> Steps[Answer | TooLarge | _Outdated]:
        if self._client.member.metadata is None:
            return _Outdated("not a member of the group at the moment")
        silent = self._unless_the_group_answers(held)
        if silent is not None:
            return silent
        begun = self._producer.begin()
        if not isinstance(begun, Completed):
            self._abort(held)
            return NotSent(error_text(begun.error))
        delivery = self._producer.send(record)
        answered = self._wait.wait_for(lambda: delivery.done, held, self._producer.poll)
        if not (yield from answered):
            self._abort(held)
            return Abandoned()
        answer = answer_of(delivery)
        if not isinstance(answer, Acknowledged):
            self._abort(held)
            # Its sequence number is missing now: librdkafka 2.16 rejects the next record of this
            # producer ("skipped sequence numbers"), even a smaller form.
            self._producer.renew()
            return answer
        refused = (yield from self._drain_commits(held)) or self._add_offset(held)
        if refused is not None:
            self._abort(held)
            return refused
        return (yield from self._commit(held))

    def _unless_the_group_answers(self, held: Held[Message]) -> NotSent | None:
        """Checks that the group answers, if it has left an earlier producer without an answer.

        With its coordinator down librdkafka keeps waiting, whatever its timeout, in five or six
        threads per delivery (24 more in the first minute, measured).
        """
        left = self._producer.left_behind
        if left >= _MOST_LEFT_BEHIND:
            raise BrokerError(
                f"{left} producers of dead letters to {self.topic} wait for an answer about "
                f"group {self._group_id} that librdkafka never receives (librdkafka "
                "#5511); the letter is not sent: restart the consumer"
            )
        try:
            if left:
                self._client.committed(held.partition)
        except KafkaException as error:
            return NotSent(f"the group does not answer: {error_text(error.args[0])}")
        return None

    def _drain_commits(self, held: Held[Message]) -> Steps[Answer | None]:
        """Waits for this partition's pending commit, and allows no other.

        It would be lower than the transaction's, and the broker keeps the one that arrives last:
        it would forget that the letter was sent.
        """
        partition = held.partition
        if not self._wait.is_ours(held):
            return Abandoned()
        self._offsets.begin_transaction(partition)
        drained = yield from self._wait.wait_for(
            lambda: not self._client.awaits_commit(partition),
            held,
            lambda _: self._producer.poll(_LOOK_AGAIN_S),
            within_s=self._timeout_s,
            polls_at_once=True,
        )
        if not drained or not self._wait.is_ours(held):
            return Abandoned()
        if self._client.awaits_commit(partition):
            return NotSent("a commit of its partition is under way and not answered")
        return None

    # From here until the commit ends the consumer is not polled: a rebalance in between would
    # change what the broker takes to be ours.

    def _add_offset(self, held: Held[Message]) -> Answer | _Outdated | None:
        partition = held.partition
        offset, note = self._commit_of(partition, held.offset)
        self._sent = {key: sent for key, sent in self._sent.items() if key in self._offsets}
        self._sent[partition] = _Commit(held.offset, offset, note)
        to_commit = self._client.to_commit(partition, offset, note)
        step = self._wait.retry_until(
            lambda within_s: self._producer.send_offset(
                to_commit, self._client.member.metadata, within_s
            ),
            self._timeout_s / 2,
        )
        if isinstance(step, Completed):
            return None
        if isinstance(step, Unfinished):
            # Arriving late, it would join the next transaction; a new epoch prevents that.
            self._producer.renew()
        if step.error.code() in _OUTDATED:
            return _Outdated(error_text(step.error))
        if step.error.code() in _NOT_A_MEMBER:
            self._flow_control.mark_all_lost("no longer a member")
            return Abandoned()
        if step.error.code() == KafkaError.FENCED_INSTANCE_ID:
            raise_if_fatal(step.error)
        return NotSent(error_text(step.error))

    def _commit(self, held: Held[Message]) -> Steps[Answer]:
        step = self._wait.retry_until(self._producer.commit, self._timeout_s / 2)
        if isinstance(step, Completed):
            sent = self._sent[held.partition]
            return self._acknowledged(held, (sent.offset, sent.note))
        # It may be committed after all, so it stays in a transaction until the group was asked.
        if isinstance(step, Refused):
            self._producer.abort(_ABORT_WITHIN_S)
        else:
            self._producer.renew()
        return (yield from self._make_ready(held)) or NotSent(error_text(step.error))

    def _acknowledged(self, held: Held[Message], committed: tuple[int, str]) -> Acknowledged:
        self._offsets.committed({held.partition: committed})
        self._end(held)
        return Acknowledged()

    def _abort(self, held: Held[Message]) -> None:
        """Aborts a transaction whose commit was never requested: none of it will be committed."""
        self._producer.abort(_ABORT_WITHIN_S)
        self._end(held)

    def _end(self, held: Held[Message]) -> None:
        self._offsets.end_transaction(held.partition)
        self._sent.pop(held.partition, None)

    # -- before a transaction --------------------------------------------------------------

    def _make_ready(self, held: Held[Message]) -> Steps[Answer | None]:
        """Ends any open transaction; returns this letter's answer, if that transaction had it."""
        if self._producer.in_transaction:  # left open by an exception
            self._producer.abort(_ABORT_WITHIN_S)
        answer = yield from self._initialise(held)
        if answer is not None or not self._is_in_transaction(held):
            return answer
        yield True  # by now another member may have committed for this partition
        return self._fate(held) if self._is_in_transaction(held) else Abandoned()

    def _initialise(self, held: Held[Message]) -> Steps[Answer | None]:
        last: Step = Completed()

        def initialise(within_s: float) -> None:
            nonlocal last
            last = self._producer.initialise(within_s)

        def over() -> bool:
            return self._producer.ready or isinstance(last, Refused | Broken)

        answered = yield from self._wait.wait_for(over, held, initialise)
        if not answered or not self._wait.is_ours(held):
            return Abandoned()
        if self._producer.ready or isinstance(last, Completed):
            return None
        self._producer.renew()
        return NotSent(error_text(last.error))

    def _fate(self, held: Held[Message]) -> Answer | None:
        """Reads what is committed, now that the broker has ended all our transactions.

        If the note had no room for what the transaction changes, the letter is sent again.
        """
        partition = held.partition
        try:
            committed = self._client.notes([partition])[partition]
        except KafkaException as error:
            committed = error.args[0]
        if isinstance(committed, KafkaError):
            return NotSent(f"whether it is committed is not known: {error_text(committed)}")
        offset, note, _ = committed
        is_new = (offset, note) != self._offsets.last_committed(partition)
        is_ours = _Commit(held.offset, offset, note) == self._sent.get(partition)
        if offset > held.offset or (is_new and is_ours):
            return self._acknowledged(held, (offset, note))
        self._end(held)
        return None

    def _is_in_transaction(self, held: Held[Message]) -> bool:
        return self._wait.is_ours(held) and self._offsets.is_in_transaction(held.partition)
