"""Decodes what serializers of a schema registry have written: Avro, Protobuf and JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from importlib import import_module
from itertools import islice
from typing import Any

from linear_retry.errors import ConfigurationError, LinearRetryError

_MAGIC = 0
_HEAD_BYTES = 5
_TIMEOUT_S = 3
_UNNAMED = "message.proto"
_OWN = "google/protobuf/"


class SchemaRegistryError(LinearRetryError):
    """The registry does not answer, or its schema does not fit the bytes."""


class SchemaRegistry:
    """Decodes values whose first bytes name a schema: a zero byte, then its number."""

    name = "schema registry"

    def __init__(self, url: str) -> None:
        """Asks nobody yet. Raises `ConfigurationError` for a wrong URL, or what is not installed.

        `url` may have a user and a password.
        """
        try:
            from confluent_kafka.schema_registry import SchemaRegistryClient
            from confluent_kafka.schema_registry.avro import AvroDeserializer

            settings = {"url": url, "timeout": _TIMEOUT_S, "max.retries": 0}
            self._client = SchemaRegistryClient(settings)
            # Its cache does not distinguish formats of the same schema.
            self._serialized = SchemaRegistryClient(settings)
            self._avro = AvroDeserializer(self._client)
        except ImportError as error:
            raise ConfigurationError(
                f"a schema registry needs more than is installed ({error.name}): "
                "pip install 'confluent-kafka[avro,protobuf,schemaregistry]'"
            ) from error
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"schema registry: {error}") from error

    def decode(self, topic: str, content: bytes, /) -> str | None:
        """Returns the value as JSON; None if it does not begin as such values do.

        Raises `SchemaRegistryError`.
        """
        if len(content) < _HEAD_BYTES or content[0] != _MAGIC:
            return None
        number = int.from_bytes(content[1:_HEAD_BYTES])
        try:
            return self._decoded(topic, number, content)
        except Exception as error:  # the bytes may be of any kind, and so is what decoders raise
            raise SchemaRegistryError(
                f"it begins as a value of schema {number}, and cannot be decoded "
                f"({type(error).__name__}: {error})"
            ) from error

    def _decoded(self, topic: str, number: int, content: bytes) -> str:
        from confluent_kafka.serialization import MessageField, SerializationContext

        kind = self._client.get_schema(number).schema_type
        if kind == "PROTOBUF":
            return self._protobuf(number, content)
        if kind == "AVRO":
            found = self._avro(content, SerializationContext(topic, MessageField.VALUE))
            return json.dumps(found, indent=2, ensure_ascii=False, default=_shown)
        return json.dumps(json.loads(content[_HEAD_BYTES:]), indent=2, ensure_ascii=False)

    def _protobuf(self, number: int, content: bytes) -> str:
        from google.protobuf import descriptor_pool, json_format, message_factory

        pool = descriptor_pool.DescriptorPool()
        file = self._add_file(pool, self._serialized.get_schema(number, fmt="serialized"), "")
        indexes, start = _message_indexes(content, _HEAD_BYTES)
        found = pool.FindFileByName(file.name)
        kind = list(found.message_types_by_name.values())[indexes[0]]
        for index in indexes[1:]:
            kind = kind.nested_types[index]
        message = message_factory.GetMessageClass(kind).FromString(content[start:])
        return str(json_format.MessageToJson(message, preserving_proto_field_name=True))

    def _add_file(self, pool: Any, schema: Any, name: str) -> Any:
        """Adds a schema after those that it refers to; returns its file."""
        from google.protobuf import descriptor_pb2

        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(schema.schema_str))
        for each in schema.references:
            of = self._serialized.get_version(each.subject, each.version, fmt="serialized").schema
            self._add_file(pool, of, each.name)
        file.name = name or file.name or _UNNAMED
        for dependency in file.dependency:
            if dependency.startswith(_OWN):
                _add_well_known(pool, dependency)
        pool.Add(file)
        return file


def _add_well_known(pool: Any, name: str) -> None:
    """Adds one of Protobuf's own files, which a registry does not have."""
    from google.protobuf import descriptor_pb2

    module = import_module(f"google.protobuf.{name.removeprefix(_OWN).removesuffix('.proto')}_pb2")
    pool.Add(descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb))


def _message_indexes(content: bytes, start: int) -> tuple[list[int], int]:
    """Reads which message of the file it is; returns that, and where the message begins."""
    numbers = _zigzag(content, start)
    count, end = next(numbers)
    if count == 0:
        return [0], end
    found = list(islice(numbers, count))
    return [number for number, _ in found], found[-1][1]


def _zigzag(content: bytes, start: int) -> Iterator[tuple[int, int]]:
    """Yields variable-length numbers, each with the place after it."""
    number = shift = 0
    for place in range(start, len(content)):
        number |= (content[place] & 0x7F) << shift
        shift += 7
        if content[place] < 0x80:
            yield (number >> 1) ^ -(number & 1), place + 1
            number = shift = 0


def _shown(value: object) -> str:
    """What JSON does not have: bytes in hex, times and decimals as their texts."""
    return value.hex() if isinstance(value, bytes) else str(value)
