"""Turns this machine's pip configuration into one that a container build can use.

    python3 -m pip config list | python3 containers/pip_settings.py FOLDER

Writes into FOLDER: ``pip.conf``, the same settings with the certificate bundle under the name
that the Dockerfile mounts; ``ca_bundle``, a copy of that bundle (empty without one); ``mounts``,
the local folders that the settings name, one a line, which the build must see at the same place.
Nothing is taken from pip's settings but what says where packages come from.
"""

from __future__ import annotations

import ast
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

MOUNTED_BUNDLE = "/run/secrets/ca_bundle"
_SOURCES = (
    "index-url",
    "extra-index-url",
    "find-links",
    "no-index",
    "trusted-host",
    "proxy",
    "timeout",
    "default-timeout",
    "retries",
    "cert",
)


@dataclass(frozen=True)
class PipSettings:
    """Where pip finds packages here."""

    options: dict[str, str]
    """Option name to value; several addresses in one value are separated by white space."""

    @property
    def bundle(self) -> Path | None:
        """The certificate bundle in use, if one is set."""
        return Path(self.options["cert"]) if "cert" in self.options else None

    @property
    def folders(self) -> tuple[str, ...]:
        """Local folders among the sources, such as a wheel house; none within another."""
        named = {_with_files(folder) for folder in self._local_sources()}
        outermost = {
            folder
            for folder in named
            if not any(Path(folder).is_relative_to(other) for other in named - {folder})
        }
        return tuple(sorted(outermost))

    def _local_sources(self) -> list[str]:
        addresses = [
            address
            for option in ("index-url", "extra-index-url", "find-links")
            for address in self.options.get(option, "").split()
        ]
        return [folder for address in addresses if (folder := _local(address)) is not None]

    def file(self) -> str:
        """The text of a pip.conf that says the same inside a build."""
        options = dict(self.options)
        if "cert" in options:
            options["cert"] = MOUNTED_BUNDLE
        lines = [f"{name} = {' '.join(value.split())}" for name, value in sorted(options.items())]
        return "\n".join(["[global]", *lines, ""])


def read(listing: Iterable[str]) -> PipSettings:
    """Read what ``pip config list`` prints: ``global.cert='...'``; the environment comes last."""
    options: dict[str, str] = {}
    for line in listing:
        where, _, value = line.strip().partition("=")
        section, _, name = where.rpartition(".")
        if section in {"global", "install", ":env:"} and name in _SOURCES:
            options["timeout" if name == "default-timeout" else name] = str(ast.literal_eval(value))
    return PipSettings(options)


def write(settings: PipSettings, folder: Path) -> None:
    """Write the three files that `containers/try.sh` lends to the build."""
    (folder / "pip.conf").write_text(settings.file(), encoding="utf-8")
    bundle = settings.bundle
    if bundle is not None and bundle.is_file():
        shutil.copyfile(bundle, folder / "ca_bundle")
    else:
        (folder / "ca_bundle").write_bytes(b"")
    mounts = "".join(f"{path}\n" for path in settings.folders if Path(path).is_dir())
    (folder / "mounts").write_text(mounts, encoding="utf-8")


def _with_files(folder: str) -> str:
    """An index named ``simple`` keeps its files beside that folder, so its parent is needed."""
    path = Path(folder)
    return str(path.parent if path.name == "simple" else path)


def _local(source: str) -> str | None:
    """The folder that a source names, or None if it is an address on the network."""
    parts = urlsplit(source)
    if parts.scheme == "file":
        return unquote(parts.path)
    return source if source.startswith("/") else None


if __name__ == "__main__":
    write(read(sys.stdin), Path(sys.argv[1]))
