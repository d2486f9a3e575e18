"""The installed version of Throughline."""

from importlib.metadata import PackageNotFoundError, version


def installed() -> str:
    """The distribution's version; ``0+source`` when run from a source tree."""
    try:
        return version("throughline")
    except PackageNotFoundError:
        return "0+source"
