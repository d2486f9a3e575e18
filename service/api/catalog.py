"""What can be measured."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel

from benchmarks import catalog, suites
from benchmarks.contracts import Case, Protocol
from service.intake import StrictRoute

router = APIRouter(tags=["catalog"], route_class=StrictRoute)


class WorkloadView(BaseModel):
    """A model with its data, and its sizes by preset."""

    name: str
    summary: str
    item: str
    facts: dict[str, str]
    presets: dict[str, dict[str, int]]


class AxisView(BaseModel):
    """A dimension along which cases differ."""

    name: str
    summary: str
    default: str
    values: dict[str, str]
    pattern: str | None
    """Further values that are accepted, as a regular expression."""


class SuiteView(BaseModel):
    """A named list of cases."""

    name: str
    summary: str
    cases: list[Case]
    protocol: Protocol


class Catalog(BaseModel):
    """Everything that a submission may name."""

    workloads: list[WorkloadView]
    axes: list[AxisView]
    suites: list[SuiteView]


@router.get("/catalog")
def read_catalog() -> Catalog:
    """List workloads with their presets, axes with their values, and suites with their cases."""
    return Catalog.model_validate(
        {
            "workloads": list(catalog.workloads().values()),
            "axes": list(catalog.axes().values()),
            "suites": list(suites.suites().values()),
        },
        from_attributes=True,
    )
