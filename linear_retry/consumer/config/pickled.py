"""Pickles a consumer as the arguments of its constructor."""

import pickle
from collections.abc import Iterator, Mapping
from typing import Any

from linear_retry.errors import ConfigurationError

REMEDY = (
    "define it at the top level of a module; or give run_together a function that creates the "
    "retry line; or run that in a thread (threads=True), or as a service of its own"
)


def check_picklable(arguments: Mapping[str, Any]) -> None:
    """Raises `ConfigurationError` that names the argument that another process cannot be given."""
    for name, value in _parts(arguments):
        try:
            pickle.dumps(value)
        except Exception as error:  # a user's object may raise anything
            why = str(error) or type(error).__name__
            raise ConfigurationError(
                f"{name}={value!r}: cannot be pickled for another process ({why}); {REMEDY}"
            ) from error


def _parts(arguments: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Each argument, and each key of a mapping and item of a list by itself."""
    for name, value in arguments.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}[{key!r}]", item) for key, item in value.items())
        elif isinstance(value, list | tuple | set | frozenset):
            yield from ((f"{name}[{number}]", item) for number, item in enumerate(value))
        else:
            yield name, value
