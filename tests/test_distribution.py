"""Our packages have plain names, so nothing else that is installed may have one of them too."""

import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

OURS = ("service", "worker", "benchmarks", "cli", "migrations")


def claimed_by_others() -> dict[str, set[str]]:
    """Which of our import names another installed distribution brings as well."""
    claims = packages_distributions()
    others = {name: set(claims.get(name, ())) - {"throughline"} for name in OURS}
    return {name: who for name, who in others.items() if who}


def test_no_other_distribution_claims_our_import_names() -> None:
    assert claimed_by_others() == {}


def test_a_distribution_that_claims_one_would_be_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rival = tmp_path / "rival-1.0.dist-info"
    rival.mkdir()
    (rival / "METADATA").write_text("Metadata-Version: 2.1\nName: rival\nVersion: 1.0\n")
    (rival / "top_level.txt").write_text("worker\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert claimed_by_others() == {"worker": {"rival"}}


def test_a_wheel_has_the_licence_and_no_raw_rows(tmp_path: Path) -> None:
    builder = WheelBuilder(str(Path(__file__).parents[1]))
    (made,) = builder.build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(made) as wheel:
        names = wheel.namelist()
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert "benchmarks/catalog/catalog.py" in names
    assert not [name for name in names if name.startswith(("benchmarks/results/", "trials/"))]
