"""What must hold for every question: no claim without evidence, whatever the data."""

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import pytest
from builders.attributed import Night, explained, measurement, question, residuals, side, values_of
from builders.long_forms import long_but
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.contracts import Direction, Trace
from service.analysis.attribution import Attribution, Measurement, Question, attribute
from service.analysis.attribution.environment import differences as facts_that_differ
from service.analysis.attribution.quantities import differences
from service.analysis.attribution.quantities_of import QuantityKind
from service.analysis.attribution.quantities_of import side as readings
from service.analysis.attribution.types import Evidence
from service.schemas.findings import Cause, Part, State, Strength

QUICK = settings(max_examples=40, deadline=None, derandomize=True)

facts = st.fixed_dictionaries(
    {},
    optional={
        "hw.gpu.driver": st.sampled_from(["550.1", "560.2"]),
        "sw.torch": st.sampled_from(["2.11.0", "2.12.0", None]),
        "sw.python": st.sampled_from(["3.11.4", "3.12.1"]),
        "sw.packages": st.sampled_from(["00aa", "00ff"]),
        "sw.env.OMP_NUM_THREADS": st.sampled_from(["4", None]),
        "hw.gpu.uuid": st.sampled_from(["GPU-1", "GPU-2"]),
    },
)


def night(cycles: float, clock_hz: float, **told: Any) -> Night:
    """A step of so many cycles at a clock, so that clocks explain some of the changes."""
    return Night(work_s=cycles / clock_hz, clock_hz=clock_hz, **told)


nights = st.builds(
    night,
    cycles=st.sampled_from([1.98e8, 1.98e8, 2.04e8, 3.0e8]),
    clock_hz=st.sampled_from([1.98e9, 1.9e9, 1.5e9]),
    worker=st.sampled_from(["w1", "w2", "w3"]),
    stall_s=st.sampled_from([0.0, 0.001, 0.02, 0.1]),
    thermal=st.sampled_from([0.0, 0.5]),
    noise=st.sampled_from([0.0, 0.001, 0.02, 0.2]),
    processes=st.sampled_from([1, 2, 3]),
    facts=facts,
    flags=st.sampled_from([(), ("other_processes",), ("throttled",)]),
    telemetry=st.booleans(),
)


@st.composite
def sides(draw: st.DrawFn, revisions: Sequence[str]) -> list[Measurement]:
    """One to four measurements of up to two kinds of night."""
    of = [replace(draw(nights), revision=name) for name in revisions]
    kinds = draw(st.lists(st.sampled_from(of), min_size=1, max_size=2))
    seed, day = draw(st.integers(0, 1000)), draw(st.integers(0, 50))
    counts = draw(st.lists(st.integers(1, 2), min_size=len(kinds), max_size=len(kinds)))
    pairs = enumerate(zip(kinds, counts, strict=True))
    return [m for at, (kind, n) in pairs for m in side(kind, n, first_day=day + 60 * at, seed=seed)]


newer = st.sampled_from([["r12"], ["r12", "r13"], ["r12", "r11"]])
"""The last: the last good revision was measured again, at the new level."""


@st.composite
def questions(draw: st.DrawFn) -> Question:
    before, after = draw(sides(["r10", "r11"])), draw(sides(draw(newer)))
    slow = draw(st.dictionaries(st.sampled_from(["w1", "w2", "w3"]), st.floats(-0.1, 0.1)))
    table = residuals(slow, series=3, seed=draw(st.integers(0, 1000)))
    return question(before, after, residuals=tuple(table))


def differing(asked: Question, names: Sequence[str]) -> list[str]:
    """Facts that no measurement of one side shares with the other, the obvious way."""
    return [
        name
        for name in names
        if not {m.facts.get(name) for m in asked.before} & {m.facts.get(name) for m in asked.after}
    ]


def strong(answer: Attribution, part: Part) -> list[Evidence]:
    return [
        evidence
        for evidence in answer.evidence
        if evidence.part is part
        and evidence.state is State.CHANGED
        and evidence.strength is Strength.STRONG
    ]


