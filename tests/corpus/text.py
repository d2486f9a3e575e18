"""Strings and their bytes: escapes, controls, surrogates, UTF-8 and other encodings."""

from __future__ import annotations

import codecs
import json
import unicodedata
from collections.abc import Iterator

from corpus.case import DOCUMENTS, LABEL, REQUIRED, WHOLE, Case, of_document

_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "/": "/"}
_HIGH = ("d800", "d83d", "dbff", "D800", "dBfF")
_LOW = ("dc00", "de00", "dfff", "DC00", "dFfF")
_TELLING = (
    *("\u00a0", "\u00ad", "\u00df", "\u0130", "\u0131", "\u017f", "\u0300", "e\u0301", "\u00e9"),
    *("\u0378", "\u061c", "\u0660", "\u06dd", "\u070f", "\u115f", "\u1160", "\u180e", "\u1e9e"),
    *("\u2000", "\u200b", "\u200c", "\u200d", "\u200e", "\u200f", "\u2028", "\u2029", "\u202a"),
    *("\u202e", "\u2060", "\u2066", "\u2069", "\u206f", "\u2126", "\u212a", "\u3000", "\u3164"),
    *("\ue000", "\uf8ff", "\ufb01", "\ufdd0", "\ufdef", "\ufe0f", "\ufeff", "\uff11", "\uff1c"),
    *("\ufff9", "\ufffc", "\ufffd", "\ufffe", "\uffff", "\U00010000", "\U0001d400", "\U0001f1e9"),
    *("\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f44d\U0001f3fd"),
    *("\U0001fffe", "\U0001ffff", "\U000e0001", "\U000e0041", "\U000f0000", "\U0010fffd"),
    *("\U0010ffff", "z\u0351\u0352\u0353", "\uac00", "\u1100\u1161", "\u0e33", "\u0f71\u0f72"),
    *("<script>alert(1)</script>", "' OR 1=1 --", "%00", "\\u0000", "${jndi:x}", "{{7*7}}"),
    *("../../etc/passwd", "a\\b", "&lt;", "\u2215", "`id`", "$(id)", "|", ";", "%n%s", "=1+1"),
)
_ENCODINGS = ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "utf-16", "utf-32", "utf-7")


def cases() -> Iterator[Case]:
    """Every case of this file."""
    yield from _controls()
    yield from _escapes()
    yield from _hexadecimal()
    yield from _surrogates()
    yield from _broken_utf8()
    yield from _encodings()
    yield from _characters()
    yield from _keys()


def _controls() -> Iterator[Case]:
    for code in range(0x20):
        raw, escaped = bytes([code]), b"\\u%04x" % code
        for where in (LABEL, REQUIRED):
            yield where.case(f"raw control {code:02x}", b'"a' + raw + b'b"', 400)
            refused = 400 if code == 0 else 422
            yield where.case(f"escaped control {code:02x}", b'"a' + escaped + b'b"', refused)
        named = b'{"name":"corpus","' + raw + b'":1}'
        yield of_document("worker", f"raw control {code:02x} in a name", named, 400)
    yield LABEL.case("raw delete", b'"\x7f"', 422)
    yield LABEL.case("escaped delete", b'"\\u007f"', 422)
    for code in range(0x80, 0xA0):
        text = f"a{chr(code)}b"
        yield LABEL.case(f"C1 control {code:02x}", json.dumps(text).encode(), 200, reads_back=text)
    for text in (b'"\\u0000"', b'"a\\u0000"', b'"\\\\\\u0000"', b'"\\uD83D\\uDE00\\u0000"'):
        for where in (LABEL, REQUIRED, WHOLE):
            yield where.case(f"NUL in {text!r}", text, 400)
    yield LABEL.case("a backslash and u0000", b'"\\\\u0000"', 200, reads_back="\\u0000")


