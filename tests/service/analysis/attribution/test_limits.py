"""A limit that changed is evidence; one that is merely told more finely is none."""

import pytest
from builders.attributed import Night, measurement

from benchmarks.contracts import Bottleneck, Verdict
from service.analysis.attribution import Measurement
from service.analysis.attribution.quantities import _bottleneck


def limited(by: Bottleneck) -> Measurement:
    recorded = measurement(Night())
    verdict = Verdict(bottleneck=by, confidence="high", sentence="")
    result = recorded.result.model_copy(update={"verdict": verdict})
    return Measurement(recorded.revision, recorded.worker, result)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (Bottleneck.DEVICE, Bottleneck.INPUT, True),
        (Bottleneck.COMPUTE, Bottleneck.MEMORY, True),
        (Bottleneck.DEVICE, Bottleneck.MEMORY, False),
        (Bottleneck.COMPUTE, Bottleneck.DEVICE, False),
        (Bottleneck.MIXED, Bottleneck.MIXED, False),
    ],
)
def test_the_device_as_a_whole_and_a_part_of_it_are_no_change(
    before: Bottleneck, after: Bottleneck, told: bool
) -> None:
    assert bool(list(_bottleneck([limited(before)], [limited(after)]))) is told
