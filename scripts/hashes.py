"""Prints requirements.lock: each pinned package with its hashes, and which extras need it.

    .venv/bin/python scripts/hashes.py > requirements.lock

Read from pyproject.toml, constraints.txt, the metadata of what is installed in .venv (with the
extra dev), and PyPI's index. Left out: torch, of which each index has files of its own under one
version, and the CUDA libraries that only some of them bring.
"""

from __future__ import annotations

import re
import sys
import tomllib
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from urllib.parse import unquote

from packaging.requirements import Requirement
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

ROOT = Path(__file__).parents[1]
INDEX = "https://pypi.org/simple"
_LINK = re.compile(r'href="([^"#]+)#sha256=([0-9a-f]{64})"')
BUILD = ("hatchling", "editables")
"""What builds this project itself; pip would fetch it unseen."""
UNHASHED = re.compile(r"(torch$|nvidia-(?!ml-py$)|cuda-|triton$|pytorch-triton)")
PYTHONS = ("3.11", "3.12", "3.13")
MACHINES = ("x86_64", "aarch64")
HEADER = """\
# Every package that `make` installs on Linux, with the hashes of its files on PyPI and the extras
# that need it. Written by `make lock`; do not edit by hand. What is not here, and why:
# docs/security.md.
"""


def pins() -> dict[str, str]:
    """The version of each package, as constraints.txt pins it."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pairs}


def needed() -> dict[str, set[str]]:
    """The extras that need each package, by its name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    roots: dict[str, list[str]] = {"build": list(BUILD)}
    for extra, listed in project["optional-dependencies"].items():
        roots[extra] = [*project["dependencies"], *listed]
    found: dict[str, set[str]] = {}
    for extra, listed in roots.items():
        wanted = [Requirement(one) for one in listed]
        for own in [one for one in wanted if one.name == "throughline"]:
            wanted.remove(own)
            wanted += [Requirement(one) for also in own.extras for one in roots[also]]
        for name in closure(wanted):
            found.setdefault(name, set()).add(extra)
    return {name: extras for name, extras in found.items() if not UNHASHED.match(name)}


def closure(wanted: list[Requirement]) -> set[str]:
    """Names of everything that these requirements need on some Python and machine we support."""
    todo = [(canonicalize_name(one.name), frozenset(one.extras)) for one in wanted]
    seen: set[tuple[str, frozenset[str]]] = set()
    while todo:
        one = todo.pop()
        if one in seen:
            continue
        seen.add(one)
        try:
            listed = requires(one[0]) or []
        except PackageNotFoundError:  # not here: no version is known, and none is pinned
            continue
        further = map(Requirement, listed)
        todo += [
            (canonicalize_name(each.name), frozenset(each.extras))
            for each in further
            if applies(each, one[1])
        ]
    return {name for name, _ in seen}


def applies(requirement: Requirement, extras: frozenset[str]) -> bool:
    """Whether a dependency holds with these extras, for any Python and machine of ours."""
    if requirement.marker is None:
        return True
    places: list[dict[str, str]] = [
        {
            "python_version": python,
            "python_full_version": f"{python}.0",
            "platform_machine": machine,
            "platform_system": "Linux",
            "sys_platform": "linux",
            "os_name": "posix",
            "implementation_name": "cpython",
            "platform_python_implementation": "CPython",
            "extra": extra,
        }
        for python in PYTHONS
        for machine in MACHINES
        for extra in (extras or {""})
    ]
    return any(requirement.marker.evaluate(dict(place)) for place in places)


def hashes(name: str, version: str) -> list[str]:
    """The SHA-256 of each file that may be installed: wheels for us, the source for others."""
    asked = urllib.request.Request(f"{INDEX}/{name}/", headers={"Accept": "text/html"})  # noqa: S310
    with urllib.request.urlopen(asked, timeout=60) as answer:  # noqa: S310 - our own address
        links = _LINK.findall(answer.read().decode())
    files = {unquote(url.rpartition("/")[2]): digest for url, digest in links}
    wheels = [digest for file, digest in files.items() if fits(file, Version(version))]
    sources = [digest for file, digest in files.items() if is_source(file, Version(version))]
    return sorted(wheels + sources)


def is_source(file: str, version: Version) -> bool:
    """Whether a file is the source of this version."""
    try:
        return parse_sdist_filename(file)[1] == version
    except InvalidSdistFilename:
        return False


def fits(file: str, version: Version) -> bool:
    """Whether a file is a wheel of this version for some Python and machine that we support."""
    try:
        _, found, _, tags = parse_wheel_filename(file)
    except InvalidWheelFilename:
        return False
    return found == version and any(
        tag.platform == "any" or ("manylinux" in tag.platform and tag.platform.endswith(MACHINES))
        for tag in tags
        if tag.abi in {"abi3", "none"} or tag.interpreter in {f"cp3{p[2:]}" for p in PYTHONS}
    )


def main() -> int:
    """Print the file; 1 if a package has no file at PyPI."""
    versions, extras = pins(), needed()
    unknown = sorted(extras.keys() - versions.keys())
    for name in unknown:
        print(f"{name} is needed on some Python and not installed here: no hash.", file=sys.stderr)
    names = sorted(extras.keys() & versions.keys())
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda name: hashes(name, versions[name]), names))
    print(HEADER, end="")
    for name, digests in zip(names, found, strict=True):
        listed = " ".join(f"--hash=sha256:{digest}" for digest in digests)
        print(f"{name}=={versions[name]} {listed} # {' '.join(sorted(extras[name]))}")
    empty = [name for name, digests in zip(names, found, strict=True) if not digests]
    if empty:
        print(f"PyPI has no file of: {', '.join(empty)}.", file=sys.stderr)
    return 1 if empty else 0


if __name__ == "__main__":
    sys.exit(main())
