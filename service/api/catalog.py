"""The route of the catalog: the workloads, axes and suites that can be measured."""

from __future__ import annotations

from dataclasses import asdict

from pydantic import BaseModel
from sqlalchemy.orm import Session

from benchmarks.catalog import catalog, suites
from benchmarks.contracts import Case, Protocol
from service.api.dependencies import DatabaseSession
from service.api.router import noun
from service.auth.permissions import Permission, needs
from service.jobs import estimates

router = noun("", "catalog")


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


class CaseExpectation(BaseModel):
    """The time that one worker needs for a case of a suite, in s."""

    case: str
    """The case in its normal form, as jobs have it: ``workload:preset axis=value ...``, the axes in
    order and without defaults."""
    expected_s: float
    measured_before: bool
    """Whether it took that in the last five submissions; otherwise the suite's protocol says so,
    for a GPU."""


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
    cases_expected: list[CaseExpectation]
    """Case by case, in the order of ``cases``: what to sum up where only some are measured."""


class Catalog(BaseModel):
    """Everything that a submission may name."""

    workloads: list[WorkloadView]
    axes: list[AxisView]
    suites: list[SuiteView]


@router.get("/catalog")
@needs(Permission.READ)
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
    expected = estimates.expectations(suite, estimates.taken_before(session, suite))
    return SuiteView(
        name=suite.name,
        summary=suite.summary,
        cases=list(suite.cases),
        protocol=suite.protocol,
        expected_s=sum(each.expected_s for each in expected),
        cases_measured_before=sum(each.measured_before for each in expected),
        cases_expected=[CaseExpectation.model_validate(asdict(each)) for each in expected],
    )
