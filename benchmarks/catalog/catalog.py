"""Finds workloads and axes by file name, and reads what they declare without importing them.

A workload or an axis is one file; its literals (`ITEM`, `PRESETS`, `DEFAULT`, `VALUES` ...) are
read from the syntax tree, so the service can list and check names without torch.
"""

from __future__ import annotations

import ast
import contextlib
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from benchmarks.contracts import Case

T = TypeVar("T")

_HERE = Path(__file__).parents[1]
_PRESET_OF_DEVICE = {"cuda": "full", "cpu": "tiny"}
_OF_MODEL = "sw.model."
"""Prefix of the facts that record a user's own workload's declarations."""


class UnknownName(ValueError):
    """A workload, preset, axis or value that this version does not have."""


class Refused(ValueError):
    """A combination that cannot run; the message is one sentence that says why."""


@dataclass(frozen=True)
class WorkloadEntry:
    """The declarations of a workload file."""

    name: str
    summary: str
    item: str
    """What throughput counts: ``img`` or ``token``."""
    presets: Mapping[str, Mapping[str, int]]
    facts: Mapping[str, str] = field(default_factory=dict)
    """What axes may ask for, such as ``{"input": "images"}``."""


@dataclass(frozen=True)
class AxisEntry:
    """The declarations of an axis file."""

    name: str
    summary: str
    default: str
    """PyTorch's own default; a case does not name it."""
    values: Mapping[str, str]
    """Each value with one line that explains it."""
    pattern: str | None = None
    """Further values that are accepted, as a regular expression over the whole value."""
    role: str = "step"
    """``step``: how the step is computed; ``input``: what feeds it; ``devices``: which GPUs share
    it. A speed-up compares with the case that has the same input and devices, and PyTorch's
    defaults for the step."""
    needs: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    """For a value: facts (``device``, a workload fact, another axis) and what each must be."""
    capability: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """For a value: the least compute capability of a GPU by NVIDIA that can do it."""
    size: str = ""
    """The size of a preset that a value replaces before the workload is built; such an axis changes
    nothing else, and is refused for a workload whose presets do not have that size."""

    def accepts(self, value: str) -> bool:
        """Say whether ``value`` is one of this axis's values."""
        return value in self.values or bool(self.pattern and re.fullmatch(self.pattern, value))


def _declared(path: Path) -> dict[str, Any]:
    """Read a module's docstring and its literal upper-case assignments, names in lower case."""
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=path.name)
    summary = (ast.get_docstring(tree) or "").partition("\n")[0]
    declarations: dict[str, Any] = {"name": path.stem, "summary": summary}
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name.isupper():
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if (
                name.isupper()
            ):
                pass
            case _:
                continue
        with contextlib.suppress(ValueError):  # what is computed is the module's own affair
            declarations[name.lower()] = ast.literal_eval(value)
    return declarations


def _entries(folder: str, kind: type[T]) -> Mapping[str, T]:
    """Return the declarations of each file of ``folder``, by the file's name.

    A file with wrong declarations is left out with a warning; the others stay usable.
    """
    entries: dict[str, T] = {}
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    for path in sorted((_HERE / folder).glob("[!_]*.py")):
        try:
            declared = {name: value for name, value in _declared(path).items() if name in names}
            entries[path.stem] = TypeAdapter(kind).validate_python(declared)
        except SyntaxError as error:
            _leave_out(path, f"line {error.lineno}: {error.msg}")
        except ValidationError as error:
            faults = error.errors(include_url=False, include_input=False)
            _leave_out(path, "; ".join(f"{_where(f['loc'])}: {f['msg']}" for f in faults))
    return entries


def _where(location: tuple[int | str, ...]) -> str:
    return ".".join([str(location[0]).upper(), *(str(part) for part in location[1:])])


