"""Finds Java and the jars of the Apache Kafka broker that the tests run on."""

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.cache import CACHE, publish

KAFKA_VERSION = "4.1.1"
OLDEST_JAVA = 17
_POM = Path(__file__).with_name("pom.xml")
_DOWNLOAD_LIMIT_S = 600


class NoBrokerError(Exception):
    """The broker cannot be had on this machine; one line that says why and what to do."""


def java() -> str:
    """The command for Java, `JAVA_HOME`'s before the one on the path; checked to be new enough."""
    home = os.environ.get("JAVA_HOME")
    command = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    wanted = f"tests on a real Kafka broker need Java {OLDEST_JAVA} or later"
    if command is None:
        where = f"JAVA_HOME={home} has no bin/java" if home else "there is no java on the path"
        raise NoBrokerError(f"{wanted}; {where}: install a JDK, or set JAVA_HOME")
    said = _version(command)
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < OLDEST_JAVA:
        found = said.strip().partition("\n")[0] or "nothing"
        raise NoBrokerError(f"{wanted}; {command} says: {found}: set JAVA_HOME to a newer JDK")
    return command


@cache
def _version(command: str) -> str:
    return subprocess.run([command, "-version"], capture_output=True, text=True, check=False).stderr


@dataclass(frozen=True, slots=True)
class Jars:
    """What a `pom.xml` names, and one of the jars that must be among what it brings."""

    name: str
    pom: Path
    proof: str


KAFKA = Jars(f"kafka-{KAFKA_VERSION}", _POM, f"kafka_2.13-{KAFKA_VERSION}.jar")


def directory(cache: Path = CACHE, wanted: Jars = KAFKA) -> Path:
    """The directory that holds the jars; downloaded at the first call, then only looked up.

    The cache is the checkout's: Maven and Ivy both keep one for the user already.
    """
    jars = cache / wanted.name
    if not jars.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix="kafka-") as unfinished:
            target = Path(unfinished) / "jars"
            _download(target, wanted)
            publish(target, jars)
    return jars


def _download(target: Path, wanted: Jars) -> None:
    command = _maven(target, wanted.pom) or _ivy(target, wanted.pom)
    if command is None:
        raise NoBrokerError(
            f"the jars of {wanted.name} are not here yet, and there is nothing to fetch "
            "them with: install Maven (`mvn`), or PySpark in this environment (it brings Ivy)"
        )
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=_DOWNLOAD_LIMIT_S
    )
    if done.returncode or not (target / wanted.proof).is_file():
        last = (done.stdout + done.stderr).strip()[-1500:]
        raise NoBrokerError(f"`{' '.join(command)}` did not fetch {wanted.name}:\n{last}")


def _maven(target: Path, pom: Path) -> list[str] | None:
    command = shutil.which("mvn")
    if command is None:
        return None
    return [
        *(command, "--quiet", "--batch-mode", "--strict-checksums", "--file", str(pom)),
        "dependency:copy-dependencies",
        "-DincludeScope=runtime",
        f"-DoutputDirectory={target}",
    ]


def _ivy(target: Path, pom: Path) -> list[str] | None:
    spark = importlib.util.find_spec("pyspark")
    places = (spark.submodule_search_locations or []) if spark else []
    ivy = [str(jar) for place in places for jar in Path(place, "jars").glob("ivy-*.jar")]
    if not ivy:
        return None
    return [
        *(java(), "-jar", ivy[0], "-ivy", str(pom), "-confs", "default"),
        *("-retrieve", f"{target}/[artifact]-[revision](-[classifier]).[ext]"),
    ]
