"""Headlines stay short, and name what moved."""

from service.analysis.statement import Statement, state
from service.wording.headline import HEADLINE_WORDS, short

KEY = "nanogpt:full compile=default graphs=on optimizer=fused pinning=on precision=bf16 workers=4"


def headline(moved: int, others: int) -> Statement:
    cells = state(
        "cells",
        conditions=(),
        workload="nanogpt",
        source="",
        case=KEY,
        moved=moved,
        covered=1,
        others=others,
        still=12,
        hardware=(),
    )
    sizes = {"least": -0.01, "middle": -0.01, "most": -0.01}
    return state(
        "regression", cells=cells, metric="throughput", unit="token/s", first_bad="r23", **sizes,
        alike=True, author="", title="", gradual=False,
    )  # fmt: skip


def test_a_case_of_many_settings_is_named_in_full() -> None:
    said = short(headline(moved=1, others=0))
    assert said.startswith(KEY)
    assert said.endswith("% slower")
    assert len(said.split()) < HEADLINE_WORDS


def test_several_cases_of_many_settings_are_counted() -> None:
    assert short(headline(moved=1, others=3)).startswith("nanogpt (4 cases) ")
