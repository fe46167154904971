"""Runs an example as its reader would: a copy of its folder, in a process of its own."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests import dying_with_parent
from tests.docs.markdown import ROOT
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S
from tests.whole_lines import whole_lines

_EXAMPLES = ROOT / "examples"


class Program:
    """A running example, and what it has printed so far."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path) -> None:
        self._process, self._output = process, output

    @property
    def output(self) -> str:
        """stdout and stderr."""
        return self._output.read_text(errors="replace")

    def wait_for(self, text: str, times: int = 1) -> None:
        """Returns once `text` has been printed so often."""
        wait_until(lambda: self._count(text) >= times, repr(text), detail=lambda: self.output)

    def lines(self, first_word: str) -> list[list[str]]:
        """The words behind `first_word`, of each line that begins with it."""
        split = [line.split() for line in whole_lines(self._output)]
        return [words[1:] for words in split if words[:1] == [first_word]]

    def end(self, exit_code: int = 0) -> None:
        """Ends it by SIGTERM, as systemd, Docker and Kubernetes do."""
        self._process.send_signal(signal.SIGTERM)
        self.wait(exit_code)

    def kill(self) -> None:
        """Ends it at once."""
        self._process.kill()
        self._process.wait(PATIENCE_S)

    def wait(self, exit_code: int = 0) -> None:
        """Until it has ended, with this exit code."""
        assert exit_code == self._process.wait(PATIENCE_S), self.output

    def _count(self, text: str) -> int:
        assert self._process.poll() in (None, 0), self.output
        return self.output.count(text)


class Copy:
    """An example's files in a directory of the test's, with its cluster and topics in them."""

    def __init__(self, directory: Path, replacements: Mapping[str, str]) -> None:
        self._directory, self._replacements = directory, replacements

    def path(self, name: str) -> Path:
        """A file or a folder of `examples/`, copied."""
        original = _EXAMPLES / name
        for source in [original] if original.is_file() else original.rglob("*"):
            if source.is_file() and source.suffix != ".pyc":
                target = self._directory / source.relative_to(ROOT)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(self.replaced(source.read_text("utf-8")))
        return self._directory / original.relative_to(ROOT)

    @contextmanager
    def running(
        self, command: str, environment: Mapping[str, str] | None = None
    ) -> Iterator[Program]:
        """Runs a command that stands in a README; kills it at the end."""
        assert f"\n{command}" in _pages(), f"no README of the examples has this line: {command}"
        program, *arguments = shlex.split(self.replaced(command))
        output = self._directory / f"output-{len(list(self._directory.glob('output-*')))}"
        path = str(Path(sys.executable).with_name(program))
        with output.open("wb") as file:
            process = subprocess.Popen(
                dying_with_parent.guarded(path, *arguments),
                cwd=self._directory,
                env=os.environ | {"NO_PROXY": "127.0.0.1"} | dict(environment or {}),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                process_group=0,
            )
        running = Program(process, output)
        try:
            yield running
        finally:
            running.kill()

    def run(self, command: str) -> str:
        """Runs a command to its end, which must be a good one; returns its output."""
        with self.running(command) as program:
            program.wait()
            return program.output

    def replaced(self, text: str) -> str:
        """The text, with this test's cluster, topics and ports in it."""
        for written, here in self._replacements.items():
            text = text.replace(written, here)
        return text


def _pages() -> str:
    return "\n".join(path.read_text("utf-8") for path in sorted(_EXAMPLES.rglob("README.md")))
