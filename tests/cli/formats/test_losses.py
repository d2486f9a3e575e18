"""The loss list of a format says what its own tool's files cannot say, and docs/formats.md too."""

import re
from pathlib import Path

import pytest

from cli.formats import FORMATS, Loss, read
from service.schemas.measured_elsewhere import ForeignPoint

ROOT = Path(__file__).parents[3]
FIXTURES = ROOT / "tests" / "fixtures" / "formats"
FILES = {
    "asv": ["asv"],
    "bmf": ["bmf.json"],
    "criterion": ["criterion"],
    "github-action-benchmark": ["github-action-benchmark.js"],
    "google-benchmark": ["google-benchmark.json", "google-benchmark-aggregates.json"],
    "hyperfine": ["hyperfine.json"],
    "jmh": ["jmh.json"],
    "mlperf": ["mlperf.log"],
    "pytest-benchmark": ["pytest-benchmark.json", "pytest-benchmark-without-data.json"],
    "pytorch-v3": ["pytorch-v3.json"],
    "torchbench": ["torchbench.json"],
}
SILENT = {
    "asv": "direction",
    "bmf": "parameters unit direction samples revision time commit-time machine",
    "criterion": "revision time commit-time machine",
    "csv": "",
    "github-action-benchmark": "parameters metric bounds machine",
    "google-benchmark": "parameters unit direction bounds revision commit-time",
    "hyperfine": "bounds revision time commit-time machine",
    "jmh": "direction revision time commit-time",
    "jsonl": "",
    "mlperf": "unit direction bounds revision commit-time",
    "parquet": "",
    "pytest-benchmark": "bounds",
    "pytorch-v3": "unit direction bounds commit-time",
    "torchbench": "unit direction samples bounds time commit-time",
}
SAID = {
    Loss.PARAMETERS: lambda point: point.parameters != {},
    Loss.SAMPLES: lambda point: len(point.values) > 1,
    Loss.BOUNDS: lambda point: point.low is not None,
    Loss.REVISION: lambda point: point.revision is not None,
    Loss.TIME: lambda point: point.at is not None,
    Loss.COMMIT_TIME: lambda point: point.committed_at is not None,
    Loss.MACHINE: lambda point: point.machine != {},
}


def test_every_format_has_its_list() -> None:
    assert {known.name for known in FORMATS} == set(SILENT)


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.name)
def test_the_list_is_as_written_here(known) -> None:
    assert (
        " ".join(loss.replace(" ", "-") for loss in Loss if loss in known.silent)
        == (SILENT[known.name])
    )


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_file_says_what_is_not_lost_and_nothing_of_what_is(name: str) -> None:
    found = [read(FIXTURES / file) for file in FILES[name]]
    assert {one.format for one in found} == {name}
    points: list[ForeignPoint] = [point for one in found for point in one.points]
    unsaid = {loss for loss, says in SAID.items() if not any(map(says, points))}
    assert unsaid == set(found[0].losses) & set(SAID)
    if name in {"bmf", "pytorch-v3", "torchbench"}:
        assert {point.unit for point in points} == {""}
    if name == "github-action-benchmark":
        assert {point.metric for point in points} == {"value"}


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.name)
def test_the_page_names_how_it_is_recognised_and_what_it_loses(known) -> None:
    page = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    (row,) = re.findall(rf"^\| `{known.name}` \| (.*) \| (.*) \|$", page, re.MULTILINE)
    mark, lost = row
    assert mark == known.mark
    words = re.sub(r" \(.*?\)", "", lost)
    expected = [loss for loss in Loss if loss in known.silent]
    assert words == (", ".join(expected) or "nothing")
