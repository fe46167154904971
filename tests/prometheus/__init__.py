"""Where does a test get a real Prometheus from, and what does that answer?"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from os import getpid
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests import dying_with_parent
from tests.kafka_operations import wait_until

_CHECKOUT = Path(__file__).parents[2]
_PROGRAMS = ("prometheus", "promtool")
_DOWNLOAD_LIMIT_S = 300
_START_LIMIT_S = 60.0
SCRAPE_S = 1
"""From one scrape to the next, and what one may take."""
_CONFIG = """
global:
  scrape_interval: {every_s}s
  scrape_timeout: {every_s}s
  evaluation_interval: {every_s}s
rule_files: [{rules}]
scrape_configs:
  - job_name: consumers
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


class NoPrometheusError(Exception):
    """Prometheus cannot be had on this machine; one line that says why and what to do."""


def program(name: str, cache: Path = _CHECKOUT / ".cache") -> str:
    """`prometheus` or `promtool`: those on the path, else Debian's, in the checkout's cache.

    Fetched at the first call with apt, which needs neither root nor lists of its own for that;
    then only looked up. Nothing is installed.
    """
    found = [shutil.which(one) for one in _PROGRAMS]
    if None not in found:
        return str(found[_PROGRAMS.index(name)])
    package = cache / "prometheus"
    if not package.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix="prometheus-") as unfinished:
            _publish(_fetched(Path(unfinished)), package)
    return str(package / "usr/bin" / name)


def _publish(target: Path, package: Path) -> None:
    # Renamed when complete: a download that was cut short must never pass for a finished one.
    try:
        target.rename(package)
    except OSError:
        if not package.is_dir():  # where it is, another process was faster with the same
            raise


def _fetched(directory: Path) -> Path:
    missing = [name for name in ("apt-get", "dpkg") if shutil.which(name) is None]
    if missing:
        raise NoPrometheusError(
            f"tests of ops/ need prometheus and promtool, and there is no {missing[0]} to fetch "
            "Debian's package with: install Prometheus, so that both are on the path"
        )
    (directory / "lists/partial").mkdir(parents=True)
    (directory / "archives/partial").mkdir(parents=True)
    # Lists of our own, for a user's eyes only: those of the machine may be missing, or root's.
    options = (
        f"Dir::State::lists={directory}/lists",
        f"Dir::Cache={directory}",
        "APT::Sandbox::User=",
        "Acquire::Languages=none",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
        "Acquire::Retries=3",
    )
    apt = ("apt-get", "-q", *(f"-o{option}" for option in options))
    _run(directory, *apt, "update")
    _run(directory, *apt, "download", "prometheus")
    (package,) = directory.glob("prometheus_*.deb")
    _run(directory, "dpkg", "-x", str(package), str(directory / "package"))
    return directory / "package"


def _run(directory: Path, *command: str) -> None:
    done = subprocess.run(
        command,
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=_DOWNLOAD_LIMIT_S,
    )
    if done.returncode:
        last = (done.stdout + done.stderr).strip()[-1500:]
        raise NoPrometheusError(f"`{' '.join(command)}` did not fetch Prometheus:\n{last}")


class Prometheus:
    """A server that scrapes what listens on `port`, and evaluates `rules`, once a second."""

    def __init__(self, directory: Path, port: int, rules: Path) -> None:
        self._directory = directory
        self._config = _CONFIG.format(every_s=SCRAPE_S, port=port, rules=json.dumps(str(rules)))
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Prometheus:
        config = self._directory / "prometheus.yml"
        config.write_text(self._config)
        command = [
            *(sys.executable, "-I", "-S", dying_with_parent.__file__, str(getpid())),
            *(program("prometheus"), f"--config.file={config}", "--log.level=warn"),
            f"--storage.tsdb.path={self._directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
        ]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, process_group=0)
        try:
            wait_until(self._answers, "Prometheus answers", _START_LIMIT_S, self._log.read_text)
        except BaseException:
            self._end()  # `with` calls no __exit__ for what was never entered
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def query(self, expression: str, at_s: float | None = None) -> list[dict[str, Any]]:
        """Each series that it gave at that Unix time, or gives now: `metric` and `value`.

        These are its labels, and time and text.
        """
        when = {} if at_s is None else {"time": f"{at_s:.3f}"}
        answer = self._get("/api/v1/query", query=expression, **when)
        return list(answer["result"])

    def label_values(self, metric: str, label: str) -> list[str]:
        """What Grafana's `label_values(metric, label)` asks for."""
        return list(self._get(f"/api/v1/label/{label}/values", **{"match[]": metric}))

    def rules(self) -> list[dict[str, Any]]:
        """Each rule, with its `health` and `lastError`."""
        groups = self._get("/api/v1/rules")["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def target(self) -> dict[str, Any]:
        """What it says of its scrapes: `health` and `lastError`."""
        (target,) = self._get("/api/v1/targets")["activeTargets"]
        return dict(target)

    # -- inside ------------------------------------------------------------------------------

    def _get(self, path: str, **arguments: str) -> Any:
        url = f"http://127.0.0.1:{self._port}{path}?{urlencode(arguments)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{arguments}: {error.read().decode()}") from error

    def _answers(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            raise AssertionError(f"Prometheus ended by itself\n{self._log.read_text()}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/-/ready", timeout=5):
                return True
        except OSError:
            return False

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
            self._process = None

    @property
    def _log(self) -> Path:
        return self._directory / "prometheus.log"


def free_port() -> int:
    """One that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
