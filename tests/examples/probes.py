"""Asks the probes of an example."""

from typing import Any

import httpx

from tests.kafka_operations import wait_until


def wait_for_state(port: int, state: str) -> dict[str, Any]:
    """The health once it is in this state; both probes answer what it says."""

    with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:

        def asked() -> dict[str, Any] | None:
            health = _health(client)
            return health if health is not None and state == health["state"] else None

        return wait_until(asked, f"{state} at port {port}", detail=lambda: _health(client)) or {}


def _health(client: httpx.Client) -> dict[str, Any] | None:
    try:
        live, ready = (client.get(probe) for probe in ("/livez", "/readyz"))
    except httpx.TransportError:
        return None
    health: dict[str, Any] = ready.json()
    assert (200 if live.json()["alive"] else 503) == live.status_code
    assert (200 if health["ready"] else 503) == ready.status_code
    return health
