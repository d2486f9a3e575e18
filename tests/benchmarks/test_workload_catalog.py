import subprocess
import sys

from benchmarks.catalog import catalog


def test_the_catalog_lists_the_workloads_without_torch() -> None:
    script = (
        "import sys; from benchmarks.catalog import catalog;"
        "assert {'resnet50', 'nanogpt', 'unet'} <= set(catalog.workloads());"
        "assert not {'torch', 'numpy', 'PIL'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_each_workload_declares_what_it_is() -> None:
    entries = catalog.workloads()
    assert {name: entries[name].item for name in ("resnet50", "nanogpt", "unet")} == {
        "resnet50": "img",
        "nanogpt": "token",
        "unet": "img",
    }
    crops = {"input": "images", "attends": "no", "real_lengths": "yes"}
    assert entries["resnet50"].facts == crops
    assert entries["unet"].facts == {"input": "images", "attends": "everywhere"}
    tokens = {"input": "tokens", "attends": "causally", "real_lengths": "yes"}
    tokens |= {"tensor_parallel": "yes", "pipeline": "yes"}
    assert entries["nanogpt"].facts == tokens


def test_each_workload_has_the_presets_of_gpu_and_cpu() -> None:
    for entry in catalog.workloads().values():
        assert {"full", "tiny"} <= set(entry.presets)
        assert all(size["batch"] >= 1 for size in entry.presets.values())
        assert entry.summary.endswith(".")


def test_the_batches_are_those_of_the_reference_rows() -> None:
    full = {name: entry.presets["full"]["batch"] for name, entry in catalog.workloads().items()}
    assert full["resnet50"] == 256
    assert full["nanogpt"] == 32
    assert full["unet"] == 128
