"""The fingerprint: stable from run to run, and silent about what must not leave the machine."""

from pathlib import Path

import pytest
import torch

from benchmarks.environment import capture

CPU = torch.device("cpu")


def test_two_fingerprints_of_one_machine_are_equal() -> None:
    assert capture(CPU, {}, "builtin") == capture(CPU, {}, "builtin")


def test_hardware_software_and_flags_are_told_apart() -> None:
    facts = capture(CPU, {"flag.compile": "off"}, "builtin-photos-v1").facts
    assert facts["hw.device"] == "cpu"
    assert facts["sw.torch"] == torch.__version__
    assert facts["flag.compile"] == "off"
    assert facts["sw.data"] == "builtin-photos-v1"
    assert len(facts["sw.benchmarks"]) == len(facts["sw.packages"]) == 16


def test_variables_that_change_speed_are_told_and_secrets_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("TORCH_HUB_TOKEN", "hunter2")
    monkeypatch.setenv("HOME_ADDRESS", "elsewhere")
    facts = capture(CPU, {}, "builtin").facts
    assert facts["sw.env.OMP_NUM_THREADS"] == "3"
    assert "hunter2" not in str(facts)
    assert "elsewhere" not in str(facts)


def test_processors_and_image_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "hw.cpu.set" in capture(CPU, {}, "builtin").facts
    assert "sw.container" not in capture(CPU, {}, "builtin").facts
    monkeypatch.setenv("THROUGHLINE_IMAGE", "example.org/worker@sha256:0123")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2, 5, 7, 8})
    facts = capture(CPU, {}, "builtin").facts
    assert facts["sw.container"] == "example.org/worker@sha256:0123"
    assert facts["hw.cpu.set"] == "0-2,5,7-8"


def test_what_cannot_be_printed_is_made_printable() -> None:
    assert capture(CPU, {"flag.odd": "a\x00b\n"}, "x").facts["flag.odd"] == "a b "


def test_the_packages_are_the_same_once_something_was_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiling imports setuptools, which puts packages of its own on the path."""
    before = capture(CPU, {}, "builtin").facts["sw.packages"]
    for folder, same in (("setuptools/_vendor", True), ("elsewhere", False)):
        inner = tmp_path / folder
        (inner / "odd-1.0.dist-info").mkdir(parents=True)
        (inner / "odd-1.0.dist-info" / "METADATA").write_text("Name: odd\nVersion: 1.0\n")
        monkeypatch.syspath_prepend(str(inner))
        after = capture(CPU, {}, "builtin").facts["sw.packages"]
        assert (after == before) is same
