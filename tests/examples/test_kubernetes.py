"""The Kubernetes manifests are valid, and say what the program does."""

import json
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import httpx
import kubernetes_validate
import pytest
import yaml

from linear_retry import Strategy
from tests.docs.markdown import ROOT
from tests.examples.conftest import SceneFactory
from tests.examples.probes import wait_for_state
from tests.examples.scene import ORDERS, charging, free_port
from tests.packaging.distributions import build

_FOLDER = ROOT / "examples" / "kubernetes"
_DOCKERFILE = (_FOLDER / "Dockerfile").read_text("utf-8")
_PROGRAM = (_FOLDER / "consumer.py").read_text("utf-8")


def _manifests() -> dict[str, dict[str, Any]]:
    files = ("settings.yaml", "deployment.yaml")
    found = [each for name in files for each in yaml.safe_load_all((_FOLDER / name).read_text())]
    return {each["kind"]: each for each in found}


def _pod() -> dict[str, Any]:
    pod: dict[str, Any] = _manifests()["Deployment"]["spec"]["template"]["spec"]
    return pod


@pytest.mark.parametrize("version", ["1.30", "1.34"])
@pytest.mark.parametrize("kind", ["ConfigMap", "Secret", "Deployment"])
def test_the_manifests_keep_to_the_schemas(kind: str, version: str) -> None:
    """No field that Kubernetes would refuse, or drop without a word."""
    kubernetes_validate.validate(_manifests()[kind], version, strict=True)


def test_the_pod_finds_its_settings() -> None:
    """Each key that the pod asks for is in the ConfigMap or the Secret, under the same name."""
    manifests, (container,) = _manifests(), _pod()["containers"]
    (volume,) = _pod()["volumes"]
    config, secret = (each for source in volume["projected"]["sources"] for each in source.values())
    for asked, kind, content in (
        (config, "ConfigMap", "data"),
        (secret, "Secret", "stringData"),
    ):
        assert manifests[kind]["metadata"]["name"] == asked["name"]
        for item in asked["items"]:
            assert item["key"] in manifests[kind][content]
            assert f'"{item["path"]}"' in _PROGRAM
    (mount,) = container["volumeMounts"]
    assert f'"{mount["mountPath"]}"' in _PROGRAM
    (variable,) = container["env"]
    assert variable["valueFrom"]["configMapKeyRef"]["key"] in manifests["ConfigMap"]["data"]
    assert Strategy(json.loads(manifests["ConfigMap"]["data"]["strategy.json"]))


def test_the_grace_period_covers_the_handler_and_the_close() -> None:
    """A pod that is killed before its end makes duplicates, and a wait for the session's end."""
    bounds_s = re.findall(r"timeout(?:_s)?=(\d+)", _PROGRAM)
    assert 2 == len(bounds_s)
    assert sum(map(int, bounds_s)) < _pod()["terminationGracePeriodSeconds"]


def test_the_image_copies_what_the_package_is_built_from(tmp_path: Path) -> None:
    """From the files that the Dockerfile copies, and no others, a whole wheel is built."""
    copied = re.findall(r"^COPY (.+) \S+$", _DOCKERFILE, re.MULTILINE)
    for source in (ROOT / name for names in copied for name in names.split()):
        if source.is_dir():
            shutil.copytree(source, tmp_path / source.name)
        else:
            shutil.copy(source, tmp_path)
    with zipfile.ZipFile(build("wheel", tmp_path, tmp_path)) as wheel:
        names = set(wheel.namelist())
    assert {"linear_retry/cli/__init__.py", "linear_retry/strategies/short-outage.json"} < names


@pytest.mark.broker
def test_the_program_answers_the_probes(scene: SceneFactory, tmp_path: Path) -> None:
    """At the paths and the port of the manifest, while it retries; SIGTERM is a good end."""
    (container,) = _pod()["containers"]
    (port,) = container["ports"]
    assert f'serve(consumer, {port["containerPort"]}, "0.0.0.0")' in _PROGRAM
    probes = [container[probe]["httpGet"] for probe in ("livenessProbe", "readinessProbe")]
    assert [("/livez", port["name"]), ("/readyz", port["name"])] == [
        (probe["path"], probe["port"]) for probe in probes
    ]
    with charging() as (charges, payments):
        here = scene(payments, probe_port=(own := free_port()))
        here.copy.path("kubernetes")
        here.produce(*ORDERS)
        manifests = _manifests()
        (tmp_path / "strategy.json").write_text(manifests["ConfigMap"]["data"]["strategy.json"])
        kafka = json.loads(manifests["Secret"]["stringData"]["kafka.json"])
        here_only = {"bootstrap.servers": here.kafka.bootstrap, "group.id": kafka["group.id"]}
        (tmp_path / "kafka.json").write_text(json.dumps(here_only))
        environment = {
            "BILLING_SETTINGS": str(tmp_path),
            "PAYMENTS_URL": f"http://127.0.0.1:{payments}",
        }
        with here.copy.running("python examples/kubernetes/consumer.py", environment) as consumer:
            here.wait_until_committed("billing")
            wait_for_state(own, "consuming")
            metrics = httpx.get(f"http://127.0.0.1:{own}/metrics", trust_env=False).text
            consumer.end()
    assert 'linear_retry_attempts_total{group="billing",outcome="failed"} 3.0' in metrics
    here.assert_kept_order(charges)
