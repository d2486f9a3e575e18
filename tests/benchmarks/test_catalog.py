"""Names are known, and impossible combinations refused, before anything runs."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.catalog import catalog
from benchmarks.contracts import Case


def case(workload: str = "resnet50", preset: str = "auto", **axes: str) -> Case:
    return Case(workload=workload, preset=preset, axes=axes)


def test_every_axis_explains_each_value_and_has_its_default_among_them() -> None:
    for axis in catalog.axes().values():
        assert axis.summary.endswith(".")
        assert axis.default in axis.values
        assert all(axis.values.values())
        assert set(axis.needs) <= set(axis.values)
        assert set(axis.capability) <= set(axis.values)


def test_every_workload_has_both_presets_and_says_what_it_counts() -> None:
    for workload in catalog.workloads().values():
        assert {"full", "tiny"} <= set(workload.presets)
        assert all(size["batch"] > 0 for size in workload.presets.values())
        assert workload.item in {"img", "token"}


def test_the_catalog_is_read_without_torch() -> None:
    code = (
        "import sys; from benchmarks.catalog import catalog, suites; catalog.workloads(); "
        "catalog.axes(); suites.suites(); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_value_that_equals_the_default_is_not_part_of_the_case() -> None:
    assert catalog.normalise(case(precision="fp32", workers="4")) == case(workers="4")


def test_equal_cases_have_equal_keys_whatever_the_order_of_their_axes() -> None:
    one = catalog.normalise(case(workers="4", layout="channels_last"))
    other = catalog.normalise(case(layout="channels_last", workers="4"))
    assert one.key == other.key == "resnet50:auto layout=channels_last workers=4"


@pytest.mark.parametrize(("device", "preset"), [("cpu", "tiny"), ("cuda", "full")])
def test_the_device_decides_what_preset_auto_means(device: str, preset: str) -> None:
    assert catalog.normalise(case(), device).preset == preset


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (case("resnet51"), "There is no workload 'resnet51'; choose one of: nanogpt, resnet50"),
        (case(preset="huge"), "There is no preset of resnet50 'huge'; choose one of: full, tiny."),
        (case(precison="bf16"), "There is no axis 'precison'; choose one of: accumulation, all"),
        (case(precision="fp8x"), "Axis 'precision' has no value 'fp8x'; choose one of: fp32, tf32"),
        (case(batch="0"), "Axis 'batch' has no value '0'"),
    ],
)
def test_an_unknown_name_is_answered_with_the_known_ones(wrong: Case, sentence: str) -> None:
    with pytest.raises(catalog.UnknownName) as refused:
        catalog.normalise(wrong)
    assert str(refused.value).startswith(sentence)


def test_a_batch_of_any_size_is_a_value() -> None:
    assert catalog.normalise(case(batch="96")).axes == {"batch": "96"}


def test_channels_last_is_refused_for_a_workload_without_images() -> None:
    with pytest.raises(catalog.Refused) as refused:
        catalog.normalise(case("nanogpt", layout="channels_last"))
    assert str(refused.value) == (
        "layout=channels_last needs input=images, and nanogpt has input=tokens."
    )


@pytest.mark.parametrize(
    "axes",
    [
        {"precision": "tf32"},
        {"precision": "fp16"},
        {"pinning": "on"},
        {"compile": "reduce-overhead"},
    ],
)
def test_what_needs_a_gpu_is_refused_on_a_cpu_and_left_open_without_a_device(
    axes: dict[str, str],
) -> None:
    assert catalog.normalise(case(**axes)).axes == axes
    with pytest.raises(catalog.Refused, match="needs device=cuda, and this worker has device=cpu"):
        catalog.normalise(case(**axes), "cpu")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ITEM = 'img'\nPRESETS = {'full': {'batch': ", "line 2: "),
        ("W = 4\nITEM = 'img'\nPRESETS = {'full': {'batch': W}}\n", "PRESETS: Field required"),
        ("PRESETS = {'full': {'batch': 2}}\n", "ITEM: Field required"),
        ("ITEM = 'img'\nPRESETS = {'full': {'batch': 'many'}}\n", "PRESETS.full.batch: "),
    ],
    ids=["syntax", "computed", "missing", "wrong type"],
)
def test_a_file_that_is_not_finished_is_left_out_by_name_and_the_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, why: str
) -> None:
    folder = tmp_path / "workloads"
    folder.mkdir()
    (folder / "good.py").write_text("ITEM = 'img'\nPRESETS = {'full': {'batch': 2}}\n")
    (folder / "bad.py").write_text(text)
    monkeypatch.setattr(catalog, "_HERE", tmp_path)
    with pytest.warns(UserWarning, match=f"workloads/bad.py is left out.*{why}"):
        entries = catalog._entries("workloads", catalog.WorkloadEntry)
    assert list(entries) == ["good"]


def test_a_speedup_is_told_against_the_same_input_with_nothing_tuned() -> None:
    tuned = case(workers="16", pinning="on", batch="64", precision="bf16", compile="default")
    assert catalog.baseline(tuned) == case(workers="16", pinning="on", batch="64")


def test_a_case_on_an_axis_that_was_since_removed_still_has_a_baseline() -> None:
    assert catalog.baseline(case(retired="on", workers="2")) == case(workers="2")


@pytest.mark.parametrize(
    ("axes", "has", "why"),
    [
        (
            {"precision": "fp8"},
            (8, 0),
            "precision=fp8 needs compute capability 8.9 or more, and this GPU has 8.0.",
        ),
        (
            {"precision": "tf32"},
            (7, 5),
            "precision=tf32 needs compute capability 8.0 or more, and this GPU has 7.5.",
        ),
        (
            {"attention": "flash", "precision": "bf16"},
            (7, 0),
            "attention=flash needs compute capability 8.0 or more, and this GPU has 7.0.",
        ),
    ],
)
def test_an_older_gpu_is_refused_with_what_it_has(
    axes: dict[str, str], has: tuple[int, int], why: str
) -> None:
    with pytest.raises(catalog.Refused) as refused:
        catalog.refuse_older(case("nanogpt", **axes), has)
    assert str(refused.value) == why


@pytest.mark.parametrize("has", [(8, 0), (9, 0), (12, 0)])
def test_a_newer_gpu_is_not_refused(has: tuple[int, int]) -> None:
    catalog.refuse_older(case("nanogpt", precision="tf32", attention="math"), has)
