"""A real Prometheus for tests."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests import dying_with_parent
from tests.cache import CACHE
from tests.debian import unpacked
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S

_PROGRAMS = ("prometheus", "promtool")
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


def program(name: str, cache: Path = CACHE) -> str:
    """`prometheus` or `promtool`: those on the path, else Debian's, in the checkout's cache.

    Raises `NoPackageError`.
    """
    found = [shutil.which(one) for one in _PROGRAMS]
    if None not in found:
        return str(found[_PROGRAMS.index(name)])
    return str(unpacked("prometheus", cache, alone=True) / "usr/bin" / name)


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
            *(program("prometheus"), f"--config.file={config}", "--log.level=warn"),
            f"--storage.tsdb.path={self._directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
        ]
        with self._log.open("ab") as log:
            guarded = dying_with_parent.guarded(*command)
            self._process = subprocess.Popen(guarded, stdout=log, stderr=log, process_group=0)
        try:
            wait_until(self._answers, "Prometheus answers", self._log.read_text)
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

    def _get(self, path: str, **arguments: str) -> Any:
        url = f"http://127.0.0.1:{self._port}{path}?{urlencode(arguments)}"
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
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
            self._process.wait(PATIENCE_S)
            self._process = None

    @property
    def _log(self) -> Path:
        return self._directory / "prometheus.log"


def free_port() -> int:
    """One that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
