"""Where the API listens, and by which names and proxies it is reached."""

import pytest

from linear_retry.errors import ConfigurationError
from linear_retry.web.security.access import Access, networks
from linear_retry.web.security.users import User, Users

_PROXIES = networks(["10.0.0.5", "fd00::/8"])


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.1.2.3"])
def test_this_machine_needs_no_users(host: str) -> None:
    """Who is on the machine has its files anyway."""
    Access().check_listening(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "scheduler.internal", ""])
def test_a_network_needs_users_or_a_proxy(host: str) -> None:
    """Else everyone there would be an operator."""
    with pytest.raises(ConfigurationError, match=r"--users\) or .* \(--trusted-proxy\)"):
        Access().check_listening(host)
    Access(users=Users([User("ann", "viewer")])).check_listening(host)
    Access(trusted_proxies=_PROXIES).check_listening(host)


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:8099", "127.0.0.1:8099", "[::1]:8099", "10.1.2.3", "retry.internal:1"],
)
def test_known_hosts(host: str) -> None:
    """Addresses, which nobody can rebind, and the names that were given."""
    assert Access(host_names=frozenset({"retry.internal"})).is_known_host(host)


@pytest.mark.parametrize(
    "host",
    [
        *("", "evil.example", "evil.example:8099", "localhost.evil.example", "127.0.0.1.nip.io"),
        *("ann@localhost", "localhost/livez?", "localhost#", "localhost:x", "[localhost]", "[::1"),
        *("localhost\\@evil.example", "127.0.0.1:8099:1", "loc\u212aalhost", "localhost "),
    ],
)
def test_foreign_hosts(host: str) -> None:
    """Other names, and everything that two parsers may read in two ways."""
    assert not Access(host_names=frozenset({"retry.internal"})).is_known_host(host)


def test_trusted_proxies() -> None:
    """Addresses and networks of both families, and no names."""
    access = Access(trusted_proxies=_PROXIES)
    trusted = ["10.0.0.5", "fd00::17"]
    assert trusted == [
        each for each in [*trusted, "10.0.0.6", "", "proxy"] if access.is_trusted_proxy(each)
    ]


@pytest.mark.parametrize("address", ["proxy.internal", "10.0.0.5/8", ""])
def test_a_proxy_is_an_address(address: str) -> None:
    """A name could be anyone's by the time of a request."""
    with pytest.raises(ConfigurationError, match="must be an address or a network"):
        networks([address])