@QUICK
@given(questions())
def test_no_cause_is_named_that_the_data_do_not_show(asked: Question) -> None:
    answer = attribute(asked)
    revisions = [{m.revision for m in part} for part in (asked.before, asked.after)]
    workers = [{m.worker for m in part} for part in (asked.before, asked.after)]
    named = [evidence.name for evidence in strong(answer, Part.ENVIRONMENT)]
    assert named == differing(asked, named)
    match answer.cause:
        case Cause.ENVIRONMENT:
            assert named
        case Cause.NODE:
            flagged = all("other_processes" in m.result.flags for m in asked.after)
            flagged |= all("other_processes" in m.result.flags for m in asked.before)
            assert flagged or len({m.worker for m in asked.after}) == 1
        case Cause.INPUT:
            assert _without_loader(asked) < 0.6 * abs(_log_ratio(asked, "throughput"))
        case Cause.CLOCKS:
            assert (_log_ratio(asked, "sm_clock") > 0) == asked.improvement
        case Cause.CODE:
            assert not revisions[0] & revisions[1]
            assert workers[0] & workers[1]
            assert not named
        case Cause.UNKNOWN:
            assert revisions[0] & revisions[1] or not workers[0] & workers[1]


def _log_ratio(asked: Question, metric: str) -> float:
    logs = [
        fmean(math.log(value) for value in values_of(part, metric))
        for part in (asked.before, asked.after)
    ]
    return logs[1] - logs[0]


def _without_loader(asked: Question) -> float:
    """How far the step without the loader changed the same way, in logs."""
    sign = math.copysign(1.0, _log_ratio(asked, "throughput"))
    return sign * _log_ratio(asked, "throughput_synth")


@QUICK
@given(questions())
def test_every_clause_of_the_sentence_is_what_some_evidence_says(asked: Question) -> None:
    answer = explained(asked)
    rest = answer.sentence.partition("): ")[2].removesuffix(".")
    for evidence in answer.evidence:
        rest = rest.replace(evidence.says, "")
    left = re.sub(r"changed (at the same point|in between)|\(\d+ more facts? with it\)", "", rest)
    left = left.replace(", between the machines that measured before and after", "")
    left = re.sub(r"the revision and the machine changed together \([^()]*\)", "", left)
    left = left.replace("nothing that is known explains it", "").replace(" and ", "")
    assert left.strip(" ;") == ""


@QUICK
@given(questions())
def test_every_number_has_the_sign_and_size_of_the_data(asked: Question) -> None:
    for evidence in attribute(asked).evidence:
        if evidence.name in ("sm_clock", "peak_memory", "throughput_synth", "first_step_time"):
            old, new = values_of(asked.before, evidence.name), values_of(asked.after, evidence.name)
            assert min(old) * 0.999 <= evidence.before <= max(old) * 1.001  # type: ignore[operator]
            assert min(new) * 0.999 <= evidence.after <= max(new) * 1.001  # type: ignore[operator]
        if isinstance(evidence.before, float) and isinstance(evidence.after, float):
            if evidence.state is State.CHANGED:
                assert evidence.before != evidence.after
                assert evidence.change is None or (evidence.change > 0) == (
                    evidence.after > evidence.before
                )
            if evidence.state is State.UNCHANGED and evidence.unit in ("Hz", "B", "W", "img/s"):
                assert evidence.after == pytest.approx(evidence.before, rel=0.011)


@QUICK
@given(questions(), st.randoms(use_true_random=False))
def test_the_order_of_what_is_given_changes_nothing(asked: Question, random: object) -> None:
    def mixed(values: Sequence[object]) -> tuple[object, ...]:
        return tuple(random.sample(list(values), len(values)))  # type: ignore[attr-defined]

    other = replace(
        asked,
        before=mixed(asked.before),  # type: ignore[arg-type]
        after=mixed(asked.after),  # type: ignore[arg-type]
        residuals=mixed(asked.residuals),  # type: ignore[arg-type]
    )
    assert attribute(other) == attribute(asked)


