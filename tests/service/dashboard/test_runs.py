"""What a run's page says is explained in words, and says no more than was measured."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from builders.ganged import accounted, traced
from builders.measured import a_pass, a_replicate, a_result, an_input
from builders.profiled import H200, MIXED, a_profile

from benchmarks.catalog import catalog
from benchmarks.contracts import Bottleneck, Environment, Status, Verdict
from benchmarks.diagnosis.merge import merge
from benchmarks.diagnosis.verdict import diagnose
from cli.output import result_panel
from cli.output.console import Console
from service.analysis.summary import summarise
from service.dashboard import labels, runs

STEADY = a_result(a_replicate(a_pass(0.10, stall_s=0.04), a_pass(0.06)))


def verdict(bottleneck: Bottleneck, **evidence: float) -> Verdict:
    return Verdict(bottleneck=bottleneck, confidence="low", sentence="", evidence=evidence)


def stall(value: float, told: Verdict | None) -> runs.ShownMetric:
    (metric,) = (one for one in runs.metrics(STEADY, {}, {}) if one.name == "input_stall")
    (headline,) = runs.headlines([replace(metric, value=value)], told)
    return headline


def test_a_stall_that_was_measured_stands_in_the_headline() -> None:
    assert stall(0.4, verdict(Bottleneck.INPUT)).doubt == ""
    assert stall(0.0, None).doubt == ""


@pytest.mark.parametrize(
    ("value", "told", "reason"),
    [
        (-0.7, verdict(Bottleneck.UNKNOWN, noise=0.3), "noise: ± 30.0 %"),
        (0.2, verdict(Bottleneck.UNKNOWN, noise=0.3), "noise: ± 30.0 %"),
        (0.2, verdict(Bottleneck.UNKNOWN), "the run is too short"),
        (-0.01, verdict(Bottleneck.DEVICE), "noise: without input it was no faster"),
        (-0.01, None, "noise: without input it was no faster"),
    ],
)
def test_a_stall_that_noise_hides_is_not_a_headline(
    value: float, told: Verdict | None, reason: str
) -> None:
    assert stall(value, told).doubt.replace("\u00a0", " ") == reason
    assert stall(value, told).value == value


@pytest.mark.parametrize(("processes", "rests_on"), [(1, "within_run"), (3, "replicates")])
def test_a_run_that_is_no_point_of_a_history_has_its_interval_too(
    processes: int, rests_on: str
) -> None:
    apart = [a_replicate(a_pass(0.10 + at / 100), a_pass(0.06), at) for at in range(processes)]
    result = merge([a_result(each) for each in apart])
    (sample,) = (one for one in result.samples if one.metric == "throughput")
    (metric,) = (one for one in runs.metrics(result, {}, {}) if one.name == "throughput")
    expected = summarise(sample)
    assert (metric.value, metric.low, metric.high) == (expected.value, expected.low, expected.high)
    assert metric.low is not None
    assert (metric.interval, metric.series_id) == (rests_on, None)


@pytest.mark.parametrize(
    ("device", "of"),
    [
        ("cpu", "of the whole process, libraries included"),
        ("cuda", "most that tensors held at once"),
    ],
)
def test_peak_memory_says_what_it_is_of(device: str, of: str) -> None:
    environment = Environment(facts={"hw.device": device})
    result = STEADY.model_copy(update={"environment": environment})
    (metric,) = (one for one in runs.metrics(result, {}, {}) if one.name == "peak_memory")
    assert metric.explained == of
    sink = io.StringIO()
    result_panel.show(result, Console(file=sink, width=160))
    assert of in sink.getvalue()


def test_no_other_headline_is_doubted_for_the_stall() -> None:
    told = runs.headlines(runs.metrics(STEADY, {}, {}), verdict(Bottleneck.UNKNOWN))
    assert {one.name for one in told if one.doubt} == {"input_stall"}


def test_all_evidence_is_a_share_that_is_explained() -> None:
    kinds = dict.fromkeys(labels.KINDS, 0.01)
    profile = a_profile(0.09, kinds, MIXED, small_s=0.01)
    compiled = STEADY.replicates[0].synth.model_copy(update={"compile_s": 0.0})
    shared = accounted(0.01, 0.0, traced(0.005, 0.002, 0.001))
    update = {"profile": profile, "synth": compiled, "input": an_input()}
    update |= {"account": shared.account, "gang_trace": shared.gang_trace}
    replicate = STEADY.replicates[0].model_copy(update=update)
    found = diagnose([replicate, *STEADY.replicates[1:]], H200).evidence
    kernels = set(catalog.axes()["attention"].values) - {"auto"}
    assert set(found) | {f"attention_{kernel}" for kernel in kernels} == set(labels.EVIDENCE)
    assert all(one.value.endswith("%") and one.meaning for one in runs.evidence(found))


def test_evidence_that_is_not_known_is_shown_as_it_is() -> None:
    later, known = runs.evidence({"queue_depth": 3.25, "stall": -0.02})[::-1]
    assert (later.title, later.value, later.meaning) == ("queue_depth", "3.25", "")
    assert (known.title, known.value.replace("\u00a0", " ")) == ("Waiting", "\u22122.0 %")


@pytest.mark.parametrize("status", Status)
def test_each_status_has_its_sentence(status: Status) -> None:
    assert labels.STATUSES[status].endswith(".")
    assert labels.status(status)
