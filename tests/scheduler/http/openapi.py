"""Requests that the API's own description allows, with hostile texts in every place for one."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
from hypothesis import strategies as st

PRIVATE = "pr1vate"
"""In every text of every request: it must not get into a log."""

_HOSTILE = [
    f"{PRIVATE}'; DROP TABLE linear_retry_message; --",
    f"{PRIVATE}' OR '1'='1",
    f'{PRIVATE}") UNION SELECT value FROM linear_retry_message --',
    f"<script>alert('{PRIVATE}')</script>",
    f'"><img src=x onerror=alert("{PRIVATE}")>',
    f"{PRIVATE}%_\\",
    f"{PRIVATE}\0\u202e\U0001f600\r\nSet-Cookie: a=b",
    f"{{{{7*7}}}}${{7*7}}%(x)s{{0}}{PRIVATE}",
]
_NUMBERS = st.sampled_from([1, 2, 3, 10**14, -1, 0, 2**31, 2**63 - 1, 2**63, 10**30])


@dataclass(frozen=True, slots=True)
class Operation:
    """A method of a path, with the schemas of what it takes."""

    method: str
    path: str
    parameters: list[dict[str, Any]] = field(repr=False)
    body: dict[str, Any] | None = field(repr=False)
    definitions: dict[str, Any] = field(repr=False)

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def example(self) -> str:
        """The path with an id in it."""
        return self.path.replace("{message_id}", "1").replace("{letter_id}", "1")

    def send(self, client: httpx.Client, draw: Any) -> httpx.Response:
        """Sends a request of drawn values."""
        path, query = self.path, {}
        for each in self.parameters:
            name = each["name"]
            value = draw(_texts(each["schema"], self.definitions), label=name)
            if each["in"] == "path":
                path = path.replace(f"{{{name}}}", str(httpx.QueryParams(x=value))[2:] or "1")
            elif value is not None and (each["required"] or not draw(st.integers(0, 3))):
                query[name] = value
        body = None
        if self.body is not None:
            body = draw(_values(self.body, self.definitions), label="body")
        return client.request(self.method, path, params=query, json=body)


def operations(description: dict[str, Any]) -> Iterator[Operation]:
    """All operations of an OpenAPI description."""
    definitions = description["components"]["schemas"]
    for path, methods in description["paths"].items():
        for method, found in methods.items():
            content = found.get("requestBody", {}).get("content", {})
            body = content.get("application/json", {}).get("schema")
            parameters = [each for each in found.get("parameters", []) if each["in"] != "header"]
            yield Operation(method.upper(), path, parameters, body, definitions)


def _texts(schema: dict[str, Any], definitions: dict[str, Any]) -> st.SearchStrategy[Any]:
    """A value for an URL: most of the time of the right type."""
    values = _values(schema, definitions).filter(lambda value: not isinstance(value, list | dict))
    return st.integers(0, 9).flatmap(lambda dice: values if dice else st.sampled_from(_HOSTILE))


def _values(schema: dict[str, Any], definitions: dict[str, Any]) -> st.SearchStrategy[Any]:
    if "$ref" in schema:
        return _values(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in schema:
        return st.one_of([_values(each, definitions) for each in schema["anyOf"]])
    if "prefixItems" in schema:
        return st.tuples(*(_values(each, definitions) for each in schema["prefixItems"])).map(list)
    match schema.get("type"):
        case "object":
            required = set(schema.get("required", ()))
            fields = {
                name: _values(each, definitions) for name, each in schema["properties"].items()
            }
            return st.fixed_dictionaries(
                {name: each for name, each in fields.items() if name in required},
                optional={name: each for name, each in fields.items() if name not in required},
            )
        case "array":
            return st.lists(_values(schema["items"], definitions), max_size=3)
        case "integer":
            return _NUMBERS
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
    return st.sampled_from([*schema.get("enum", ()), "orders", *_HOSTILE, "x" * 2000]) | st.text()
