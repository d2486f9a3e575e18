"""How a gate's decision is printed, and how its options are read."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from builders.gate_records import process, record

from cli.durations import seconds
from cli.exits import Exit, Stop
from cli.gate.forms import GateFormat, Shown, forecast
from cli.gate.order import GateOptions
from service.analysis.gate import CaseRecord, Decision, Measured, Pair, Trouble, decide
from service.schemas.comparisons import ComparisonRequest, ComparisonView
from service.schemas.gate import CaseForecast, DecisionView, Used
from service.schemas.policy import Limit, Policy, Rule
from service.wording import formats
from service.wording.statements import worded

QUIET = [0.001, -0.001, 0.0005, -0.0005, 0.001, -0.001, 0.0, 0.0005]
STRANGE = "It <b>fails</b> | `x` ]]> \ufffe"


def in_words(decision: Decision) -> DecisionView:
    return DecisionView.model_validate(worded(decision.model_dump(mode="json")))


def shown(*, lenient: bool = False) -> Shown:
    broken = Pair(
        baseline=process(100.0), contender=Measured(trouble=Trouble.FAILED, reason=STRANGE)
    )
    records = [
        record(QUIET, "resnet50:full"),
        record([each + math.log(0.97) for each in QUIET], "nanogpt:full"),
        record([0.1, -0.1, 0.05], "unet:full"),
        CaseRecord(case_key="unet:tiny", pairs=(broken, broken)),
    ]
    told = in_words(decide(records, Policy(), ("main", "<new>")))
    comparison = ComparisonView(
        id="c" * 32,
        state="decided",
        outcome=told.outcome,
        suite=None,
        project="",
        source="gate",
        request=ComparisonRequest(baseline="main", contender="new", suite="smoke"),
        rounds=1,
        baseline="main",
        contender="<new>",
        created_at=datetime(2026, 11, 20, tzinfo=UTC),
        ends_at=datetime(2026, 11, 20, tzinfo=UTC),
        decided_at=None,
        worker="w1",
        jobs=2,
        jobs_ended=2,
        note="",
        decision=told,
        so_far=told,
        page="/comparisons/c1",
    )
    return Shown(comparison, '{"id": "c1"}\n', "http://here:8765/", lenient)


def test_the_table_ends_with_the_outcome_and_where_to_read_on() -> None:
    text = shown().written(GateFormat.TEXT)
    assert "REGRESSION: 2 of 4 cases." in text
    assert text.endswith("each job is named at http://here:8765/comparisons/c1")


@pytest.mark.parametrize("form", [GateFormat.TEXT, GateFormat.MARKDOWN])
@pytest.mark.parametrize(
    ("attempts", "told"),
    [((1, 2), "2 attempts by w1"), ((1, None), "1 attempt by w1"), ((None,), "No attempt gave")],
)
def test_a_job_without_an_attempt_that_gave_a_result_counts_as_none(
    form: GateFormat, attempts: tuple[int | None, ...], told: str
) -> None:
    used = tuple(
        Used(
            case_key="unet:tiny",
            pair=0,
            side="baseline",
            job_id="1" * 32,
            attempt=attempt,
            worker=attempt and "w1",
            device="",
            result_id=None,
            compared=False,
        )
        for attempt in attempts
    )
    comparison = shown().comparison
    decision = shown().decision.model_copy(update={"used": used})
    comparison = comparison.model_copy(update={"decision": decision})
    assert told in Shown(comparison, "", "http://here:8765/", lenient=False).written(form)


def expected(case_key: str, **more: object) -> CaseForecast[str]:
    told = {"case_key": case_key, "most_pairs": 12, "change": 0.01, "sentence": "Noise of 1 %."}
    return CaseForecast[str].model_validate(told | more)


def test_what_to_expect_is_told_case_by_case_and_in_all() -> None:
    known = [expected(key, noise=0.01, duration_s=90.0) for key in ("a", "b")]
    unknown = [expected(key, sentence="Noise is not known.") for key in ("c", "d")]
    assert list(forecast(known)) == [
        "a: noise of 1 %.",
        "b: noise of 1 %.",
        "Equal revisions take about 3 min on an idle worker.",
    ]
    assert list(forecast([known[0], *unknown])) == [
        "a: noise of 1 %.",
        "2 of 3 cases: noise is not known.",
    ]
    assert list(forecast(unknown[:1])) == ["c: noise is not known."]
    assert list(forecast([])) == []


def deciding(*records: CaseRecord, policy: Policy | None = None, lenient: bool = False) -> Shown:
    """The same comparison, decided by these cases."""
    decision = decide(records, policy or Policy(), ("main", "new"))
    comparison = shown().comparison.model_copy(update={"decision": in_words(decision)})
    return Shown(comparison, "", "http://here:8765/", lenient)


@pytest.mark.parametrize("form", [GateFormat.TEXT, GateFormat.MARKDOWN, GateFormat.JUNIT])
@pytest.mark.parametrize("trouble", [Trouble.FAILED, Trouble.PARITY])
def test_chance_is_told_only_of_a_case_that_was_measured_to_be_worse(
    form: GateFormat, trouble: Trouble
) -> None:
    broken = Pair(baseline=process(100.0), contender=Measured(trouble=trouble))
    text = deciding(CaseRecord(case_key="unet:tiny", pairs=(broken, broken))).written(form)
    assert "by chance" not in text
    if form is not GateFormat.JUNIT:
        slower = deciding(record([each + math.log(0.97) for each in QUIET])).written(form)
        assert "at most 0.5 % end so by chance" in slower.replace(formats.NBSP, " ")


@pytest.mark.parametrize("form", [GateFormat.TEXT, GateFormat.MARKDOWN, GateFormat.JUNIT])
def test_memory_that_grew_is_told_with_a_plus(form: GateFormat) -> None:
    rule = Rule(limits=(Limit(metric="peak_memory"),))
    text = deciding(record(QUIET, peak_memory=3.0), policy=Policy(rules=(rule,))).written(form)
    assert "+200 %" in text.replace(formats.NBSP, " ")
    assert f"{formats.MINUS}200" not in text


@pytest.mark.parametrize("form", [GateFormat.TEXT, GateFormat.MARKDOWN, GateFormat.JUNIT])
def test_a_rule_that_names_no_case_is_told(form: GateFormat) -> None:
    text = deciding(record(QUIET), policy=Policy(rules=(Rule(cases="resnet:full"),))).written(form)
    assert "Note:" in text
    assert "The rule for 'resnet:full' fits no case that was measured" in text


@pytest.mark.parametrize(("lenient", "errors", "skipped"), [(False, "1", "0"), (True, "0", "1")])
def test_junit_counts_what_is_undecided_as_ci_wants_it(
    lenient: bool, errors: str, skipped: str
) -> None:
    suite = ET.fromstring(shown(lenient=lenient).written(GateFormat.JUNIT))
    told = [suite.get(name) for name in ("tests", "failures", "errors", "skipped")]
    assert told == ["4", "2", errors, skipped]
    failure = suite.find("testcase[@name='unet:tiny']/failure")
    assert failure is not None
    assert "It <b>fails</b> | `x` ]]>" in (failure.get("message") or "")


@pytest.mark.parametrize(
    ("keys", "lenient", "counts"),
    [
        (("unet:tiny", "gpt:tiny"), False, ["3", "0", "1", "2"]),
        (("unet:tiny",), True, ["1", "0", "0", "1"]),
        ((), False, ["1", "0", "1", "0"]),
    ],
)
def test_junit_of_a_gate_that_compared_nothing_is_not_green(
    keys: tuple[str, ...], lenient: bool, counts: list[str]
) -> None:
    unsupported = Measured(trouble=Trouble.UNSUPPORTED, reason="no fp8")
    pair = Pair(baseline=unsupported, contender=unsupported)
    records = [CaseRecord(case_key=key, pairs=(pair,)) for key in keys]
    suite = ET.fromstring(deciding(*records, lenient=lenient).written(GateFormat.JUNIT))
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == counts
    error = suite.find("testcase[@name='gate']/error")
    assert (error is None) == lenient
    assert error is None or (error.get("message") or "").startswith("Not decided")


def test_markdown_shows_a_strangers_words_as_they_are() -> None:
    text = shown().written(GateFormat.MARKDOWN)
    assert "\\<new\\> against main" in text
    assert "\\<b\\>fails\\</b\\> \\| \\`x\\`" in text


def test_json_is_the_services_answer_word_for_word() -> None:
    assert shown().written(GateFormat.JSON) == '{"id": "c1"}'


@pytest.mark.parametrize(
    ("text", "read"), [("15m", 900), ("90s", 90), ("2 h", 7200), ("900", 900), ("1.5min", 90)]
)
def test_a_budget_is_read_with_its_unit(text: str, read: float) -> None:
    assert seconds(text) == read


@pytest.mark.parametrize("text", ["", "soon", "-5m", "0", "15 days", "1e9", "nan"])
def test_what_is_no_budget_is_refused(text: str) -> None:
    with pytest.raises(Stop, match="no span of time"):
        seconds(text)


@pytest.mark.parametrize("text", ["3661d", "99999999d", "9" * 400])
def test_a_span_beyond_ten_years_is_said_to_be_too_long(text: str) -> None:
    with pytest.raises(Stop, match="is too long: a span of time is 3660d at most"):
        seconds(text)


def order(**more: object) -> GateOptions:
    fields: dict[str, object] = {
        "baseline": "a",
        "contender": "b",
        "suite": None,
        "cases": ("unet:full precision=bf16",),
        "max_regression": None,
        "margin": None,
        "policy": None,
        "budget": "15m",
        "requires": ("device=cuda",),
        "worker": None,
        "key": None,
    }
    return GateOptions(**(fields | more))  # type: ignore[arg-type]


def test_an_order_becomes_a_request_that_the_service_understands() -> None:
    request = order(max_regression="2%").request()
    assert request["cases"] == [
        {"workload": "unet", "preset": "full", "axes": {"precision": "bf16"}}
    ]
    assert request["policy"]["rules"][0]["limits"] == [{"max_regression": 0.02}]
    assert request["requires"] == {"device": "cuda"}
    assert request["budget_s"] == 900


def test_a_label_that_is_required_twice_is_refused() -> None:
    with pytest.raises(Stop, match="The label 'device' is given twice"):
        order(requires=("device=cuda", "pool=a", "device=cpu")).request()


def test_outside_a_checkout_the_option_that_gate_has_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    with pytest.raises(Stop, match=r"name the version under test with --contender\."):
        order(contender=None).request()
    with pytest.raises(Stop, match="No commit is known where this branch left the main branch"):
        order(baseline=None).request()


def test_a_policy_file_and_options_beside_it_are_wrong_usage(tmp_path: Path) -> None:
    path = tmp_path / "gate.toml"
    path.write_text('[[rules]]\ncases = "unet:*"\n')
    assert order(policy=path).request()["policy"] == {"rules": [{"cases": "unet:*"}]}
    with pytest.raises(Stop, match="leave the other options out") as stopped:
        order(policy=path, margin="1%").request()
    assert stopped.value.code is Exit.USAGE
