"""Adapts docstrings and signatures to Sphinx's autodoc."""

import re
from typing import Any, get_args

from linear_retry import Event, testing

# Docstrings use Markdown's single backticks, which are references in reStructuredText.
_CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_PRIVATE_PARAMETER = re.compile(r", _\w+: [^,()]+(?= *[,)])")


_UNIONS = {
    " | ".join(f"~{one.__module__}.{one.__name__}" for one in get_args(union)): name
    for name, union in (
        ("~linear_retry.Event", Event),
        ("~linear_retry.testing.Entry", testing.Entry),
    )
}
"""Named unions, which Sphinx would expand."""


def in_rst(lines: list[str]) -> None:
    """Changes single backticks around code to double ones, in place."""
    lines[:] = _CODE.sub(r"``\1``", "\n".join(lines)).split("\n")


def readable(signature: str) -> str:
    """Returns a signature that Sphinx can parse, without parameters that only tests use."""
    shown = _PRIVATE_PARAMETER.sub("", signature).replace("<factory>", "...")
    for union, name in _UNIONS.items():
        shown = shown.replace(union, name)
    return shown


def _process_docstring(*arguments: Any) -> None:
    in_rst(arguments[-1])


def _process_signature(*arguments: Any) -> tuple[str | None, str | None]:
    *_, signature, returned = arguments
    return readable(signature) if signature else signature, returned


def setup(app: Any) -> dict[str, Any]:
    """Registers for autodoc's events."""
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-process-docstring", _process_docstring)
    app.connect("autodoc-process-signature", _process_signature)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
