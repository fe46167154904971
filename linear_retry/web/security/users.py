"""The people and programs that may use it: names, roles and hashes, from a file."""

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

import argon2

from linear_retry.errors import ConfigurationError
from linear_retry.files import printable_path, read_text

Role: TypeAlias = Literal["viewer", "operator"]
"""A viewer sees all but payloads, and changes nothing; an operator sees and changes all."""

_NAME = re.compile(r"[\w.@+-]{1,100}", re.ASCII)
_TOKEN_HASH = re.compile(r"sha256:(?P<digits>[0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class User:
    """A line of the file; without a hash, only a trusted proxy can vouch for them."""

    name: str
    role: Role
    password_hash: str | None = field(default=None, repr=False)
    token_hash: str | None = field(default=None, repr=False)
    """SHA-256 in hexadecimal digits. A token is random, so that a slow hash would gain nothing."""


class Users:
    """Knows everyone's role, and checks passwords and tokens."""

    def __init__(self, users: Iterable[User]) -> None:
        self._users = {user.name: user for user in users}
        self._hasher = argon2.PasswordHasher()
        self._nobodys = self._hasher.hash(secrets.token_hex())
        self._key = secrets.token_bytes()
        # A client sends its password with each request, and a check of the hash takes 50 ms.
        self._passed: dict[str, bytes] = {}

    def role_of(self, name: str) -> Role | None:
        """Returns the user's role; None if the file does not have them."""
        user = self._users.get(name)
        return None if user is None else user.role

    def name_of(self, token: str) -> str | None:
        """Returns whose token it is; None if it is nobody's."""
        digits = hashlib.sha256(token.encode()).hexdigest()
        for user in self._users.values():
            if user.token_hash is not None and hmac.compare_digest(digits, user.token_hash):
                return user.name
        return None

    def has_shown(self, name: str, password: str) -> bool:
        """Whether this password of the user has been checked before. It takes no time."""
        return hmac.compare_digest(self._digest(name, password), self._passed.get(name, b""))

    def has_password(self, name: str, password: str) -> bool:
        """Whether the password is this user's. It takes as long for a name that nobody has."""
        user = self._users.get(name)
        expected = user.password_hash if user is not None else None
        passed = _matches(self._hasher, expected or self._nobodys, password)
        if not passed or expected is None:
            return False
        self._passed[name] = self._digest(name, password)
        return True

    def _digest(self, name: str, password: str) -> bytes:
        return hmac.digest(self._key, f"{name}:{password}".encode(), "sha256")


def _matches(hasher: argon2.PasswordHasher, password_hash: str, password: str) -> bool:
    try:
        return hasher.verify(password_hash, password)
    except argon2.exceptions.VerificationError:
        return False


def read_users(path: str | os.PathLike[str]) -> Users:
    """Reads a file of lines `name:role:hash`; empty ones and those that begin with # are left out.

    The hash is argon2's of a password, or `sha256:` and that of a token; without it (`name:role:`),
    only a trusted proxy can vouch for the user. Raises `ConfigurationError`, which names the line
    and never shows a hash.
    """
    try:
        lines = read_text(path).splitlines()
    except ValueError as error:
        raise ConfigurationError(f"users file {error}") from error
    where = printable_path(path)
    found = {}
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.startswith("#"):
            user = _user(line.strip(), f"users file {where}:{number}")
            if user.name in found:
                raise ConfigurationError(
                    f"users file {where}:{number}: {user.name} has a line already; remove one"
                )
            found[user.name] = user
    if not found:
        raise ConfigurationError(f"users file {where}: it names nobody; add a line name:role:hash")
    return Users(found.values())


def _user(line: str, where: str) -> User:
    name, _, rest = line.partition(":")
    role, separator, given = rest.partition(":")
    if not separator or _NAME.fullmatch(name) is None:
        raise ConfigurationError(
            f"{where}: must be name:role:hash, with a name of at most 100 letters, digits and ._@+-"
        )
    for known in get_args(Role):
        if role == known:
            if token_hash := _TOKEN_HASH.fullmatch(given):
                return User(name, known, token_hash=token_hash["digits"])
            return User(name, known, _checked(given, where) or None)
    raise ConfigurationError(
        f"{where}: the role of {name} is {role!r}, must be one of {', '.join(get_args(Role))}"
    )


def _checked(password_hash: str, where: str) -> str:
    try:
        if password_hash:
            argon2.extract_parameters(password_hash)
    except argon2.exceptions.InvalidHashError as error:
        raise ConfigurationError(
            f"{where}: this is neither a hash of argon2 nor `sha256:` with 64 digits; make one "
            "with `python -c 'import argon2, getpass; "
            "print(argon2.PasswordHasher().hash(getpass.getpass()))'`"
        ) from error
    return password_hash
