"""Sessions and tokens are those that were issued, and no others."""

from hypothesis import given
from hypothesis import strategies as st

from linear_retry.web.security.sessions import (
    LENGTH_S,
    Sessions,
    basic_credentials,
    bearer_token,
)

_SESSIONS = Sessions(lambda: 1_000.0)


@given(st.text().filter(lambda name: name.encode("utf-8", "replace").decode() == name))
def test_a_session_names_its_user(name: str) -> None:
    """Whatever the name is, until its end."""
    assert name == _SESSIONS.name_of(_SESSIONS.issue(name))


def test_a_session_ends() -> None:
    """At its end to the second."""
    now_s = [1_000.0]
    sessions = Sessions(lambda: now_s[0])
    session = sessions.issue("ann")
    now_s[0] += LENGTH_S - 1
    assert "ann" == sessions.name_of(session)
    now_s[0] += 1
    assert sessions.name_of(session) is None


def test_a_session_of_another_process_is_none() -> None:
    """Each process has a key of its own."""
    assert _SESSIONS.name_of(Sessions(lambda: 1_000.0).issue("ann")) is None


@given(st.text(), st.integers(0, 100))
def test_nothing_else_is_a_session(text: str, cut: int) -> None:
    """Neither other texts, nor a session with something else in it, nor a CSRF token."""
    session = _SESSIONS.issue("ann")
    changed = session[:cut] + text + session[cut + len(text) :]
    assert _SESSIONS.name_of(text) is None
    assert changed == session or _SESSIONS.name_of(changed) is None
    content, _, _ = session.rpartition(".")
    assert _SESSIONS.name_of(f"{content}.{_SESSIONS.csrf_token(content)}") is None


def test_a_csrf_token_belongs_to_one_session() -> None:
    """That of another one, or none, is not it."""
    first, second = _SESSIONS.issue("ann"), _SESSIONS.issue("bob")
    assert _SESSIONS.is_csrf_token(_SESSIONS.csrf_token(first), first)
    assert not _SESSIONS.is_csrf_token(_SESSIONS.csrf_token(second), first)
    assert not _SESSIONS.is_csrf_token("", first)
    assert not _SESSIONS.is_csrf_token("é", first)


def test_basic_credentials() -> None:
    """The scheme in any case; a password may have colons."""
    assert ("ann", "a:b é") == basic_credentials("Basic YW5uOmE6YiDDqQ==")
    assert ("ann", "") == basic_credentials("basic YW5uOg==")


def test_a_bearer_token() -> None:
    """The scheme in any case, and nothing of another scheme."""
    assert ["a.b", "a.b", ""] == [
        bearer_token(each) for each in ("Bearer a.b", "bearer  a.b ", "Bearer")
    ]
    assert bearer_token("Basic YW5uOg==") is None


@given(st.text())
def test_other_headers_are_no_credentials(text: str) -> None:
    """Nothing that a client sends raises."""
    assert basic_credentials(text) is None
    found = basic_credentials(f"Basic {text}")
    assert found is None or isinstance(found, tuple)
