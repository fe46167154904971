"""Generates the table of permissions, with the names of the examples."""

from docs.generators.markdown import codes, table
from linear_retry.journal.entry import DEFAULT_TOPIC as JOURNAL
from linear_retry.records.control import DEFAULT_TOPIC as CONTROL
from linear_retry.records.topics.acls import command_acls, live_acls, retry_acls
from linear_retry.records.topics.setup import TopicSetup, retry_topics

_EXAMPLE = TopicSetup(
    sources=("orders",),
    group="billing",
    retry_topics=retry_topics("orders.billing.retry", (300_000,)),
    prefix="orders.billing.retry",
    dead_letters="orders.dlq",
    journal=JOURNAL,
    control=CONTROL,
)


def acls() -> str:
    """Returns the permissions of each part of the examples' consumer, and of each command."""
    acls = (
        *live_acls(_EXAMPLE, transactional=True, back_to_source=True),
        *retry_acls(_EXAMPLE, transactional=True, back_to_source=True),
        *command_acls(_EXAMPLE),
    )
    rows = ((acl.purpose, acl.resource, f"`{acl.name}`", codes(acl.operations)) for acl in acls)
    return table(("for", "resource", "name", "operations"), rows)
