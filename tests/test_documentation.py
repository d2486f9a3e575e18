"""What the documents say can be followed."""

import re
from pathlib import Path

import pytest
import torch

from benchmarks.catalog import catalog
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Context

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/**/*.md")])
LINK = re.compile(r"\]\(([^)#\s]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_within_the_repository_leads_somewhere(page: Path) -> None:
    targets = [link for link in LINK.findall(page.read_text()) if "://" not in link]
    missing = [link for link in targets if not (page.parent / link).exists()]
    assert missing == []


def example(page: str, first_words: str) -> str:
    """The code block of ``page`` that begins with ``first_words``."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    return next(block for block in blocks if block.startswith(first_words))


def test_the_workload_that_is_shown_as_complete_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = example("docs/adding.md", '"""A perceptron')
    folder = tmp_path / "workloads"
    folder.mkdir()
    (folder / "perceptron.py").write_text(code)
    monkeypatch.setattr(catalog, "_HERE", tmp_path)
    entry = catalog._entries("workloads", catalog.WorkloadEntry)["perceptron"]
    namespace: dict[str, object] = {}
    exec(compile(code, "perceptron.py", "exec"), namespace)
    recipe = namespace["build"](entry.presets["tiny"], Context(torch.device("cpu"), tmp_path))  # type: ignore[operator]
    trainer = Trainer(recipe, torch.device("cpu"))
    assert trainer.parameters == 1025
    batch = trainer.place([tensor[: recipe.batch] for tensor in recipe.dataset.tensors])
    losses = [float(trainer.step(batch)) for _ in range(20)]
    assert losses[-1] < losses[0]


def test_the_axis_that_is_shown_is_an_axis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = example("docs/adding.md", '"""What this axis changes')
    folder = tmp_path / "axes"
    folder.mkdir()
    (folder / "shown.py").write_text(code)
    monkeypatch.setattr(catalog, "_HERE", tmp_path)
    entry = catalog._entries("axes", catalog.AxisEntry)["shown"]
    assert entry.default in entry.values
    namespace: dict[str, object] = {}
    exec(compile(code, "shown.py", "exec"), namespace)
    assert callable(namespace["apply"])
