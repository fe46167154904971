"""The group protocols that scenarios run with."""

from typing import Any

import pytest

EAGER = {"partition.assignment.strategy": "range"}
COOPERATIVE = {"partition.assignment.strategy": "cooperative-sticky"}
KIP_848 = {"group.protocol": "consumer"}

PROTOCOLS = {"eager": EAGER, "cooperative": COOPERATIVE, "consumer": KIP_848}

each_protocol = pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS.keys())

both_protocols = pytest.mark.parametrize("protocol", [EAGER, KIP_848], ids=["classic", "consumer"])
"""For what a rebalance has no part in: the two cluster-side implementations of a group."""


def soon_missed(protocol: dict[str, Any]) -> dict[str, Any]:
    """For a member that ends without leaving: a short session, where the member has a say in that.

    For no other: while a machine is busy, a broker removes such a member though it lives.
    """
    return {} if protocol.get("group.protocol") == "consumer" else {"session.timeout.ms": 2000}
