"""What the extra `spark` installs is enough for the scheduler on Spark."""

import subprocess
import sys

from tests.patience import PATIENCE_S

_ROOM = "linear_retry.spark.scheduler"


def test_it_needs_no_database() -> None:
    """Executors and the driver import it without SQLAlchemy, which the extra `spark` lacks."""
    code = (
        "import sys; sys.modules['sqlalchemy'] = None; "
        f"import {_ROOM}.service, {_ROOM}.draining, linear_retry.cli.spark.held"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert (0, "") == (done.returncode, done.stderr)
