"""Guessing a password becomes slow, and nobody else is held up by it."""

import httpx

from linear_retry.web.security.authentication import Attempts
from tests.scheduler.http.conftest import ACCESS, PASSWORD, client_of, served

_PATH = "/api/v1/session"


def test_the_wait_grows_to_a_minute() -> None:
    """It begins after ten failures; an attempt that must wait makes it no longer."""
    now_s = 0.0
    attempts = Attempts(lambda: now_s)
    assert [0] * 10 == [attempts.begin("10.0.0.1", "ann") for _ in range(10)]
    waits = []
    for _ in range(8):
        waits.append(attempts.begin("10.0.0.1", "ann"))
        assert waits[-1] == attempts.begin("10.0.0.1", "ann")
        now_s += waits[-1]
        assert 0 == attempts.begin("10.0.0.1", "ann")
    assert [1, 2, 4, 8, 16, 32, 60, 60] == waits


def test_another_address_and_another_name_need_not_wait() -> None:
    """Else anybody could lock an operator out."""
    attempts = Attempts(lambda: 0.0)
    while not attempts.begin("10.0.0.1", "ann"):
        pass
    assert [0, 0] == [attempts.begin("10.0.0.2", "ann"), attempts.begin("10.0.0.1", "vic")]


def test_failures_are_forgotten() -> None:
    """By a right password, after 15 minutes, and if too many fail."""
    now_s = 0.0
    attempts = Attempts(lambda: now_s, most=2)

    def fail() -> None:
        while not attempts.begin("10.0.0.1", "ann"):
            pass

    fail()
    attempts.passed("10.0.0.1", "ann")
    assert 0 == attempts.begin("10.0.0.1", "ann")
    fail()
    now_s += 902.0
    assert [0, 0] == [attempts.begin("10.0.0.1", "ann") for _ in range(2)]
    fail()
    for name in ("bob", "vic"):
        attempts.begin("10.0.0.1", name)
    assert 0 == attempts.begin("10.0.0.1", "ann")


def test_a_guesser_is_told_to_wait() -> None:
    """With the seconds; and it is the same for a name that nobody has."""
    with served(ACCESS) as server, client_of(server) as anyone:

        def answers(name: str) -> list[httpx.Response]:
            """Until one has to wait: the first wait is 1 s, and a slow answer takes as long."""
            given: list[httpx.Response] = []
            while len(given) < 20 and (not given or given[-1].status_code == 401):
                given.append(anyone.get(_PATH, auth=(name, str(len(given)))))
            return given

        for name in ("vic", "nobody"):
            *wrong, last = answers(name)
            assert len(wrong) >= 10
            assert 429 == last.status_code
            assert last.json()["error"].startswith("too many wrong passwords; try again in ")
        # Whoever has shown the right one is not held up by those who guess.
        assert 200 == anyone.get(_PATH, auth=("ann", PASSWORD)).status_code
        assert 401 == answers("ann")[0].status_code
        assert 200 == anyone.get(_PATH, auth=("ann", PASSWORD)).status_code
