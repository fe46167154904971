"""What serializers of a schema registry write is decoded with the schemas of the registry."""

import json
from collections.abc import Iterator

import pytest
from google.protobuf import timestamp_pb2

from linear_retry.errors import ConfigurationError
from linear_retry.kafka.schema_registry import SchemaRegistry, SchemaRegistryError
from tests.kafka.registry import avro_order, serving


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving() as url:
        yield url


def test_avro(url: str) -> None:
    """What confluent-kafka's own serializer writes is shown as JSON, decimals and bytes too."""
    content = avro_order(url)
    found = SchemaRegistry(url).decode("orders", content)
    assert {"name": "Ann", "amount": "12.50", "proof": "ff"} == json.loads(found or "")


def test_protobuf(url: str) -> None:
    """The second message of its file, with another schema's message in it and a time."""
    person = b"\x0a\x03Ann"
    at = timestamp_pb2.Timestamp(seconds=1_795_000_000).SerializeToString()
    paid = b"\x0a" + bytes([len(person)]) + person + b"\x12" + bytes([len(at)]) + at
    content = b"\0" + (2).to_bytes(4) + b"\x02\x02" + paid
    found = SchemaRegistry(url).decode("orders", content)
    assert {"by": {"name": "Ann"}, "at": "2026-11-18T11:06:40Z"} == json.loads(found or "")


def test_what_is_not_of_a_registry(url: str) -> None:
    """A text is none; a number that the registry does not know, and cut bytes, are errors."""
    registry = SchemaRegistry(url)
    assert registry.decode("orders", b'{"a": 1}') is None
    assert registry.decode("orders", b"\0\0") is None
    for content in (b"\0\0\0\0\x09ab", b"\0\0\0\0\x01\xff\xff", b"\0\0\0\0\x02"):
        with pytest.raises(SchemaRegistryError, match="cannot be decoded"):
            registry.decode("orders", content)


def test_a_registry_that_is_away() -> None:
    """It is said in one sentence, soon."""
    with pytest.raises(SchemaRegistryError, match="schema 1, and cannot be decoded"):
        SchemaRegistry("http://127.0.0.1:1").decode("orders", b"\0\0\0\0\x01ab")
    with pytest.raises(ConfigurationError, match="schema registry"):
        SchemaRegistry("ftp://registry")
