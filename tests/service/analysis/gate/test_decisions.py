"""What a gate makes of its pairs: pass, regression, or neither; never a pass for lack of data."""

import math
import tomllib
from pathlib import Path
from typing import Any

import pytest
from builders.gate_records import LOUD, QUIET, decided, process, record, slower, swapped
from hypothesis import given
from hypothesis import strategies as st

from service.analysis.gate import CaseRecord, Measured, Pair, Trouble, decide_cases
from service.schemas.gate import Answer, CaseVerdict, Outcome
from service.schemas.policy import Limit, Policy, Rule
from service.wording.statements import say

LOGS = st.lists(st.floats(-0.1, 0.1), max_size=12)
TROUBLE = st.builds(Measured, trouble=st.sampled_from(Trouble), reason=st.just("why"))
SIDE = st.one_of(st.none(), TROUBLE)


@given(LOGS)
def test_swapping_the_sides_swaps_better_and_worse(differences: list[float]) -> None:
    other = {CaseVerdict.WORSE: CaseVerdict.BETTER, CaseVerdict.BETTER: CaseVerdict.WORSE}
    one = record(differences)
    [case], [back] = decide_cases([one], Policy()), decide_cases([swapped(one)], Policy())
    if case.verdict in other:
        assert back.verdict is other[case.verdict]
    assert (case.answer is Answer.DIFFERENT) == (back.answer is Answer.DIFFERENT)


@given(LOGS, st.floats(1e-6, 1e6))
def test_the_unit_of_a_metric_changes_nothing(differences: list[float], factor: float) -> None:
    def scaled(side: Measured | None) -> Measured:
        assert side is not None
        return process(side.metrics["throughput"].value * factor, side.software)

    one = record(differences)
    pairs = [Pair(baseline=scaled(p.baseline), contender=scaled(p.contender)) for p in one.pairs]
    [case] = decide_cases([one], Policy())
    [other] = decide_cases([CaseRecord(case_key=one.case_key, pairs=tuple(pairs))], Policy())
    assert (case.verdict, case.pairs) == (other.verdict, other.pairs)


@given(LOGS, st.lists(st.tuples(SIDE, SIDE), max_size=6))
def test_missing_data_never_passes(
    differences: list[float], gaps: list[tuple[Measured | None, Measured | None]]
) -> None:
    holes = [Pair(baseline=before, contender=after) for before, after in gaps]
    alone = decided(CaseRecord(case_key="unet:full", pairs=tuple(holes)))
    assert alone.outcome is not Outcome.PASS
    beside = decided(record(differences), CaseRecord(case_key="unet:full", pairs=tuple(holes)))
    unsupported = beside.cases[1].verdict is CaseVerdict.UNSUPPORTED
    assert beside.outcome is not Outcome.PASS or unsupported


@given(st.lists(st.floats(-0.1, 0.1), max_size=2))
def test_fewer_than_three_pairs_never_decide(differences: list[float]) -> None:
    assert decided(record(differences)).outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(("count", "sentence"), [(1, "1 pair, too few"), (2, "2 pairs, too few")])
def test_too_few_pairs_are_said_as_they_are(count: int, sentence: str) -> None:
    [case] = decided(record([0.0] * count)).cases
    assert say(case.sentence).startswith(sentence)


def test_a_case_that_has_just_begun_is_said_to_have_no_pair_yet() -> None:
    [case] = decide_cases([record([])], Policy())
    assert say(case.sentence) == "No pair yet."


@given(LOGS)
def test_the_end_of_the_budget_changes_nothing_about_what_was_settled(
    differences: list[float],
) -> None:
    [before] = decide_cases([record(differences)], Policy())
    [after] = decide_cases([record(differences)], Policy(), last=True)
    assert after.settled
    assert after == before or not before.settled


