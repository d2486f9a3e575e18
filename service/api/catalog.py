"""The route of the catalog: the workloads, axes and suites that can be measured."""

from __future__ import annotations

from sqlalchemy.orm import Session

from benchmarks.catalog import catalog, suites
from service.api.dependencies import DatabaseSession
from service.api.router import Noun
from service.auth.permissions import Permission
from service.jobs import estimates
from service.schemas.catalog import Catalog, SuiteView

router = Noun("", "catalog")


@router.get("/catalog")
@Permission.READ.required
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
        expected_s=sum(case.expected_s for case in expected),
        cases_measured_before=sum(case.measured_before for case in expected),
        cases_expected=expected,
    )
