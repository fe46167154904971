"""The example of dead letters resolves some, replays the others, and each once."""

import shlex

import pytest
from typer.testing import CliRunner

from linear_retry.cli import app
from tests.docs.markdown import blocks, page
from tests.examples.conftest import SceneFactory
from tests.examples.running import Copy
from tests.examples.scene import free_port

pytestmark = pytest.mark.broker

_REPAIR = "python examples/dead_letters/repair.py"


def test_declined_orders_are_charged_after_all(scene: SceneFactory) -> None:
    """The order of the test customer is resolved, the other one is charged, and none twice."""
    here = scene(free_port(), partitions=3)
    for name in ("dead_letters", "plain"):
        here.copy.path(name)
    with here.copy.running("python examples/plain/consumer.py") as consumer:
        with here.copy.running("python examples/plain/payments.py") as payments:
            here.copy.run("python examples/plain/orders.py 20")
            payments.wait_for("declined", times=2)
            here.wait_until_committed("billing")
        with here.copy.running("python examples/plain/payments.py --free-orders") as fixed:
            _look(here.copy)
            assert 2 == here.copy.run(_REPAIR).count(" permanent httpx.HTTPStatusError: ")
            done = here.copy.run(f"{_REPAIR} --yes")
            fixed.wait_for("charged")
            again = here.copy.run(f"{_REPAIR} --yes")
            consumer.end()
            assert [["order", "10"]] == [words[-2:] for words in fixed.lines("charged")]
    assert "resolved: 1" in done
    assert "replayed: 1" in done
    assert ["resolved: 0", "replayed: 0"] == again.splitlines()


def _look(copy: Copy) -> None:
    """Every command of the page that looks, or is a dry run."""
    (look, dry_runs) = (
        block.splitlines()
        for block in blocks(page("examples/dead_letters/README.md"), "sh")
        if block.startswith("linear-retry")
    )
    for line in (*look, *dry_runs):
        done = CliRunner().invoke(app, shlex.split(copy.replaced(line))[1:])
        assert (0, True) == (done.exit_code, bool(done.stdout)), done.output
