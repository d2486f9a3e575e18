"""One table says of each flag whether its measurement may decide anything."""

import re
from pathlib import Path

import pytest
from builders.measured import a_failure, a_pass, a_replicate, a_result

from benchmarks.contracts import Result, Status
from benchmarks.diagnosis import disturbances

ROOT = Path(__file__).parents[2]
DISTURBING = {"throttled", "other_processes", "device_busy"}


def flagged(*names: str) -> Result:
    one = a_replicate(a_pass(0.1), a_pass(0.1)).model_copy(update={"flags": names})
    return a_result(one)


def test_every_flag_that_the_documents_name_is_in_the_table_and_none_else() -> None:
    text = (ROOT / "docs" / "measurement.md").read_text()
    table = text.partition("| flag | kind | meaning |")[2].partition("\n\n")[0]
    documented = {}
    for line in table.splitlines()[2:]:
        names, kind, _ = line.strip("|").split(" | ", 2)
        for name in re.findall(r"`([a-z_.]+)`", names):
            documented[name.rpartition(".")[2]] = kind.strip()
    known = {
        name: one.kind.value for name, one in disturbances.FLAGS.items() if name != "parity_fail"
    }
    assert documented == known


@pytest.mark.parametrize("name", sorted(disturbances.FLAGS))
def test_a_measurement_is_disturbed_by_what_slows_its_device_and_by_nothing_else(
    name: str,
) -> None:
    reasons = disturbances.disturbances(flagged("tail", name))
    assert reasons == ((name,) if name in DISTURBING else ())


def test_what_one_process_met_disturbs_the_whole_result_and_is_named_once() -> None:
    result = flagged("throttled")
    result = result.model_copy(update={"flags": ("throttled", "full.tail")})
    assert disturbances.every(result) == ("throttled", "full.tail")
    assert disturbances.disturbances(result) == ("throttled",)


def test_a_flag_of_a_newer_version_is_a_note() -> None:
    assert disturbances.disturbances(flagged("full.of_tomorrow")) == ()


def test_memory_that_others_hold_excuses_a_failure_and_moves_no_time() -> None:
    held = {"flags": ("foreign_memory",)}
    assert disturbances.disturbances(flagged("foreign_memory")) == ()
    failed = a_failure(Status.OOM, "The batch does not fit.").model_copy(update=held)
    assert disturbances.disturbances(failed) == ("foreign_memory",)
