"""Keys, values and headers in JSON: text where they are UTF-8, else base64."""

import base64
from typing import TypeAlias

JsonBytes: TypeAlias = str | dict[str, str] | None


def to_json(content: bytes | None) -> JsonBytes:
    """Returns the text, or `{"base64": "..."}` where it is not UTF-8."""
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


def from_json(written: object) -> bytes | None:
    """The inverse of `to_json`. Raises `ValueError` for anything else."""
    match written:
        case None:
            return None
        case str():
            return written.encode()
        case {"base64": str(digits)}:
            try:
                return base64.b64decode(digits, validate=True)
            except ValueError as error:  # binascii.Error, and characters beyond ASCII
                raise ValueError(f"not base64: {error}") from error
        case _:
            raise ValueError(f"{written!r} is neither text nor base64")
