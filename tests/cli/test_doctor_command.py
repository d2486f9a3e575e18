"""`throughline doctor` prints what is wrong here, and its exit code says whether anything is."""

import json
import subprocess
import sys
from pathlib import Path


def doctor(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(folder), "HOME": str(folder)} | more
    return subprocess.run(
        [sys.executable, "-m", "cli", "doctor", "--device", "cpu", *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_machine_without_a_compiler_is_warned_with_the_remedy(tmp_path: Path) -> None:
    done = doctor(tmp_path)
    assert (
        "warning  compiler       There is no C++ compiler (CXX, g++): cases with compile= will "
        "fail.\n                        apt-get install g++\n"
    ) in done.stdout


def test_an_error_is_the_exit_code(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    done = doctor(tmp_path, THROUGHLINE_PYTHON=str(python))
    assert done.returncode == 1, done.stderr
    assert "torch cannot be loaded: ModuleNotFoundError: No module named 'torch'" in done.stdout


def test_json_has_every_subject(tmp_path: Path) -> None:
    for name in ("c++", "g++"):
        (tmp_path / name).touch(mode=0o755)
    told = json.loads(doctor(tmp_path, "--json").stdout)
    assert {"device", "torch"} <= {one["subject"] for one in told}
    assert all(set(one) == {"subject", "health", "sentence", "remedy"} for one in told)
    assert not any("C++" in one["sentence"] for one in told)