def _leave_out(path: Path, why: str) -> None:
    warnings.warn(
        f"{path.parent.name}/{path.name} is left out, as its declarations must be plain literals "
        f"of the documented form: {why}",
        stacklevel=4,
    )


@cache
def workloads() -> Mapping[str, WorkloadEntry]:
    """Every workload in ``benchmarks/workloads/``, by name."""
    return _entries("workloads", WorkloadEntry)


@cache
def axes() -> Mapping[str, AxisEntry]:
    """Every axis in ``benchmarks/axes/``, by name."""
    return _entries("axes", AxisEntry)


def _known(kind: str, name: str, among: Mapping[str, T]) -> T:
    try:
        return among[name]
    except KeyError:
        raise UnknownName(
            f"There is no {kind} {name!r}; choose one of: {', '.join(among)}."
        ) from None


def is_user_model(workload: str) -> bool:
    """Return True if the workload is a user's own, named ``package.module:function``."""
    return ":" in workload


def named(text: str) -> tuple[str, str]:
    """Workload and preset out of ``resnet50``, ``resnet50:full`` or ``mypkg.bench:build:tiny``.

    Any name with a colon that is not in the catalog is a user's own. The preset is empty if none is
    named.

    Raises:
        UnknownName: it is neither.
    """
    first, _, rest = text.partition(":")
    if first in workloads() or not (rest or set("./") & set(first)):
        return first, rest
    function, _, preset = rest.partition(":")
    if not all(part.isidentifier() for part in (*first.split("."), function)):
        raise UnknownName(
            f"{text!r} names no workload: a model of your own is package.module:function, as it "
            "is imported, such as mypkg.bench:build."
        )
    return f"{first}:{function}", preset


def normalise(
    case: Case, device: str | None = None, user_model: WorkloadEntry | None = None
) -> Case:
    """Check every name and leave out defaults, so that equal cases are equal values.

    With ``device`` (``cuda`` or ``cpu``) the preset ``auto`` becomes that device's preset, and the
    combination is checked against the device. Checks of a user's own workload need its
    ``user_model``, which is known once it was imported.

    Raises:
        UnknownName: a name that the catalog does not have.
        Refused: a combination that cannot run.
    """
    workload = user_model
    if workload is None and not is_user_model(case.workload):
        workload = _known("workload", case.workload, workloads())
    preset = case.preset
    if workload is not None:
        if preset == "auto" and device is not None:
            preset = _preset(workload, device)
        if preset != "auto":
            _known(f"preset of {case.workload}", preset, workload.presets)
    chosen = {name: _checked(name, value) for name, value in case.axes.items()}
    _refuse_impossible(workload, chosen, device)
    named = {name: value for name, value in chosen.items() if value != axes()[name].default}
    return Case(workload=case.workload, preset=preset, axes=dict(sorted(named.items())))


def _preset(workload: WorkloadEntry, device: str) -> str:
    preset = _PRESET_OF_DEVICE.get(device)
    if preset is None:
        raise Refused(f"The preset auto is known for cuda and cpu, and this device is {device!r}.")
    if is_user_model(workload.name) and preset not in workload.presets:
        return next(iter(workload.presets))
    return preset


def settings(case: Case) -> dict[str, str]:
    """The value of ``case`` on every axis, defaults included."""
    return {name: case.axes.get(name, axis.default) for name, axis in axes().items()}


def baseline(case: Case) -> Case:
    """The case that a speed-up is told against: the same input and devices, fp32 eager, nothing
    tuned."""
    shared = {name for name, axis in axes().items() if axis.role != "step"}
    kept = {name: value for name, value in case.axes.items() if name in shared}
    return case.model_copy(update={"axes": kept})


def _checked(name: str, value: str) -> str:
    axis = _known("axis", name, axes())
    if not axis.accepts(value):
        choices = ", ".join(
            [*axis.values, *([f"a value like {axis.pattern}"] if axis.pattern else [])]
        )
        raise UnknownName(f"Axis {name!r} has no value {value!r}; choose one of: {choices}.")
    return value


