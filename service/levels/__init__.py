"""Histories as they stand judged, kept up to date point by point.

unjudged.py   what changed and waits: written with the change itself, so that nothing is missed
values.py     what is said of a series, placed by revisions
tail.py       the newest points of a series
standing.py   judges a series again from where it changed, and reads what is said of it
exclusions.py takes results out of their histories, and puts them back

`service.judgement` shows it, with what the series can see.
"""

from service.levels.exclusions import ExclusionView, exclude, exclusions_of, include
from service.levels.standing import (
    EDGE,
    Unweighed,
    Weighed,
    forget,
    load_tail,
    place,
    read,
    standing_of,
    store,
    weigh,
)
from service.levels.tail import FIRST, JudgedPoint, Place, Tail, own_values
from service.levels.unjudged import Due, due, judged, note
from service.levels.values import PlacedChange, Standing

__all__ = [
    "EDGE",
    "FIRST",
    "Due",
    "ExclusionView",
    "JudgedPoint",
    "Place",
    "PlacedChange",
    "Standing",
    "Tail",
    "Unweighed",
    "Weighed",
    "due",
    "exclude",
    "exclusions_of",
    "forget",
    "include",
    "judged",
    "load_tail",
    "note",
    "own_values",
    "place",
    "read",
    "standing_of",
    "store",
    "weigh",
]
