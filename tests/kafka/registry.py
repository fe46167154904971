"""A schema registry over HTTP, as much of one as those ask for who read."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2

_ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "name", "type": "string"},
            {
                "name": "amount",
                "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            },
            {"name": "proof", "type": "bytes"},
        ],
    }
)


def _file(name: str, message: str, *fields: tuple[str, str | None]) -> Any:
    """A Protobuf file: a field of this type, or a text."""
    file = descriptor_pb2.FileDescriptorProto(name=name, package="shop", syntax="proto3")
    kind = file.message_type.add(name=message)
    for number, (field, type_name) in enumerate(fields, 1):
        made = kind.field.add(name=field, number=number, label=1, type=11 if type_name else 9)
        if type_name:
            made.type_name = type_name
    return file


_PERSON = _file("person.proto", "Person", ("name", None))
_PAID = _file("paid.proto", "Other", ("x", None))
_PAID.message_type.add().CopyFrom(
    _file("", "Paid", ("by", ".shop.Person"), ("at", ".google.protobuf.Timestamp")).message_type[0]
)
_PAID.dependency.extend(["person.proto", "google/protobuf/timestamp.proto"])


def _serialized(file: Any) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


class _Registry(BaseHTTPRequestHandler):
    """As much of a registry as its clients ask for to read."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        is_serialized = parse_qs(url.query).get("format") == ["serialized"]
        answers: dict[str, dict[str, Any]] = {
            "/schemas/ids/1": {"schema": _ORDER},
            "/schemas/ids/2": {
                "schemaType": "PROTOBUF",
                "schema": _serialized(_PAID) if is_serialized else 'syntax = "proto3";',
                "references": [{"name": "person.proto", "subject": "person", "version": 1}],
            },
            "/subjects/person/versions/1": {
                "subject": "person",
                "version": 1,
                "id": 3,
                "schemaType": "PROTOBUF",
                "schema": _serialized(_PERSON),
            },
        }
        found = answers.get(url.path)
        content = json.dumps(found or {"error_code": 40403, "message": "not found"}).encode()
        self._answer(404 if found is None else 200, content)

    def do_POST(self) -> None:
        """A serializer asks for the number of its schema."""
        self.rfile.read(int(self.headers["Content-Length"]))
        content = json.dumps({"id": 1, "version": 1, "subject": "s", "schema": _ORDER}).encode()
        self._answer(200, content)

    def _answer(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextmanager
def serving() -> Iterator[str]:
    """Yields the URL of a registry."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Registry) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def avro_order(url: str) -> bytes:
    """What confluent-kafka's own serializer writes of an order."""
    client = SchemaRegistryClient({"url": url})
    serializer = AvroSerializer(client, _ORDER, conf={"auto.register.schemas": False})
    order = {"name": "Ann", "amount": Decimal("12.50"), "proof": b"\xff"}
    content: bytes | None = serializer(order, SerializationContext("orders", MessageField.VALUE))
    assert content is not None
    return content
