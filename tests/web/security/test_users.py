"""The file of users is read strictly, and passwords are checked without telling who exists."""

import hashlib
from pathlib import Path

import argon2
import pytest

from linear_retry.errors import ConfigurationError
from linear_retry.web.security.users import User, Users, read_users

_HASH = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash("s3cret:é")


def _file(directory: Path, text: str) -> Path:
    path = directory / "users"
    path.write_text(text, "utf-8")
    return path


def test_names_roles_and_passwords(tmp_path: Path) -> None:
    """Each line is a user; comments and empty lines are none."""
    lines = f"# on call\n\nann:operator:{_HASH}\nbob@example.org:viewer:\n"
    users = read_users(_file(tmp_path, lines))
    assert "operator" == users.role_of("ann")
    assert "viewer" == users.role_of("bob@example.org")
    assert users.role_of("carol") is None


def test_whose_token_it_is(tmp_path: Path) -> None:
    """Its hash is in the file; neither the hash itself nor an empty token is one."""
    digits = hashlib.sha256("t0ken:é".encode()).hexdigest()
    users = read_users(_file(tmp_path, f"ann:operator:{_HASH}\nci:viewer:sha256:{digits}\n"))
    assert "viewer" == users.role_of("ci")
    assert ["ci", None, None, None] == [
        users.name_of(token) for token in ("t0ken:é", "t0ken", digits, "")
    ]
    assert not users.has_password("ci", "t0ken:é")


def test_only_the_right_password_passes() -> None:
    """And is known again at later requests, without another check of the hash."""
    users = Users([User("ann", "operator", _HASH), User("bob", "viewer")])
    assert not users.has_shown("ann", "s3cret:é")
    assert users.has_password("ann", "s3cret:é")
    assert users.has_shown("ann", "s3cret:é")
    assert not users.has_shown("ann", "s3cret")
    assert not users.has_shown("bob", "")
    assert not users.has_password("ann", "s3cret")
    assert not users.has_password("ann", "")
    assert not users.has_password("bob", "s3cret:é")
    assert not users.has_password("carol", "s3cret:é")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ann:operator", ":1: must be name:role:hash"),
        ("a b:operator:", ":1: must be name:role:hash"),
        ("\nann:root:", ":2: the role of ann is 'root', must be one of viewer, operator"),
        ("ann:viewer:plain", ":1: this is neither a hash of argon2 nor `sha256:` with 64 digits"),
        ("ci:viewer:sha256:0123", ":1: this is neither a hash of argon2 nor `sha256:`"),
        ("ann:viewer:\nann:operator:", ":2: ann has a line already"),
        ("# nobody yet", "it names nobody"),
        ("ann:viewer:\0", "is NUL"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, text: str, problem: str) -> None:
    """By file and line, with the rule."""
    with pytest.raises(ConfigurationError) as caught:
        read_users(_file(tmp_path, text))
    assert problem in str(caught.value)


def test_a_hash_is_never_shown(tmp_path: Path) -> None:
    """Not in an error about its line, and not in the repr of a user."""
    with pytest.raises(ConfigurationError) as caught:
        read_users(_file(tmp_path, "ann:operator:$argon2id$v=19$garbled-secret"))
    assert "garbled-secret" not in str(caught.value)
    user = User("ann", "operator", _HASH, "0" * 64)
    assert "User(name='ann', role='operator')" == repr(user)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """With the system's reason."""
    with pytest.raises(ConfigurationError, match=r"users file .*/none: cannot be read"):
        read_users(tmp_path / "none")
