"""The options that name a cluster, and how dataclasses become options of a command."""

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

BOOTSTRAP_NAMES = ("--bootstrap", "--bootstrap-server", "-b")
BOOTSTRAP_VARIABLE = "LINEAR_RETRY_BOOTSTRAP"
CONFIG_VARIABLE = "LINEAR_RETRY_CONFIG"


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Which cluster, and how the answer is to be written."""

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
        # A file that was named on the command line is not sent to the brokers of the environment.
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
        from linear_retry.cli.options.config_file import read

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
    """The file where `--config` names none, and what names it."""
    named = os.environ.get(CONFIG_VARIABLE)
    if named:
        return Path(named), CONFIG_VARIABLE
    # As XDG's specification has it: a relative path there is to be ignored.
    home = os.environ.get("XDG_CONFIG_HOME", "")
    directory = Path(home) if os.path.isabs(home) else Path("~/.config").expanduser()
    file = directory / "linear-retry" / "client.properties"
    return (file if file.is_file() else None), str(file)


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
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
