"""Who may use what is served, from where, and by which host names."""

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from linear_retry.errors import ConfigurationError
from linear_retry.web.security.users import Users

_Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_HOST = re.compile(r"(?:(?P<name>[\w.-]+)|\[(?P<address>[0-9A-Fa-f:.]+)\])(?::\d{1,5})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Access:
    """Without users and trusted proxies, everyone on this machine is the operator `local`.

    A request from one of the `trusted_proxies` names its user in `user_header`; a user whom the
    file does not have is a viewer. `host_names` are those by which a browser may reach it,
    beside `localhost` and addresses.
    """

    users: Users | None = None
    trusted_proxies: tuple[_Network, ...] = ()
    user_header: str = "X-Forwarded-User"
    host_names: frozenset[str] = frozenset()

    @property
    def is_local(self) -> bool:
        """Whether this machine's users need no login."""
        return self.users is None and not self.trusted_proxies

    def check_listening(self, host: str) -> None:
        """Raises `ConfigurationError` if everyone who can reach `host` would be an operator."""
        if self.is_local and not is_loopback(host):
            raise ConfigurationError(
                f"{host}: without users, it listens on this machine alone (127.0.0.1); give a "
                "file of users (--users) or the proxy that knows them (--trusted-proxy)"
            )

    def is_trusted_proxy(self, address: str) -> bool:
        """Whether a request from this address may name its user."""
        found = _address(address)
        return found is not None and any(found in network for network in self.trusted_proxies)

    def is_known_host(self, host: str) -> bool:
        """Whether the request's `Host` is the server's, with or without a port.

        A page of another site that lets its own name point here (DNS rebinding) is the same origin
        to the browser, and only this header betrays it. An address cannot be rebound.
        """
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        name = (found["name"] or found["address"]).lower()
        return name in {"localhost", *self.host_names} or _address(name) is not None


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the host."""
    found = _address(host)
    return host == "localhost" or (found is not None and found.is_loopback)


def networks(addresses: Iterable[str]) -> tuple[_Network, ...]:
    """Parses addresses and networks such as `10.0.0.5` and `10.1.0.0/16`.

    Raises `ConfigurationError` for anything else.
    """
    found = []
    for address in addresses:
        try:
            found.append(ipaddress.ip_network(address))
        except ValueError as error:
            raise ConfigurationError(
                f"trusted proxy {address!r}: must be an address or a network, such as 10.0.0.5 or "
                "10.1.0.0/16"
            ) from error
    return tuple(found)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
