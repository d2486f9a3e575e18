"""One planted truth each: the cause that is named, the sentence, and what stays open."""

from dataclasses import replace

import pytest
from builders.attributed import CASE, Night, explained, measurement, question, residuals, side

from benchmarks.contracts import Direction, Sample, Status
from service.analysis.attribution import Measurement, Question
from service.schemas.findings import AttributionView, Cause, Part, State
from service.wording.formats import NBSP

SLOW = Night(revision="r12", work_s=0.103)


def good() -> list[Measurement]:
    return side(Night())


def later(night: Night, count: int = 3) -> list[Measurement]:
    return side(night, count, first_day=10)


def asked(night: Night) -> AttributionView:
    return explained(question(good(), later(night)))


def plain(text: str) -> str:
    return text.replace(NBSP, " ")


def test_a_change_with_the_revision_alone_is_put_down_to_the_code() -> None:
    still = side(Night(noise=1e-4))
    answer = explained(question(still, later(replace(SLOW, noise=1e-4))))
    assert answer.cause is Cause.CODE
    assert plain(answer.sentence) == (
        "unet:full compile=default precision=bf16 is 2.9 % slower since r12. Seen on w1, not "
        "confirmed yet; probably code, not machine: environment unchanged (13 facts). With it: "
        "time on the device +3.0 %."
    )


def test_where_nothing_else_changed_the_clock_that_did_not_is_told() -> None:
    still = replace(SLOW, work_s=Night().work_s, noise=1e-4)
    before = side(replace(still, revision="r11"))
    answer = explained(question(before, later(still), effect=-0.03))
    assert plain(answer.sentence).endswith(
        "code, not machine: environment unchanged (13 facts); SM clock unchanged."
    )


def test_what_reruns_of_both_revisions_cleared_is_said() -> None:
    driver = replace(SLOW, facts={"hw.gpu.driver": "560.2"})
    back = replace(driver, revision="r11")
    late = replace(SLOW, work_s=Night().work_s, stall_s=0.009)
    hot = replace(HOT, thermal=0.0, temperature_c=57.0, capped=1.0)
    for after, confirmed, compared, words in (
        (later(driver, 2) + later(back, 1), True, False, "; the environment, not code: driver"),
        (later(driver), True, True, "reruns; probably the environment: driver"),
        (later(SLOW), True, True, "Seen on w1, confirmed by reruns; code, not machine: "),
        (later(SLOW), True, False, "Seen on w1, confirmed by reruns; probably code, not machine: "),
        (later(late), True, True, "reruns; code, in data loading: "),
        (later(late), True, False, "reruns; data loading: "),
        (later(late), False, False, "not confirmed yet; probably data loading: "),
        (later(hot), True, True, "reruns; code, through the clock: SM clock "),
    ):
        asked = question(
            good(), after, first_bad="r12", confirmed=confirmed, compared=compared, author="Ada"
        )
        said = plain(explained(asked).sentence)
        assert words in said
        assert ("(Ada)" in said) is (" code" in words and "not code" not in words)
        assert "is open" not in said


def test_no_clock_is_told_beside_a_change_of_memory() -> None:
    before, after = side(Night(noise=1e-4)), later(Night(revision="r12", noise=1e-4))
    memory = {"metric": "peak_memory", "unit": "B", "direction": Direction.LOWER, "effect": 0.05}
    answer = explained(question(before, after, **memory))
    assert answer.sentence.endswith("code, not machine: environment unchanged (13 facts).")


def test_what_the_metric_says_already_is_not_told_beside_it() -> None:
    def step(warm: float) -> tuple[Sample, ...]:
        values = (warm, warm * 1.001, warm * 0.999)
        lower = Direction.LOWER
        return (Sample(metric="first_step_time_warm", unit="s", direction=lower, values=values),)

    before, after = side(Night(metrics=step(10))), later(replace(SLOW, metrics=step(14)))
    first = {"metric": "first_step_time", "unit": "s", "direction": Direction.LOWER, "effect": 0.4}
    assert "warm caches" in plain(explained(question(before, after, effect=-0.03)).sentence)
    assert "warm caches" not in plain(explained(question(before, after, **first)).sentence)


