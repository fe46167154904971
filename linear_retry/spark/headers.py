"""What does a header say, as a column of Spark's?"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

INT64_MAX = 2**63 - 1
# Java's `$` also matches before a line break at the end.
_WHOLE_NUMBER = r"\A-?[0-9]{1,19}\z"


def last_first(headers: Column) -> tuple[Column, Column]:
    """Their names and their contents, the last header first: what `content` is to be asked of.

    Make columns of them: each expression here would else compute them again.
    """
    names, contents = headers.getField("key"), headers.getField("value")
    return F.reverse(names).alias("names"), F.reverse(contents).alias("contents")


def content(name: str) -> Column:
    """The bytes of this header; of one that comes twice the last, and NULL where it is missing.

    A map of all headers would be shorter, but raises where a name comes twice. `filter`, whose
    lambda Spark interprets for each header of each record, took most of an ingest.
    """
    # As SQL, here and below: by its API, Python takes a second to make all columns of a table.
    return F.expr(f"get(contents, cast(array_position(names, '{name}') AS int) - 1)")


def present(*values: Column) -> Column:
    """Those that are not NULL, each once. `array_compact` has a lambda, which is interpreted."""
    return F.array_except(F.array(*values), F.array(F.lit(None)))


def text(content: Column) -> Column:
    """The bytes as text; NULL where they are not UTF-8."""
    return F.try_validate_utf8(content.cast("string"))


def any_text(content: Column) -> Column:
    """The bytes as text, with what is not UTF-8 replaced."""
    return F.make_valid_utf8(content.cast("string"))


def whole_number(content: Column) -> Column:
    """The decimal digits as bigint; NULL where they are none, or more than 64 bits hold."""
    digits = content.cast("string")
    number = digits.try_cast("bigint")
    # A pattern takes ten times as long, and hardly anyone writes `007`.
    return F.when((number.cast("string") == digits) | digits.rlike(_WHOLE_NUMBER), number)


def big_endian(content: Column, size_bytes: int) -> Column:
    """That many bytes as bigint; NULL where there are more or fewer."""
    # No more than 8 bytes go in, whatever came: `conv` raises for what 64 bits do not hold.
    found = F.conv(F.hex(F.substring(content, 1, size_bytes)), 16, -10).try_cast("bigint")
    if size_bytes < 8:
        negative = 1 << (8 * size_bytes - 1)
        found = F.when(found < negative, found).otherwise(found - 2 * negative)
    return F.when(F.octet_length(content) == size_bytes, found)


@dataclass(frozen=True, slots=True)
class Said:
    """One header of ours, and the column it becomes.

    `default` stands where it is missing; without one, a missing header is a problem unless it
    `may_be_missing`. A number is in `bounds`; None: it is a text, which `may_be_empty` or not.
    """

    column: str
    header: str
    bounds: tuple[int, int] | None = None
    default: str | int | None = None
    may_be_missing: bool = False

    @property
    def raw(self) -> str:
        """The name of the column with its bytes."""
        return f"raw of {self.header}"

    @property
    def read(self) -> str:
        """The name of the column with what they say; NULL where that is nothing."""
        return f"read of {self.header}"

    def reading(self) -> Column:
        raw = F.col(f"`{self.raw}`")
        if self.bounds is None:
            return text(raw) if self._is_optional else F.when(F.octet_length(raw) > 0, text(raw))
        number = whole_number(raw)
        return F.when(number.between(*self.bounds), number)

    @property
    def is_fine(self) -> str:
        """Whether nothing is wrong with it, in SQL."""
        is_read = f"`{self.read}` IS NOT NULL"
        return f"({is_read} OR `{self.raw}` IS NULL)" if self._is_optional else f"({is_read})"

    @property
    def problem(self) -> str:
        """What is wrong with it, as text; NULL where nothing is. In SQL."""
        wrong = f"if(`{self.raw}` IS NULL, '{self.header} is missing', '{self.header} is garbled')"
        return f"if({self.is_fine}, NULL, {wrong})"

    def value(self) -> Column:
        read = F.col(f"`{self.read}`")
        return read if self.default is None else F.coalesce(read, F.lit(self.default))

    @property
    def garbled(self) -> str:
        """Name and bytes where they say nothing, else NULL. In SQL."""
        kept = f"named_struct('name', '{self.header}', 'value', `{self.raw}`)"
        return f"if({self.is_fine} OR `{self.raw}` IS NULL, NULL, {kept})"

    @property
    def _is_optional(self) -> bool:
        return self.default is not None or self.may_be_missing