def test_no_case_at_all_is_no_pass() -> None:
    assert decided().outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(
    ("by", "limit", "outcome"),
    [
        (0.0, Limit(), Outcome.PASS),
        (0.015, Limit(), Outcome.REGRESSION),
        (0.015, Limit(max_regression=0.02), Outcome.PASS),
        (0.03, Limit(max_regression=0.02), Outcome.REGRESSION),
        (0.02, Limit(max_regression=0.02), Outcome.INCONCLUSIVE),
        (-0.05, Limit(), Outcome.PASS),
    ],
)
def test_a_limit_says_how_much_slower_may_pass(by: float, limit: Limit, outcome: Outcome) -> None:
    policy = Policy(rules=(Rule(limits=(limit,)),))
    assert decided(record(slower(by)), policy=policy).outcome is outcome


@pytest.mark.parametrize(
    ("by", "verdict", "said"),
    [
        (
            0.051,
            CaseVerdict.ALLOWED,
            ", surely worse, and surely by less than the 10.0 % that is allo",
        ),
        (-0.051, CaseVerdict.BETTER, "throughput +5.1 %"),
        (0.0, CaseVerdict.SAME, ", surely within 10.0 %"),
        (0.12, CaseVerdict.WORSE, "throughput \u221212.0 %"),
    ],
)
def test_a_sure_change_within_what_is_allowed_is_not_called_the_same(
    by: float, verdict: CaseVerdict, said: str
) -> None:
    policy = Policy(rules=(Rule(limits=(Limit(max_regression=0.1),)),))
    [case] = decided(record(slower(by)), policy=policy).cases
    assert case.verdict is verdict
    assert said in say(case.sentence)


def test_what_one_metric_surely_lost_is_told_though_another_stays_open() -> None:
    limits = (Limit(max_regression=0.1), Limit(metric="peak_memory", max_regression=0.1))
    pairs = [
        Pair(
            baseline=process(100.0, peak_memory=1.0),
            contender=process(100.0 * math.exp(difference), "new", peak_memory=memory),
        )
        for difference, memory in zip(
            slower(0.05), [0.9, 0.6, 0.9, 0.6, 0.9, 0.6, 0.9, 0.6], strict=True
        )
    ]
    policy = Policy(rules=(Rule(limits=limits),))
    [case] = decided(CaseRecord(case_key="unet:full", pairs=tuple(pairs)), policy=policy).cases
    assert case.verdict is CaseVerdict.ALLOWED
    assert say(case.sentence).startswith("throughput \u22125.0 %")


def test_rules_are_for_the_cases_that_they_name_and_the_first_that_fits_counts() -> None:
    loose = Rule(cases="unet:* *bf16*", limits=(Limit(max_regression=0.05),))
    policy = Policy(rules=(loose, Rule(cases="unet:*")))
    decision = decided(
        record(slower(0.03), "unet:full precision=bf16"),
        record(slower(0.03), "unet:full"),
        record(slower(0.03), "resnet50:full"),
        policy=policy,
    )
    verdicts = [case.verdict for case in decision.cases]
    assert verdicts == [CaseVerdict.ALLOWED, CaseVerdict.WORSE, CaseVerdict.WORSE]


def test_a_rule_that_limited_nothing_is_told() -> None:
    rules = tuple(Rule(cases=cases) for cases in ("resnet:*", "unet:*", "unet:full", "resnet50:*"))
    unmeasured = CaseRecord(
        case_key="gpt:auto",
        pairs=(Pair(baseline=Measured(trouble=Trouble.UNSUPPORTED)),),
    )
    decision = decided(
        record(QUIET), record(QUIET, "unet:full"), unmeasured, policy=Policy(rules=rules)
    )
    assert list(map(say, decision.warnings)) == [
        "The rule for 'resnet:*' fits no case that was measured, so it limited nothing.",
        "The rule for 'unet:full' fits only cases that an earlier rule decides, "
        "so it limited nothing.",
    ]


