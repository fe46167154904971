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


def soon_missed(config: dict[str, Any]) -> dict[str, Any]:
    """These keys with a short session, for a member that ends without leaving.

    One that they name is kept; a KIP-848 member has no say in it. For no other member: while a
    machine is busy, a broker removes one with a short session though it lives.
    """
    is_kip_848 = config.get("group.protocol") == "consumer"
    return config if is_kip_848 else {"session.timeout.ms": 2000, **config}
