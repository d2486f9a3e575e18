"""`throughline bisect torch==A..torch==B` with a real service and worker, and uv: the releases are
tiny wheels in a folder."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest
from builders.commands import eventually, free_port, serving, working
from builders.forked import ForkServer

from cli.exits import Exit
from tests.cli.test_bisect import code
from worker.targets.upstream import NEEDS

RELEASES = ("1.9.0", "1.10.0", "1.10.1", "1.11.0", "1.12.0", "1.13.0")
CULPRIT = "1.11.0"
HERE = f"""
TORCH = Path.cwd().name.removeprefix("torch==").rpartition(".")[0]
FACTOR = 0.97 if int(TORCH.split(".")[1]) >= {CULPRIT.split(".")[1]} else 1.0
"""


def wheel(folder: Path, name: str, version: str) -> None:
    module = name.replace("-", "_")
    about, tag = f"{module}-{version}.dist-info", "py3-none-any"
    files = {
        f"{module}/__init__.py": "",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{about}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n",
        f"{about}/RECORD": "",
    }
    with zipfile.ZipFile(folder / f"{module}-{version}-{tag}.whl", "w") as file:
        for path, text in files.items():
            file.writestr(path, text)


def child() -> str:
    """A benchmark that tells the torch of its folder, and is slower from one release on."""
    script, device = code(1.0).replace("noise() * 1.0", "noise() * FACTOR"), '"hw.device": device'
    assert device in script
    assert "FACTOR" in script
    script = script.replace(device, f'{device}, "sw.torch": TORCH', 1)
    return script.replace("\nRATES = ", f"{HERE}\nRATES = ", 1)


@pytest.mark.slow
def test_the_release_that_is_slower_is_named(
    forks: ForkServer,
    tmp_path: Path,
    environment_in: Callable[[Path], dict[str, str]],
    throughline_in: Callable[
        [Path, dict[str, str]], Callable[..., subprocess.CompletedProcess[str]]
    ],
) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for name in set(NEEDS) - {"torch"}:
        wheel(wheels, name, "1.0")
    for version in RELEASES:
        wheel(wheels, "torch", version)
    targets, script, uv = (tmp_path / name for name in ("targets.toml", "child.py", "uv.toml"))
    targets.write_text(f'[upstream]\npackages = ["torch"]\nindex = "{wheels}"\n')
    script.write_text(child())
    uv.write_text("[pip]\nno-index = true\n")
    environment = environment_in(tmp_path) | {
        "THROUGHLINE_URL": f"http://127.0.0.1:{free_port()}",
        "THROUGHLINE_CLAIM_WAIT_S": "0.5",
        "THROUGHLINE_SWEEP_S": "0.2",
        "THROUGHLINE_TARGETS": str(targets),
        "THROUGHLINE_CHILD_COMMAND": json.dumps([sys.executable, str(script)]),
        "UV_CONFIG_FILE": str(uv),
    }
    throughline = throughline_in(tmp_path, environment)
    assert throughline("migrate").returncode == Exit.OK
    with ExitStack() as stack:
        stack.enter_context(serving(forks, tmp_path, environment))
        stack.enter_context(working(forks, tmp_path, environment))
        workers = f"{environment['THROUGHLINE_URL']}/api/v1/workers"
        eventually(lambda: '"builds.torch":"yes"' in httpx2.get(workers).text)
        done = throughline("bisect", f"torch=={RELEASES[0]}..torch=={RELEASES[-1]}", "unet")
    assert done.returncode == Exit.OK, done.stdout + done.stderr
    assert f"torch=={CULPRIT} changed it. Probability " in done.stdout
    assert "It begins once a worker has listed the releases between the ends." in done.stderr
    assert f"worse than torch=={RELEASES[2]}." in done.stderr
    assert "no release: " in done.stderr
