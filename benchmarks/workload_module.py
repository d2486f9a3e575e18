"""The module behind a workload: one of ours, or a user's own, named as ``package.module:build``.

A user's own module follows the contract of ours (`benchmarks.workload`), with sensible values for
what it leaves out. It is imported, so only the process that measures may do this.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import TypeAdapter, ValidationError

from benchmarks.catalog import catalog
from benchmarks.catalog.catalog import Refused, WorkloadEntry

DEFAULT_PRESETS: Mapping[str, Mapping[str, int]] = {"full": {}, "tiny": {}}
"""Of a module without ``PRESETS``: `build` gets no sizes and decides by itself."""
_NATIVE = frozenset({".cu", ".cuh", ".cpp", ".cc", ".c", ".h", ".hpp", ".so"})
"""Files of a compiled kernel: its sources, and libraries built beside them."""


class Sizes(dict[str, int]):
    """A preset's sizes; a missing one is reported by its name."""

    def __missing__(self, name: str) -> int:
        raise Refused(
            f"The code asks for the size {name!r}, and the preset has "
            f"{', '.join(self) or 'no sizes'}: name it in PRESETS."
        )


@dataclass(frozen=True)
class WorkloadModule:
    """The declarations and functions of a workload's file."""

    entry: WorkloadEntry
    build: Callable[..., Any]
    """``build(size, context) -> Recipe``."""
    flops: Callable[[Mapping[str, int]], float] | None = None
    """``flops(size)``: FLOP of a training step per sample, by formula, if the file has one."""
    code: str = ""
    """Digest of a user's own code, so that it shows in the fingerprint; empty for ours."""


@cache
def load(name: str) -> WorkloadModule:
    """Import the module of workload ``name``.

    Raises:
        Refused: a user's own that is not there, or not of the documented form.
    """
    if not catalog.is_user_model(name):
        module = importlib.import_module(f"benchmarks.workloads.{name}")
        entry = catalog.workloads()[name]
        return WorkloadModule(entry, module.build, getattr(module, "flops", None))
    module_name, _, function = name.partition(":")
    module = _imported(module_name)
    build = getattr(module, function, None)
    if not callable(build):
        raise Refused(f"{module_name} has no function {function}(size, context) -> Recipe.")
    return WorkloadModule(
        _entry(name, module), build, getattr(module, "flops", None), _code_digest(module)
    )


def _imported(name: str) -> ModuleType:
    # A worker's child does not look into the folder that it was started in, where a training
    # project may have a `benchmarks` of its own. Looked into last it can hide nothing of ours.
    if not {"", str(Path.cwd())} & set(sys.path):
        sys.path.append(str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name != missing and not name.startswith(f"{missing}."):
            raise  # it is there, and needs something that is not: its own affair, with a traceback
        raise Refused(
            f"There is no module {name} here: install it where this runs, or run this where it "
            "can be imported."
        ) from error


def _entry(name: str, module: ModuleType) -> WorkloadEntry:
    declared = {
        "name": name,
        "summary": (module.__doc__ or "").strip().partition("\n")[0],
        "item": getattr(module, "ITEM", "sample"),
        "presets": getattr(module, "PRESETS", DEFAULT_PRESETS),
        "facts": getattr(module, "FACTS", {}),
    }
    try:
        entry = TypeAdapter(WorkloadEntry).validate_python(declared)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in fault["loc"]).upper()
        raise Refused(
            f"{where} of {module.__name__} is not as documented: {fault['msg']}"
        ) from None
    if not entry.presets:
        raise Refused(f"PRESETS of {module.__name__} is empty: leave it out, or name one.")
    return entry


def _code_digest(module: ModuleType) -> str:
    """One digest over the user's imported code, none that is installed, and all of its native code,
    as nothing says which of that is loaded."""
    top = sys.modules[module.__name__.partition(".")[0]]
    root = _root(top)
    if root is None:
        return ""
    digest = hashlib.sha256()
    imported = {path for one in list(sys.modules.values()) if (path := _file(one))}
    own = {path for path in imported if path.is_relative_to(root)}
    for path in sorted(own | _native(top, root)):
        if not _installed(path.relative_to(root)):
            digest.update(str(path.relative_to(root)).encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _native(top: ModuleType, root: Path) -> set[Path]:
    """The native code of a package; of a single module, in its folder and one below: it may lie
    beside anything, such as in a home."""
    own = _file(top)
    if own is not None and own.name != "__init__.py":
        near = [*root.glob("*"), *root.glob("*/*")]
        found = {path for path in near if path.parent.name[:1] != "."}
    else:
        found = set()
        for folder, below, names in os.walk(root):
            below[:] = [name for name in below if name[0] != "." and not _installed(Path(name))]
            found |= {Path(folder, name) for name in names}
    return {path for path in found if path.suffix in _NATIVE and path.is_file()}


def _root(top: ModuleType) -> Path | None:
    """The folder of a package, or of a single module that lies in somebody's project."""
    path = _file(top)
    if path is None:
        return Path(next(iter(top.__path__))).resolve() if hasattr(top, "__path__") else None
    if path.name == "__init__.py" or not _installed(path):
        return path.parent
    return path


def _installed(path: Path) -> bool:
    return not {"site-packages", "dist-packages"}.isdisjoint(path.parts)


def _file(module: ModuleType) -> Path | None:
    try:
        path = Path(module.__file__ or "").resolve()
    except (AttributeError, TypeError, OSError):
        return None
    return path if path.suffix == ".py" and path.is_file() else None
