"""The catalog, as the API answers with it."""

from __future__ import annotations

from benchmarks.contracts import Case, Protocol
from service.schemas.document import Document


class WorkloadView(Document):
    """A model with its data, and its sizes by preset."""

    name: str
    summary: str
    item: str
    facts: dict[str, str]
    presets: dict[str, dict[str, int]]


class AxisView(Document):
    """A dimension along which cases differ."""

    name: str
    summary: str
    default: str
    values: dict[str, str]
    pattern: str | None
    """Further values that are accepted, as a regular expression."""


class CaseExpectation(Document):
    """The time that one worker needs for a case of a suite, in s."""

    case: str
    """The case in its normal form, as jobs have it: ``workload:preset axis=value ...``, the axes in
    order and without defaults."""
    expected_s: float
    measured_before: bool
    """Whether it took that in the last five submissions; otherwise the suite's protocol says so,
    for a GPU."""


class SuiteView(Document):
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


class Catalog(Document):
    """Everything that a submission may name."""

    workloads: list[WorkloadView]
    axes: list[AxisView]
    suites: list[SuiteView]
