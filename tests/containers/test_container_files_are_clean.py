"""The linters that know these formats find nothing to say."""

import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(sysconfig.get_path("scripts"))
SHELL_SCRIPTS = [
    *sorted((ROOT / "containers").glob("*.sh")),
    *sorted((ROOT / "containers").glob("*/*.sh")),
]


def run(tool: str, *arguments: str | Path) -> None:
    done = subprocess.run(
        [SCRIPTS / tool, *arguments],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", ["Dockerfile", "containers/postgres/Dockerfile"])
def test_hadolint_has_nothing_to_say(path: str) -> None:
    run("hadolint", path)


def test_the_compose_file_fits_the_compose_specification() -> None:
    run("check-jsonschema", "--builtin-schema", "vendor.compose-spec", "docker-compose.yml")


def test_the_compose_file_is_clean_yaml() -> None:
    run("yamllint", "--strict", "docker-compose.yml")


@pytest.mark.parametrize("script", SHELL_SCRIPTS, ids=lambda path: path.name)
def test_shellcheck_has_nothing_to_say(script: Path) -> None:
    run("shellcheck", "--external-sources", script)
