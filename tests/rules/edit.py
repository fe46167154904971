"""What a rule takes away, named by its syntax: neither its line nor its layout is part of it."""

import ast
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from textwrap import dedent, indent
from typing import Any, TypeAlias

from tests.rules.library import definitions

_Nodes: TypeAlias = list[Any]

# The other lists of a syntax tree go in pairs, or are nothing without one of their items.
_REMOVABLE = {
    *((ast.Call, "args"), (ast.Call, "keywords"), (ast.BoolOp, "values")),
    *(
        (ast.Dict, "values"),
        (ast.List, "elts"),
        (ast.Set, "elts"),
        (ast.Tuple, "elts"),
        (ast.comprehension, "ifs"),
    ),
    *((ast.With, "items"), (ast.AsyncWith, "items"), (ast.Try, "handlers"), (ast.Match, "cases")),
    *((ast.FunctionDef, "decorator_list"), (ast.ClassDef, "decorator_list")),
    (ast.AsyncFunctionDef, "decorator_list"),
}


class EditError(Exception):
    """What it names is not there, or is not there once, or cannot be taken away."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of one definition."""

    place: str
    what: str | None
    """None: its whole body, or the value of a constant."""
    by: str | None
    """None: nothing is put in its place."""

    def applied(self, text: str) -> str:
        """The text of the module with this change. Raises `EditError`."""
        name = self.place.partition(": ")[2]
        slots = [
            (node, slot)
            for defined, node in definitions(ast.parse(text))
            if defined == name
            for slot in (_slots(node, self.what) if self.what else _bodies(node))
        ]
        if len(slots) != 1:
            raise EditError(
                f"{self.what or 'a body'} is {len(slots)} times in {self.place}, and must be there "
                "once: correct the list, or name more of it"
            )
        ((node, slot),) = slots
        before = ast.dump(node)
        slot.put(self.by)
        if before == ast.dump(node):
            raise EditError(f"takes nothing away from {self.place}")
        lines = text.split("\n")
        first = min(one.lineno for one in [node, *getattr(node, "decorator_list", [])])
        lines[first - 1 : node.end_lineno] = [_unparsed(node)]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class _Slot:
    """Where in a syntax tree something is: so many items of a list, or the one node of a field."""

    parent: ast.AST
    field: str
    start: int
    nodes: _Nodes
    kind: type[ast.AST]
    held: _Nodes
    """What each `...` stands for."""

    def put(self, by: str | None) -> None:
        items = getattr(self.parent, self.field)
        if by is not None:
            nodes = self._filled(by)
        elif self.kind is ast.stmt:
            nodes = [ast.Pass()]
        elif (type(self.parent), self.field) in _REMOVABLE:
            nodes = []
        else:
            raise EditError(f"{ast.unparse(self.nodes[0])} cannot be removed, but only replaced")
        if isinstance(self.parent, ast.Dict) and self.kind is ast.Dict:
            entry = nodes[0] if nodes else ast.Dict([], [])
            self.parent.keys[self.start : self.start + 1] = entry.keys
            self.parent.values[self.start : self.start + 1] = entry.values
        elif isinstance(items, list):
            items[self.start : self.start + len(self.nodes)] = nodes
        else:
            setattr(self.parent, self.field, nodes[0])

    def _filled(self, by: str) -> _Nodes:
        nodes = dict(_readings(by)).get(self.kind)
        if not nodes:
            raise EditError(f"{by} cannot stand in place of {ast.unparse(self.nodes[0])}")
        return _Filled(self.held).visit(ast.Module(nodes, [])).body if self.held else nodes


class _Filled(ast.NodeTransformer):
    """Puts in place of each `...` what was there."""

    def __init__(self, held: _Nodes) -> None:
        self._held = deque(held)

    def visit_Expr(self, node: ast.Expr) -> Any:
        return self._put(node) if _is_rest(node) else self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> Any:
        return self._put(node) if _is_rest(node) else node

    def _put(self, rest: ast.AST) -> Any:
        held = self._held.popleft() if self._held else rest
        return held[0] if isinstance(held, list) and len(held) == 1 else held


def _bodies(node: Any) -> Iterator[_Slot]:
    field = "body" if hasattr(node, "body") else "value"
    value = getattr(node, field)
    kind = ast.stmt if field == "body" else ast.expr
    yield _Slot(node, field, 0, value if field == "body" else [value], kind, [])