def test_a_change_of_the_code_says_who_made_it_and_as_what_within_forty_words() -> None:
    title = "Fuse the layer norm [and] *everything* around it, once more"
    asked = question(good(), later(SLOW), author="Ada Lovelace", title=title)
    said = plain(explained(asked).sentence)
    who = '(Ada Lovelace, "Fuse the layer norm [and] *everything* around…"). Seen on w1'
    assert f"slower since r12 {who}" in said
    assert len(said.split()) <= 40
    assert "since r12 (Ada). Seen" in plain(
        explained(replace(asked, title="", author="Ada")).sentence
    )


def test_what_the_code_did_not_do_names_nobody() -> None:
    driver = later(replace(SLOW, facts={"hw.gpu.driver": "560.2"}))
    answer = explained(question(good(), driver, author="Ada Lovelace", title="Fuse"))
    assert answer.cause is Cause.ENVIRONMENT
    assert "Ada" not in answer.sentence


def test_a_new_driver_at_the_same_point_is_named_and_the_code_is_left_open() -> None:
    answer = asked(replace(SLOW, facts={"hw.gpu.driver": "560.2"}))
    assert answer.cause is Cause.ENVIRONMENT
    assert "driver 550.1 -> 560.2 changed at the same point" in answer.sentence
    assert answer.not_excluded[0].startswith("The code changed as well")


def test_the_last_good_revision_slow_under_the_new_driver_clears_the_code() -> None:
    new = {"hw.gpu.driver": "560.2"}
    after = later(replace(SLOW, facts=new), 2) + later(replace(SLOW, revision="r11", facts=new), 1)
    answer = explained(question(good(), after, first_bad="r12"))
    assert answer.cause is Cause.ENVIRONMENT
    assert "the environment, not code: driver" in answer.sentence
    assert not any("code" in sentence.lower() for sentence in answer.not_excluded)


def test_the_last_good_revision_fast_under_the_new_driver_clears_the_driver() -> None:
    new = {"hw.gpu.driver": "560.2"}
    before = [*good(), measurement(Night(facts=new, day=11))]
    answer = explained(question(before, later(replace(SLOW, facts=new))))
    assert answer.cause is Cause.CODE
    assert "driver" not in answer.sentence


def test_facts_that_changed_together_are_counted_and_not_told_apart() -> None:
    facts = {"hw.gpu.driver": "560.2", "sw.torch": "2.12", "sw.cuda": "13.1", "sw.python": "3.12"}
    answer = asked(replace(SLOW, facts=facts))
    assert "driver 550.1 -> 560.2 and Python 3.11.4 -> 3.12 (2 more facts with it)" in (
        answer.sentence
    )
    assert "4 facts changed together and cannot be told apart." in answer.not_excluded


def test_a_slower_loader_is_the_input_and_the_step_without_it_is_as_it_was() -> None:
    answer = asked(Night(revision="r12", stall_s=0.009))
    assert answer.cause is Cause.INPUT
    assert "data loading: 99 % of the change; environment unchanged (13" in plain(answer.sentence)
    assert "data wait 2.00 ms -> 9.00 ms" in plain(answer.sentence)


def test_a_longer_data_wait_beside_a_slower_device_is_not_the_input() -> None:
    answer = asked(Night(revision="r12", stall_s=0.005, work_s=0.110))
    assert answer.cause is Cause.CODE
    assert "data wait" in answer.sentence


@pytest.mark.parametrize(
    ("fact", "value", "cause"),
    [
        ("hw.gpu.driver", "560.2", Cause.INPUT),
        ("sw.cuda", "13.1", Cause.INPUT),
        ("sw.kernel", "6.9", Cause.ENVIRONMENT),
        ("sw.data", "other photographs", Cause.ENVIRONMENT),
    ],
)
def test_a_slower_loader_is_put_down_only_to_what_can_slow_a_loader(
    fact: str, value: str, cause: Cause
) -> None:
    answer = asked(Night(revision="r12", stall_s=0.009, facts={fact: value}))
    assert answer.cause is cause
    assert any(
        evidence.name == fact and evidence.state is State.CHANGED for evidence in answer.evidence
    )
    if cause is Cause.INPUT:
        assert any(value in sentence for sentence in answer.not_excluded)


HOT = Night(revision="r12", work_s=0.106, clock_hz=1.98e9 / 1.06, thermal=0.7, temperature_c=84.0)


