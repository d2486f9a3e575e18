"""Numbers: how they are written, how large they are, and whether they come back as they went."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

from corpus.case import PRIORITY, STEP, THROUGHPUT, TIMEOUT, WAIT, Case, Hole

_HOLES = (THROUGHPUT, STEP, TIMEOUT, PRIORITY, WAIT)
_NO_NUMBERS = (
    *("00", "01", "007", "-01", "-00", "+1", "+0", "--1", "-+1", "+-1", "- 1", "-", "+", "1-"),
    *(".5", "-.5", "1.", "-1.", "1..0", "1.2.3", "1.e5", ".e5", ".", "-.", "0.", "00.5", "1.+5"),
    *("1e", "1E", "1e+", "1e-", "1ee5", "1e5e5", "1e1.5", "1e5.", "e5", "1e 5", "1 e5", "1e+-5"),
    *("0x1F", "0X1", "0b1", "0o7", "1f", "1L", "1u", "1d", "1j", "1n", "1_000", "1'000", "1,5"),
    *("NaN", "-NaN", "nan", "Infinity", "-Infinity", "inf", "-inf", "1.#INF", "1.#QNAN", "0/0"),
    *(
        "\u0661",
        "\uff11",
        "\u00bd",
        "\u221e",
        "\u22121",
        "1\u00a0000",
        "1 000",
        "1\x00",
        "0x",
        "$1",
    ),
    *("1%", "1e5x", "1a", "a1", "1..", "1e--5", "0e", "-e1", "1e0x1", "0.0.0", "1e1e1", "2 ** 3"),
)
_TOO_MANY_BITS = {
    "2**63": str(2**63),
    "-2**63-1": str(-(2**63) - 1),
    "2**64-1": str(2**64 - 1),
    "2**64": str(2**64),
    "-2**64": str(-(2**64)),
    "2**127": str(2**127),
    "10**19": str(10**19),
    "10**30": str(10**30),
    "10**100": str(10**100),
    "10**308": str(10**308),
    "10**309": str(10**309),
    "-10**309": str(-(10**309)),
    "4,300 digits": "9" * 4_300,
    "4,301 digits": "9" * 4_301,
    "20,000 digits": "9" * 20_000,
    "-20,000 digits": "-" + "9" * 20_000,
}
_INFINITE = (
    *("1e309", "-1e309", "1.8e308", "-1.8e308", "1e310", "1E400", "1e+400", "-1e400", "9e999"),
    *("1e99999", "-1e99999", "1e999999999", "1e2147483647", "1e2147483648", "1e4294967296"),
    *("1e9223372036854775807", "1e9223372036854775808", "1e99999999999999999999999"),
    *("1797693134862315808e291", "0.1e310", "10000e305", "1" + "0" * 400 + ".0"),
    *("1" + "0" * 309 + "e0", "123456789" * 40 + ".5"),
)
_NO_SIZE = (
    "1797693134862315807e290",
    "1e101",
    "-1e101",
    "1e150",
    "1.7976931348623157e308",
    "-1e308",
    "1.0000000000001e100",
)
_OTHER_TYPES = ('"1"', '"1.5"', '""', '"NaN"', '"Infinity"', "true", "false", "[]", "[1]", "{}")


def cases() -> Iterator[Case]:
    """Every case of this file."""
    for hole in _HOLES:
        yield from _malformed(hole)
    yield from _bounds()
    yield from _written()
    yield from _exact()


def _malformed(hole: Hole) -> Iterator[Case]:
    for text in _NO_NUMBERS:
        yield hole.case(f"the number {text}", text.encode(), 400)
    for name, text in _TOO_MANY_BITS.items():
        within = hole is THROUGHPUT and len(text) <= 101  # a float up to 1e100
        yield hole.case(f"the integer {name}", text.encode(), 200 if within else 400)
    for text in _INFINITE:
        yield hole.case(f"the number {text[:30]}", text.encode(), 400)
        if hole in (THROUGHPUT, TIMEOUT):
            yield hole.case(f"the number {text[:30]} in an array", f"[0.5,{text}]".encode(), 400)
            yield hole.case(f"the number {text[:30]} in an object", f'{{"a":{text}}}'.encode(), 400)
    for text in _OTHER_TYPES:
        yield hole.case(f"{text} for a number", text.encode(), 422)
    if hole is not THROUGHPUT:
        yield hole.case("null for a number", b"null", 422)


def _bounds() -> Iterator[Case]:
    for text in _NO_SIZE:
        yield THROUGHPUT.case(f"beyond its bounds, {text}", text.encode(), 422)
    for text in ("0", "-1", "0.0", "-0.0", "-5e-324", "86400.1", "86401", "1e5", "1e100"):
        yield TIMEOUT.case(f"beyond its bounds, {text}", text.encode(), 422)
    for text in ("101", "-101", "1000", str(2**31), str(-(2**31)), str(2**63 - 1), str(-(2**63))):
        yield PRIORITY.case(f"beyond its bounds, {text}", text.encode(), 422)
    for text in ("1.0", "1.5", "1e0", "0.0", "-0.0", "1e2", "99.99999999999999999"):
        yield PRIORITY.case(f"no integer, {text}", text.encode(), 422)
        yield STEP.case(f"no integer, {text}", text.encode(), 422)
    for text in ("-1", str(2**53 + 1), str(2**63 - 1)):
        yield STEP.case(f"beyond its bounds, {text}", text.encode(), 422)
    for text in ("-1", "-0.1", "30.1", "31", "1e100"):
        yield WAIT.case(f"beyond its bounds, {text}", text.encode(), 422)


def _written() -> Iterator[Case]:
    """Many ways to write a number, and one value each."""
    for text in ("1", "1.0", "1.00", "1e0", "1E0", "1e+0", "1e-0", "10e-1", "0.1e1", "1.000e00"):
        yield THROUGHPUT.case(f"one as {text}", text.encode(), 200, reads_back=1.0)
        yield TIMEOUT.case(f"one as {text}", text.encode(), 201, reads_back=1.0)
    yield THROUGHPUT.case(
        "nothing as -0", b"-0", 200, reads_back=0.0
    )  # an integer has no sign there
    for text in ("0", "0.0", "-0.0", "0e5", "0E-5", "0e99999", "1e-400", "-1e-99999"):
        yield THROUGHPUT.case(f"nothing as {text}", text.encode(), 200, reads_back=float(text))
    for number in (-100, -99, -1, 0, 1, 42, 99, 100):
        yield PRIORITY.case(f"priority {number}", str(number).encode(), 201, reads_back=number)
    yield PRIORITY.case("priority -0", b"-0", 201, reads_back=0)
    for number in (0, 1, 255, 2**31 - 1, 2**31, 2**32, 2**53 - 1, 2**53):
        yield STEP.case(f"step {number}", str(number).encode(), 200, reads_back=number)
    for number in (9_007_199_254_740_993, 2**63 - 1, -(2**63)):
        text = str(number).encode()
        yield THROUGHPUT.case(f"the integer {number}", text, 200, reads_back=float(number))


def _exact() -> Iterator[Case]:
    """Every bit of a float comes back: edges, powers of ten, and some at random."""
    edges = (5e-324, 2.2250738585072009e-308, 2.2250738585072014e-308, 1e100, -1e100, 0.1, 1 / 3)
    powers = [10.0**power for power in range(-320, 101, 6)]
    draw = random.Random(20_261_120)
    bits = (struct.unpack("<d", draw.randbytes(8))[0] for _ in range(400))
    drawn = [value for value in bits if 0 < abs(value) <= 1e100][:150]
    for value in (*edges, *powers, *drawn):
        yield THROUGHPUT.case(f"the float {value!r}", repr(value).encode(), 200, reads_back=value)
    for digits in ("0.1000000000000000055511151231257827", "0.30000000000000004", "9" * 17 + ".5"):
        value = float(digits)
        yield THROUGHPUT.case(f"the float {digits}", digits.encode(), 200, reads_back=value)
