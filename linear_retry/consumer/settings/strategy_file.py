"""A strategy, or rules, in a file that is read again when it has changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from linear_retry.consumer.settings.rules import Rule, Rules, rule_of
from linear_retry.errors import ConfigurationError
from linear_retry.events import StrategyRefused, StrategyReloaded
from linear_retry.files import printable_path
from linear_retry.strategy.file import content_of, parse_all
from linear_retry.strategy.strategy import Strategy


@dataclass(frozen=True, slots=True)
class StrategyFile:
    """A strategy in a file that may change: `strategy=StrategyFile("strategies/pay.json")`.

    The file has a strategy, or rules, as `Strategy.load` and `Rule.load` read them. When a message
    fails, and the file is no longer the one that was read, what it has now is in force from that
    failure on: a wait that has begun ends as it was planned. A file with an error changes nothing;
    the log and the event `StrategyRefused` say why. The check is one `stat` for each failure.
    """

    path: str | os.PathLike[str]

    def current(self) -> Strategy:
        """Reads the strategy that the file has now. Raises `StrategyError`, for rules too."""
        return Strategy.load(self.path)


class FileRules(Rules):
    """What a `StrategyFile` has, as one consumer has it in force: a single strategy is one rule.

    `problem` is why the file as it is now is not in force; "" if it is.
    """

    def __init__(self, file: StrategyFile, check: Callable[[Sequence[Rule]], None]) -> None:
        """`check` refuses what this consumer cannot have.

        Raises `StrategyError`, and what `check` raises.
        """
        self._path = file.path
        self._check = check
        self._version = self._version_now()
        self._content = content_of(self._path)
        self.problem = ""
        super().__init__(self._read(self._content))

    @property
    def labels(self) -> str:
        """The labels of the strategies in force."""
        return ", ".join(dict.fromkeys(each.label for each in self.strategies))

    def look(self) -> StrategyReloaded | StrategyRefused | None:
        """Puts the file into force if it has changed. Returns what has happened, once."""
        version = self._version_now()
        if version == self._version:
            return None
        # Before it is read: if it is written meanwhile, the next look finds another version.
        self._version = version
        before, known = self.labels, self.problem
        try:
            content = content_of(self._path)
            rules = self._read(content)
        except ConfigurationError as error:
            self.problem = str(error)
            path = printable_path(self._path)
            is_new = self.problem != known
            return StrategyRefused(path, before, self.problem) if is_new else None
        self.problem = ""
        is_new = bool(known) or content != self._content
        self._rules, self._content = rules, content
        return StrategyReloaded(printable_path(self._path), before, self.labels) if is_new else None

    def _read(self, content: bytes) -> tuple[Rule, ...]:
        rules = tuple(map(rule_of, parse_all(content, printable_path(self._path))))
        self._check(rules)
        return rules

    def _version_now(self) -> tuple[int, ...] | None:
        """What differs once it is written or replaced, as by a mounted ConfigMap's new link."""
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
