"""A worker's settings; the only place in this package that reads the process environment."""

from __future__ import annotations

import os
import platform
import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from benchmarks import local_service
from benchmarks.contracts import Worded
from benchmarks.cpus import usable_cpus

Positive = Annotated[float, Field(gt=0)]
_NAME = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*(:[A-Za-z_]\w*)?"
_SECRETS = re.compile(
    r"^(THROUGHLINE_(DATABASE_URL|ACCESS_KEY|.*(TOKEN|SECRET|PASSWORD)).*|PGPASSWORD|PGPASSFILE)$"
)
_MODELS = rf"^( *{_NAME} *(, *{_NAME} *)*)?$"
REVISION = "{revision}"
"""Where a revision's name goes in `Settings.worker_target`."""


class ContainmentSetting(StrEnum):
    """What the settings ask for, to keep the processes of a child together."""

    AUTO = "auto"
    PID_NAMESPACE = "pid_namespace"
    PROCESS_GROUP = "process_group"


class Settings(BaseSettings):
    """Every field may be set as ``THROUGHLINE_<FIELD>``; times are in seconds."""

    model_config = SettingsConfigDict(env_prefix="THROUGHLINE_", frozen=True, extra="ignore")

    url: str = "http://127.0.0.1:8765"
    """Address of the service."""
    token: SecretStr = SecretStr("")
    """The worker's proof of identity to the service."""
    token_file: Path | None = None
    """A file with the token in it, read for each request, so that it may be renewed; without both
    the one in `folder` that ``throughline worker enroll`` wrote, or that of a service which runs on
    this machine out of the same state folder."""
    state_dir: Path = Path(".throughline")
    """Where a worker keeps what must survive its death: spooled results, claim, child."""
    worker_name: str = ""
    """Unique among workers; empty: made from the host and the device."""
    device: Annotated[
        str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?)$"), Worded("must be auto, cpu, cuda or cuda:N")
    ] = "auto"
    """``auto`` is the first NVIDIA GPU, or the CPU without one."""
    gpus: Annotated[
        str,
        Field(pattern=r"^(\d+(,\d+){0,63})?$"),
        Worded("must be numbers of GPUs with commas, such as 0,1"),
    ] = ""
    """GPUs that this worker offers together, such as ``0,1``; empty: `device` alone. A job of one
    GPU gets the first. On a CPU as many processes."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Further labels that jobs may require; as JSON in the environment."""
    data_root: Path | None = None
    cache_dir: Path | None = None
    """Where children keep input files; without it where they choose: ``~/.cache/throughline``."""
    python: str = sys.executable
    """Interpreter of the child process; it needs torch, the worker does not."""
    child_command: tuple[str, ...] = ()
    """Replaces ``python -m benchmarks -``."""
    worker_target: str = ""
    """Folder of each revision's checkout, such as ``/srv/checkouts/{revision}``; empty: every
    revision runs what is installed here."""
    targets: Path | None = None
    """A file of targets (docs/targets.md): what this worker builds when a job names it."""
    builds_limit_gib: Positive = 50.0
    """Disk that builds may take; those of the last day are kept beyond it."""
    models: Annotated[
        str,
        Field(pattern=_MODELS),
        Worded("must be modules or functions, with commas, such as mypkg.bench,other:build"),
    ] = ""
    """Users' own models that jobs may name: modules with all that is in them, or single functions,
    such as ``mypkg.bench,other:build``; empty: none."""
    once: bool = False
    """End when the queue has no work."""

    claim_wait_s: Annotated[float, Field(ge=0, le=30)] = 5.0
    """How long the service may hold a request for work."""
    request_timeout_s: Positive = 10.0
    """Limit of a whole answer; each 100 kB that are sent add a second."""
    backoff_first_s: Positive = 0.5
    backoff_limit_s: Positive = 30.0
    fence_share: Annotated[float, Field(gt=0, lt=1)] = 0.75
    """Share of the lease after which a worker that cannot renew it stops by itself."""
    silence_s: Positive = 60.0
    """A child that shows no sign of life for this long hangs."""
    tick_s: Positive = 0.25
    kill_grace_s: Annotated[float, Field(ge=0)] = 5.0
    """Between SIGTERM and SIGKILL."""
    kill_patience_s: Positive = 10.0
    """After SIGKILL, before the worker says that a process does not die."""
    output_limit_b: Annotated[int, Field(gt=0)] = 64 * 2**20
    """What a child may write to standard output or standard error before it is stopped."""
    containment: ContainmentSetting = ContainmentSetting.AUTO
    """What keeps a child's processes together; ``auto`` is `worker.child.containment.choose`'s."""
    processes_limit: Annotated[int, Field(gt=0)] = 1024
    """How many processes a child may have; 32 loaders and as many compilers are usual at most."""
    temp_limit_b: Annotated[int, Field(gt=0)] = 16 * 2**30
    """What a job may keep in its folder for temporary files and compiler caches."""
    disk_reserve_b: Annotated[int, Field(ge=0)] = 512 * 2**20
    """A child is stopped when less is free where temporary files are."""
    log_tail_b: Annotated[int, Field(gt=0, le=60_000)] = 16 * 2**10
    telemetry_hz: Positive = 10.0
    cool_limit_s: Annotated[float, Field(ge=0)] = 10.0
    """Longest wait between two replicates for the device to cool to its first temperature."""
    cool_margin_c: float = 5.0
    throttle_retries: Annotated[int, Field(ge=0, le=3)] = 2
    """How often a replicate is measured again because the device protected itself meanwhile; three
    times fifty is what a Result may say of it."""
    throttle_cool_s: Annotated[float, Field(ge=0)] = 60.0
    """Longest wait for the device to cool before that."""
    idle_limit_s: Annotated[float, Field(ge=0)] = 5.0
    """Longest wait for an idle device before a replicate."""
    canary_every_s: Annotated[float, Field(ge=0)] = 600.0
    """How long a node's canary stands for the node; 0 takes none."""
    drain_delivery_s: Annotated[float, Field(ge=0)] = 5.0
    """How long a draining worker tries to deliver its last result; it stays spooled after that."""

    @field_validator("worker_target")
    @classmethod
    def _has_one_revision_placeholder(cls, template: str) -> str:
        if template and (template.count(REVISION) != 1 or not Path(template).is_absolute()):
            raise ValueError("must be a whole path with {revision} in it, or empty")
        return template

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        numbers = self.gpus.split(",") if self.gpus else []
        if len(set(numbers)) < len(numbers):
            raise ValueError("gpus names one of them twice")
        if self.worker_target and self.targets is not None:
            raise ValueError("targets and worker_target exclude one another: set one of them")
        return self

    @property
    def name(self) -> str:
        """The worker's name, in the form that the service accepts."""
        of_gang = f"-x{len(self.devices)}" if self.gpus else ""
        raw = self.worker_name or f"{platform.node() or 'host'}-{self.device}{of_gang}"
        name = re.sub(r"[^a-z0-9_.-]+", "", raw.lower().replace(" ", "-"))
        return re.sub(r"^[^a-z0-9]+", "", name)[:64] or "worker"

    def on_machine(self, has_gpu: bool) -> Settings:
        """The same, with the device that ``auto`` stands for; the name may depend on it."""
        if self.device == "cpu" or (self.device == "auto" and not has_gpu):
            return self.model_copy(update={"device": "cpu"})
        if self.gpus:
            return self.model_copy(update={"device": f"cuda:{self.gpus.partition(',')[0]}"})
        return self if self.device != "auto" else self.model_copy(update={"device": "cuda:0"})

    @property
    def devices(self) -> tuple[str, ...]:
        """Every device that it offers together, `device` first."""
        if not self.gpus:
            return (self.device,)
        numbers = self.gpus.split(",")
        return tuple("cpu" if self.device == "cpu" else f"cuda:{one}" for one in numbers)

    @property
    def enrolled_token(self) -> Path:
        """The file in which enrolling keeps the token."""
        return self.folder / "token"

    def read_token(self) -> str:
        """The token to show now; nothing if there is none.

        Raises:
            OSError: the file with it cannot be read.
        """
        if given := self.token.get_secret_value():
            return given.strip()
        named = self.token_file if self.token_file and str(self.token_file) != "." else None
        try:
            path = named or self.enrolled_token
            # What is no text is no token either, and is told as that.
            return path.read_text(encoding="utf-8", errors="replace").strip()
        except FileNotFoundError:
            if named:
                raise
            return local_service.token_for(self.state, self.url.rstrip("/"))

    @property
    def allowed_models(self) -> tuple[str, ...]:
        """The names in `models`, one by one."""
        return tuple(name.strip() for name in self.models.split(",") if name.strip())

    @property
    def command(self) -> tuple[str, ...]:
        """The command that starts a child; it reads from its standard input what to measure."""
        return self.child_command or (self.python, "-m", "benchmarks", "-")

    @property
    def folder(self) -> Path:
        """This worker's own folder within the state folder."""
        return self.state / "workers" / self.name

    @property
    def state(self) -> Path:
        """The whole path of the state folder."""
        return self.state_dir.expanduser().absolute()


