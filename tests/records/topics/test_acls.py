"""The permissions that a consumer with retry topics needs."""

from dataclasses import replace

from linear_retry.records.topics.setup import (
    Acl,
    TopicSetup,
    live_acls,
    retry_acls,
    retry_topics,
    scheduler_acls,
    watch_acls,
)

_SETUP = TopicSetup(
    sources=("orders",),
    group="billing",
    retry_topics=retry_topics("orders.billing.retry", (300_000,)),
    prefix="orders.billing.retry",
    dead_letters="orders.dlq",
    journal=None,
    control=None,
)


def _granted(acls: list[Acl]) -> set[tuple[str, str, str]]:
    return {(one.resource, one.name, each) for one in acls for each in one.operations}


def test_the_live_line() -> None:
    """It reads the source and writes to the topics of the prefix, and reads none of them; but it
    checks their settings, for which the plan gave it no permission, so that it did not."""
    assert {
        ("Topic", "orders", "Read"),
        ("Group", "billing", "Read"),
        ("Topic", "orders.dlq", "Write"),
        ("Topic", "orders.billing.retry.*", "Write"),
        ("Topic", "orders.billing.retry.*", "DescribeConfigs"),
    } == _granted([*live_acls(_SETUP, transactional=False)])


def test_the_retry_line() -> None:
    """It does not read the source, and its group is its own."""
    acls = [*retry_acls(_SETUP, transactional=False, back_to_source=False)]
    assert {
        ("Group", "billing.retry", "Read"),
        ("Topic", "orders.billing.retry.*", "Read"),
        ("Topic", "orders.billing.retry.*", "Write"),
        ("Topic", "orders.billing.retry.*", "DescribeConfigs"),
        ("Topic", "orders.dlq", "Write"),
    } == _granted(acls)


def test_whoever_looks() -> None:
    """The groups may be described, or it is unknown whether they live; only events are read."""
    assert {
        ("Topic", "events", "Read"),
        ("Group", "billing", "Describe"),
        ("Group", "billing.retry", "Describe"),
        ("Topic", "orders", "Describe"),
        ("Topic", "orders.billing.retry.*", "Describe"),
    } == _granted([*watch_acls(replace(_SETUP, journal="events"))])


def test_back_to_the_source() -> None:
    """Then it writes to the source, in transactions of its own."""
    live = _granted([*live_acls(_SETUP, transactional=False, back_to_source=True)])
    assert ("Topic", "orders", "DescribeConfigs") in live
    plain = _granted([*retry_acls(_SETUP, transactional=False, back_to_source=False)])
    back = _granted([*retry_acls(_SETUP, transactional=False, back_to_source=True)])
    assert {
        ("Topic", "orders", "Write"),
        ("TransactionalId", "billing.retry-*", "Write"),
    } == back - plain


def test_one_topic() -> None:
    """Its name is no prefix: topics that begin like it are somebody else's."""
    setup = replace(_SETUP, retry_topics={"later": 10_000}, prefix=None)
    assert ("Topic", "later", "Write") in _granted([*live_acls(setup, transactional=False)])


def test_a_scheduler() -> None:
    """The consumer writes to its topic, and looks whether its source is compacted."""
    setup = replace(_SETUP, retry_topics={}, prefix=None, scheduler="later")
    plain = replace(setup, scheduler=None)
    assert {
        ("Topic", "later", "Write"),
        ("Topic", "later", "DescribeConfigs"),
        ("Topic", "orders", "DescribeConfigs"),
    } == _granted([*live_acls(setup, transactional=False)]) - _granted(
        [*live_acls(plain, transactional=False)]
    )
    assert {
        ("Topic", "later", "Read"),
        ("Group", "later.scheduler", "Read"),
        ("Topic", "orders", "Write"),
        ("TransactionalId", "linear-retry-*", "Write"),
    } == _granted([*scheduler_acls("later", ["orders"])])


def test_transactions() -> None:
    """Each line has ids of its own."""
    live = _granted([*live_acls(_SETUP, transactional=True)])
    line = _granted([*retry_acls(_SETUP, transactional=True, back_to_source=False)])
    assert ("TransactionalId", "billing-*", "Write") in live
    assert ("TransactionalId", "billing.retry-*", "Write") in line
