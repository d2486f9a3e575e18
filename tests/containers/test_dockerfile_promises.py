"""What the two images promise to whoever runs them."""

import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.containers.dockerfile_stages import Dockerfile, Instruction

ROOT = Path(__file__).parents[2]
TARGETS = ("service", "worker")


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_ends_as_a_numbered_user_that_is_not_root(
    dockerfile: Dockerfile, target: str
) -> None:
    user, group = dockerfile.whole(target).last("USER").rest.split(":")
    assert int(user) > 0
    assert int(group) > 0


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_has_a_health_check_that_needs_no_shell(
    dockerfile: Dockerfile, target: str
) -> None:
    check = dockerfile.whole(target).last("HEALTHCHECK")
    assert check.exec_form[0] == "CMD" or check.rest.partition("[")[0].rstrip().endswith("CMD")
    assert check.exec_form[0] == "python3"


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_says_what_it_is(dockerfile: Dockerfile, target: str) -> None:
    labels = dockerfile.whole(target).pairs("LABEL")
    assert labels["org.opencontainers.image.title"] == f"throughline-{target}"
    for name in ("description", "version", "revision"):
        assert labels[f"org.opencontainers.image.{name}"]


@pytest.mark.parametrize("target", TARGETS)
def test_all_state_lies_in_volumes(dockerfile: Dockerfile, target: str) -> None:
    image = dockerfile.whole(target)
    volumes = image.last("VOLUME").exec_form
    settings = image.pairs("ENV")
    assert settings["THROUGHLINE_STATE_DIR"] in volumes
    assert settings["THROUGHLINE_CACHE_DIR"] in volumes
    assert settings["HOME"] in volumes


@pytest.mark.parametrize(
    ("target", "has", "has_not"),
    [("service", "sqlalchemy", "torch"), ("worker", "torch", "sqlalchemy")],
)
def test_an_image_installs_its_own_extra_only(
    dockerfile: Dockerfile, target: str, has: str, has_not: str
) -> None:
    stage = _copied_from(dockerfile, target)
    install = next(
        run for run in dockerfile.stages[stage].all("RUN") if "requirements.py" in run.rest
    )
    words = shlex.split(install.rest)
    asked = [words[at + 1 :] for at, word in enumerate(words) if word == "requirements.py"]
    assert [one[:2] for one in asked[:1]] == [["--locked", target]]
    assert [one[0] for one in asked[1:]] == [target]
    names = _names([*_requirements(target), *_requirements("--locked", target)])
    assert has in names
    assert has_not not in names


@pytest.mark.parametrize("target", TARGETS)
def test_every_package_comes_at_its_pinned_version(dockerfile: Dockerfile, target: str) -> None:
    for run in dockerfile.stages[_copied_from(dockerfile, target)].all("RUN"):
        words = shlex.split(run.rest)
        assert "--constraint" in words or "--no-index" in words


@pytest.mark.parametrize("stage", ["wheel", "service-packages", "worker-packages"])
def test_whatever_is_locked_is_held_against_its_hashes(dockerfile: Dockerfile, stage: str) -> None:
    words = shlex.split(dockerfile.stages[stage].all("RUN")[0].rest)
    commands = " ".join(words).split(" && ")
    (hashed,) = [at for at, one in enumerate(commands) if "--require-hashes" in one]
    assert "--no-deps" in commands[hashed]
    further = [one for one in commands[hashed + 1 :] if "/pip " in one]
    assert len(further) == 1
    if stage == "wheel":
        assert "--no-deps" in further[0]
        assert "--no-build-isolation" in further[0]  # else pip fetches build tools unseen


def test_a_part_of_the_lock_that_is_not_there_is_said() -> None:
    done = _run("--locked", "service,nothing")
    assert done.returncode == 1
    assert done.stderr == "Nothing is locked for nothing; run `make lock`.\n"


