"""`throughline gate`: two revisions measured against each other, and an exit code for CI."""

from enum import StrEnum


class GateFormat(StrEnum):
    """The formats in which a decision is printed."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JUNIT = "junit"
    JSON = "json"


class Inconclusive(StrEnum):
    """The ways in which CI can treat a gate that could not decide."""

    PASS = "pass"  # noqa: S105 - no secret
    FAIL = "fail"
    TWO = "2"
