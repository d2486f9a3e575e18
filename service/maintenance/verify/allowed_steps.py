"""The ways that jobs and attempts may go; the guards in the database hold the same ones.

But for one: they, and the constraint on a job's state, also let a queued job expire, and none does.
"""

from __future__ import annotations

JOB_STEPS: frozenset[tuple[str | None, str]] = frozenset(
    {
        (None, "queued"),
        *(("queued", to) for to in ("leased", "cancelled")),
        *(("leased", to) for to in ("running", "queued", "cancelled", "quarantined")),
        *(("running", to) for to in ("succeeded", "failed", "cancelled", "queued", "quarantined")),
    }
)
ATTEMPT_STEPS: frozenset[tuple[str | None, str]] = frozenset(
    {
        (None, "granted"),
        *(("granted", to) for to in ("started", "lost", "rejected")),
        *(
            ("started", to)
            for to in ("succeeded", "failed", "timed_out", "cancelled", "lost", "rejected")
        ),
    }
)
FINAL = frozenset({"succeeded", "failed", "cancelled", "quarantined"})
ON_WORKER = frozenset({"leased", "running"})
LIVE = frozenset({"granted", "started"})
ANSWERED = frozenset({"succeeded", "failed", "timed_out", "cancelled"})
"""An attempt that ended so was ended by its result."""
OUTCOMES = {
    "ok": ("succeeded", "succeeded"),
    "timeout": ("timed_out", "failed"),
    "cancelled": ("cancelled", "cancelled"),
}
"""Status of a counted result -> states of its attempt and its job; any other is a failure."""
