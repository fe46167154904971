"""Topics that exist only inside a `with`, such as those of a demonstration."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # exported by import only

from linear_retry.errors import BrokerError
from linear_retry.kafka.quiet import QUIET, text_of
from linear_retry.kafka.topics.standalone_consumer import ANSWER_TIMEOUT_S, StandaloneConsumer


@contextmanager
def temporary_topics(
    bootstrap: str,
    partitions: Mapping[str, int],
    *,
    groups: Sequence[str],
    complain: Callable[[str], object],
    config: Mapping[str, str] | None = None,
    within_s: float = ANSWER_TIMEOUT_S,
) -> Iterator[None]:
    """Creates topics, by name and number of partitions, and deletes them after the `with`.

    The consumer groups are deleted too; `config` is that of each topic. Raises `BrokerError` if no
    broker answers `within_s`, or one refuses a topic. Deletion is best effort: `complain` is called
    with what is left.
    """
    servers = {"bootstrap.servers": bootstrap}
    with closing(StandaloneConsumer(servers, within_s)) as handle:
        handle.topics()
    admin = AdminClient(QUIET | servers)
    try:
        _create(admin, bootstrap, partitions, config or {})
        yield
    finally:
        topics = admin.delete_topics(list(partitions), request_timeout=ANSWER_TIMEOUT_S)
        left = admin.delete_consumer_groups(list(groups), request_timeout=ANSWER_TIMEOUT_S)
        for kind, answers in (("topic", topics), ("group", left)):
            for text in _left_behind(kind, answers):
                complain(text)


def _create(
    admin: Any, bootstrap: str, partitions: Mapping[str, int], config: Mapping[str, str]
) -> None:
    wanted = [NewTopic(name, n, config=dict(config)) for name, n in partitions.items()]
    for name, answer in admin.create_topics(wanted, request_timeout=ANSWER_TIMEOUT_S).items():
        try:
            answer.result()
        except KafkaException as error:
            raise BrokerError(
                f"{bootstrap}: cannot create topic {name!r}: {text_of(error)}"
            ) from error


def _left_behind(kind: str, answers: Mapping[str, Any]) -> Iterator[str]:
    for name, answer in answers.items():
        error = answer.exception()
        if error is not None:
            yield f"the {kind} {name!r} is left behind: {text_of(error)}"