def test_as_many_cycles_at_a_lower_clock_are_the_clocks() -> None:
    answer = asked(HOT)
    assert answer.cause is Cause.CLOCKS
    sentence = plain(answer.sentence)
    assert "SM clock −5.7 %, all of the change" in sentence  # noqa: RUF001
    assert "readings with software thermal slowdown 0.0 % -> 70.0 %" in sentence
    assert not any("power" in sentence for sentence in answer.not_excluded)


def test_a_clock_that_fell_under_the_power_cap_leaves_hungrier_code_open() -> None:
    answer = asked(replace(HOT, thermal=0.0, temperature_c=57.0, capped=1.0))
    assert answer.cause is Cause.CLOCKS
    assert "; whether code or machine moved it is open" in answer.sentence
    assert "Code that draws more power lowers the clock as well." in answer.not_excluded


def test_a_clock_that_fell_with_a_new_power_limit_is_the_environment() -> None:
    answer = asked(replace(HOT, thermal=0.0, facts={"hw.gpu.power_limit_w": "600"}))
    assert answer.cause is Cause.ENVIRONMENT
    assert "power limit (W) 700 -> 600 changed at the same point; SM clock" in answer.sentence


def test_a_clock_that_fell_because_the_device_waits_is_the_input() -> None:
    answer = asked(Night(revision="r12", stall_s=0.009, clock_hz=1.98e9 * 0.94))
    assert answer.cause is Cause.INPUT


def test_a_lower_clock_does_not_explain_an_improvement() -> None:
    answer = asked(Night(revision="r12", work_s=0.097, clock_hz=1.98e9 * 0.95))
    assert answer.cause is Cause.CODE
    assert "faster" in answer.sentence


def test_a_clock_that_fell_by_far_more_than_the_change_is_not_its_reason() -> None:
    answer = asked(replace(SLOW, clock_hz=1.98e9 * 0.8))
    assert answer.cause is Cause.CODE
    assert "SM clock" in answer.sentence


def test_measurements_that_went_the_other_way_than_the_change_explain_nothing() -> None:
    faster = later(Night(revision="r12", work_s=0.095, clock_hz=1.98e9 / 0.95))
    answer = explained(question(good(), faster, effect=-0.05))
    assert answer.cause is Cause.CODE
    assert ", all of the change" not in answer.sentence


def test_one_machine_slow_in_everything_is_named() -> None:
    after = later(replace(SLOW, worker="w3"))
    answer = explained(question(good(), after, residuals=tuple(residuals({"w3": 0.03}))))
    assert answer.cause is Cause.NODE
    assert "w3 is 3.1 % slower than other workers over 6 series at 2 revisions in a row" in plain(
        answer.sentence
    )


def test_a_driver_that_changed_on_the_slow_machine_comes_before_the_machine() -> None:
    """The machine measured both sides, so the driver is what became another."""
    before = side(Night(worker="w3"))
    after = later(replace(SLOW, worker="w3", facts={"hw.gpu.driver": "560.2"}))
    answer = explained(question(before, after, residuals=tuple(residuals({"w3": 0.03}))))
    assert answer.cause is Cause.ENVIRONMENT
    assert any("w3 is 3.1 % slower" in plain(sentence) for sentence in answer.not_excluded)


def test_facts_in_which_two_machines_always_differ_do_not_excuse_a_bad_one() -> None:
    after = later(replace(SLOW, worker="w3", facts={"sw.kernel": "6.9"}))
    answer = explained(question(good(), after, residuals=tuple(residuals({"w3": 0.03}))))
    assert answer.cause is Cause.NODE
    assert "Also different: kernel 6.8.0 -> 6.9." in answer.not_excluded


def test_a_machine_that_takes_over_with_a_new_revision_leaves_open_which_of_them_it_is() -> None:
    """All that differs between two machines of one kind may be how fast they are."""
    new = replace(SLOW, worker="w2", facts={"hw.host": "other", "hw.gpu.uuid": "GPU-2"})
    answer = explained(question(side(Night()), later(new)))
    assert answer.cause is Cause.UNKNOWN
    assert "the revision and the machine changed together (w1 before, w2 after)" in answer.sentence
    assert "The code changed as well: measuring r11 on w2 would tell." in answer.not_excluded
    alike = [*side(Night(worker="w2"), 1), *side(Night(), 2)]
    assert explained(question(alike, later(new))).cause is Cause.CODE
    assert explained(question(side(Night()), [*later(new), *later(SLOW, 1)])).cause is Cause.CODE


