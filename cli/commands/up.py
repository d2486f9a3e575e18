"""`throughline up`: the first command that anyone runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from cli import interrupts, options, revision, watch
from cli.client import ServiceClient
from cli.commands import report
from cli.commands.migrate import bring_up_to_date
from cli.exits import Exit
from cli.local import devices as local_devices
from cli.local import local_token, ports
from cli.local.state_dir import StateFolder
from cli.local.supervisor import Ensemble
from cli.output import progress
from cli.output.console import Console
from cli.revision import Version
from service.auth.sign_in_link import LASTS
from service.schemas.jobs import SubmissionView
from service.settings import Settings
from service.wording import formats
from worker import doctor
from worker.child import containment
from worker.settings import Settings as WorkerSettings


def up(
    *,
    once: Annotated[
        bool, typer.Option("--once", help="End when the suite is in; exit code 1 if a case failed.")
    ] = False,
    suite: Annotated[str, typer.Option(help="What to measure first.")] = "smoke",
    revision: options.Revision = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65_535, help="Port to listen on; by default 8765 or the next free."
        ),
    ] = None,
    state_dir: options.StateDir = options.DEFAULT_STATE_DIR,
) -> None:
    """Start a service and a worker here, measure the smoke suite, show it, and go on serving.

    Each NVIDIA GPU gets a worker; without one the CPU does, with small presets. Run again, it
    continues the same history. One up at a time uses a state folder; each process logs into its
    folder logs. Ctrl-C stops everything that it started, after the case that is being measured; a
    second one gives that case back at once.
    """
    plan = Plan(StateFolder(state_dir), host, port, suite, revision, once)
    raise typer.Exit(run(plan))


_LOOK_S = 1.0
_SOURCE = "up"


@dataclass(frozen=True)
class Plan:
    """The options of `throughline up` on the command line."""

    state: StateFolder
    host: str
    port: int | None
    suite: str
    revision: str | None
    once: bool


def run(plan: Plan) -> Exit:
    """Migrate, start, measure, show; then serve until interrupted, unless it is for once.

    Raises:
        Stop: it cannot start, or one of its processes has ended by itself.
        KeyboardInterrupt: Ctrl-C, SIGTERM or SIGHUP; every process has ended by then.
    """
    interrupts.as_ctrl_c()
    say = Console(stderr=True).say
    claim = plan.state.claim()
    ensemble = Ensemble(plan.state, plan.host, ports.choose(plan.host, plan.port))
    at_once = True  # whatever goes wrong; only an orderly end lets the worker finish its case
    try:
        bring_up_to_date(ensemble.state.path)
        ensemble.token_file = local_token.prepare(_settings(plan))
        claim.tell(ensemble.url)
        with ServiceClient(ensemble.url, local_token.read(ensemble.token_file)) as client:
            devices = _start(ensemble, client, plan, say)
            # Before any worker runs: it would finish what was interrupted, and all of it would be
            # measured again.
            submission = _submission(client, plan.suite, _version(plan.revision), say)
            ensemble.start_workers(devices)
            code = _measure(ensemble, client, submission, say)
            if not plan.once:
                say(f"Dashboard: {ensemble.url}/")
                _invite(ensemble, plan, say)
                _serve(ensemble, say)
        at_once = False
        return code
    except KeyboardInterrupt:
        at_once = False
        raise
    finally:
        ensemble.stop(say, at_once=at_once)
        claim.release()


def _start(
    ensemble: Ensemble, client: ServiceClient, plan: Plan, say: Callable[[str], None]
) -> Sequence[str]:
    """Start the service and look at the machine meanwhile; return the devices to measure on."""
    ensemble.start_service()
    here = local_devices.look()
    say(here.notice)
    for warning in _warnings(here.devices, plan.state.path):
        say(warning)
    if ensemble.token_file is not None:
        say(_seen(here.devices))
    ensemble.await_service(client)
    say(f"Service: {ensemble.url}/  logs: {plan.state.logs}/")
    if ensemble.url != options.DEFAULT_URL:
        say(f"In other terminals, first: export THROUGHLINE_URL={ensemble.url}")
    if not plan.once:
        _invite(ensemble, plan, say)
    return here.devices


def _warnings(devices: Sequence[str], state_dir: Path) -> Iterator[str]:
    """Yield what is wrong with this machine, then with each of its devices."""
    first, *_ = everywhere = [WorkerSettings(device=one, state_dir=state_dir) for one in devices]
    yield from doctor.warnings(first, at_torch=True, checks=doctor.HOST_CHECKS)
    for settings in everywhere:
        told = doctor.warnings(settings, at_torch=False, checks=doctor.GPU_CHECKS)
        yield from (f"{settings.device}: {warning}" for warning in told)


def _seen(devices: Sequence[str]) -> str:
    setting = WorkerSettings().containment
    try:
        return containment.SEEN[containment.choose(setting, devices[0])[0]]
    except containment.Unavailable as error:
        return str(error)  # the worker ends with it


def _settings(plan: Plan) -> Settings:
    return Settings(state_dir=plan.state.path, host=plan.host)


def _invite(ensemble: Ensemble, plan: Plan, say: Callable[[str], None]) -> None:
    if ensemble.token_file is None:
        return
    link = local_token.link(_settings(plan), ensemble.url)
    say(f"To act there, sign in (once, within {formats.duration(LASTS.total_seconds())}): {link}")


def _measure(
    ensemble: Ensemble,
    client: ServiceClient,
    submission: SubmissionView,
    say: Callable[[str], None],
) -> Exit:
    """Have the suite measured and print its table."""
    started_s = time.monotonic()
    view = progress.view(Console(stderr=True))
    submission = watch.follow(client, submission, view, check=ensemble.check)
    say(f"Measured in {formats.duration(time.monotonic() - started_s)}.")
    report.show(client.report(submission.id))
    return report.outcome(submission)


def _version(given: str | None) -> Version:
    if given is not None:
        return Version(given)
    return revision.checked_out(Path.cwd()) or revision.of_today(datetime.now(UTC))


def _submission(
    client: ServiceClient, suite: str, under_test: Version, say: Callable[[str], None]
) -> SubmissionView:
    """Go on with what an earlier run left unfinished at this revision, or submit anew."""
    name = formats.revision(under_test.revision)
    for earlier in client.submissions(revision=under_test.revision, suite=suite, limit=20).items:
        # Other submissions may need other workers; those of `up` run on any.
        if earlier.source == _SOURCE and not earlier.finished:
            say(f"Going on with the suite {suite} at {name}, which was interrupted.")
            return client.submission(earlier.id)
    say(f"Measuring the suite {suite} at revision {name}.")
    return client.submit({"suite": suite, "source": _SOURCE, **under_test.request()})


def _serve(ensemble: Ensemble, say: Callable[[str], None]) -> None:
    """Stay until interrupted, which is how a server ends well."""
    say("Serving, and the worker takes more jobs; Ctrl-C stops everything.")
    try:
        while True:
            time.sleep(_LOOK_S)
            ensemble.check()
    except KeyboardInterrupt:
        return
