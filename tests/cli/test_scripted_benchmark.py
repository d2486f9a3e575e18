"""What stands in for `python -m benchmarks` says what a measurement with its numbers would."""

import importlib.util
import json
from pathlib import Path

import pytest

from benchmarks.contracts import ProcessSpec, Result
from benchmarks.diagnosis.merge import samples
from benchmarks.diagnosis.verdict import diagnose


@pytest.mark.parametrize("axes", [{}, {"precision": "bf16"}])
@pytest.mark.parametrize("workload", ["resnet50", "nanogpt", "unet"])
def test_samples_and_verdict_are_those_of_its_replicate(
    workload: str, axes: dict[str, str]
) -> None:
    where = importlib.util.spec_from_file_location(
        "scripted_benchmark", Path(__file__).with_name("scripted_benchmark.py")
    )
    assert where is not None
    assert where.loader is not None
    scripted = importlib.util.module_from_spec(where)
    where.loader.exec_module(scripted)
    asked = ProcessSpec.model_validate({"case": {"workload": workload, "axes": axes}})
    printed = json.dumps(scripted.result(asked.model_dump(mode="json"), "ok"))
    said = Result.model_validate_json(printed)
    (replicate,) = said.replicates
    assert said.samples == samples(replicate, "img")
    due = diagnose([replicate])
    assert said.verdict is not None
    assert said.verdict.evidence == pytest.approx(due.evidence)
    assert said.verdict.model_copy(update={"evidence": due.evidence}) == due
