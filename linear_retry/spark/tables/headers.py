"""Reads one header, in SQL."""

from dataclasses import dataclass

from linear_retry.spark.tables.sql import array, between, struct, when

# Java's `$` also matches before a final line break.
_WHOLE_NUMBER = "(?s)^-?[0-9]{1,19}(?!.)"

# The smallest number with this many digits.
_SMALLEST = array(f"{10**n if n else 0}L" for n in range(19))

NAMES, CONTENTS = "reverse(headers.key)", "reverse(headers.value)"
"""Of all headers, in reverse order."""


def content(name: str) -> str:
    """The content of a header: the last of several of one name, NULL if it is missing.

    A map of all headers would be shorter, but raises if a name occurs twice. `filter`, whose lambda
    Spark interprets for each header of each record, took most of an ingest.
    """
    return f"get({CONTENTS}, cast(array_position({NAMES}, '{name}') AS int) - 1)"


def named(name: str, content: str) -> str:
    """The struct of a header in the column `garbled`."""
    return struct({"name": f"'{name}'", "value": content})


def text(content: str) -> str:
    """The content as text; NULL if it is not UTF-8."""
    return f"try_validate_utf8(cast({content} AS string))"


def any_text(content: str) -> str:
    """The content as text, with what is not UTF-8 replaced."""
    return f"make_valid_utf8(cast({content} AS string))"


def whole_number(content: str) -> str:
    """Decimal digits as bigint; NULL for anything else, and for more than 64 bits hold."""
    digits = f"cast({content} AS string)"
    number = f"try_cast({digits} AS bigint)"
    # A cast also accepts ` +7.5 `. If a number has as many digits as the text has characters, the
    # text is only digits; a pattern, needed for `007`, takes ten times as long.
    at_least = f"get({_SMALLEST}, octet_length({content}) - 1)"
    return when(f"{number} >= {at_least} OR rlike({digits}, '{_WHOLE_NUMBER}')", number)


def big_endian(content: str, size_bytes: int) -> str:
    """That many bytes as bigint; NULL if there are more or fewer."""
    # At most 8 bytes are passed on: `conv` raises for more than 64 bits.
    found = f"try_cast(conv(hex(substring({content}, 1, {size_bytes})), 16, -10) AS bigint)"
    if size_bytes < 8:
        negative = 1 << (8 * size_bytes - 1)
        found = f"CASE WHEN {found} < {negative} THEN {found} ELSE {found} - {2 * negative} END"
    return when(f"octet_length({content}) = {size_bytes}", found)


@dataclass(frozen=True, slots=True)
class HeaderColumn:
    """One header of ours, and the column it becomes.

    A missing header has the `default`; without one it is a problem, unless it `may_be_missing`.
    `bounds` are those of a number; None: it is a text, which must not be empty if it is required.
    """

    column: str
    header: str
    bounds: tuple[int, int] | None = None
    default: str | int | None = None
    may_be_missing: bool = False

    def reading(self, content: str) -> str:
        """The header's value; NULL if it cannot be read."""
        if self.bounds is not None:
            number = whole_number(content)
            return when(between(number, *self.bounds), number)
        found = text(content)
        return found if self._is_optional else when(f"octet_length({content}) > 0", found)

    def is_fine(self, content: str) -> str:
        """Whether the header has no problem."""
        is_read = f"{self.reading(content)} IS NOT NULL"
        return f"({is_read} OR {content} IS NULL)" if self._is_optional else is_read

    # From here on the column `column` has the result of `reading`.

    @property
    def value(self) -> str:
        """The header's value, or the default."""
        if self.default is None:
            return self.column
        default = self.default if isinstance(self.default, int) else f"'{self.default}'"
        return f"coalesce({self.column}, {default})"

    @property
    def problem(self) -> str:
        """The header's problem as text; NULL if it has none."""
        missing = "NULL" if self._is_optional else f"'{self.header} is missing'"
        wrong = f"if({content(self.header)} IS NULL, {missing}, '{self.header} is garbled')"
        return when(f"{self.column} IS NULL", wrong)

    @property
    def garbled(self) -> str:
        """Name and bytes of a header that cannot be read, else NULL."""
        found = content(self.header)
        return when(f"{self.column} IS NULL AND {found} IS NOT NULL", named(self.header, found))

    @property
    def _is_optional(self) -> bool:
        return self.default is not None or self.may_be_missing
