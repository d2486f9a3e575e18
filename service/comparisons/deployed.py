"""Finds the workers that have the code of both revisions, as they say themselves. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

NAMED = 10
"""Revisions that a sentence lists; a worker may have hundreds."""
Deployed = Mapping[str, Sequence[str] | None]
"""By worker: the revisions whose own code it can run. Empty: it runs what is installed, whatever a
job names. None: it does not say."""


def able(workers: Deployed, baseline: str, contender: str) -> list[str]:
    """The workers that can measure both revisions.

    Installed code can only be held against itself.
    """
    return [name for name, has in workers.items() if _can(has, baseline, contender)]


def _can(has: Sequence[str] | None, baseline: str, contender: str) -> bool:
    if has is None:
        return True
    return {baseline, contender} <= set(has) if has else baseline == contender


def lacking(
    workers: Deployed,
    baseline: str,
    contender: str,
    seen: Callable[[Collection[str]], Sequence[str]] = sorted,
) -> str:
    """Say why no worker can measure both revisions; empty if one can, or if there is no worker.

    ``seen`` gives those of some revisions that may be named, in the order of naming.
    """
    if not workers or able(workers, baseline, contender):
        return ""
    known = {revision for has in workers.values() for revision in has or ()}
    named = list(dict.fromkeys((baseline, contender)))
    if not known:
        return (
            f"No worker has {_listed(named, 'or')}: {_listed(sorted(workers))} "
            f"{'runs' if len(workers) == 1 else 'run'} what is installed for every revision. "
            "Deploy a checkout of each and set THROUGHLINE_WORKER_TARGET there."
        )
    if unknown := [name for name in named if name not in known]:
        others = seen(known)
        remark = f"; known are {_listed(others)}" if others else ""
        return (
            f"No worker has {_listed(unknown, 'or')}{remark}. Deploy it where "
            "THROUGHLINE_WORKER_TARGET says, or correct the name."
        )
    return (
        f"No worker has both {_listed(named)}, and both sides are measured on one device: deploy "
        "them to the same worker."
    )


def _listed(names: Sequence[str], last: str = "and") -> str:
    shown = [*names[:NAMED], *([f"{len(names) - NAMED} more"] if len(names) > NAMED else [])]
    *others, end = shown
    return f"{', '.join(others)} {last} {end}" if others else end
