"""What is installed is what is pinned, and what is pinned is held against its hashes."""

import json
import re
import subprocess
import sys
import sysconfig
from importlib.metadata import distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKED = re.compile(r"([a-z0-9-]+)==(\S+)((?: --hash=sha256:[0-9a-f]{64})+) # ([a-z0-9 ]+)")
NOT_PINNED = {"pip", "throughline"}
TORCH_BRINGS_ITS_OWN = re.compile(r"(nvidia-(?!ml-py$)|cuda-|triton$|pytorch-triton)")


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {normal(name): version for name, version in pairs}


def installed() -> dict[str, str]:
    # By folder: importing setuptools, as compiling does, adds its inner packages to the path.
    folders = sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    found = {
        normal(d.metadata["Name"]): d.version.partition("+")[0] for d in distributions(path=folders)
    }
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


def lock() -> dict[str, tuple[str, set[str]]]:
    """Version and extras of each locked package; every line has the form that pip reads."""
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    found = [LOCKED.fullmatch(line) for line in lines if not line.startswith("#")]
    assert all(found)
    return {one[1]: (one[2], set(one[4].split())) for one in found if one}


def test_the_lock_has_the_pinned_versions() -> None:
    pinned = pins()
    assert {name: version for name, (version, _) in lock().items()} == {
        name: pinned[name] for name in lock()
    }


def test_all_that_an_extra_needs_is_locked_but_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    import hashes

    assert {name: extras for name, (_, extras) in lock().items()} == hashes.needed(), "make lock"
    assert "torch" not in lock()


def test_a_changed_file_is_not_installed(tmp_path: Path) -> None:
    """By the command that scripts/install uses, without a network."""
    script = (ROOT / "scripts" / "install").read_text(encoding="utf-8")
    assert "--require-hashes --no-deps" in script
    asked = tmp_path / "asked.txt"
    (line,) = [
        line
        for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
        if line.startswith("h11==")
    ]
    asked.write_text(f"{line}\n", encoding="utf-8")
    version = line.split()[0].partition("==")[2]
    (tmp_path / f"h11-{version}-py3-none-any.whl").write_bytes(b"something else")
    command = [sys.executable, "-m", "pip", "download", "--require-hashes", "--no-deps"]
    places = ["--isolated", "--no-index", f"--find-links={tmp_path}", f"--dest={tmp_path / 'to'}"]
    done = subprocess.run(
        [*command, *places, "--requirement", asked], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "DO NOT MATCH THE HASHES" in done.stderr


def test_a_bill_of_materials_names_what_is_locked_with_its_hashes(tmp_path: Path) -> None:
    lines = [
        line.partition(" # ")[0]
        for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
        if line.endswith(" service") or " service " in line
    ]
    asked, bill = tmp_path / "service.txt", tmp_path / "service.cdx.json"
    asked.write_text("\n".join(lines), encoding="utf-8")
    subprocess.run(
        [sys.executable, "-m", "cyclonedx_py", "requirements", "-o", bill, asked],
        check=True,
        capture_output=True,
    )
    told = json.loads(bill.read_text(encoding="utf-8"))
    assert told["bomFormat"] == "CycloneDX"
    assert {one["name"] for one in told["components"]} >= {"fastapi", "sqlalchemy", "scipy"}
    assert all(one["externalReferences"][0]["hashes"] for one in told["components"])
