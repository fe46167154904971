"""The server listens where it may, with TLS if it has a certificate, and logs no request."""

import logging
import socket
import ssl
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from linear_retry.errors import ConfigurationError
from linear_retry.scheduler.http import create_app
from linear_retry.store.database import Database
from linear_retry.web import Access, HttpServer, Tls, serve
from tests.patience import PATIENCE_S
from tests.scheduler.http.conftest import ACCESS, PASSWORD

_APP = create_app(Database("sqlite:////nowhere/store.sqlite3"), ACCESS)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    """A certificate for 127.0.0.1, signed by itself."""
    directory = tmp_path_factory.mktemp("tls")
    made = Tls(str(directory / "certificate.pem"), str(directory / "key.pem"))
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "1",
        "-subj",
        "/CN=localhost",
    ]
    command += ["-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", made.key, "-out", made.certificate]
    subprocess.run([*command, *files], check=True, capture_output=True, timeout=PATIENCE_S)
    return made


def test_tls(tls: Tls) -> None:
    """With a certificate it speaks TLS alone, and a session's cookie is sent over nothing else."""
    trusted = ssl.create_default_context(cafile=tls.certificate)
    with serve(_APP, ACCESS, 0, tls=tls) as served:
        url = f"https://127.0.0.1:{served.port}/api/v1/session"
        with httpx.Client(verify=trusted, timeout=PATIENCE_S) as client:
            assert 200 == client.get(url, auth=("ann", PASSWORD)).status_code
            given = {"name": "ann", "password": PASSWORD}
            answer = client.post(f"{url}/sign-in", json=given)
            assert "; Secure" in answer.headers["Set-Cookie"]
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.get(url.replace("https", "http"))


def test_an_answer_waits_for_no_acknowledgement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Head and body are two packets: with Nagle's algorithm the second came 40 ms later."""
    made: list[socket.socket] = []
    create = socket.create_server

    def creating(*arguments: Any, **options: Any) -> socket.socket:
        made.append(create(*arguments, **options))
        return made[0]

    monkeypatch.setattr(socket, "create_server", creating)
    with serve(_APP, ACCESS, 0):
        assert made[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_files_that_are_no_certificate(tls: Tls, tmp_path: Path) -> None:
    """Both are named before anything listens."""
    for files in (Tls(tls.key, tls.certificate), Tls(str(tmp_path / "none"), tls.key)):
        with pytest.raises(ConfigurationError, match=r"certificate .* with key .*: .+; give both"):
            serve(_APP, ACCESS, 0, tls=files)


def test_a_network_without_users_is_refused() -> None:
    """Before anything listens."""
    with pytest.raises(ConfigurationError, match="without users, it listens on this machine"):
        serve(_APP, Access(), 0, "0.0.0.0")


def test_a_port_that_is_taken(server: HttpServer) -> None:
    """The error names it."""
    with pytest.raises(ConfigurationError, match=rf"127.0.0.1:{server.port}: cannot listen there"):
        serve(_APP, ACCESS, server.port)


def test_a_host_that_does_not_exist() -> None:
    """The error names it."""
    with pytest.raises(ConfigurationError, match=r"no-such-host\.invalid:0: cannot listen there"):
        serve(_APP, ACCESS, 0, "no-such-host.invalid")


def test_closing_twice() -> None:
    """The second time does nothing."""
    served = serve(_APP, ACCESS, 0)
    served.close()
    served.close()


def test_requests_are_not_logged(server: HttpServer, caplog: pytest.LogCaptureFixture) -> None:
    """A query may have a key that somebody searches for."""
    caplog.set_level(logging.DEBUG)
    url = f"http://127.0.0.1:{server.port}/api/v1/session?key=very-private"
    for auth in (("ann", PASSWORD), ("ann", "wrong"), None):
        httpx.get(url, auth=auth)
    ours = [each for each in caplog.records if not each.name.startswith(("httpx", "httpcore"))]
    assert [] == [each for each in ours if "private" in each.getMessage()]
