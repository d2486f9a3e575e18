"""The models that a worker runs besides those of the catalog. Pure.

A job may name any function of any module, and whoever may submit is not always one who may choose
what runs on this machine. So a worker imports nothing that its operator has not named.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.catalog import catalog


def refused(workload: str, allowed: Sequence[str]) -> str:
    """Say in one sentence why this worker does not run ``workload``; empty if it does.

    Args:
        workload: as the job names it.
        allowed: a package or module, with all that lies in it, or one ``module:function``.
    """
    if not catalog.is_own(workload) or any(_covers(each, workload) for each in allowed):
        return ""
    known = f"allows only {', '.join(allowed)}" if allowed else "allows no models of its users' own"
    return (
        f"This worker {known}, so it did not import {workload}: its operator may add that to "
        "THROUGHLINE_MODELS, or the job may require another worker."
    )


def _covers(allowed: str, workload: str) -> bool:
    module = workload.partition(":")[0]
    return allowed in (workload, module) or module.startswith(f"{allowed}.")