def _escapes() -> Iterator[Case]:
    for code in range(0x20, 0x7F):
        sign = chr(code)
        if sign == "u":
            continue
        body = b'"\\' + sign.encode() + b'"'
        if sign not in _ESCAPES:
            yield LABEL.case(f"the escape \\{sign}", body, 400)
        elif sign in '"\\/':
            yield LABEL.case(f"the escape \\{sign}", body, 200, reads_back=_ESCAPES[sign])
        else:
            yield LABEL.case(f"the escape \\{sign}", body, 422)
    for body in (b'"\\', b'"\\"', b'"\\\\\\"', b'"\\x41"', b'"\\101"', b'"\\U00000041"'):
        yield LABEL.case(f"a strange escape {body!r}", body, 400)
    yield LABEL.case("an escaped line feed in the source", b'"a\\\nb"', 400)


def _hexadecimal() -> Iterator[Case]:
    for length in range(4):
        yield LABEL.case(f"{length} hex digits", b'"\\u' + b"4" * length + b'"', 400)
        yield LABEL.case(f"{length} hex digits, more", b'"\\u' + b"4" * length + b'zzzz"', 400)
    for place in range(4):
        for wrong in ("g", "G", " ", "-", "+", "x", "_", ".", "\u0660", "\uff10", '"', "\\"):
            digits = "0041"
            text = digits[:place] + wrong + digits[place + 1 :]
            yield LABEL.case(f"\\u{text}", f'"\\u{text}"'.encode(), 400)
    for digits in ("0041", "00e9", "00E9", "20AC", "20ac", "fFfD", "ABcd"):
        char = chr(int(digits, 16))
        yield LABEL.case(f"\\u{digits}", f'"\\u{digits}"'.encode(), 200, reads_back=char)
    for braced in ("\\u{41}", "\\u{1F600}", "\\N{DEGREE SIGN}", "\\x{41}", "&#65;\\"):
        yield LABEL.case(f"another language's {braced}", f'"{braced}"'.encode(), 400)


def _surrogates() -> Iterator[Case]:
    for where in (LABEL, REQUIRED):
        for half in (*_HIGH, *_LOW):
            for form in (
                "\\u{0}",
                "a\\u{0}",
                "\\u{0}a",
                "\\u{0}\\n",
                "\\u{0}\\u0041",
                "\\u{0}\\\\",
            ):
                text = form.format(half)
                yield where.case(f"half a pair {text}", f'"{text}"'.encode(), 400)
        for high, low in zip(_HIGH, _LOW, strict=True):
            for text in (f"\\u{low}\\u{high}", f"\\u{high}\\u{high}", f"\\u{low}\\u{low}"):
                yield where.case(f"a wrong pair {text}", f'"{text}"'.encode(), 400)
            pair = f"\\u{high}\\u{low}"
            char = json.loads(f'"{pair}"')
            body = f'"{pair}"'.encode()
            yield where.case(f"a pair {pair}", body, 200, 201, reads_back=char)
    for half in (*_HIGH, *_LOW):
        named = f'{{"name":"corpus","\\u{half}":1}}'.encode()
        yield of_document("worker", f"half a pair {half} in a name", named, 400)