def test_facts_that_differ_between_machines_are_not_said_to_have_changed() -> None:
    after = later(replace(SLOW, worker="w3", facts={"sw.kernel": "6.9"}))
    answer = explained(question(good(), after))
    assert answer.cause is Cause.UNKNOWN
    assert "the revision and the machine changed together" in answer.sentence
    assert "Also different: kernel 6.8.0 -> 6.9." in answer.not_excluded
    assert [fact.state for fact in answer.evidence if fact.name == "sw.kernel"] == [State.UNCLEAR]


def test_the_same_slowness_on_two_machines_clears_the_machine() -> None:
    after = later(SLOW, 2) + later(replace(SLOW, worker="w2"), 1)
    answer = explained(question(good(), after, residuals=tuple(residuals({"w1": 0.03}))))
    assert answer.cause is Cause.CODE
    assert "Seen on w1 and w2, not confirmed yet; probably code, not machine" in answer.sentence
    assert not any("w1" in sentence for sentence in answer.not_excluded)


def test_with_one_machine_it_says_what_it_cannot_exclude() -> None:
    assert asked(SLOW).not_excluded == (
        "Only w1 shows the new level: a run on another would tell if it is the node.",
    )


def test_graph_breaks_are_told_by_their_number() -> None:
    def breaks(count: float) -> tuple[Sample, ...]:
        values = (count,) * 3
        lower = Direction.LOWER
        return (Sample(metric="graph_breaks", unit="1", direction=lower, values=values),)

    before = side(Night(metrics=breaks(0)))
    answer = explained(question(before, later(replace(SLOW, metrics=breaks(3)))))
    assert "graph breaks 0 -> 3" in answer.sentence
    assert [evidence.part for evidence in answer.evidence if evidence.name == "graph_breaks"] == [
        Part.COMPILE
    ]


def test_a_metric_that_nobody_has_heard_of_flows_in_by_its_name() -> None:
    def forward(seconds: float) -> tuple[Sample, ...]:
        values = (seconds, seconds * 1.001, seconds * 0.999)
        lower = Direction.LOWER
        return (Sample(metric="phase.forward_s", unit="s", direction=lower, values=values),)

    before = side(Night(metrics=forward(0.03)))
    answer = explained(question(before, later(replace(SLOW, metrics=forward(0.033)))))
    assert "phase forward +10.0 %" in plain(answer.sentence)


def test_a_wrong_result_comes_before_everything_that_went_along() -> None:
    answer = asked(replace(SLOW, work_s=0.08, flags=("loss_not_finite",)))
    assert "faster" in answer.sentence
    assert "loss_not_finite flagged in all 3 measurements after and none of 3 before" in (
        answer.sentence
    )


def test_another_process_on_the_device_is_the_node() -> None:
    answer = asked(replace(SLOW, flags=("other_processes",)))
    assert answer.cause is Cause.NODE
    assert "another process computed on the device in all 3 slow measurements" in answer.sentence


def test_without_telemetry_clocks_are_not_excluded() -> None:
    dark = replace(SLOW, telemetry=False)
    answer = explained(question(side(Night(telemetry=False)), later(dark)))
    assert answer.cause is Cause.CODE
    assert "clock" not in answer.sentence
    assert any(sentence.startswith("Clocks were not recorded") for sentence in answer.not_excluded)


@pytest.mark.parametrize(
    ("metric", "unit"), [("peak_memory", "B"), ("first_step_time", "s"), ("compile_time", "s")]
)
@pytest.mark.parametrize("telemetry", [True, False])
def test_clocks_are_no_question_of_what_they_cannot_move(
    metric: str, unit: str, telemetry: bool
) -> None:
    before, after = side(Night(telemetry=telemetry)), later(replace(SLOW, telemetry=telemetry))
    more = {"metric": metric, "unit": unit, "direction": Direction.LOWER, "effect": 0.2}
    answer = explained(question(before, after, **more))
    assert answer.cause is Cause.CODE
    assert not any("Clocks" in sentence for sentence in answer.not_excluded)


