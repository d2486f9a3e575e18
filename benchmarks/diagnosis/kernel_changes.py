"""Two profiles of one case held against each other: kernels that are new, gone, slower or faster,
and what the device's idle time became. Pure.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.contracts import KernelTime, Profile, Result
from benchmarks.contracts.profile import MOST_KERNEL_TIMES

LEAST = 0.001
"""Share of the baseline's step by which a kernel has to change; under it nobody would look."""
_TRITON = re.compile(r"^(triton_.*?)_\d+$")
_NUMBERS = re.compile(r"\d+")
_WORDS = re.compile(r"[A-Za-z_]\w*")
_TYPES = re.compile(
    r"true|false|void|bool|char|short|int|long|float|double|unsigned|signed|const|auto|u?l?|[fdc]"
    r"|size_t|BFloat|Half|Float|std|[Aa]rray|at|native|detail|anonymous|namespace|lambda|operator"
)
"""C++ words that differ between versions and precisions and do not say what a kernel does."""

KernelVerdict = Literal["new", "gone", "slower", "faster", "unchanged"]


@dataclass(frozen=True, slots=True)
class KernelSum:
    """The kernels of one profile that count as the same."""

    names: tuple[str, ...]
    self_s: float
    range_s: float
    calls: float


@dataclass(frozen=True, slots=True)
class KernelChange:
    """One kernel in two profiles; None where a profile has no such kernel."""

    baseline: KernelSum | None
    contender: KernelSum | None
    least_s: float
    """A smaller difference says nothing."""

    @property
    def names(self) -> tuple[str, ...]:
        """The contender's names for it, or the baseline's."""
        side = self.contender or self.baseline
        return side.names if side else ()

    @property
    def earlier(self) -> tuple[str, ...]:
        """The baseline's names, where they are others."""
        if self.baseline is None or self.contender is None:
            return ()
        return () if self.baseline.names == self.contender.names else self.baseline.names

    @property
    def seconds(self) -> float:
        """By how much the contender's take longer in a step."""
        before, after = self.baseline, self.contender
        return (after.self_s if after else 0.0) - (before.self_s if before else 0.0)

    @property
    def verdict(self) -> KernelVerdict:
        """Say in one word what became of it."""
        if self.baseline is None or self.contender is None:
            return "new" if self.baseline is None else "gone"
        if abs(self.seconds) <= self.least_s:
            return "unchanged"
        return "slower" if self.seconds > 0 else "faster"


@dataclass(frozen=True, slots=True)
class FigureChange:
    """One figure of a step in two profiles."""

    name: str
    unit: str
    baseline: float | None
    contender: float | None


def missing(profile: Profile) -> str:
    """Say why a profile's kernels cannot be compared; empty if they can."""
    if profile.kernel_times:
        return ""
    if profile.busy_s is None:
        return profile.absent or "It was measured without a profile."
    return "No kernels were stored."


def figures(baseline: Profile, contender: Profile) -> list[FigureChange]:
    """Hold step, busy and idle seconds, and counts of a step, against each other."""
    sides = (baseline, contender)
    causes = dict.fromkeys((*baseline.idle_s, *contender.idle_s))
    return [
        FigureChange("step", "s", *(one.step_s for one in sides)),
        FigureChange("busy", "s", *(one.busy_s for one in sides)),
        *(FigureChange(cause, "s", *(one.idle_s.get(cause) for one in sides)) for cause in causes),
        FigureChange("kernels", "", *(one.kernels for one in sides)),
        FigureChange("launches", "", *(one.launches for one in sides)),
    ]


def of_full(baseline: Result, contender: Result) -> list[FigureChange]:
    """Hold a step of FULL against each other, and what the device waited for its input there.

    They are of the timed pass of the process that was profiled, which the profiler did not slow.
    """
    sides = [one.replicates[0].full for one in (baseline, contender) if one.replicates]
    if len(sides) < 2:
        return []
    return [
        FigureChange("full step", "s", *(one.wall_s / one.steps for one in sides)),
        FigureChange("full wait", "s", *(one.stall_s for one in sides)),
        FigureChange("full copy", "s", *(one.copy_s for one in sides)),
    ]


def changes(baseline: Profile, contender: Profile) -> list[KernelChange]:
    """Return the kernels of either profile, the largest difference first.

    A kernel under the shortest one that the other profile kept may have been there as well: it is
    left out.
    """
    before, after = baseline.kernel_times, contender.kernel_times
    least_s = LEAST * (baseline.step_s or 0.0)
    told = [
        KernelChange(old, new, max(least_s, _noise_s(old, new)))
        for old, new in _matched(before, after)
        if not (old is None and _hidden(new, before)) and not (new is None and _hidden(old, after))
    ]
    return sorted(told, key=lambda one: -abs(one.seconds))


def _noise_s(*sides: KernelSum | None) -> float:
    """Four standard errors of the difference: a range of four normal values is two deviations of
    one of them, four standard errors of their mean.
    """
    return math.hypot(*(one.range_s for one in sides if one))


def _hidden(one: KernelSum | None, others: Sequence[KernelTime]) -> bool:
    """Return True if the other profile, being full, would not have kept this kernel."""
    if one is None or len(others) < MOST_KERNEL_TIMES:
        return False
    return one.self_s <= min(other.self_s for other in others)


def _matched(
    before: Sequence[KernelTime], after: Sequence[KernelTime]
) -> Iterator[tuple[KernelSum | None, KernelSum | None]]:
    """Pair kernels: by name, then those left over by the words of their names."""
    for alike in (_unnumbered, _words):
        old, new = _grouped(before, alike), _grouped(after, alike)
        yield from ((_summed(old[key]), _summed(new[key])) for key in old if key in new)
        before = [one for one in before if alike(one.name) not in new]
        after = [one for one in after if alike(one.name) not in old]
    yield from ((_summed(group), None) for group in _grouped(before, _unnumbered).values())
    yield from ((None, _summed(group)) for group in _grouped(after, _unnumbered).values())


def _grouped(
    times: Iterable[KernelTime], alike: Callable[[str], str]
) -> dict[str, list[KernelTime]]:
    groups: dict[str, list[KernelTime]] = defaultdict(list)
    for one in times:
        groups[alike(one.name)].append(one)
    return groups


def _summed(group: Sequence[KernelTime]) -> KernelSum:
    return KernelSum(
        names=tuple(sorted(one.name for one in group)),
        self_s=sum(one.self_s for one in group),
        range_s=sum(one.range_s for one in group),
        calls=sum(one.calls for one in group),
    )


def _unnumbered(name: str) -> str:
    """Drop the number at the end of a Triton kernel's name: the compiler only counts there."""
    found = _TRITON.match(name)
    return found[1] if found else name


def _words(name: str) -> str:
    """Give what a name says of the work: no numbers, such as of tiles, and no C++ types."""
    words = _WORDS.findall(_NUMBERS.sub("", name))
    return " ".join(word for word in words if not _TYPES.fullmatch(word)) or name
