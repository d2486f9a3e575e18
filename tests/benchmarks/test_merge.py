"""Several processes become one Result, and nothing measured is lost on the way."""

import pytest
from builders.measured import BATCH, a_failure, a_pass, a_replicate, a_result

from benchmarks.contracts import Bottleneck, Case, Environment, Status
from benchmarks.diagnosis.merge import merge


def three_replicates() -> list:  # type: ignore[type-arg]
    steps = (0.100, 0.102, 0.098)
    return [a_result(a_replicate(a_pass(s), a_pass(s), n)) for n, s in enumerate(steps)]


def test_each_metric_has_one_value_per_process_in_order() -> None:
    throughput = merge(three_replicates()).samples[0]
    assert throughput.metric == "throughput"
    assert throughput.values == pytest.approx((BATCH / 0.100, BATCH / 0.102, BATCH / 0.098))
    assert throughput.half_widths is not None
    assert len(throughput.half_widths) == 3


def test_the_first_process_of_a_job_is_cold_and_the_others_are_warm() -> None:
    first_steps = {
        sample.metric: sample.values
        for sample in merge(three_replicates()).samples
        if sample.metric.startswith("first_step_time")
    }
    assert {metric: len(values) for metric, values in first_steps.items()} == {
        "first_step_time": 1,
        "first_step_time_warm": 2,
    }


def test_what_a_supervisor_flagged_on_a_replicate_is_told_of_the_job() -> None:
    results = three_replicates()
    (last,) = results[-1].replicates
    throttled = last.model_copy(update={"flags": ("throttled",)})
    results[-1] = results[-1].model_copy(update={"replicates": (throttled,)})
    assert merge(results).flags == ("throttled",)


def test_all_replicates_and_the_first_time_are_kept() -> None:
    results = three_replicates()
    merged = merge(results)
    assert [r.seed for r in merged.replicates] == [0, 1, 2]
    assert merged.measured_at == results[0].measured_at


def test_the_verdict_is_judged_over_all_replicates() -> None:
    waiting = [
        a_result(a_replicate(a_pass(0.2, stall_s=0.1), a_pass(0.1), seed)) for seed in range(3)
    ]
    verdict = merge(waiting).verdict
    assert verdict is not None
    assert verdict.bottleneck is Bottleneck.INPUT


def test_the_first_failure_stands_for_the_job_and_keeps_what_was_measured_before_it() -> None:
    merged = merge([*three_replicates()[:2], a_failure(Status.OOM, "It does not fit.")])
    assert (merged.status, merged.reason) == (Status.OOM, "It does not fit.")
    assert len(merged.replicates) == 2
    assert merged.samples == ()


def test_one_result_merges_to_itself() -> None:
    result = three_replicates()[0]
    assert merge([result]) == result


def test_a_result_without_raw_replicates_keeps_its_samples_and_its_verdict() -> None:
    bare = three_replicates()[0].model_copy(update={"replicates": ()})
    assert merge([bare]) == bare


def test_results_of_different_cases_are_not_mixed() -> None:
    other = a_result(a_replicate(a_pass(0.1), a_pass(0.1)), workload="unet")
    with pytest.raises(ValueError, match="different cases"):
        merge([three_replicates()[0], other])


def test_a_child_that_left_nothing_behind_is_of_the_case_and_place_of_the_others() -> None:
    nothing = a_failure(Status.TIMEOUT, "It hangs.").model_copy(
        update={
            "case": Case(workload="resnet50"),
            "environment": Environment(facts={}),
        }
    )
    first = three_replicates()[0]
    merged = merge([first, nothing])
    assert (merged.status, merged.reason) == (Status.TIMEOUT, "It hangs.")
    assert (merged.case, merged.environment) == (first.case, first.environment)
    assert (merged.item, merged.batch_items) == ("img", BATCH)
    assert merge([nothing]) == nothing


def test_only_a_preset_that_was_not_resolved_goes_with_another() -> None:
    first, second = three_replicates()[:2]
    full = second.model_copy(update={"case": Case(workload="resnet50", preset="full")})
    with pytest.raises(ValueError, match="different cases"):
        merge([first, full])


def test_nothing_cannot_be_merged() -> None:
    with pytest.raises(ValueError, match="at least one replicate"):
        merge([])
