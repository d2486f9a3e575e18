"""One attempt at one job: the lease kept alive, the child run, and what came of both."""

from __future__ import annotations

import gzip
import logging

from benchmarks import contracts
from benchmarks.artifact_kinds import ArtifactKind
from worker import client, heartbeat
from worker.device.usable import Unusable
from worker.outbox.upload import Delivery
from worker.result_builder import text_of, without_numbers
from worker.runner import Runner
from worker.stop import Patience, Stop
from worker.supervisor import Interrupted

log = logging.getLogger(__name__)

LOG_B = 4 * 2**20
"""Of what an attempt writes to standard error the last bytes are kept, for one that fails."""
FOLLOWED_B = 2_000
"""Most bytes of it that a renewal of the lease carries."""


class Attempt:
    """The attempt that a runner watches: its lease, and requests to stop at this worker."""

    def __init__(self, lease: contracts.Lease, heart: heartbeat.Heartbeat, stop: Stop) -> None:
        self._lease = lease
        self._ticket = client.Ticket.of(lease)
        self._heart = heart
        self._stop = stop
        self.isolated = False
        """True if the job was given up only because the service could not be reached."""
        self._trace = b""
        self._log = bytearray()
        heart.follow(lambda: text_of(self._log, FOLLOWED_B))
        self.unusable = ""
        """The reason why the device cannot be used, if the job was given up for it."""

    def cause(self) -> heartbeat.Cause | None:
        """Return the reason to stop, if there is one."""
        return heartbeat.Cause.ABORTED if self._stop.aborted else self._heart.cause()

    def left_s(self) -> float:
        """Time until the service may hand the job on, in s."""
        return self._heart.left_s()

    def tell(self, progress: contracts.Progress) -> None:
        """Let the next heartbeat carry ``progress``."""
        self._heart.tell(progress)

    def hear(self, text: bytes) -> None:
        """Keep it for the log of a failure."""
        self._log += text
        del self._log[:-LOG_B]

    def keep(self, trace: bytes) -> None:
        """Have ``trace`` sent after the result."""
        self._trace = trace

    def artifacts(self, result: contracts.Result) -> dict[ArtifactKind, bytes]:
        """Files after ``result``: the trace, and the log of a failure that has only its end."""
        files = {ArtifactKind.TRACE: self._trace} if self._trace else {}
        cut = len(self._log.strip()) > len(result.log_tail.encode())
        if result.status is not contracts.Status.OK and cut:
            files[ArtifactKind.LOG] = gzip.compress(self._log, mtime=0)
        return files

    def run(
        self, service: client.ServiceClient, runner: Runner, patience: Patience, delivery: Delivery
    ) -> contracts.Result | None:
        """The job's result; None if the attempt is over without one."""
        try:
            patience.persist(
                lambda goes_on: service.start(self._ticket, goes_on), lambda: self.cause() is None
            )
            return runner.run(self._lease.spec, self, self._lease.group)
        except Interrupted as interrupted:
            return self._given_up(interrupted.cause, delivery)
        except Unusable as gone:
            self.unusable = str(gone)
            delivery.release(
                self._ticket, contracts.line(f"The worker cannot use its device: {gone}")
            )
            return None
        except client.ServiceAway:
            return self._given_up(self.cause() or heartbeat.Cause.ISOLATED, delivery)
        except client.ClientError as error:
            log.warning("%s is not this worker's: %s", self._ticket, error)
            return None

    def _given_up(self, cause: heartbeat.Cause, delivery: Delivery) -> contracts.Result | None:
        match cause:
            case heartbeat.Cause.CANCELLED:
                sentence = "Cancelled on request while it ran."
                return without_numbers(self._lease.spec, contracts.Status.CANCELLED, sentence)
            case heartbeat.Cause.ABORTED:
                delivery.release(self._ticket, "The worker was told to stop at once.")
            case heartbeat.Cause.FENCED:
                log.warning("The service gave %s up: its child was stopped.", self._ticket)
            case heartbeat.Cause.ISOLATED:
                log.warning("%s: the service was away too long; stopped the child.", self._ticket)
                self.isolated = True
        return None


def summary(result: contracts.Result) -> str:
    """One line for the log."""
    if result.status is not contracts.Status.OK:
        return f"{result.status}: {result.reason}"
    for sample in result.samples:
        if sample.metric == "throughput":
            return f"ok, {sum(sample.values) / len(sample.values):,.1f} {sample.unit}"
    return "ok"
