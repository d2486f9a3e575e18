"""Building blocks: bounded strings and numbers, the frozen base, packed traces."""

from __future__ import annotations

import base64
import math
import re
import zlib
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import Annotated, Self

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
)
from pydantic_core import core_schema

from benchmarks.contracts import pins


@dataclass(frozen=True)
class Worded:
    """Metadata of a string with a pattern: what it must be, for a person who cannot read patterns.

    Stands last, and instead of whatever else would be said of a value that is refused.
    """

    words: str

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """Say the words."""
        return core_schema.custom_error_schema(
            handler(source), custom_error_type="wrong_text", custom_error_message=self.words
        )


Name = Annotated[
    str,
    Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,63}$"),
    Worded(
        "must be 1 to 64 of the characters a-z, 0-9, '_', '.' and '-', the first a letter or digit"
    ),
]
"""An identifier that is safe in a URL, a file name and a shell: workload, axis, suite, metric."""
Workload = Annotated[
    str,
    Field(
        max_length=128,
        pattern=r"^([a-z0-9][a-z0-9_.-]{0,63}"
        r"|[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*)$",
    ),
    Worded(
        "must be a workload of the catalog, or package.module:function, in 128 characters at most"
    ),
]
"""A workload of the catalog by its name, or a user's own as ``package.module:function``."""
Value = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}$"),
    Worded(
        "must be 1 to 64 of the characters A-Z, a-z, 0-9, '_', '.', '+' and '-', the first a "
        "letter or digit"
    ),
]
"""A value on an axis; a string even where it looks like a number."""
Line = Annotated[
    str,
    Field(max_length=500, pattern=r"^[^\x00-\x1f\x7f]*$"),
    Worded("must be text of 500 characters at most, on one line and without control characters"),
]
"""One printable line; `line` makes any text one."""
Text = Annotated[str, Field(max_length=65_536, pattern=r"^[^\x00]*$")]
"""Several lines, such as the tail of a log."""
FewLines = Annotated[str, Field(max_length=2_000, pattern=r"^[^\x00]*$")]
"""The last lines of a log that is still written."""
Revision = Annotated[
    str,
    Field(max_length=100, pattern=rf"^([A-Za-z0-9][A-Za-z0-9_./+-]{{0,99}}|{pins.PATTERN})$"),
    Worded(
        "must be 1 to 100 of the characters A-Z, a-z, 0-9, '_', '.', '/', '+' and '-', the first a "
        f"letter or digit; or exact versions of {', '.join(pins.FACTS)}, such as torch==2.12.0"
    ),
]
"""Names the version under test: a commit hash, a tag, any label that the team uses, or released
versions of packages (`benchmarks.contracts.pins`)."""
Id = Annotated[
    str,
    Field(pattern=r"^[0-9a-f]{32}$"),
    Worded("must be an id: 32 hexadecimal digits, in lower case"),
]
"""Names a job, a claim, a result, a submission, a series, a comparison or a finding.

It is safe in a path, a URL and a shell, whoever sent it."""
Secret = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""Proves who holds an attempt at a job."""
Labels = Annotated[dict[Name, Line], Field(max_length=64)]
"""What a worker says of itself and what a job may require, such as ``device: cuda``."""
Number = Annotated[float, Field(strict=True, ge=-1e100, le=1e100)]
"""A measured value. Strict, as all numbers here: text and booleans are no numbers. Within these
bounds sums and squares of many stay finite."""
Seconds = Annotated[float, Field(strict=True, ge=0, le=1e9)]
Share = Annotated[float, Field(strict=True, ge=0, le=1)]
Count = Annotated[int, Field(strict=True, ge=0, le=2**53)]
Flag = Annotated[bool, Field(strict=True)]


def _written_out(value: object) -> object:
    if isinstance(value, datetime) or (isinstance(value, str) and _TIME.match(value)):
        return value
    raise ValueError("a time is written as in 2026-11-20T01:02:03.123456Z, with its offset")


def _day(value: object) -> object:
    if type(value) is date or (isinstance(value, str) and _DAY.match(value)):
        return value
    raise ValueError("a day is written as in 2026-11-20")


def line(text: str) -> str:
    """``text`` as one printable line of at most 500 characters, as `Line` wants it."""
    return re.sub(r"[\x00-\x1f\x7f]+", " ", text).strip()[:500]


_TIME = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?([Zz]|[+-]\d\d:?\d\d)?\Z", re.ASCII
)
_DAY = re.compile(r"\d{4}-\d\d-\d\d\Z", re.ASCII)
Day = Annotated[date, BeforeValidator(_day)]
"""A day of the calendar, whatever the time zone, written as in RFC 3339."""
Moment = Annotated[AwareDatetime, BeforeValidator(_written_out)]
"""An instant with its offset from UTC, written as in RFC 3339."""


class Contract(BaseModel):
    """A frozen value; unknown fields are refused so that a typing mistake is never ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Direction(StrEnum):
    """The direction in which a metric improves."""

    HIGHER = "higher"
    LOWER = "lower"


class Trace(Contract):
    """Many raw values, packed small: float32, zlib, base64."""

    n: Annotated[int, Field(strict=True, ge=0, le=2_000_000)]
    data: Annotated[str, Field(max_length=16_000_000, pattern=r"^[A-Za-z0-9+/=]*$")]

    @classmethod
    def of(cls, values: Iterable[float]) -> Self:
        """Pack ``values`` in their order, rounded to float32."""
        packed = array("f", values)
        return cls(n=len(packed), data=base64.b64encode(zlib.compress(packed.tobytes())).decode())

    def unpacked(self) -> array[float]:
        """Give the values back, as float32.

        Raises:
            ValueError: the data are not ``n`` packed float32 values.
        """
        unpacker = zlib.decompressobj()
        try:
            raw = unpacker.decompress(base64.b64decode(self.data, validate=True), 4 * self.n + 1)
        except zlib.error as error:
            raise ValueError(f"a trace cannot be unpacked: {error}") from error
        if len(raw) != 4 * self.n:
            raise ValueError(f"a trace says {self.n} values and holds other than that")
        return array("f", raw)

    def values(self) -> list[float]:
        """Give the values back, as a list."""
        return self.unpacked().tolist()

    def mean(self) -> float | None:
        """Mean of the finite values; None where there is none, or the data are no values."""
        try:
            values = self.unpacked()
        except ValueError:
            return None
        count = sum(map(math.isfinite, values))
        return math.fsum(filter(math.isfinite, values)) / count if count else None