def _refuse_impossible(
    workload: WorkloadEntry | None, chosen: Mapping[str, str], device: str | None
) -> None:
    if workload is not None:
        _refuse_sizes(workload, chosen)
    facts = {name: chosen.get(name, axis.default) for name, axis in axes().items()}
    facts |= workload.facts if workload is not None else {}
    if device is not None:
        facts["device"] = device
    for name, value in chosen.items():
        for fact, allowed in axes()[name].needs.get(value, {}).items():
            need = f"{name}={value} needs {fact}={' or '.join(allowed)}, and "
            if fact in facts and facts[fact] not in allowed:
                has = f"{_owner(fact, workload, device)} has {fact}={facts[fact]}."
                raise Refused(need + has)
            if workload is not None and fact not in facts and fact in _declarable():
                raise Refused(f"{need}{workload.name} declares no {fact} in its FACTS.")


def _refuse_sizes(workload: WorkloadEntry, chosen: Mapping[str, str]) -> None:
    sizes = {name for preset in workload.presets.values() for name in preset}
    for name, value in chosen.items():
        size = axes()[name].size
        if size and value != axes()[name].default and size not in sizes:
            raise Refused(
                f"{name}={value} needs a workload whose PRESETS have the size {size}, and "
                f"{workload.name} has {', '.join(sorted(sizes)) or 'no sizes'}."
            )


def sizes(case: Case, workload: WorkloadEntry) -> dict[str, int]:
    """Sizes of the preset of a normalised ``case``, with those that its axes replace."""
    replaced = {axes()[name].size: value for name, value in case.axes.items()}
    replaced.pop("", None)
    return dict(workload.presets[case.preset]) | {name: int(n) for name, n in replaced.items()}


def refuse_older(case: Case, capability: tuple[int, int]) -> None:
    """Refuse what a GPU of that compute capability cannot do.

    Raises:
        Refused: a value needs a newer one.
    """
    for name, value in case.axes.items():
        least = axes()[name].capability.get(value, capability)
        if capability < least:
            raise Refused(
                f"{name}={value} needs compute capability {_dotted(least)} or more, and this GPU "
                f"has {_dotted(capability)}."
            )


def _dotted(capability: tuple[int, int]) -> str:
    return ".".join(map(str, capability))


def recorded(workload: WorkloadEntry) -> dict[str, str]:
    """Return the facts of a user's own workload that axes may need, for the fingerprint.

    Only the process that measures imports the workload; later advice reads the fingerprint.
    """
    if not is_user_model(workload.name):
        return {}
    return {
        f"{_OF_MODEL}{name}": workload.facts[name] for name in _declarable() & {*workload.facts}
    }


def remembered(facts: Mapping[str, str]) -> dict[str, str]:
    """Return the `recorded` facts of a fingerprint; empty if the workload declares none."""
    names = ((name, f"{_OF_MODEL}{name}") for name in _declarable())
    return {name: facts[recorded] for name, recorded in names if recorded in facts}


def user_model_entry(case: Case, declared: Mapping[str, str]) -> WorkloadEntry | None:
    """The entry of a user's own workload, made of the case and the recorded facts.

    None for a workload of the catalog.
    """
    if not is_user_model(case.workload):
        return None
    # It was measured, so it has them. An axis may be of another version.
    sizes = {axes()[name].size: 0 for name in case.axes if name in axes() and axes()[name].size}
    return WorkloadEntry(case.workload, "", "", {case.preset: sizes}, declared)


def _declarable() -> frozenset[str]:
    return frozenset(fact for entry in workloads().values() for fact in entry.facts)


def _owner(fact: str, workload: WorkloadEntry | None, device: str | None) -> str:
    if fact == "device" and device is not None:
        return "this worker"
    return workload.name if workload is not None and fact in workload.facts else "this case"