def faults(error: ValidationError | SettingsError) -> list[tuple[str, str]]:
    """Return the wrong fields of settings, each with the reason."""
    if isinstance(error, ValidationError):
        return [
            (".".join(map(str, problem["loc"])), problem["msg"].removeprefix("Value error, "))
            for problem in error.errors(include_url=False)
        ]
    # A field of several values is read as JSON; its name stands in the message alone.
    field = re.search(r'field "(\w+)"', str(error))
    return [(field[1] if field else "", "it must be JSON")]


def child_environment(settings: Settings) -> dict[str, str]:
    """The environment of every child, with the variables that make runs repeatable.

    OMP_NUM_THREADS stays as set. CUDA by default numbers GPUs by speed; here it numbers them as
    NVML does, or telemetry would be of another GPU. Passwords and keys of the service and the
    database are removed, because a child runs the code under test.
    """
    inherited = {name: value for name, value in os.environ.items() if not _SECRETS.search(name)}
    inherited.setdefault("OMP_NUM_THREADS", str(usable_cpus()))
    inherited.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    if settings.cache_dir is not None:
        inherited["THROUGHLINE_CACHE_DIR"] = str(settings.cache_dir.expanduser().absolute())
    return inherited


def visible_devices() -> str | None:
    """CUDA_VISIBLE_DEVICES as this process got it."""
    return os.environ.get("CUDA_VISIBLE_DEVICES")
