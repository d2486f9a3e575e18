"""The worker: asks for a job, has it run, delivers what came of it, and asks again."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from pathlib import Path

from benchmarks.artifact_kinds import ArtifactKind
from benchmarks.contracts import Claim, CommitRange, Lease, Result, Status, Worker
from worker.attempt import Attempt, summary
from worker.checkouts import Checkouts, Deployments
from worker.child import process_tree, workspace
from worker.client import Fenced, Refused, ServiceAway, ServiceClient, Ticket
from worker.device.usable import Unusable
from worker.heartbeat import Heartbeat, now_s
from worker.http_exchange import GoesOn
from worker.outbox.spool import Answer, Spool
from worker.outbox.upload import Delivery
from worker.result_builder import without_numbers
from worker.runner import Runner
from worker.settings import Settings
from worker.state_dir import Journal, Occupied, Pending
from worker.stop import Patience, Stop
from worker.supervisor import Vacancy
from worker.targets.target import builds_of

log = logging.getLogger(__name__)

DONE, CANNOT, WRONG, ABORTED = 0, 1, 2, 130
"""Exit codes: drained; cannot work here, as without its device; wrongly set up, or refused by the
service; ended by a second signal."""
CLAIM_GRACE_S = 1.0
"""Time after which an open claim is broken off once the worker is to stop. The service then grants
nothing more, but an answer may be under way."""
MOST_RUNS = 2
"""Most times that a job may take the worker down; then the service counts it as lost."""


class Loop:
    """One worker's life, from its introduction to its last result."""

    def __init__(
        self,
        settings: Settings,
        me: Worker,
        client: ServiceClient,
        runner: Runner,
        folder: Path,
        stop: Stop,
    ) -> None:
        self._settings = settings
        self._me = me
        self._checkouts = (
            Checkouts(settings.worker_target)
            if settings.targets is None
            else builds_of(settings, settings.targets)
        )
        self._client = client
        self._runner = runner
        self._stop = stop
        self._journal = Journal(folder)
        self._spool = Spool(folder / "spool")
        self._patience = Patience(stop, settings.backoff_first_s, settings.backoff_limit_s)
        self._delivery = Delivery(client, self._spool, self._patience, settings.drain_delivery_s)
        self._isolated: Ticket | None = None
        self._unusable = ""
        """The reason why this worker's device cannot be used, once a child has found it."""
        self._vacancy = Vacancy(runner.station, stop)

    def run(self) -> int:
        """Work until asked to stop, or, with ``once``, until the queue is empty.

        Raises:
            Unusable: the device cannot be used any more.
        """
        self._end_leftover()
        self._settle_spooled()
        with suppress(ServiceAway):  # it was asked to stop meanwhile
            self._patience.insist(self._register, self._working)
            log.info("Worker %s is at %s.", self._me.name, self._client.url)
            with self._deployments():
                self._delivery.everything()
                while self._working() and self._turn():
                    pass
        if self._unusable:
            raise Unusable(self._unusable)
        log.info("Worker %s has stopped.", self._me.name)
        return ABORTED if self._stop.aborted else DONE

    def _deployments(self) -> AbstractContextManager[object]:
        if not self._settings.worker_target and self._settings.targets is None:
            return nullcontext()
        return Deployments(self._checkouts, partial(self._register, self._working))

    def _turn(self) -> bool:
        """Ask for one job and run it; return whether to go on."""
        self._hand_back_isolated()
        if not self._alone():
            return False
        self._delivery.again()
        try:
            pending = self._pending()
        except OSError as error:  # without a claim on the disk a lease could be lost: ask for none
            return self._without_disk(error)
        try:
            lease, sent_at_s = self._patience.insist(
                lambda _: self._claim(pending.claim_id), self._working
            )
        except Fenced:  # this claim's attempt ended while nobody was there
            self._journal.settle()
            return True
        if lease is None:
            return not self._settings.once
        self._begin(pending, lease)
        self._work(lease, sent_at_s)
        self._journal.settle()
        return not self._unusable

    def _begin(self, pending: Pending, lease: Lease) -> None:
        """Record the job that the claim got; the claim itself is on the disk already."""
        begun = Pending(
            pending.claim_id, pending.runs + 1, lease.lease_s, lease.job_id, lease.attempt
        )
        try:
            self._journal.claim(begun)
        except OSError as error:
            log.error(
                "The beginning of a job could not be written down: %s. Free some disk.", error
            )

    def _without_disk(self, error: OSError) -> bool:
        log.error("No job is taken while the worker's folder takes nothing: %s.", error)
        return not self._settings.once and self._stop.pause(
            self._settings.backoff_limit_s, self._working
        )

    def _pending(self) -> Pending:
        """The next claim, written down first so that no granted lease is lost."""
        pending = self._journal.pending()
        if pending is not None and pending.runs >= MOST_RUNS:
            self._sit_out(pending)
            pending = None
        if pending is None:
            pending = Pending(uuid.uuid4().hex)
            self._journal.claim(pending)
        return pending

    def _claim(self, claim_id: str) -> tuple[Lease | None, float]:
        """Ask for a job; return the lease, if any, and when the request was sent."""
        wait_s = 0.0 if self._settings.once else self._settings.claim_wait_s
        claim = Claim(worker=self._me.name, claim_id=claim_id, wait_s=wait_s)
        sent_at_s = now_s()
        try:
            return self._client.claim(claim, self._may_be_answered), sent_at_s
        except Refused as refused:
            if refused.status != 404:
                raise
        # A service with a new database has never heard of this worker.
        self._register(self._working)
        sent_at_s = now_s()
        return self._client.claim(claim, self._may_be_answered), sent_at_s

    def _may_be_answered(self) -> bool:
        return self._stop.allows(CLAIM_GRACE_S)

    def _register(self, goes_on: GoesOn) -> CommitRange | None:
        """Introduce this worker; return the range of commits that the service asks for."""
        here = self._checkouts.told()
        try:
            return self._client.register(self._me.model_copy(update=here), goes_on)
        except Fenced as refused:
            raise Occupied(str(refused)) from refused

    def _work(self, lease: Lease, sent_at_s: float) -> None:
        """Run one leased job and deliver its result, or give the job back."""
        ticket = Ticket.of(lease)
        if self._stop.draining:
            self._delivery.release(ticket, "The worker is stopping.")
            return
        log.info("Running %s: %s at %s.", ticket, lease.spec.case.key, lease.spec.revision)
        device = self._runner.station.device.newest
        share = self._settings.fence_share
        with Heartbeat(self._client, lease, sent_at_s, share, device) as heart:
            attempt = Attempt(lease, heart, self._stop)
            result = attempt.run(self._client, self._runner, self._patience, self._delivery)
            if not self._runner.station.survivors:
                self._journal.ended()
            self._unusable = attempt.unusable
            if attempt.isolated:
                self._isolated = ticket
            files = attempt.artifacts(result) if result is not None else {}
            if result is not None and self._send(ticket, result, files) is Answer.REJECTED:
                sentence = (
                    "The service refused this job's result; the worker keeps it in its folder "
                    f"{self._settings.folder / 'spool' / 'rejected'}."
                )
                self._send(ticket, without_numbers(lease.spec, Status.INFRA_ERROR, sentence), {})
        self._delivery.artifacts()

    def _send(
        self, ticket: Ticket, result: Result, files: Mapping[ArtifactKind, bytes]
    ) -> Answer | None:
        entry = self._spool.put(ticket, result.model_dump_json().encode())
        self._journal.settle()
        for kind, body in files.items():
            self._spool.put_artifact(ticket, kind, body)
        log.info("%s is finished: %s", ticket, summary(result))
        return self._delivery.deliver(entry)

    def _hand_back_isolated(self) -> None:
        """Give back the job that was stopped while the service was away."""
        if self._isolated is None:
            return
        ticket = self._isolated
        reason = "The worker lost contact with the service and stopped the job."
        with suppress(Fenced, Refused):  # the service has moved on by itself
            self._patience.insist(
                lambda goes_on: self._client.release(ticket, reason, goes_on), self._working
            )
        self._isolated = None

    def _alone(self) -> bool:
        """Wait until nothing of the last job is left; say whether to go on."""
        if not self._vacancy.await_it(self._working):
            return False
        if self._runner.station.survivors:
            self._journal.ended()
        self._runner.station.survivors = ()
        return True

    def _sit_out(self, pending: Pending) -> None:
        log.error(
            "This worker died %d times with the same job: it leaves the job to the service and "
            "waits %g s for the lease to end.",
            pending.runs,
            pending.lease_s,
        )
        self._stop.pause(pending.lease_s, self._working)
        self._journal.settle()

    def _end_leftover(self) -> None:
        """Kill what a worker that died may have left on the device."""
        leftovers = self._journal.leftovers()
        if not leftovers:
            return
        patience_s = self._settings.kill_patience_s
        trees = [tree for leftover in leftovers for tree in leftover.trees]
        survivors = [p for tree in trees for p in process_tree.end(tree, 0.0, patience_s)]
        self._runner.station.survivors = tuple(survivors)
        self._runner.station.device.occupancy.expect(*trees)
        for leftover in leftovers:
            if not workspace.remove_leftover(Path(leftover.folder)):
                log.warning("The folder %s of an earlier child is left as it is.", leftover.folder)
        if not survivors:
            self._journal.ended()
            self._journal.ended_ahead()

    def _settle_spooled(self) -> None:
        pending = self._journal.pending()
        spooled = {(e.ticket.job_id, e.ticket.attempt) for e in self._spool.entries()}
        if pending is not None and (pending.job_id, pending.attempt) in spooled:
            self._journal.settle()

    def _working(self) -> bool:
        return not self._stop.draining
