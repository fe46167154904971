"""Only errors of ours come out, whichever error of Kafka's comes out of which call."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from linear_retry import DeadLetters, LinearConsumer, LinearRetryError
from linear_retry.consumer.settings.consumer_config import Dependencies
from linear_retry.kafka import Message
from tests.consumer.group import GROUP, LETTERS, PROTOCOL_KEYS, TOPIC, OutageError
from tests.fake.clock import NothingCanHappenError
from tests.fake.cluster import FakeKafka

_CODES = sorted(
    {code for name, code in vars(KafkaError).items() if name.isupper() and isinstance(code, int)}
    - {KafkaError.NO_ERROR}
)
_LIVES_S = 8.0

_OF_CONSUMER = (
    *("poll", "consume", "pause", "resume", "seek", "assign", "unassign", "incremental_assign"),
    *("incremental_unassign", "assignment", "commit", "committed", "offsets_for_times"),
    *("subscribe", "list_topics", "memberid", "consumer_group_metadata", "close"),
)
_OF_PRODUCER = (
    *("produce", "poll", "flush", "purge", "list_topics", "init_transactions"),
    *("begin_transaction", "send_offsets_to_transaction", "commit_transaction"),
    "abort_transaction",
)
_OF_ADMIN = ("list_offsets", "describe_topics", "describe_configs", "describe_cluster")


class _Failing:
    """A client of which one call raises, the first times that it is made."""

    def __init__(self, client: Any, call: str, error: KafkaError, times: int) -> None:
        self._client = client
        self._call = call
        self._error = error
        self._times = times

    def __getattr__(self, name: str) -> Any:
        return self._fail if name == self._call else getattr(self._client, name)

    def __len__(self) -> int:
        return len(self._client)

    def _fail(self, *arguments: Any, **named: Any) -> Any:
        if self._times:
            self._times -= 1
            raise KafkaException(self._error)
        return getattr(self._client, self._call)(*arguments, **named)


class _Life:
    """One consumer, from its start to its end, on a Kafka whose clients fail as they are told."""

    def __init__(self, fails: tuple[str, str], error: KafkaError, *, transactional: bool) -> None:
        self.fake = FakeKafka(balanced=True, idle_polls=5_000)
        self.fake.create_topic(TOPIC, 2)
        self.fake.create_topic(LETTERS, 2)
        for number in range(6):
            self.fake.append(TOPIC, number % 2, b"%d" % number)
        self._fails, self._error = fails, error
        incremental = fails[1].startswith("incremental") or transactional
        protocol = PROTOCOL_KEYS["cooperative" if incremental else "eager"]
        self.consumer = LinearConsumer(
            {"bootstrap.servers": "fake:9092", "group.id": GROUP, **protocol},
            [TOPIC],
            strategy=[1],
            transient=OutageError,
            dead_letters=DeadLetters(LETTERS, transactional=transactional),
            start_timeout_s=5.0,
            _dependencies=Dependencies(
                self._made("consumer", self.fake.consumer),
                self._made("producer", self.fake.producer),
                self._made("admin", self.fake.admin),
                self.fake.clock,
                lambda: 0.0,
            ),
        )
        self.fake.clock.at(_LIVES_S, self.consumer.stop)

    def _made(self, kind: str, make: Callable[..., Any]) -> Callable[..., Any]:
        whose, call = self._fails
        if kind != whose:
            return make
        return lambda config: _Failing(make(config), call, self._error, 3)

    def handle(self, message: Message) -> None:
        if message.offset() == 1:
            raise OutageError
        if message.offset() == 2:
            raise ValueError

    def live(self) -> None:
        try:
            self.consumer.run(self.handle)
        except NothingCanHappenError:
            self.consumer.stop()

    def errors(self) -> list[BaseException]:
        """What came out that is none of ours."""
        found: list[BaseException] = []
        for step in (self.live, self._lag, self.consumer.close):
            try:
                step()
            except LinearRetryError:
                continue
            except Exception as error:  # noqa: BLE001  (whatever it is, it is what is looked for)
                found.append(error)
        return found

    def _lag(self) -> None:
        self.consumer.lag(0.0)


def _kinds(code: int) -> list[KafkaError]:
    """An error as librdkafka may give it."""
    return [
        KafkaError(code, "refused"),
        KafkaError(code, "refused", True),
        KafkaError(code, "refused", False, True),
        KafkaError(code, "refused", False, False, True),
    ]


_CALLS = [
    *(("consumer", call) for call in _OF_CONSUMER),
    *(("producer", call) for call in _OF_PRODUCER),
    *(("admin", call) for call in _OF_ADMIN),
]


@pytest.mark.parametrize("fails", _CALLS, ids=lambda fails: ".".join(fails))
def test_every_code_out_of_every_call(fails: tuple[str, str]) -> None:
    """`CLUSTER_AUTHORIZATION_FAILED` out of a producer's poll ended `run` as a KafkaException: no
    `except LinearRetryError` caught it, and `/livez` could not say of what it died."""
    # A seventh of the codes for each call, another for the next one: each code has its turn.
    odd = [
        (error, raised)
        for number, code in enumerate(_CODES)
        if number % 7 == _CALLS.index(fails) % 7
        for error in [_kinds(code)[number % 4]]
        for transactional in ((False, True) if fails[0] == "producer" else (False,))
        for raised in _Life(fails, error, transactional=transactional).errors()
    ]
    assert [] == odd


_REPORTED = ["message", "error_cb", "commit", "delivery"]


@pytest.mark.parametrize("whose", _REPORTED)
def test_every_code_that_is_reported_and_not_raised(whose: str) -> None:
    """In a message's stead, to `error_cb`, in the answer to a commit, in a delivery report."""
    odd = []
    for number, code in enumerate(_CODES):
        if number // 4 % 2 != _REPORTED.index(whose) % 2:  # another half for the next one
            continue
        error = _kinds(code)[number % 4]
        life = _Life(("nobody", "nothing"), error, transactional=False)
        life.fake.clock.at(2.0, partial(_say, life, whose, error))
        odd += [(error, raised) for raised in life.errors()]
    assert [] == odd


def _say(life: _Life, whose: str, error: KafkaError) -> None:
    fake = life.fake
    match whose:
        case "message":
            fake.consumers[-1].fail(error)
        case "error_cb":
            fake.consumers[-1].report(error)
        case "commit":
            fake.faults.fail_commit(error.code(), 2)
        case _:
            fake.faults.fail_delivery(error.code(), 2)