def test_the_base_image_has_a_version_and_can_be_replaced(dockerfile: Dockerfile) -> None:
    assert re.fullmatch(
        r"[\w./-]+:\d[\w.-]*(@sha256:[0-9a-f]{64})?", dockerfile.arguments["PYTHON_IMAGE"]
    )
    outside = {stage.base for stage in dockerfile.stages.values()} - set(dockerfile.stages)
    assert outside == {"${PYTHON_IMAGE}"}


def test_the_worker_image_can_compile_kernels(dockerfile: Dockerfile) -> None:
    installed = {
        word
        for run in dockerfile.stages["worker"].all("RUN")
        if "apt-get" in run.rest
        for word in run.rest.split()
    }
    assert {"gcc", "g++"} <= installed


def test_the_worker_image_asks_the_driver_for_compute_and_telemetry(dockerfile: Dockerfile) -> None:
    granted = dockerfile.whole("worker").pairs("ENV")["NVIDIA_DRIVER_CAPABILITIES"].split(",")
    assert {"compute", "utility"} <= set(granted)


def test_no_secret_is_an_argument_or_stays_in_a_layer(dockerfile: Dockerfile) -> None:
    suspicious = re.compile(r"secret|passw|token|credential|pip_conf|ca_bundle", re.IGNORECASE)
    for stage in dockerfile.stages.values():
        for name in ("ARG", "ENV", "COPY", "ADD"):
            assert not [i for i in stage.all(name) if suspicious.search(i.rest)]


def test_whatever_is_copied_is_let_through_to_the_build(dockerfile: Dockerfile) -> None:
    ignore = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    let_through = {line[1:].rstrip("/") for line in ignore if line.startswith("!")}
    copied = {
        source
        for stage in dockerfile.stages.values()
        for copy in stage.all("COPY")
        if not copy.rest.startswith("--from")
        for source in copy.rest.split()[:-1]
    }
    assert ignore[1] == "*", "what is not named stays out"
    assert copied == let_through
    assert [name for name in sorted(copied) if not (ROOT / name).exists()] == []


def test_the_packages_in_the_wheel_are_the_packages_that_are_copied(dockerfile: Dockerfile) -> None:
    wheel = {copy.rest.split()[0] for copy in dockerfile.stages["wheel"].all("COPY")}
    assert {"service", "worker", "benchmarks", "cli", "migrations"} <= wheel


@pytest.fixture
def health_api() -> Iterator[HTTPServer]:
    """A server whose health endpoint answers with the status in its ``status`` attribute."""

    class Health(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status = self.server.status if self.path == "/api/v1/health" else 404  # type: ignore[attr-defined]
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = HTTPServer(("127.0.0.1", 0), Health)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (503, False)])
def test_the_service_is_healthy_when_its_health_endpoint_says_so(
    dockerfile: Dockerfile, health_api: HTTPServer, status: int, healthy: bool
) -> None:
    health_api.status = status  # type: ignore[attr-defined]
    assert (
        _check(dockerfile.whole("service").last("HEALTHCHECK"), health_api.server_port) is healthy
    )


def _check(check: Instruction, port: int) -> bool:
    """Run the image's own check here, against another port than the image's."""
    words = [word.replace(":8765/", f":{port}/") for word in check.exec_form]
    environment = {key: value for key, value in os.environ.items() if "proxy" not in key.lower()}
    done = subprocess.run(
        [sys.executable, *words[1:]], check=False, env=environment, capture_output=True, timeout=60
    )
    return done.returncode == 0


def _copied_from(dockerfile: Dockerfile, target: str) -> str:
    """The stage in which the target's packages were installed."""
    copies = [copy.rest.split() for copy in dockerfile.stages[target].all("COPY")]
    (found,) = [
        words[0].removeprefix("--from=") for words in copies if words[0].startswith("--from")
    ]
    return found


def _requirements(*asked: str) -> list[str]:
    done = _run(*asked)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def _run(*asked: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "containers" / "requirements.py", *asked],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )


def _names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=!~; ]", line, maxsplit=1)[0].lower() for line in requirements}
