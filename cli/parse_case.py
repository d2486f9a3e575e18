"""Reads what is to be measured from the command line: a suite, or a workload with its axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from benchmarks.catalog import catalog, suites
from benchmarks.contracts import Case
from cli.exits import Stop

_SHOWN = 60
"""Characters of what was typed in a sentence."""


@dataclass(frozen=True)
class RequestedCases:
    """Either a suite's name or one case."""

    suite: str | None = None
    case: Case | None = None


def read(name: str, settings: Sequence[str], preset: str | None) -> RequestedCases:
    """Read ``smoke``, ``resnet50 precision=bf16``, or a user's own ``mypkg.bench:build``.

    Raises:
        Stop: a name or a value that does not exist, or a combination that cannot run.
    """
    known = suites.suites()
    if name in known:
        if settings or preset:
            raise Stop(f"{name} is a suite: it takes no axis=value and no --preset.")
        return RequestedCases(suite=name)
    workload, named_preset = named(name)
    if workload in catalog.workloads() or catalog.is_user_model(workload):
        return RequestedCases(case=case(workload, settings, preset or named_preset or None))
    raise Stop(
        f"There is no suite or workload {name!r}; the suites are {', '.join(known)}, the workloads "
        f"{', '.join(catalog.workloads())}; a model of your own is package.module:build."
    )


def named(name: str) -> tuple[str, str]:
    """Workload and preset of a name, as `catalog.named` tells them.

    Raises:
        Stop: it is no name of a workload.
    """
    try:
        return catalog.named(name)
    except catalog.UnknownName as error:
        raise Stop(str(error)) from error


def case(workload: str, settings: Sequence[str], preset: str | None) -> Case:
    """Build a case from ``axis=value`` words and check every name in it.

    Raises:
        Stop: a word without ``=``, an axis given twice, or what the catalog refuses.
    """
    chosen = _pairs(settings, "axis", "axis=value, such as precision=bf16")
    try:
        return catalog.normalise(Case(workload=workload, preset=preset or "auto", axes=chosen))
    except ValueError as error:
        raise Stop(_sentence(error)) from error


def labels(words: Sequence[str]) -> dict[str, str]:
    """Read what a worker must be from words such as ``device=cuda``."""
    return _pairs(words, "label", "LABEL=VALUE, such as device=cuda")


def _pairs(words: Sequence[str], noun: str, form: str) -> dict[str, str]:
    chosen: dict[str, str] = {}
    for word in words:
        name, _, value = word.partition("=")
        if not (name and value):
            raise Stop(f"{word!r} is no {form}.")
        if name in chosen:
            raise Stop(f"The {noun} {name!r} is given twice.")
        chosen[name] = value
    return chosen


def _sentence(error: ValueError) -> str:
    """Say a catalog's error as it is, and pydantic's, which has several lines, in one."""
    if isinstance(error, catalog.UnknownName | catalog.Refused):
        return str(error)
    if isinstance(error, ValidationError):
        fault = error.errors(include_url=False)[0]
        return f"{_named(fault['loc'], fault['input'])} {fault['msg']}."
    return str(error)


def _named(place: Sequence[int | str], given: object) -> str:
    """Name what is wrong in a case: its workload, its preset, an axis, or the value of one."""
    text = repr(str(given)[:_SHOWN])
    match place:
        case ("axes",):
            return "The axes:"
        case ("axes", axis):
            return f"The value {text} of {axis}"
        case ("axes", _, *_):
            return f"The axis {text}"
        case (field, *_):
            return f"The {field} {text}"
    return text
