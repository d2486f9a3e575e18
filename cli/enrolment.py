"""Fetches a worker's token with a code that is good once."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from cli.client import ServiceClient
from cli.exits import Exit, Stop
from cli.output.lines import say
from worker.device import nvml
from worker.settings import Settings
from worker.state_dir import write_durably


def enroll(code: str, url: str, device: str, name: str, state_dir: Path) -> None:
    """Turn ``code`` into a token and keep it in the worker's folder.

    Raises:
        Stop: the code is not good, or the token cannot be kept.
    """
    try:
        asked = Settings(device=device, worker_name=name, state_dir=state_dir)
        settings = asked.on_machine(device == "auto" and bool(nvml.devices()))
    except ValidationError as error:
        if ("device",) not in [problem["loc"] for problem in error.errors()]:
            raise
        raise Stop(f"{device!r} is no device: auto, cpu, cuda or cuda:N.") from error
    except nvml.DriverFailed as failed:
        raise Stop(f"{failed} Or name the device with --device.", Exit.FAILED) from failed
    path = settings.enrolled_token
    try:  # before the code is used up
        path.parent.mkdir(parents=True, exist_ok=True)
        write_durably(path, path.read_bytes() if path.exists() else b"")
        with ServiceClient(url) as client:
            write_durably(path, client.enroll(code, settings.name).encode())
    except OSError as error:
        raise Stop(f"{path} cannot be written ({error.strerror}).") from error
    say(f"This is the worker {settings.name} now; its token is in {path}.")
    say(f"Start it: throughline worker --url {url} --name {settings.name} --device {device}")
