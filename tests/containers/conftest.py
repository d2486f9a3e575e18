"""The container files, parsed once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.containers.dockerfile_stages import Dockerfile, parse_dockerfile

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def dockerfile() -> Dockerfile:
    return parse_dockerfile((ROOT / "Dockerfile").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def compose() -> dict[str, Any]:
    """The compose file with its anchors merged; variables stay as they are written."""
    document: dict[str, Any] = yaml.safe_load(
        (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    )
    return document
