"""`linear-retry demo --console` serves the console over the running demo, then proves itself."""

import re
import signal
import subprocess

import httpx

from tests.demo.test_demo import COMMAND
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S


def test_the_console_beside_the_demo() -> None:
    """An outage is on the page while it lasts; the page stays until Ctrl-C, and the proof holds."""
    with subprocess.Popen(
        [*COMMAND, "--console"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        assert demo.stderr is not None
        demo.stdout.readline()
        found = re.search(r"http://127.0.0.1:[0-9]+", demo.stdout.readline())
        assert found is not None
        with httpx.Client(base_url=found[0], timeout=PATIENCE_S) as client:
            wait_until(lambda: 'class="circuit"' in client.get("/now").text, "an outage")
            wait_until(lambda: "no circuit is open" in client.get("/now").text, "its end")
            assert "All orders are done." in demo.stderr.readline()
            assert 200 == client.get("/now").status_code
        demo.send_signal(signal.SIGINT)
        output = demo.stdout.read()
        assert "Proved: all " in output.splitlines()[-1]
    assert 0 == demo.returncode
