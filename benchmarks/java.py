"""Builds and runs the programs for Java libraries."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.child import LIMIT_S
from tests import dying_with_parent, kafka_jars

_PROJECTS = Path(__file__).parent
_BUILT = _PROJECTS.parent / ".cache" / "benchmarks"


def output_of(program: subprocess.Popen[str]) -> str:
    """Waits for its end, for at most `LIMIT_S`, and returns what it has printed since."""
    try:
        output, _ = program.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        program.kill()
        raise
    return output


class NotBuiltError(Exception):
    """A program cannot be had here; the text says why."""


@dataclass(frozen=True, slots=True)
class JavaProgram:
    """A Maven project in a folder beside this file, and its class to run."""

    folder: str
    main: str

    def build(self) -> None:
        """Compiles it, and downloads what it needs the first time. Raises `NotBuiltError`."""
        try:
            subprocess.run(
                ["mvn", "-q", "-B", "package"],
                cwd=_PROJECTS / self.folder,
                capture_output=True,
                text=True,
                check=True,
                timeout=LIMIT_S,
            )
        except OSError as error:
            raise NotBuiltError(f"Maven: {error}") from error
        except subprocess.CalledProcessError as error:
            raise NotBuiltError(error.stdout[-500:]) from error

    def start(self, properties: Mapping[str, object]) -> subprocess.Popen[str]:
        """Runs it, with its output in a pipe."""
        built = _BUILT / self.folder
        return subprocess.Popen(
            dying_with_parent.guarded(
                kafka_jars.java(),
                *(f"-D{name}={value}" for name, value in properties.items()),
                "-cp",
                f"{built}/classes:{built}/dependency/*",
                self.main,
            ),
            stdout=subprocess.PIPE,
            text=True,
        )
