"""Draws a bisection as inline SVG: a dot for each probe, a bar for each commit. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from service.schemas.bisections import BisectionView, ProbeView
from service.wording import formats
from service.wording.bisected import noun_of, probably

WIDTH, DOTS, BARS, GAP, PAD = 960.0, 150.0, 70.0, 26.0, 14.0
"""In units of the drawing: its width, the heights of its two parts, and what lies around them."""
LEAST_REACH = 0.002
"""The scale shows at least so large a difference, so that noise looks calm."""


def probe_dots(one: BisectionView) -> Markup:
    """Draw each probe over the place of its commit, and below it how probable each commit is."""
    what = f"{len(one.commits) - 1} {noun_of(one.good)}s"
    words = f"Probes and probabilities of {what}, the good end at the left"
    height = DOTS + GAP + BARS + GAP
    return Markup(
        '<svg class="probes" role="img" aria-label="{}" viewBox="0 0 {:.0f} {:.0f}">{}</svg>'
    ).format(words, WIDTH, height, Markup("").join((*_dots(one), *_bars(one))))


def _dots(one: BisectionView) -> Iterator[Markup]:
    seen = [probe.difference for probe in one.probes if probe.difference is not None]
    low, high = min(0.0, *seen, 0.0), max(LEAST_REACH, *seen, 0.0)
    scale = (DOTS - 2 * PAD) / (high - low)
    zero = PAD + high * scale
    yield Markup('<line class="zero" x1="0" x2="{:.0f}" y1="{:.1f}" y2="{:.1f}"/>').format(
        WIDTH, zero, zero
    )
    yield _text(0, PAD - 2, f"worse by up to {formats.size(high)}")
    for probe in one.probes:
        place = probe.commit if probe.unusable is None else probe.unusable
        x = _x(place, one)
        if probe.difference is not None:
            beside = "" if probe.beside == 0 else " beside"
            y = zero - probe.difference * scale
            yield Markup(
                '<circle class="probe{}" cx="{:.1f}" cy="{:.1f}" r="5"><title>{}</title></circle>'
            ).format(beside, x, y, probe_title(probe, one))
        elif not probe.under_way:
            yield Markup(
                '<path class="broken" d="M{:.1f} {:.1f}l8 8m0 -8l-8 8"><title>{}</title></path>'
            ).format(x - 4, zero - 4, probe_title(probe, one))


def _bars(one: BisectionView) -> Iterator[Markup]:
    bottom = DOTS + GAP + BARS
    wide = max((WIDTH - 2 * PAD) / max(len(one.commits), 1) - 2, 1.0)
    yield _text(0, DOTS + GAP - 6, f"probability of each {noun_of(one.good)}")
    for commit in one.commits:
        tall = BARS * commit.probability
        said = f"{formats.revision(commit.revision)}: {probably(commit.probability)}"
        yield Markup(
            '<rect class="chance" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">'
            "<title>{}</title></rect>"
        ).format(_x(commit.place, one) - wide / 2, bottom - tall, wide, tall, said)
    yield Markup('<line class="zero" x1="0" x2="{:.0f}" y1="{:.1f}" y2="{:.1f}"/>').format(
        WIDTH, bottom, bottom
    )
    yield _text(0, bottom + GAP - 8, "good end")
    yield _text(WIDTH, bottom + GAP - 8, "bad end", "end")


def probe_title(probe: ProbeView, one: BisectionView) -> str:
    """One probe in words."""
    commit, beside = (
        formats.revision(one.commits[place].revision) for place in (probe.commit, probe.beside)
    )
    if probe.difference is None:
        return f"{commit} beside {beside}: {probe.note or 'under way'}"
    worse = "worse" if probe.difference >= 0 else "better"
    return f"{commit}: {formats.size(abs(probe.difference))} {worse} than {beside}"


def _x(place: int, one: BisectionView) -> float:
    step = (WIDTH - 4 * PAD) / max(len(one.commits) - 1, 1)
    return 2 * PAD + place * step


def _text(x: float, y: float, words: str, anchor: str = "start") -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
        x, y, anchor, words
    )
