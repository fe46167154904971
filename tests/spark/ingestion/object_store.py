"""An object store on this machine, and a lake in it."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import boto3  # type: ignore[import-untyped]  # it has no types
from moto.server import ThreadedMotoServer

_BUCKET, _KEY, _SECRET, _REGION = "bucket", "key", "secret", "us-east-1"


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """One with an empty bucket, at this address."""

    endpoint: str

    @property
    def lake(self) -> str:
        """As Hadoop has it."""
        return f"s3a://{_BUCKET}/lake"

    def hadoop(self) -> dict[str, str]:
        """Hadoop's settings for it."""
        return {
            "fs.s3a.endpoint": self.endpoint,
            "fs.s3a.endpoint.region": _REGION,
            "fs.s3a.path.style.access": "true",
            "fs.s3a.access.key": _KEY,
            "fs.s3a.secret.key": _SECRET,
        }

    def place(self, name: str) -> str:
        """Where a reader without Spark finds a table of the lake, with the options of `reader`."""
        return f"s3://{_BUCKET}/lake/{name}"

    def reader(self) -> dict[str, str]:
        """Its options."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": _REGION,
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
        }


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """Runs one meanwhile."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # else each request is a line
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        store = ObjectStore(f"http://{host}:{port}")
        client = boto3.client(
            *("s3", _REGION),
            endpoint_url=store.endpoint,
            aws_access_key_id=_KEY,
            aws_secret_access_key=_SECRET,
        )
        client.create_bucket(Bucket=_BUCKET)
        client.close()
        yield store
    finally:
        server.stop()
