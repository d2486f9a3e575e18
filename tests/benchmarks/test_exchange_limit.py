"""A gang's exchange is named as the limit by its share of the step, with what may lift it."""

from __future__ import annotations

import pytest
from builders.ganged import accounted, traced
from builders.measured import a_result

from benchmarks.contracts import Bottleneck, Case, Replicate, Verdict
from benchmarks.diagnosis.conclude import concluded


def of(replicate: Replicate, **axes: str) -> Verdict:
    case = Case(workload="nanogpt", preset="full", axes={"gpus": "2", **axes})
    verdict = concluded(a_result(replicate).model_copy(update={"case": case})).verdict
    assert verdict is not None
    return verdict


def test_exchange_above_the_limit_is_named_with_its_parts() -> None:
    verdict = of(accounted(0.02, 0.0, traced(0.01, 0.006, 0.004)), parallel="ddp")
    assert verdict.bottleneck is Bottleneck.COMMUNICATION
    assert verdict.sentence == (
        "Exchange between the GPUs takes 20% of the step: in traced steps exposed transfer 10%, "
        "waiting for another rank 6%, computation slowed beside it 4%. Without it, x1.25."
    )
    assert verdict.evidence["exchange"] == pytest.approx(0.2)


def test_exchange_below_the_limit_is_not() -> None:
    verdict = of(accounted(0.009, 0.0, None), parallel="ddp")
    assert verdict.bottleneck is Bottleneck.DEVICE
    assert verdict.evidence["exchange"] == pytest.approx(0.09)


def test_what_sharing_adds_is_not_all_exchange_where_nothing_runs_without() -> None:
    """A wrapper's own cost is in that part too, so the traced steps decide."""
    assert of(accounted(0.05, None, None), parallel="tp").bottleneck is Bottleneck.DEVICE
    little = of(accounted(0.05, None, traced(0.004, 0.002, None)), parallel="tp")
    assert little.bottleneck is Bottleneck.DEVICE
    much = of(accounted(0.05, None, traced(0.009, 0.002, None)), parallel="tp")
    assert much.bottleneck is Bottleneck.COMMUNICATION
    assert "slowed beside it" not in much.sentence


@pytest.mark.parametrize(
    ("axes", "expected"),
    [
        ({"parallel": "ddp"}, [("bucket_mb", "100")]),
        ({"parallel": "ddp", "bucket_mb": "400"}, [("bucket_mb", "5")]),
        ({"parallel": "ddp", "overlap": "off"}, [("overlap", "on")]),
        ({"parallel": "fsdp2"}, [("reshard", "off")]),
        ({"parallel": "fsdp2", "reshard": "off"}, []),
        ({"parallel": "pp"}, [("microbatches", "8")]),
        ({"parallel": "pp", "microbatches": "16"}, []),
        ({"parallel": "tp"}, []),
    ],
)
def test_only_remedies_that_apply_are_suggested(
    axes: dict[str, str], expected: list[tuple[str, str]]
) -> None:
    verdict = of(accounted(0.02, 0.0, traced(0.02, 0.0, 0.0)), **axes)
    assert [(one.axis, one.value) for one in verdict.suggestions] == expected


def test_computation_that_exchange_slows_speaks_for_sending_after_it() -> None:
    verdict = of(accounted(0.02, 0.0, traced(0.0, 0.0, 0.03)), parallel="ddp")
    assert ("overlap", "off") in [(one.axis, one.value) for one in verdict.suggestions]