@QUICK
@given(questions())
def test_swapping_the_sides_flips_every_sign(asked: Question) -> None:
    old, new = readings(asked.before), readings(asked.after)
    there, back = differences(old, new, asked.effect), differences(new, old, asked.effect)
    assert there.keys() == back.keys()
    for name, one in there.items():
        other = back[name]
        assert one.state is other.state
        assert (one.before, one.after) == (other.after, other.before)
        if one.log is not None and other.log is not None:
            assert one.log == pytest.approx(-other.log, abs=1e-12)
        elif one.kind is not QuantityKind.PART and one.kind is not QuantityKind.AMOUNT:
            assert one.change == pytest.approx(-other.change)  # type: ignore[operator]
    facts_there = facts_that_differ(asked.before, asked.after)
    facts_back = facts_that_differ(asked.after, asked.before)
    assert [(d.name, d.before, d.after) for d in facts_there] == [
        (d.name, d.after, d.before) for d in facts_back
    ]


@QUICK
@given(questions())
def test_the_unit_in_which_the_metric_points_does_not_matter(asked: Question) -> None:
    """A rate that fell and a time that rose are one change."""
    time = replace(
        asked,
        metric="step_time",
        unit="s",
        direction=Direction.LOWER,
        effect=1 / (1 + asked.effect) - 1,
    )
    assert time.improvement == asked.improvement
    assert attribute(time).cause is attribute(asked).cause


@QUICK
@given(questions())
def test_with_one_machine_the_machine_is_the_cause_or_left_open(asked: Question) -> None:
    answer = explained(asked)
    workers = {m.worker for m in asked.after}
    if len(workers) == 1 and answer.cause is not Cause.NODE:
        assert any(workers & set(re.findall(r"w\d", sentence)) for sentence in answer.not_excluded)


@pytest.mark.parametrize(
    ("noise", "count"), long_but(itertools.product([0.003, 0.02], [1, 3]), 0, 3)
)
def test_alike_sides_seldom_show_a_difference(noise: float, count: int) -> None:
    """At 99 % one quantity in a hundred; those that move together are counted one by one."""
    compared = changed = 0
    for seed in range(150):
        before = side(Night(noise=noise), count, seed=seed)
        after = side(Night(revision="r12", noise=noise), count, first_day=50, seed=seed + 1000)
        differing = differences(readings(before), readings(after), effect=-0.006)
        moving = [
            difference for difference in differing.values() if difference.before != difference.after
        ]
        compared += len(moving)
        changed += sum(difference.state is State.CHANGED for difference in moving)
        assert attribute(question(before, after, effect=-0.006)).cause is Cause.CODE
    assert changed <= 0.02 * compared


@pytest.mark.parametrize("glitch", [math.nan, math.inf, -math.inf])
def test_a_reading_that_is_no_finite_number_was_not_told(glitch: float) -> None:
    before, after = side(Night()), side(Night(revision="r12", work_s=0.12), first_day=3)
    whole = attribute(question(before, after))
    assert (
        attribute(question(before, [with_reading(measurement, glitch) for measurement in after]))
        == whole
    )


@pytest.mark.parametrize("glitch", [math.nan, math.inf])
def test_a_channel_without_a_finite_number_is_no_channel(glitch: float) -> None:
    trace = Trace.of([glitch, glitch])
    replicates = tuple(
        replicate.model_copy(
            update={
                "telemetry": {
                    where: some.model_copy(update={"channels": {"power_w": trace}})
                    for where, some in replicate.telemetry.items()
                }
            }
        )
        for replicate in measurement(Night()).result.replicates
    )
    result = measurement(Night()).result.model_copy(update={"replicates": replicates})
    values = readings([Measurement("r1", "w1", result)])
    assert replicates[0].telemetry
    assert not [name for name in values if name.endswith("power_w")]


def with_reading(told: Measurement, reading: float) -> Measurement:
    """A measurement with one more reading in every channel of its telemetry."""
    replicates = tuple(
        replicate.model_copy(
            update={
                "telemetry": {
                    where: some.model_copy(
                        update={
                            "channels": {
                                name: Trace.of([*trace.values(), reading])
                                for name, trace in some.channels.items()
                            }
                        }
                    )
                    for where, some in replicate.telemetry.items()
                }
            }
        )
        for replicate in told.result.replicates
    )
    return replace(told, result=told.result.model_copy(update={"replicates": replicates}))
