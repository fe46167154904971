"""In the example of accounts those of a closed bank wait, and the others are paid."""

from collections import defaultdict

import pytest

from tests.examples.conftest import SceneFactory
from tests.examples.running import Program
from tests.examples.scene import free_port

pytestmark = pytest.mark.broker

_ACCOUNTS, _TIMES = 200, 5


def _paid(*banks: Program) -> dict[int, list[int]]:
    """By account, the numbers of its transfers in the order in which they were paid."""
    found: dict[int, list[int]] = defaultdict(list)
    for program in banks:
        for account, number in program.lines("paid"):
            found[int(account)].append(int(number))
    return found


def test_the_accounts_of_a_closed_bank_wait(scene: SceneFactory) -> None:
    """All others are paid meanwhile; then those are too: each once, in the order of its account,
    though the consumer was ended in between."""
    here = scene(free_port(), partitions=3)
    here.kafka.create_topic(f"{here.orders}.journal", 1)
    here.copy.path("accounts")
    consumer_command = "python examples/accounts/consumer.py"
    with here.copy.running("python examples/accounts/banks.py north") as closed:
        with here.copy.running(consumer_command) as consumer:
            sent = here.copy.run("python examples/accounts/transfers.py 5")
            assert f"transfers sent: {_ACCOUNTS * _TIMES}\n" == sent
            closed.wait_for("paid ", times=_TIMES * _ACCOUNTS * 3 // 4)
            consumer.wait_for("circuit open", times=_ACCOUNTS // 4)
            listed = here.copy.run(
                "linear-retry circuits list --group payments --bootstrap localhost:9092"
            )
            assert _ACCOUNTS // 4 == listed.count(" key ")
            consumer.end()
        with here.copy.running(consumer_command) as consumer:
            consumer.wait_for("assigned")
            closed.end(-15)
            with here.copy.running("python examples/accounts/banks.py") as opened:
                here.wait_until_committed("payments")
                consumer.end()
                paid = _paid(closed, opened)
    assert {account: [*range(1, _TIMES + 1)] for account in range(_ACCOUNTS)} == paid
    assert [] == here.dead_letters()
