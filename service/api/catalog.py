"""What can be measured."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel
from sqlalchemy.orm import Session

from benchmarks import catalog, suites
from benchmarks.contracts import Case, Protocol
from service import durations
from service.api.dependencies import DatabaseSession
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
    expected_s: float
    """Seconds that one worker needs for all of it: as its cases took before, in the last five
    submissions; for a case that was never measured, by the protocol and for a GPU."""
    cases_measured_before: int
    """How many of the cases that rests on."""


class Catalog(BaseModel):
    """Everything that a submission may name."""

    workloads: list[WorkloadView]
    axes: list[AxisView]
    suites: list[SuiteView]


@router.get("/catalog")
def read_catalog(session: DatabaseSession) -> Catalog:
    """List workloads with their presets, axes with their values, and suites with their cases.

    A suite says beforehand how long it will take.
    """
    return Catalog.model_validate(
        {
            "workloads": list(catalog.workloads().values()),
            "axes": list(catalog.axes().values()),
            "suites": [_suite(session, suite) for suite in suites.suites().values()],
        },
        from_attributes=True,
    )


def _suite(session: Session, suite: suites.Suite) -> SuiteView:
    expected = durations.expectation(suite, durations.taken_before(session, suite.name))
    return SuiteView(
        name=suite.name,
        summary=suite.summary,
        cases=list(suite.cases),
        protocol=suite.protocol,
        expected_s=expected.expected_s,
        cases_measured_before=expected.cases_measured_before,
    )