def _slots(node: ast.AST, what: str) -> Iterator[_Slot]:
    """Wherever what is written is there, as a statement, an expression, an argument or the like."""
    for kind, wanted in _readings(what):
        for parent in ast.walk(node):
            if kind is ast.expr and isinstance(parent, ast.Expr):
                continue  # it is there as a statement
            for field, start, nodes in _windows(parent, kind, len(wanted)):
                held: _Nodes = []
                if all(_is_like(*pair, held) for pair in zip(wanted, nodes, strict=True)):
                    yield _Slot(parent, field, start, nodes, kind, held)


def _windows(parent: ast.AST, kind: type[ast.AST], size: int) -> Iterator[tuple[str, int, _Nodes]]:
    """Each field and run of so many items that what is written may be."""
    if kind is ast.Dict:
        entries = (
            zip(parent.keys, parent.values, strict=True) if isinstance(parent, ast.Dict) else ()
        )
        for start, (key, value) in enumerate(entries):
            yield "values", start, [ast.Dict([key], [value])]
        return
    for field, value in ast.iter_fields(parent):
        items = value if isinstance(value, list) else [value]
        for start in range(len(items) - size + 1):
            yield field, start, items[start : start + size]


def _readings(text: str) -> Iterator[tuple[type[ast.AST], _Nodes]]:
    """What the text is, by the kind of its nodes: `a = 1` is a statement, and an argument too."""
    for kind, read in _KINDS.items():
        try:
            nodes = read(dedent(text).strip())
        except SyntaxError:
            continue
        if nodes:
            yield kind, nodes


def _first(text: str) -> Any:
    return ast.parse(text).body[0]


_KINDS: dict[type[ast.AST], Callable[[str], _Nodes]] = {
    ast.stmt: lambda text: ast.parse(text).body,
    ast.expr: lambda text: [_first(f"({text}\n)").value],
    ast.keyword: lambda text: _first(f"_(**_, {text}\n)").value.keywords[1:],
    ast.withitem: lambda text: [
        item for item in _first(f"with {text}: ...").items if item.optional_vars
    ],
    ast.Dict: lambda text: [
        entry for entry in [_first(f"{{{text}\n}}").value] if isinstance(entry, ast.Dict)
    ],
    ast.ExceptHandler: lambda text: _first(f"try: ...\n{text}").handlers,
    ast.match_case: lambda text: _first(f"match _:\n{indent(text, ' ')}").cases,
}


def _is_like(wanted: Any, node: Any, held: _Nodes) -> bool:
    """Whether they are the same, where `...` is any expression, or any number of items."""
    if isinstance(wanted, list):
        return isinstance(node, list) and _are_like(wanted, node, held)
    if _is_rest(wanted) and isinstance(node, ast.expr):
        held.append(node)
        return True
    if type(wanted) is not type(node):
        return False
    if not isinstance(wanted, ast.AST):
        return bool(wanted == node)
    if isinstance(wanted, ast.Call) and any(map(_is_rest, wanted.args)):
        arguments = [*node.args, *node.keywords]
        return _is_like(wanted.func, node.func, held) and _are_like(
            [*wanted.args, *wanted.keywords], arguments, held
        )
    fields = [field for field in wanted._fields if field not in ("ctx", "kind", "type_comment")]
    return all(_is_like(getattr(wanted, f), getattr(node, f), held) for f in fields)


def _are_like(wanted: _Nodes, nodes: _Nodes, held: _Nodes) -> bool:
    rest = next((n for n, item in enumerate(wanted) if _is_rest(item)), None)
    if rest is None:
        return len(wanted) == len(nodes) and all(
            _is_like(*pair, held) for pair in zip(wanted, nodes, strict=True)
        )
    end = len(nodes) - (len(wanted) - rest - 1)
    if end < rest or not _are_like(wanted[:rest], nodes[:rest], held):
        return False
    held.append(nodes[rest:end])
    return _are_like(wanted[rest + 1 :], nodes[end:], held)


def _is_rest(node: Any) -> bool:
    inner = node.value if isinstance(node, ast.Expr) else node
    return isinstance(inner, ast.Constant) and inner.value is ...


def _unparsed(node: ast.stmt) -> str:
    """As deep as it was, by as many blocks around it: `indent` would change strings of it too."""
    deep = node.col_offset // 4
    for _ in range(deep):
        node = ast.If(ast.Constant(True), [node], [])
    return ast.unparse(node).split("\n", deep)[deep].lstrip("\n")
