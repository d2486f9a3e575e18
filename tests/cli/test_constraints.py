"""What is installed is what is pinned."""

import re
from importlib.metadata import distributions
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOT_PINNED = {"pip", "throughline"}
TORCH_BRINGS_ITS_OWN = re.compile(r"(nvidia-(?!ml-py$)|cuda-|triton$|pytorch-triton)")


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {normal(name): version for name, version in pairs}


def installed() -> dict[str, str]:
    found = {normal(d.metadata["Name"]): d.version.partition("+")[0] for d in distributions()}
    return {
        name: version
        for name, version in found.items()
        if name not in NOT_PINNED and not TORCH_BRINGS_ITS_OWN.match(name)
    }


def test_every_installed_distribution_is_pinned_to_its_version() -> None:
    pinned = pins()
    wrong = {name: version for name, version in installed().items() if pinned.get(name) != version}
    assert not wrong, "run `make lock`"


def test_torch_is_pinned_without_naming_a_build() -> None:
    assert pins()["torch"] == "2.13.0"


def test_no_gpu_library_that_torch_brings_itself_is_pinned() -> None:
    assert not [name for name in pins() if TORCH_BRINGS_ITS_OWN.match(name)]


def test_no_pin_names_a_place() -> None:
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert "://" not in text
    assert " @ " not in text