def test_that_a_rule_limits_nothing_is_told_only_once_the_keys_are_known() -> None:
    policy = Policy(rules=(Rule(cases="resnet50:full"),))
    begun = CaseRecord(case_key="resnet50:auto", pairs=(Pair(),))
    assert decided(begun, policy=policy, last=False).warnings == ()
    lost = Pair(baseline=Measured.missing("lost"))
    assert decided(begun.model_copy(update={"pairs": (lost,)}), policy=policy).warnings == ()


def test_a_pattern_is_no_regular_expression() -> None:
    assert Policy(rules=(Rule(cases=".*"),)).rule_of("unet:full") == Rule()
    evil = Rule(cases="*a" * 90, limits=(Limit(margin=0.5),))
    assert Policy(rules=(evil,)).rule_of("a" * 400 + "b") == Rule()


def test_every_limit_of_a_rule_must_hold() -> None:
    both = Rule(limits=(Limit(), Limit(metric="peak_memory", max_regression=0.05)))
    policy = Policy(rules=(both,))
    assert decided(record(QUIET, peak_memory=1.0), policy=policy).outcome is Outcome.PASS
    assert decided(record(QUIET, peak_memory=1.1), policy=policy).outcome is Outcome.REGRESSION
    missing = decided(record(QUIET), policy=policy)
    assert missing.cases[0].verdict is CaseVerdict.MISSING
    assert "peak_memory" in say(missing.cases[0].sentence)


def test_a_sentence_is_about_the_limit_that_was_broken_not_about_the_widest_interval() -> None:
    both = Rule(limits=(Limit(), Limit(metric="peak_memory", max_regression=0.05)))
    decision = decided(record(LOUD, peak_memory=1.07), policy=Policy(rules=(both,)))
    assert decision.cases[0].verdict is CaseVerdict.WORSE
    assert say(decision.cases[0].sentence).startswith("peak_memory ")


def test_pairs_that_turn_midway_contradict_the_early_ones_and_a_few_late_ones_do_not() -> None:
    off = [difference - 0.3 for difference in QUIET]
    [midway] = decided(record([*QUIET[:5], *off[:7]])).cases
    assert midway.verdict is CaseVerdict.UNCLEAR
    assert "earlier and later pairs disagree" in say(midway.sentence)
    [late] = decided(record([*QUIET, *off[:4]])).cases
    assert late.verdict is CaseVerdict.SAME


def test_a_sentence_is_about_the_limit_that_is_unclear() -> None:
    policy = Policy(rules=(Rule(limits=(Limit(), Limit(metric="peak_memory", margin=0.1))),))
    turned = [1.0, 1.0, 1.0, 1.0, 1.0, 1.05, 1.05, 1.05, 1.05, 1.05, 1.05, 1.05]
    pairs = [
        Pair(
            baseline=process(100.0, peak_memory=1.0),
            contender=process(100.0, "new", peak_memory=memory),
        )
        for memory in turned
    ]
    case = decided(CaseRecord(case_key="unet:full", pairs=tuple(pairs)), policy=policy).cases[0]
    assert case.verdict is CaseVerdict.UNCLEAR
    assert say(case.sentence).startswith("peak_memory")


@pytest.mark.parametrize(
    ("throughput", "memory", "verdict", "named"),
    [
        (QUIET, 0.8, CaseVerdict.BETTER, "peak_memory"),
        (slower(-0.05), 1.0, CaseVerdict.BETTER, "throughput"),
        (QUIET, 1.0, CaseVerdict.SAME, "throughput"),
    ],
)
def test_a_good_verdict_names_the_first_metric_that_it_comes_from(
    throughput: list[float], memory: float, verdict: CaseVerdict, named: str
) -> None:
    both = Policy(rules=(Rule(limits=(Limit(), Limit(metric="peak_memory"))),))
    case = decided(record(throughput, peak_memory=memory), policy=both).cases[0]
    assert case.verdict is verdict
    assert say(case.sentence).startswith(named)


