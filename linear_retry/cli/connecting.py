"""Which cluster is meant, and how do options that several commands share become theirs?"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Which cluster, and how the answer is to be written."""

    bootstrap: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="A broker of the cluster.")
    ] = None
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="librdkafka's keys, such as security.protocol and sasl.*: lines of key=value, or "
            "a JSON object.",
        ),
    ] = None
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on each line.")] = False

    def keys(self) -> dict[str, Any]:
        """librdkafka's keys. Raises `typer.BadParameter`."""
        from linear_retry.cli.config_file import read

        try:
            found = {} if self.config is None else read(self.config)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--config") from None
        if self.bootstrap is not None:
            found = {k: v for k, v in found.items() if k != "metadata.broker.list"}
            found["bootstrap.servers"] = checked_address(self.bootstrap, "--bootstrap")
        if not (found.get("bootstrap.servers") or found.get("metadata.broker.list")):
            raise typer.BadParameter(
                "no broker is named; write --bootstrap HOST:PORT, or bootstrap.servers into the "
                "file of --config"
            )
        return found


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """`command`, where each parameter that is a dataclass stands for its options.

    Typer reads a command's options from its signature: so those of all commands are written once.
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
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # looked for by inspect
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    del run.__wrapped__  # Typer would read the signature of that
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


def checked_address(text: str, option: str | None = None) -> str:
    """Raises `BadParameter` for what is no HOST:PORT, or several with commas between.

    A callback need not name its option.
    """
    for address in text.split(","):
        host, _, port = address.strip().rpartition(":")
        if not (host and port.isdecimal() and 0 < int(port) < 65536):
            raise typer.BadParameter(
                f"{address!r} is not HOST:PORT, such as localhost:9092", param_hint=option
            )
    return text
