"""What CI systems are given: valid by their own schemas, and it calls the command line right."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import check_jsonschema
import jsonschema
import kubernetes_validate
import pytest
import yaml

INTEGRATIONS = Path(__file__).parents[1] / "integrations"
SCHEMAS = Path(check_jsonschema.__file__).parent / "builtin_schemas" / "vendor"
FAKE = """#!/bin/sh
for word in "$@"; do printf '%s\\n' "$word"; done > "$TOLD"
"""


def documents(path: str) -> list[Any]:
    return list(yaml.safe_load_all((INTEGRATIONS / path).read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("path", "schema"),
    [
        ("github/action.yml", "github-actions"),
        ("gitlab/template.yml", "gitlab-ci"),
        ("buildkite/pipeline.yml", "buildkite"),
    ],
)
def test_each_file_is_valid_by_the_vendors_schema(path: str, schema: str) -> None:
    rules = json.loads((SCHEMAS / f"{schema}.json").read_text(encoding="utf-8"))
    validator = jsonschema.validators.validator_for(rules)(rules)
    for document in documents(path):
        assert [error.message for error in validator.iter_errors(document)] == []


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """Run a script with a command line that writes down its words; gives them."""
    program = tmp_path / "throughline"
    program.write_text(FAKE)
    program.chmod(0o755)

    def call(script: str, **variables: str) -> list[str]:
        told = tmp_path / "told"
        environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "TOLD": str(told), **variables}
        subprocess.run(["bash", "-e", "-c", script], env=environment, check=True)
        return told.read_text().splitlines()

    return call


def after(words: list[str], option: str) -> str:
    return words[words.index(option) + 1]


def test_the_action_passes_its_inputs_and_no_script(run: Any, tmp_path: Path) -> None:
    [step] = documents("github/action.yml")[0]["runs"]["steps"]
    assert "${{" not in step["run"], "what a stranger names would be run"
    given = dict.fromkeys(step["env"], "x") | {
        "SUITE": "smoke; $(touch hacked)",
        "BASELINE": "",
        "GITHUB_RUN_ID": "1",
        "GITHUB_RUN_ATTEMPT": "2",
        "GITHUB_ACTION": "gate",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
    }
    words = run(step["run"], **given)
    assert words[0] == "gate"
    assert after(words, "--suite") == "smoke; $(touch hacked)"
    assert after(words, "--idempotency-key") == "github-1-2-gate"
    assert "--baseline" not in words
    words = run(step["run"], **given | {"BASELINE": "main branch"})
    assert after(words, "--baseline") == "main branch"


def test_the_component_compares_with_where_the_branch_left(run: Any) -> None:
    job = documents("gitlab/template.yml")[1]["throughline-gate"]
    [script] = job["script"]
    assert "$[[" not in script
    known = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": "b", "CI_COMMIT_SHA": "merged", "CI_JOB_ID": "9"}
    words = run(script, **known, SUITE="smoke", BUDGET="30m", INCONCLUSIVE="2")
    assert (after(words, "--baseline"), after(words, "--contender")) == ("b", "merged")
    words = run(script, **known, CI_MERGE_REQUEST_SOURCE_BRANCH_SHA="head")
    assert after(words, "--contender") == "head"
    assert after(words, "--output") == job["artifacts"]["reports"]["junit"]


def test_the_examples_name_the_pull_request(run: Any, tmp_path: Path) -> None:
    git = tmp_path / "git"
    git.write_text("#!/bin/sh\necho base-of-$2\n")
    git.chmod(0o755)
    [step] = documents("buildkite/pipeline.yml")[0]["steps"]
    command = step["command"].replace("$$", "$")
    known = {"BUILDKITE_PULL_REQUEST": "12", "BUILDKITE_PULL_REQUEST_BASE_BRANCH": "main"}
    words = run(command, **known, BUILDKITE_COMMIT="c", BUILDKITE_JOB_ID="j")
    assert after(words, "--pull-request") == "github:acme/vision#12"
    assert after(words, "--baseline") == "base-of-origin/main"
    jenkins = (INTEGRATIONS / "jenkins" / "Jenkinsfile").read_text(encoding="utf-8")
    script = jenkins.split("'''")[1]
    known = {"CHANGE_TARGET": "main", "CHANGE_ID": "12", "GIT_COMMIT": "c", "BUILD_TAG": "t"}
    words = run(script, **known)
    assert after(words, "--pull-request") == "github:acme/vision#12"
    assert after(words, "--baseline") == "base-of-origin/main"


@pytest.mark.parametrize(
    "path", ["github/action.yml", "gitlab/template.yml", "jenkins/Jenkinsfile"]
)
def test_options_are_those_of_the_command_line(path: str) -> None:
    text = (INTEGRATIONS / path).read_text(encoding="utf-8")
    known = (INTEGRATIONS.parent / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    gate = known.partition("## `throughline gate`")[2].partition("\n## ")[0]
    options = set(re.findall(r"(?<!\S)--[a-z-]{2,}", text))
    assert len(options) > 4
    assert options <= set(re.findall(r"--[a-z-]+", gate))


@pytest.mark.parametrize("name", ["worker", "gang"])
def test_the_manifests_are_valid_by_kubernetes_schemas(name: str) -> None:
    """The schemas come with a package; strict: a key that they do not know is a mistake."""
    [manifest] = documents(f"kubernetes/{name}.yaml")
    newest = kubernetes_validate.latest_version()
    kubernetes_validate.validate(manifest, newest, strict=True)
    [container] = manifest["spec"]["template"]["spec"]["containers"]
    container["volumeMount"] = container.pop("volumeMounts")
    with pytest.raises(kubernetes_validate.ValidationError, match="volumeMount"):
        kubernetes_validate.validate(manifest, newest, strict=True)


def test_a_gangs_pod_offers_as_many_gpus_as_it_asks_for() -> None:
    [manifest] = documents("kubernetes/gang.yaml")
    [container] = manifest["spec"]["template"]["spec"]["containers"]
    offered = after(container["args"], "--gpus").split(",")
    assert len(offered) == container["resources"]["limits"]["nvidia.com/gpu"]
    [kustomization] = documents("kubernetes/kustomization.yaml")
    for name in kustomization["resources"]:
        assert (INTEGRATIONS / "kubernetes" / name).exists()


ALLOCATION = {"THROUGHLINE_URL": "http://x", "SLURMD_NODENAME": "n7", "SLURM_GPUS_ON_NODE": "4"}


def batch(tmp_path: Path, program: str, **variables: str) -> subprocess.Popen[str]:
    path = tmp_path / "throughline"
    path.write_text(f"#!/bin/bash\n{program}\n")
    path.chmod(0o755)
    return subprocess.Popen(
        ["bash", str(INTEGRATIONS / "slurm" / "worker.sbatch")],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_an_allocation_offers_its_gpus_under_its_nodes_name(tmp_path: Path) -> None:
    program = 'echo "$* $THROUGHLINE_WORKER_NAME $THROUGHLINE_GPUS"; exit 3'
    ran = batch(tmp_path, program, **ALLOCATION)
    assert ran.communicate(timeout=20)[0] == "worker --once slurm-n7 0,1,2,3\n"
    assert ran.returncode == 3
    ran = batch(tmp_path, program, **ALLOCATION | {"SLURM_GPUS_ON_NODE": "1"})
    assert ran.communicate(timeout=20)[0] == "worker --once slurm-n7 \n"
    ran = batch(tmp_path, program)
    assert "set the address of the service" in ran.communicate(timeout=20)[1]
    assert ran.returncode != 0


def test_an_allocation_whose_time_is_up_asks_the_worker_twice(tmp_path: Path) -> None:
    program = """
    trap 'echo asked; asked=$((asked + 1)); [ $asked = 2 ] && exit 130' TERM
    echo works
    while :; do sleep 0.05; done"""
    ran = batch(tmp_path, program, **ALLOCATION, THROUGHLINE_FINISH_S="0.3")
    assert ran.stdout is not None
    assert ran.stdout.readline() == "works\n"
    ran.send_signal(signal.SIGTERM)
    assert ran.communicate(timeout=20)[0] == "asked\nasked\n"
    assert ran.returncode == 130
