"""The library that rules are taken away from: where in it a name is."""

import ast
from collections.abc import Iterator
from pathlib import Path

_DEFINED = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Library:
    """The text of each module, as it was when this was made."""

    def __init__(self, package: Path) -> None:
        files = sorted(package.rglob("*.py"))
        self.texts = {str(file.relative_to(package)): file.read_text("utf-8") for file in files}
        self._names: dict[str, set[str]] = {}

    def paths(self, place: str) -> list[str]:
        """The modules that have what `place` names.

        `consumer: Loop.run` is looked for in the whole room, the first folder of a path, and
        `consumer.loop: Loop.run` in a module of it, for a name that others of the room have too.
        """
        where, _, name = place.partition(": ")
        room, _, module = where.partition(".")
        return [
            path
            for path in self.texts
            if path.startswith((f"{room}/", f"{room}.py"))
            and (not module or path.endswith(f"/{module}.py"))
            and name in self._named(path)
        ]

    def _named(self, path: str) -> set[str]:
        if path not in self._names:
            tree = ast.parse(self.texts[path])
            self._names[path] = {name for name, _ in definitions(tree)}
        return self._names[path]


def definitions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.stmt]]:
    """Each function, class, constant and field of a module, by its qualified name."""
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, _DEFINED):
            yield prefix + inner.name, inner
            yield from definitions(inner, f"{prefix}{inner.name}.")
        elif isinstance(inner, ast.Assign | ast.AnnAssign):
            if isinstance(node, ast.Module | ast.ClassDef):
                targets = inner.targets if isinstance(inner, ast.Assign) else [inner.target]
                for target in targets:
                    yield prefix + ast.unparse(target), inner
        elif not isinstance(inner, ast.expr):
            yield from definitions(inner, prefix)
