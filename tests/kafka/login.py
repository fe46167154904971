"""What a client needs to log in where tokens come from a server of the company's own."""

from collections.abc import Mapping
from typing import Any


def _token(_: str) -> tuple[str, float]:
    return "token", 0.0


SECURITY: dict[str, Any] = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "oauth_cb": _token,
    "https.ca.location": "/etc/private-ca.pem",
    "ssl.ca.location": "/etc/private-ca.pem",
    "metadata.recovery.strategy": "none",
}


def logs_in(config: Mapping[str, Any]) -> bool:
    """Whether a client with this configuration can."""
    return config.items() >= SECURITY.items()
