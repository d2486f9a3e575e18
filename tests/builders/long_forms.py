"""Parameters of a test of which `make test` takes only some."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def long_but(values: Iterable[Any], *kept: int) -> list[Any]:
    """Mark values as slow but those at some places; a tuple is several parameters."""
    return [value if at in kept else _slow(value) for at, value in enumerate(values)]


def _slow(value: Any) -> Any:
    several = value if isinstance(value, tuple) else (value,)
    return pytest.param(*several, marks=pytest.mark.slow)
