"""Headlines stay short, and name what moved."""

from service.analysis.statement import Statement
from service.wording.headline import HEADLINE_WORDS, headline_words, short

KEY = "nanogpt:full compile=default graphs=on optimizer=fused pinning=on precision=bf16 workers=4"


def headline(moved: int, others: int, *conditions: Statement, case: str = KEY) -> Statement:
    cells = Statement.of(
        "cells",
        conditions=conditions,
        workload="nanogpt",
        source="",
        case=case,
        moved=moved,
        covered=1,
        others=others,
        still=12,
        unclear=0,
        hardware=(),
        absent=(),
        partly=0,
    )
    sizes = {"least": -0.01, "middle": -0.01, "most": -0.01}
    return Statement.of(
        "regression", cells=cells, metric="throughput", unit="token/s", first_bad="r23", **sizes,
        alike=True, author="", title="", gradual=False,
    )  # fmt: skip


def test_a_case_of_many_settings_is_named_in_full() -> None:
    said = short(headline(moved=1, others=0))
    assert said.startswith(KEY)
    assert said.endswith("% slower")
    assert len(said.split()) < HEADLINE_WORDS


def test_a_case_of_too_many_settings_is_named_by_those_that_tell_it_apart() -> None:
    graphs = Statement.of("condition", of="graphs", value="on")
    fp16 = Statement.of("condition", of="precision", value="fp16")
    key = KEY.replace("bf16", "fp16 prefetch=on attention=math")
    said = short(headline(1, 0, fp16, graphs, case=key))
    expected = "the fp16 nanogpt case with graphs=on 1.0 % slower since r23"
    assert said.replace("\u00a0", " ") == expected
    assert short(headline(1, 0, case=key)).startswith("nanogpt (1 case) "), "none tells it apart"


def test_a_scaling_efficiency_is_named_and_falls() -> None:
    told = headline(moved=1, others=0)
    facts = told.facts | {"metric": "scaling_efficiency", "unit": "1"}
    said = headline_words(Statement.of("regression", **facts), verb=" is", subject="nanogpt")
    assert said.replace("\u00a0", " ") == "scaling efficiency of nanogpt is 1.0 % lower since r23"


def test_several_cases_of_many_settings_are_counted() -> None:
    assert short(headline(moved=1, others=3)).startswith("nanogpt (4 cases) ")


def test_a_drift_of_several_cases_is_told_by_its_middle_size() -> None:
    sizes = {"least": -0.025, "middle": -0.029, "most": -0.033, "alike": False, "gradual": True}
    said = short(Statement.of("regression", **(headline(moved=1, others=4).facts | sizes)))
    assert (
        said.replace("\u00a0", " ") == "nanogpt (5 cases) 2.9 % slower, little by little since r23"
    )
    assert len(said.split()) < HEADLINE_WORDS


def test_one_case_fails_and_several_listed_ones_fail() -> None:
    def said(others: int) -> str:
        cells = headline(moved=1, others=others).facts["cells"]
        told = Statement.of(
            "failure", cells=cells, status="crashed", first_bad="r23", author="", title=""
        )
        return headline_words(told, verb="")

    assert said(0) == f"{KEY} crashes since r23"
    assert said(2) == f"{KEY} and 2 other cases crash since r23"
