"""What the compose file promises: who waits for whom, who may do what, what survives."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.containers.dockerfile_stages import Dockerfile
from worker.settings import Settings

Compose = dict[str, Any]
OURS = ("migrate", "service", "token-gpu", "token-cpu", "worker-gpu", "worker-cpu")
WORKERS = ("worker-gpu", "worker-cpu")
TAGGED = re.compile(r"[\w./-]+:\d[\w.-]*(@sha256:[0-9a-f]{64})?")


def default(value: str) -> str:
    """What ``${NAME:-default}`` is when the environment says nothing, within a longer value."""
    return re.sub(r"\$\{\w+:?-([^}]*)\}", r"\1", value)


def test_without_a_profile_there_is_no_worker(compose: Compose) -> None:
    always = {name for name, service in compose["services"].items() if "profiles" not in service}
    assert always == {"postgres", "migrate", "service"}


def test_each_kind_of_worker_has_its_profile(compose: Compose) -> None:
    for kind in ("gpu", "cpu"):
        assert compose["services"][f"worker-{kind}"]["profiles"] == [kind]
        assert compose["services"][f"token-{kind}"]["profiles"] == [kind]


def test_the_gpu_worker_reserves_an_nvidia_device_and_the_cpu_worker_none(compose: Compose) -> None:
    (device,) = compose["services"]["worker-gpu"]["deploy"]["resources"]["reservations"]["devices"]
    assert device["driver"] == "nvidia"
    assert device["capabilities"] == ["gpu"]
    assert "deploy" not in compose["services"]["worker-cpu"]


def test_a_worker_measures_on_the_device_of_its_profile_or_not_at_all(compose: Compose) -> None:
    assert compose["services"]["worker-gpu"]["environment"]["THROUGHLINE_DEVICE"] == "cuda"
    assert compose["services"]["worker-cpu"]["environment"]["THROUGHLINE_DEVICE"] == "cpu"


@pytest.mark.parametrize(
    ("waiting", "conditions"),
    [
        ("migrate", {"postgres": "service_healthy"}),
        (
            "service",
            {"postgres": "service_healthy", "migrate": "service_completed_successfully"},
        ),
        ("token-gpu", {"migrate": "service_completed_successfully"}),
        ("token-cpu", {"migrate": "service_completed_successfully"}),
        (
            "worker-gpu",
            {"service": "service_healthy", "token-gpu": "service_completed_successfully"},
        ),
        (
            "worker-cpu",
            {"service": "service_healthy", "token-cpu": "service_completed_successfully"},
        ),
    ],
)
def test_a_service_starts_once_what_it_needs_is_ready(
    compose: Compose, waiting: str, conditions: dict[str, str]
) -> None:
    waits_for = compose["services"][waiting]["depends_on"]
    assert {name: entry["condition"] for name, entry in waits_for.items()} == conditions


def test_what_only_prepares_runs_once_and_everything_else_comes_back(compose: Compose) -> None:
    policies = {name: service["restart"] for name, service in compose["services"].items()}
    for name in ("migrate", "token-gpu", "token-cpu"):
        assert policies.pop(name) == "no"
    assert set(policies.values()) == {"unless-stopped"}


@pytest.mark.parametrize("name", ["migrate", "token-gpu", "token-cpu"])
def test_what_ends_by_itself_is_not_held_to_the_health_check_of_the_service(
    compose: Compose, name: str
) -> None:
    assert compose["services"][name]["healthcheck"] == {"disable": True}


@pytest.mark.parametrize("kind", ["gpu", "cpu"])
def test_each_worker_finds_a_token_of_its_own_where_it_looks_for_one(
    compose: Compose, dockerfile: Dockerfile, kind: str
) -> None:
    """Made with the service's key and database, written into the worker's volume, and no other."""
    services = compose["services"]
    token, worker = services[f"token-{kind}"], services[f"worker-{kind}"]
    state_dir = dockerfile.whole("service").pairs("ENV")["THROUGHLINE_STATE_DIR"]
    assert dockerfile.whole("worker").pairs("ENV")["THROUGHLINE_STATE_DIR"] == state_dir
    volumes = dict(volume.split("#")[0].strip().split(":") for volume in token["volumes"])
    assert volumes.pop("service-state") == state_dir
    ((volume, place),) = volumes.items()
    assert f"{volume}:{state_dir}" in worker["volumes"]
    assert place in dockerfile.whole("service").last("VOLUME").exec_form, "its user may write there"
    told = [default(word) for word in token["command"]]
    name = default(worker["environment"]["THROUGHLINE_WORKER_NAME"])
    settings = Settings(state_dir=Path(place), worker_name=name)
    assert told == [
        *("token", "create", "--kind=worker", f"--name={name}"),
        f"--file={settings.enrolled_token}",
    ]
    assert "service-state" not in {volume.split(":")[0] for volume in worker["volumes"]}


@pytest.mark.parametrize("name", OURS)
def test_our_containers_may_do_no_more_than_they_need(compose: Compose, name: str) -> None:
    service = compose["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert "privileged" not in service
    assert any(entry.split(":")[0] == "/tmp" for entry in service["tmpfs"])


def test_only_the_service_is_reachable_and_by_default_from_this_host_alone(
    compose: Compose,
) -> None:
    published = {
        name: service["ports"]
        for name, service in compose["services"].items()
        if "ports" in service
    }
    assert {name: [default(port) for port in ports] for name, ports in published.items()} == {
        "service": ["127.0.0.1:8765:8765"]
    }


def test_the_password_comes_from_the_environment_and_is_one_everywhere(compose: Compose) -> None:
    services = compose["services"]
    variable = services["postgres"]["environment"]["POSTGRES_PASSWORD"]
    assert re.fullmatch(r"\$\{THROUGHLINE_POSTGRES_PASSWORD:-\w+\}", variable)
    for name in ("migrate", "service", "token-gpu", "token-cpu"):
        assert f":{variable}@postgres:" in services[name]["environment"]["THROUGHLINE_DATABASE_URL"]


@pytest.mark.parametrize("name", WORKERS)
def test_a_worker_reaches_the_service_by_http_alone(compose: Compose, name: str) -> None:
    environment = compose["services"][name]["environment"]
    assert environment["THROUGHLINE_URL"] == "http://service:8765"
    assert "THROUGHLINE_DATABASE_URL" not in environment


@pytest.mark.parametrize("name", WORKERS)
def test_a_worker_keeps_its_spool_and_its_inputs_in_volumes(
    compose: Compose, dockerfile: Dockerfile, name: str
) -> None:
    mounted = {volume.split(":")[1] for volume in compose["services"][name]["volumes"]}
    assert mounted == set(dockerfile.whole("worker").last("VOLUME").exec_form)


@pytest.mark.parametrize("name", WORKERS)
def test_a_worker_has_shared_memory_for_its_data_loaders(compose: Compose, name: str) -> None:
    size = default(compose["services"][name]["shm_size"])
    assert int(size.removesuffix("gb")) >= 1


@pytest.mark.parametrize("name", WORKERS)
def test_a_worker_may_load_the_kernels_that_it_compiles(compose: Compose, name: str) -> None:
    (tmp,) = compose["services"][name]["tmpfs"]
    assert "exec" in tmp.split(":")[1].split(",")


def test_every_volume_is_named_and_used(compose: Compose) -> None:
    used = {
        volume.split(":")[0]
        for service in compose["services"].values()
        for volume in service.get("volumes", ())
    }
    assert used == set(compose["volumes"])


def test_the_database_is_asked_by_tcp_whether_it_is_ready(compose: Compose) -> None:
    assert "--host=127.0.0.1" in compose["services"]["postgres"]["healthcheck"]["test"]


def test_what_is_not_built_here_is_pinned(compose: Compose) -> None:
    foreign = {
        default(service["image"])
        for service in compose["services"].values()
        if "build" not in service
    }
    assert foreign
    assert all(TAGGED.fullmatch(image) for image in foreign)


@pytest.mark.parametrize("name", OURS)
def test_our_images_are_built_from_targets_that_exist(
    compose: Compose, dockerfile: Dockerfile, name: str
) -> None:
    build = compose["services"][name]["build"]
    target = dockerfile.stages[build["target"]]
    assert target.name == ("worker" if name in WORKERS else "service")
    arguments = {
        arg.rest.partition("=")[0] for s in dockerfile.stages.values() for arg in s.all("ARG")
    }
    assert set(build.get("args", {})) <= arguments


def test_the_service_asks_for_tokens_unless_this_host_alone_reaches_it(compose: Compose) -> None:
    service = compose["services"]["service"]
    bound, told = service["ports"][0], service["environment"]["THROUGHLINE_PUBLISHED_AT"]
    assert bound.startswith(told), "what is published and what the service is told are one setting"
    assert default(service["environment"]["THROUGHLINE_ACCESS"]) == "auto"