def _broken_utf8() -> Iterator[Case]:
    faults = {f"lone continuation {byte:02x}": bytes([byte]) for byte in range(0x80, 0xC0, 3)}
    faults |= {f"no lead byte {byte:02x}": bytes([byte, 0x80]) for byte in (0xC0, 0xC1)}
    faults |= {f"no byte {byte:02x}": bytes([byte]) for byte in range(0xF5, 0x100)}
    faults |= {f"half of a surrogate ed {b:02x}": bytes([0xED, b, 0x80]) for b in range(0xA0, 0xC0)}
    for lead in (0xC2, 0xDF, 0xE0, 0xE2, 0xED, 0xEF, 0xF0, 0xF1, 0xF4):
        faults[f"a lead byte {lead:02x} alone"] = bytes([lead])
        faults[f"a lead byte {lead:02x} and a letter"] = bytes([lead, 0x41])
        faults[f"a lead byte {lead:02x} twice"] = bytes([lead, lead])
    faults |= {
        "slash in two bytes": b"\xc0\xaf",
        "slash in three bytes": b"\xe0\x80\xaf",
        "slash in four bytes": b"\xf0\x80\x80\xaf",
        "NUL in two bytes": b"\xc0\x80",
        "quote in two bytes": b"\xc0\xa2",
        "beyond the last character": b"\xf4\x90\x80\x80",
        "five bytes": b"\xf8\x88\x80\x80\x80",
        "six bytes": b"\xfc\x84\x80\x80\x80\x80",
        "a pair of halves": b"\xed\xa0\xbd\xed\xb8\x80",
        "three of four bytes": b"\xf0\x9f\x98",
        "two of three bytes": b"\xe2\x82",
        "Latin-1": "é".encode("latin-1"),
        "Windows-1252": "€".encode("cp1252"),
        "Shift JIS": "テ".encode("shift_jis"),
    }
    for name, fault in faults.items():
        yield LABEL.case(f"UTF-8: {name}", b'"a' + fault + b'b"', 400)
        yield REQUIRED.case(f"UTF-8 at the end: {name}", b'"a' + fault + b'"', 400)
        yield LABEL.case(f"UTF-8 outside a string: {name}", fault + b'"a"', 400)
        named = b'{"name":"corpus","a' + fault + b'":1}'
        yield of_document("worker", f"UTF-8 in a name: {name}", named, 400)


def _encodings() -> Iterator[Case]:
    for kind, (_, _, body) in DOCUMENTS.items():
        for encoding in _ENCODINGS[:-1]:
            encoded = body.decode().encode(encoding)
            yield of_document(kind, f"encoded as {encoding}", encoded, 400)
        marked = codecs.BOM_UTF8 + body
        yield of_document(kind, "after a byte order mark", marked, 400)
        yield of_document(kind, "after two byte order marks", codecs.BOM_UTF8 + marked, 400)
        yield of_document(kind, "after UTF-16's mark", codecs.BOM_UTF16_LE + body, 400)
        yield of_document(kind, "after UTF-32's mark", codecs.BOM_UTF32_BE + body, 400)
    for encoding in ("cp037", "utf-7", "utf-16-be"):
        encoded = '{"name":"corpus","labels":{"note":"é"}}'.encode(encoding)
        yield of_document("worker", f"é in {encoding}", encoded, 400, 200)
    yield LABEL.case("a mark within a string", b'"a\xef\xbb\xbf"', 200, reads_back="a\ufeff")


def _characters() -> Iterator[Case]:
    """What is a character is taken as it is: not normalised, not folded, not cut."""
    spread = [chr(code) for code in range(0xA1, 0x110000, 12_289) if not 0xD800 <= code < 0xE000]
    for text in (*_TELLING, *spread):
        points = " ".join(f"{ord(char):04X}" for char in text[:8])
        plain = json.dumps(text, ensure_ascii=False).encode()
        yield LABEL.case(f"characters {points}", plain, 200, reads_back=text)
        escaped = json.dumps(text).encode()
        yield LABEL.case(f"escaped characters {points}", escaped, 200, reads_back=text)
        for form in ("NFC", "NFD", "NFKC"):
            other = unicodedata.normalize(form, text)
            if other != text and other.isprintable():
                value = json.dumps(other, ensure_ascii=False).encode()
                yield LABEL.case(f"{form} of {points}", value, 200, reads_back=other)
    for text in _TELLING[::4]:
        value = json.dumps(text, ensure_ascii=False).encode()
        yield REQUIRED.case(f"required {text!a}", value, 201, reads_back=text)


def _keys() -> Iterator[Case]:
    """A label's name is plain; whatever else it is, it is refused in the same way."""
    for text in (*_TELLING, "", " ", "A", "a b", "-a", "a" * 65, "__proto__", "constructor"):
        name = json.dumps(text).encode()
        body = b'{"name":"corpus","labels":{' + name + b':"x"}}'
        fine = text == "constructor"
        yield of_document("worker", f"the label named {text!a}", body, 200 if fine else 422)
