"""Well-formed documents that say what cannot be, and their neighbours that can."""

from __future__ import annotations

import json
import string
from collections.abc import Iterator
from typing import Any

from corpus.case import Case, of_document

_CASE = {"workload": "unet"}
_HOSTILE = (
    *("../x", "/etc/passwd", "..\\x", "C:\\x", "file:///x", "~", "~root", "a\0b"),
    *("'; DROP TABLE jobs; --", '" OR ""="', "1; SELECT 1", "a' || 'b", "%27", "\\'", "x'--"),
    *("<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "javascript:alert(1)", "&#x3c;"),
    *("$(reboot)", "`reboot`", "|reboot", ";reboot", "&&reboot", "\nreboot", "${IFS}", "--help"),
    *(
        "{{7*7}}",
        "${7*7}",
        "#{7*7}",
        "%s%s%n",
        "{0.__class__}",
        "a\r\nSet-Cookie: b=c",
        "\u202etxt",
    ),
    *(
        "é",
        "\uff41",
        "\U0001d41a",
        "a\u200b",
        " a",
        "a ",
        "",
        ".",
        "..",
        "-",
        "_",
        "a" * 1_000,
        "a\tb",
        "\ufeffa",
    ),
)
_TIMES_THAT_ARE = (
    *("2026-11-20T01:02:03Z", "2026-11-20T01:02:03+00:00", "2026-11-20T01:02:03.123456Z"),
    *("2026-11-20t01:02:03z", "2026-11-20 01:02:03Z", "2024-02-29T00:00:00Z"),
    *("1990-01-01T00:00:00Z", "2199-12-31T23:59:59Z", "2026-11-20T01:02Z"),
    *("2026-11-20T01:02:03-12:00", "2026-11-20T01:02:03+14:00", "2026-11-20T01:02:03-0830"),
)
_TIMES_THAT_ARE_NONE = (
    *("", "now", "today", "2026", "2026-11", "2026-11-20", "01:02:03", "2026-11-20T", "T01:02:03Z"),
    *("2026-11-20T01:02:03", "2026-11-20T01:02:03 Z", "2026-11-20T01:02:03+", "2026-11-20T1:2:3Z"),
    *("2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-11-31T00:00:00Z", "2026-11-00T00:00Z"),
    *("2023-02-29T00:00:00Z", "1900-02-29T00:00:00Z", "2026-11-20T24:00:01Z", "2026-11-20T25:00Z"),
    *("2026-11-20T01:60:00Z", "2026-11-20T01:02:61Z", "2026-11-20T01:02:03+24:00", "2026-324T00Z"),
    *("2026-11-20T01:02:03+99:99", "26-11-20T01:02:03Z", "+2026-11-20T01:02:03Z", "2026-W47-5"),
    *("20261120T010203Z", "2026/11/20 01:02:03Z", "20.11.2026 01:02", "Fri, 20 Nov 2026 01:02 GMT"),
    *("1763600523", "1763600523.5", "-1", "0", "1e9", "P1D", "1989-12-31T23:59:59Z", "null"),
    *("2200-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "0000-01-01T00:00Z"),
    *("10000-01-01T00:00:00Z", "-2026-11-20T01:02:03Z", "2026-11-20T01:02:03.1234567890123456Z"),
    *(
        "2026-11-20T01:02:03.1234567Z",
        "2026-11-20T01:02:03Zz",
        "2026-11-20T01:02:03Z\n",
        " 2026-11-20T01:02:03Z",
        "\uff12\uff10\uff12\uff16-11-20T01:02Z",
    ),
)
_CRON_THAT_IS = (
    "* * * * *",
    "0 2 * * *",
    "*/5 1-3 1,15 * 1-5",
    "0 0 29 2 *",
    "0 0 * * SUN",
    "0 0 L * *",
)
_CRON_THAT_IS_NONE = (
    *(
        "",
        " ",
        "*",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * 32 * *",
    ),
    *(
        "* * * 13 *",
        "* * * 0 *",
        "* * * * 8",
        "-1 * * * *",
        "*/0 * * * *",
        "5-1 * * * *",
        "a b c d e",
    ),
    *("@daily", "@reboot", "0 0 31 2 *", "0 0 30 2 *", "1,, * * * *", "*/ * * * *", "*/a * * * *"),
    *(
        "0 2 * * *; reboot",
        "0 2 * * *\n",
        "\n0 2 * * *",
        "0 2 * * * #",
        "\u0660 \u0662 * * *",
        "0 2 * * ?",
    ),
    *("1/2/3 * * * *", "1--2 * * * *", "0 " * 100, "9" * 190 + " * * * *"),
)
_ZONES_THAT_ARE_NONE = (
    *(
        "",
        "Europe",
        "Europe/",
        "Europe/Atlantis",
        "europe/berlin ",
        "../UTC",
        "/etc/localtime",
        "..",
        ".",
    ),
    *(
        "UTC+25",
        "local",
        "Mars/Phobos",
        "A" * 65,
        "Europe/Berlin\0",
        "UTC\n",
        "America",
        "posix/../UTC",
    ),
)


def cases() -> Iterator[Case]:
    """Every case of this file."""
    yield from _names()
    yield from _lengths()
    yield from _times()
    yield from _schedules()
    yield from _choices()
    yield from _claims()


def _submission(name: str, changes: dict[str, Any], *expected: int) -> Case:
    body = {"revision": "r", "case": _CASE} | changes
    body = {key: value for key, value in body.items() if value is not ...}
    return of_document("submission", name, json.dumps(body).encode(), *expected)


def _names() -> Iterator[Case]:
    for text in _HOSTILE:
        nul = 422
        yield _submission(f"the revision {text!a}", {"revision": text}, nul)
        yield _submission(f"the workload {text!a}", {"case": {"workload": text}}, nul)
        yield _submission(f"the preset {text!a}", {"case": _CASE | {"preset": text}}, nul)
        yield _submission(f"the axis {text!a}", {"case": _CASE | {"axes": {text: "a"}}}, nul)
        value = {"case": _CASE | {"axes": {"precision": text}}}
        yield _submission(f"the value {text!a}", value, nul)
        yield _submission(f"the suite {text!a}", {"suite": text, "case": ...}, nul)
        yield _submission(f"the source {text!a}", {"source": text}, nul)
        yield _submission(f"the purpose {text!a}", {"purpose": text}, nul)
        worker = json.dumps({"name": text}).encode()
        yield of_document("worker", f"the worker {text!a}", worker, nul)
        rerun = 422
        yield _submission(f"a rerun of {text!a}", {"rerun_of": text}, rerun)
    yield _submission("a revision with dots", {"revision": "a/../../b"}, 201)
    for sign in string.printable:
        plain = sign in string.ascii_letters + string.digits
        fine = plain or sign in "_./+-"
        yield _submission(
            f"{sign!r} in a revision", {"revision": f"a{sign}b"}, 201 if fine else 422
        )
        first = {"revision": f"{sign}b"}
        yield _submission(f"{sign!r} first in a revision", first, 201 if plain else 422)


def _lengths() -> Iterator[Case]:
    for length, status in ((1, 201), (99, 201), (100, 201), (101, 422), (10_000, 422)):
        yield _submission(f"a revision of {length}", {"revision": "r" * length}, status)
    for length, status in ((0, 201), (1, 201), (500, 201), (501, 422), (65_536, 422)):
        yield _submission(f"a requirement of {length}", {"requires": {"a": "x" * length}}, status)
    for length, status in ((500, 201), (501, 422)):
        wide = {"requires": {"a": "\U0001f600" * length}}
        yield _submission(f"a requirement of {length} wide characters", wide, status)
    for length, status in ((1, 201), (64, 201), (65, 422)):
        yield _submission(
            f"a requirement's name of {length}", {"requires": {"a" * length: ""}}, status
        )
        yield _submission(f"a source of {length}", {"source": "a" * length}, status)
    for count, status in ((1, 201), (2, 201), (0, 422)):
        many = {"case": ..., "cases": [_CASE] * count}
        yield _submission(f"{count} cases", many, status)
    for replicates, status in ((1, 201), (50, 201), (0, 422), (51, 422), (-1, 422)):
        yield _submission(f"{replicates} replicates", {"replicates": replicates}, status)


def _times() -> Iterator[Case]:
    for text in _TIMES_THAT_ARE:
        yield _submission(f"the time {text}", {"revision_at": text}, 201)
    for text in _TIMES_THAT_ARE_NONE:
        yield _submission(f"the time {text!a}", {"revision_at": text}, 422)
    for value in (0, 1, -1, 1_763_600_523, 1_763_600_523.5, 2**53, True, [], {}, ["2026-11-20"]):
        yield _submission(f"the time {value!r}", {"revision_at": value}, 422)


def _schedules() -> Iterator[Case]:
    good = {"cron": "0 2 * * *", "suite": "smoke", "enabled": False}
    for cron in _CRON_THAT_IS:
        yield _schedule(f"cron {cron}", good | {"cron": cron}, 200)
    for cron in _CRON_THAT_IS_NONE:
        yield _schedule(f"cron {cron[:40]!a}", good | {"cron": cron}, 422)
    for zone in ("UTC", "Europe/Berlin", "Asia/Kolkata", "America/Argentina/Ushuaia", "Etc/GMT+12"):
        yield _schedule(f"zone {zone}", good | {"timezone": zone}, 200)
    for zone in _ZONES_THAT_ARE_NONE:
        nul = 422
        yield _schedule(f"zone {zone[:40]!a}", good | {"timezone": zone}, nul)
    refs = ("ref:ours:main", "ref:ours:refs/pull/7/head", "ref:" + "a" * 64 + ":" + "b" * 120)
    for rule in ("date", "latest", "fixed:v1", "fixed:" + "a" * 100, *refs):
        yield _schedule(f"rule {rule[:20]}", good | {"revision_rule": rule}, 200)
    none = (
        "ref:",
        "ref:ours",
        "ref:ours:",
        "ref:Ours:main",
        "ref:ours:-x",
        "ref:ours:" + "b" * 121,
    )
    other = ("", "Date", "fixed:", "fixed: v1", "fixed:-x", "newest", "fixed:" + "a" * 101)
    for rule in (*other, *none):
        yield _schedule(f"rule {rule[:20]!r}", good | {"revision_rule": rule}, 422)


def _schedule(name: str, document: dict[str, Any], *expected: int) -> Case:
    return of_document("schedule", name, json.dumps(document).encode(), *expected)


def _choices() -> Iterator[Case]:
    yield _submission("no suite, no case", {"case": ...}, 422)
    yield _submission("suite and case", {"suite": "smoke"}, 422)
    yield _submission("case and cases", {"cases": [_CASE]}, 422)
    yield _submission("an unknown workload", {"case": {"workload": "vgg"}}, 422)
    yield _submission("an unknown preset", {"case": _CASE | {"preset": "huge"}}, 422)
    yield _submission("an unknown axis", {"case": _CASE | {"axes": {"colour": "red"}}}, 422)
    yield _submission("an unknown value", {"case": _CASE | {"axes": {"precision": "fp7"}}}, 422)
    yield _submission("an unknown suite", {"case": ..., "suite": "no-such"}, 422)
    layout = {"workload": "nanogpt", "axes": {"layout": "channels_last"}}
    yield _submission("what cannot run", {"case": layout}, 422)
    yield _submission("a known suite", {"case": ..., "suite": "smoke"}, 201)
    unet = {"case": ..., "suite": "smoke", "only": ["unet"]}
    yield _submission("one workload of a suite", unet, 201)
    yield _submission("a workload that the suite lacks", unet | {"only": ["vgg"]}, 422)
    yield _submission("some of no suite", {"only": ["resnet50"]}, 422)
    for batch, status in (("1", 201), ("0", 422), ("-1", 422), ("1e3", 422), ("9" * 60, 422)):
        yield _submission(
            f"a batch of {batch}", {"case": _CASE | {"axes": {"batch": batch}}}, status
        )


def _claims() -> Iterator[Case]:
    for text in ("", "a" * 31, "a" * 33, "A" * 32, "g" * 32, "a" * 31 + "\n", "0x" + "a" * 30):
        body = json.dumps({"worker": "nobody", "claim_id": text}).encode()
        yield Case(f"claim {text!r}", "POST", "/leases", body, frozenset({422}))
    body = json.dumps({"worker": "nobody", "claim_id": "a" * 32}).encode()
    yield Case("a claim of nobody", "POST", "/leases", body, frozenset({404}))
