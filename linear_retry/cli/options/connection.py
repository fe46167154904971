"""The options that name a cluster or its file, those of a journal, and dataclasses as options."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from linear_retry.cli.options.values import past_ms, topic_name, user_directory
from linear_retry.files import printable_path, read_text
from linear_retry.journal.entry import DEFAULT_TOPIC

if TYPE_CHECKING:
    from linear_retry.journal.reader import JournalTail

_FORM = "write lines of key=value, or a JSON object of texts, numbers, true and false"

BOOTSTRAP_NAMES = ("--bootstrap", "--bootstrap-server", "-b")
BOOTSTRAP_VARIABLE = "LINEAR_RETRY_BOOTSTRAP"
CONFIG_VARIABLE = "LINEAR_RETRY_CONFIG"


def read(path: Path) -> dict[str, Any]:
    """Reads the keys in the file at `path`: lines of key=value, as for Kafka's tools, or JSON.

    Raises `ValueError` with one sentence.
    """
    text = read_text(path)
    where = printable_path(path)
    return _from_json(text, where) if text.lstrip().startswith("{") else _from_lines(text, where)


def _from_lines(text: str, where: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, line in enumerate(text.split("\n"), 1):
        written = line.strip()
        if not written or written[0] in "#!":
            continue
        key, equals, value = (part.strip() for part in written.partition("="))
        if not (key and equals):
            # Not the line itself, which may contain a password.
            raise ValueError(f"{where}:{number}: not key=value; {_FORM}")
        found[key] = value
    return found


def _from_json(text: str, where: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: not JSON ({error}); {_FORM}") from None
    for key, value in found.items():
        if not isinstance(value, str | int | float):
            raise ValueError(  # noqa: TRY004  (the file is wrong, not the program)
                f"{where}: the value of {key!r} is {type(value).__name__}; {_FORM}"
            )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """The cluster, and the output format."""

    bootstrap: Annotated[
        str | None,
        typer.Option(
            *BOOTSTRAP_NAMES,
            metavar="HOST:PORT",
            help=f"A broker of the cluster. The default is bootstrap.servers in the file of "
            f"--config, else ${BOOTSTRAP_VARIABLE}.",
        ),
    ] = None
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-F",
            metavar="FILE",
            help="librdkafka's keys, such as security.protocol and sasl.*: lines of key=value, or "
            f"a JSON object. Without it, the file ${CONFIG_VARIABLE}; else "
            "~/.config/linear-retry/client.properties, if there is one.",
        ),
    ] = None
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on each line.")] = False

    def keys(self) -> dict[str, Any]:
        """librdkafka's keys. Raises `typer.BadParameter`."""
        found = self._from_file()
        address = self.bootstrap
        # A file given on the command line is not combined with brokers from the environment.
        if address is None and (self.config is None or not _has_brokers(found)):
            address = os.environ.get(BOOTSTRAP_VARIABLE)
        if address:
            found = {k: v for k, v in found.items() if k != "metadata.broker.list"}
            found["bootstrap.servers"] = address
        if not _has_brokers(found):
            raise typer.BadParameter(
                f"no broker is named; write --bootstrap HOST:PORT, set {BOOTSTRAP_VARIABLE}, or "
                "write bootstrap.servers into the file of --config"
            )
        return found

    def _from_file(self) -> dict[str, Any]:
        from linear_retry.cli.options.connection import read

        file, source = self.config, "--config"
        if file is None:
            file, source = _file_of_environment()
        try:
            return {} if file is None else read(file)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint=source) from None


def _has_brokers(keys: Mapping[str, Any]) -> bool:
    return bool(keys.get("bootstrap.servers") or keys.get("metadata.broker.list"))


def _file_of_environment() -> tuple[Path | None, str]:
    """Returns the default file without `--config`, and what names it."""
    named = os.environ.get(CONFIG_VARIABLE)
    if named:
        return Path(named), CONFIG_VARIABLE
    directory = user_directory("XDG_CONFIG_HOME", ".config")
    file = None if directory is None else directory / "client.properties"
    return (file if file is not None and file.is_file() else None), str(file)


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Returns `command` with each dataclass parameter expanded to its options.

    Typer reads the options from a command's signature; this way shared options are written once.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}

    @wraps(command)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            fields = get_type_hints(group, include_extras=True)
            given[name] = group(**{field: given.pop(field) for field in fields})
        command(**given)

    parameters = list(_parameters(command, hints, groups))
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # for inspect
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    del run.__wrapped__  # or Typer would read the signature of the original
    return run


def _parameters(
    command: Callable[..., None], hints: dict[str, Any], groups: dict[str, Any]
) -> Iterator[inspect.Parameter]:
    for name, parameter in inspect.signature(command).parameters.items():
        if name not in groups:
            yield parameter.replace(annotation=hints[name], kind=parameter.KEYWORD_ONLY)
            continue
        inner = get_type_hints(groups[name], include_extras=True)
        for field, each in inspect.signature(groups[name]).parameters.items():
            yield each.replace(annotation=inner[field])


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalSpan:
    """A journal, and how far back to read it."""

    journal: Annotated[
        str, typer.Option(metavar="TOPIC", callback=topic_name, help="The journal's topic.")
    ] = DEFAULT_TOPIC
    since: Annotated[
        int | None,
        typer.Option(
            metavar="TIME",
            parser=past_ms,
            show_default="7d",
            help="Read entries since this time: 2026-11-21, 2026-11-21T10:00 (UTC), or 2h "
            "for two hours ago. The default is the longest delay that a strategy may have.",
        ),
    ] = None

    def reading(self, connection: Connection) -> JournalTail:
        """Returns a reader of this journal. Raises `typer.BadParameter`."""
        from linear_retry.journal.reader import JournalTail

        since_ms = past_ms("7d") if self.since is None else self.since
        return JournalTail(connection.keys(), self.journal, since_ms=max(since_ms, 0))
