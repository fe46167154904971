"""The group protocols that scenarios run with."""

import pytest

EAGER = {"partition.assignment.strategy": "range"}
COOPERATIVE = {"partition.assignment.strategy": "cooperative-sticky"}
KIP_848 = {"group.protocol": "consumer"}

PROTOCOLS = {"eager": EAGER, "cooperative": COOPERATIVE, "consumer": KIP_848}

each_protocol = pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS.keys())

both_protocols = pytest.mark.parametrize("protocol", [EAGER, KIP_848], ids=["classic", "consumer"])
"""For what a rebalance has no part in: the two cluster-side implementations of a group."""