def test_one_process_on_each_side_supports_no_claim_about_phases() -> None:
    before = side(Night(processes=1), 1)
    after = later(replace(HOT, processes=1), 1)
    answer = explained(question(before, after))
    measured = (Part.CLOCKS, Part.INPUT, Part.PHASES, Part.COMPILE)
    claims = [e for e in answer.evidence if e.part in measured and e.state is not State.UNCLEAR]
    assert claims == []
    assert answer.cause is Cause.CODE
    assert any(sentence.startswith("Clocks vary too much") for sentence in answer.not_excluded)


@pytest.mark.parametrize("missing", ["before", "after"])
def test_a_side_without_measurements_is_unknown_and_says_so(missing: str) -> None:
    asked_of = question(good(), later(SLOW))
    answer = explained(replace(asked_of, **{missing: ()}))
    assert answer.cause is Cause.UNKNOWN
    assert f"no measurement from {missing} it is at hand" in answer.sentence


def test_environments_that_are_not_known_are_never_the_code() -> None:
    unknown = dict.fromkeys(question(good(), []).before[0].facts)
    before = side(Night(facts=unknown | {"hw.device": "cuda"}))
    after = later(replace(SLOW, facts=unknown | {"hw.device": "cuda"}))
    answer = explained(question(before, after))
    assert answer.cause is Cause.UNKNOWN
    assert "the environments cannot be compared" in answer.sentence
    assert "The environment is not known on both sides." in answer.not_excluded


def test_one_revision_at_both_levels_with_nothing_else_different_is_unknown() -> None:
    after = later(SLOW, 2) + later(replace(SLOW, revision="r11"), 1)
    answer = explained(question(good(), after, first_bad="r12"))
    assert answer.cause is Cause.UNKNOWN
    assert (
        "nothing that was measured explains it; r11 was at the old level and is at the new one now"
        in answer.sentence
    )


@pytest.mark.parametrize(
    ("fact", "words"), [("sw.packages", "installed packages"), ("sw.model", "code of the model")]
)
def test_a_digest_that_any_commit_changes_carries_no_cause_but_is_told(
    fact: str, words: str
) -> None:
    before = side(Night(facts={fact: "00aa"}))
    answer = explained(question(before, later(replace(SLOW, facts={fact: "00ff"}))))
    assert answer.cause is Cause.CODE
    assert any(words in sentence for sentence in answer.not_excluded)


@pytest.mark.parametrize(
    ("metric", "unit", "effect", "words"),
    [
        ("throughput", "img/s", -0.031, "is 3.1 % slower since"),
        ("throughput", "img/s", 0.031, "is 3.1 % faster since"),
        ("step_time", "s", 0.2, "is 20.0 % longer since"),
        ("peak_memory", "B", 0.2, "peak memory of unet:full compile=default precision=bf16 is 20"),
        ("throughput_synth", "img/s", -0.02, "is 2.0 % slower outside data loading since"),
        ("cycles_per_step", "1", -0.05, "is 5.0 % lower since"),
        ("input_stall", "1", -1.4, "is 140 % lower since"),
    ],
)
def test_the_sentence_says_which_way_in_the_words_of_the_metric(
    metric: str, unit: str, effect: float, words: str
) -> None:
    direction = Direction.HIGHER if unit.endswith("/s") else Direction.LOWER
    asked = question(
        good(), later(SLOW), metric=metric, unit=unit, effect=effect, direction=direction
    )
    assert words in plain(explained(asked).sentence)


def test_a_measurement_of_another_case_is_refused() -> None:
    other = CASE.model_copy(update={"workload": "resnet50"})
    with pytest.raises(ValueError, match="another case"):
        question(good(), later(SLOW), case=other)


def test_a_measurement_that_failed_is_refused() -> None:
    (whole,) = later(SLOW, 1)
    failed = whole.result.model_copy(update={"status": Status.OOM, "samples": ()})
    with pytest.raises(ValueError, match="failed"):
        question(good(), [replace(whole, result=failed)], effect=-0.03)


@pytest.mark.parametrize("effect", [0.0, float("nan"), float("inf")])
def test_no_effect_is_no_change(effect: float) -> None:
    with pytest.raises(ValueError, match="effect"):
        question(good(), later(SLOW), effect=effect)


def test_a_question_is_a_frozen_value() -> None:
    asked_of: Question = question(good(), later(SLOW))
    with pytest.raises(AttributeError):
        asked_of.effect = 1.0  # type: ignore[misc]
