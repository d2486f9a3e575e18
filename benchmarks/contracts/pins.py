"""A revision that names released versions of packages, such as ``torch==2.12.0,triton==3.6.0``.

A worker makes an environment with exactly these. The grammar is fixed and the packages are few: a
job says which versions, never where they come from or how they are installed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

UPSTREAM = "upstream"
"""The target of such revisions; it has no commits, and no repository may have its name."""
FACTS = {
    "numpy": "sw.package.numpy",
    "torch": "sw.torch",
    "torchvision": "sw.package.torchvision",
    "triton": "sw.package.triton",
}
"""The packages that may be named, each with the fact of a fingerprint that tells its version."""
_PIN = f"({'|'.join(FACTS)})==[0-9][A-Za-z0-9.+]{{0,39}}"
PATTERN = f"{_PIN}(,{_PIN}){{0,3}}"


def pins_of(revision: str) -> tuple[tuple[str, str], ...]:
    """The packages of a revision, each with its version; empty if it names none."""
    if not re.fullmatch(PATTERN, revision):
        return ()
    pins = (pin.partition("==") for pin in revision.split(","))
    return tuple((package, version) for package, _, version in pins)


def building(packages: Iterable[str]) -> dict[str, str]:
    """The labels of a worker that makes any version of ``packages``, and of jobs that need one."""
    return dict.fromkeys((f"builds.{package}" for package in packages), "yes")


def needed_by(revision: str) -> dict[str, str]:
    """The labels that a worker needs to measure ``revision``."""
    return building(package for package, _ in pins_of(revision))


def package_between(good: str, bad: str) -> str:
    """The only package of which two revisions name different versions; empty if there is none."""
    before, after = dict(pins_of(good)), dict(pins_of(bad))
    moved = [package for package, version in after.items() if before.get(package) != version]
    return moved[0] if before.keys() == after.keys() and len(moved) == 1 else ""


def is_of(version: str, pinned: str) -> bool:
    """Return True if an installed version is the pinned one, such as 2.13.0+cpu for 2.13.0."""
    return version == pinned or version.startswith(f"{pinned}+")


def contradiction(revision: str, facts: Mapping[str, str]) -> str:
    """Say which version a process had that its revision does not name; empty if it had those."""
    for package, pinned in pins_of(revision):
        told = facts.get(FACTS[package], "")
        if not is_of(told, pinned):
            had = f"{package} {told}" if told else f"no {package} that it told of"
            return f"The revision is {revision}, and the process had {had}: it is not counted."
    return ""
