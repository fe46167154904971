"""An object store on this machine, and a lake in it."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread

import boto3  # type: ignore[import-untyped]  # it has no types
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server

_KEY, _SECRET, _REGION = "key", "secret", "us-east-1"


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """One with an empty bucket, at this address."""

    endpoint: str
    bucket: str

    @property
    def lake(self) -> str:
        """As Hadoop has it."""
        return f"s3a://{self.bucket}/lake"

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
        return f"s3://{self.bucket}/lake/{name}"

    def reader(self) -> dict[str, str]:
        """Its options."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": _REGION,
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
        }


class _Handler(MotoRequestHandler):
    def handle_expect_100(self) -> bool:
        """Leaves the answer "100 Continue" to Werkzeug (3.1), which gives it as well.

        Hadoop takes a second one for the response to the upload of a file.
        """
        return True


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """Runs one meanwhile."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # else each request is a line
    application = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=_Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        # Moto keeps what is in a bucket, and Hadoop its client for one, until the process ends.
        port = server.server_port
        store = ObjectStore(f"http://127.0.0.1:{port}", f"bucket-{port}")
        client = boto3.client(
            *("s3", _REGION),
            endpoint_url=store.endpoint,
            aws_access_key_id=_KEY,
            aws_secret_access_key=_SECRET,
        )
        client.create_bucket(Bucket=store.bucket)
        client.close()
        yield store
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