@pytest.mark.parametrize(("memory", "said"), [(3.0, "+200 %"), (0.8, "\u221220.0 %")])
def test_people_read_a_change_as_it_was_measured(memory: float, said: str) -> None:
    policy = Policy(rules=(Rule(limits=(Limit(metric="peak_memory", max_regression=0.05),)),))
    (case,) = decided(record(QUIET, peak_memory=memory), policy=policy).cases
    assert case.verdict is (CaseVerdict.WORSE if memory > 1 else CaseVerdict.BETTER)
    assert say(case.sentence).startswith(f"peak_memory {said} ({said} to {said})")
    assert case.metrics[0].change == pytest.approx(1 - memory)  # for programs: + is better


def test_more_cycles_are_said_to_be_more() -> None:
    code = decided(record(slower(0.03), cycles=1.03)).cases[0]
    assert "in clock cycles +3.0 %" in say(code.sentence)


def test_a_lower_clock_is_named_as_the_cause() -> None:
    clock = decided(record(slower(0.03), cycles=1.0)).cases[0]
    code = decided(record(slower(0.03), cycles=1.03)).cases[0]
    assert clock.verdict is code.verdict is CaseVerdict.WORSE
    assert "clock was slower, not the code" in say(clock.sentence)
    assert "clock was" not in say(code.sentence)
    assert "in clock cycles" in say(code.sentence)


@pytest.mark.parametrize(
    ("by", "cycles", "limit"),
    [
        (0.15, 1.09, Limit(max_regression=0.1)),  # of 15 %, 9 are the code's: within the limit
        (0.013, 1.008, Limit()),  # less than a margin, and most of what was lost
        (0.013, 1.002, Limit()),  # little, and surely there
    ],
)
def test_cycles_that_surely_rose_are_never_put_down_to_the_clock(
    by: float, cycles: float, limit: Limit
) -> None:
    policy = Policy(rules=(Rule(limits=(limit,)),))
    case = decided(record(slower(by), cycles=cycles), policy=policy).cases[0]
    assert case.verdict is CaseVerdict.WORSE
    assert "clock was" not in say(case.sentence)
    assert "in clock cycles" in say(case.sentence)


def test_more_cases_need_stronger_evidence() -> None:
    alone = decide_cases([record(QUIET)], Policy())[0].metrics[0]
    among = decide_cases([record(QUIET, f"case{n}") for n in range(9)], Policy())[0].metrics[0]
    assert among.strict_high > alone.strict_high
    assert among.high == alone.high


def test_a_value_that_is_not_above_zero_makes_no_ratio() -> None:
    pairs = tuple(Pair(baseline=process(0.0), contender=process(1.0, "new")) for _ in range(5))
    decision = decided(CaseRecord(case_key="unet:full", pairs=pairs))
    assert decision.cases[0].verdict is CaseVerdict.MISSING


def test_a_millionfold_outlier_is_no_crash_and_no_verdict() -> None:
    decision = decided(record([*QUIET[:3], math.log(1e9)]))
    assert decision.outcome is Outcome.INCONCLUSIVE
    assert decision.model_dump_json()


def test_the_policy_that_is_shown_is_one() -> None:
    page = (Path(__file__).parents[4] / "docs" / "gate.md").read_text(encoding="utf-8")
    shown = page.partition("```toml\n")[2].partition("```")[0]
    policy = Policy.model_validate(tomllib.loads(shown))
    assert policy.rule_of("unet:full layout=channels_last precision=bf16").limits[1].margin == 0.01
    assert policy.rule_of("resnet50:full").trades[0].if_better == pytest.approx(0.2)
    assert policy.rule_of("unet:full") == Rule()


@pytest.mark.parametrize(("told", "read"), [("2%", 0.02), (" 0.5 % ", 0.005), (0.02, 0.02)])
def test_shares_may_be_written_as_per_cent(told: Any, read: float) -> None:
    assert Limit(max_regression=told).max_regression == pytest.approx(read)


@pytest.mark.parametrize("told", ["2", "-1%", "100%", "x%", "nan%", 1.5, -0.1])
def test_what_is_no_share_is_refused(told: Any) -> None:
    with pytest.raises(ValueError, match="max_regression"):
        Limit(max_regression=told)
