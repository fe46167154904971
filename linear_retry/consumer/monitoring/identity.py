"""Tells which process this is."""

import os
import socket
from collections.abc import Mapping
from typing import Any

from linear_retry.records.process import Process

_DEFAULT_CLIENT_ID = "rdkafka"


def this_process(config: Mapping[str, Any]) -> Process:
    """This one, with the `client.id` that these keys of librdkafka have."""
    client_id = config.get("client.id") or _DEFAULT_CLIENT_ID
    return Process(socket.gethostname(), os.getpid(), str(client_id))
