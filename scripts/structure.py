"""Counts how large and how tangled the code is, and fails where it grows beyond its limits.

    .venv/bin/python scripts/structure.py           # a table: figure, value, limit
    .venv/bin/python scripts/structure.py --detail  # also names what is repeated and what is long

The limits lie beside the figures below. Lower a limit when the code has become smaller; raise one
only with a reason in the commit.
"""

from __future__ import annotations

import ast
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("service", "worker", "cli", "benchmarks")
CONVENTIONS = {"__init__", "__main__", "types", "queries"}
"""File names that every package may have: its values and its reads."""
FACES = {"api", "schemas", "models", "commands", "contracts", "axes"}
"""Packages whose files are named for the nouns or verbs of the others, such as the API's."""
SELF_CONTAINED = {"workloads"}
"""Packages whose files are read alone and never imported by name."""
QUESTIONS = re.compile(r"(What|Whether|Who|Whose|How|Where|Which|Why|When)\b")


@dataclass(frozen=True)
class Module:
    """One Python file of the product."""

    path: Path
    tree: ast.Module
    lines: int

    @property
    def package(self) -> str:
        """The folder, relative to the repository."""
        return str(self.path.parent)


@dataclass(frozen=True)
class Figure:
    """One count and the most that it may be."""

    name: str
    value: float
    limit: float
    detail: tuple[str, ...] = ()


def modules(top: str) -> list[Module]:
    """Every Python file of a top folder, parsed; paths are relative to the repository."""
    found = []
    for path in sorted((ROOT / top).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        found.append(Module(path.relative_to(ROOT), ast.parse(text), text.count("\n")))
    return found


def repeated_stems(tops: Iterable[list[Module]]) -> list[str]:
    """File names used in two packages of one top folder."""
    found = []
    for top in tops:
        places = defaultdict(set)
        for module in top:
            folder = module.path.parent.name
            if module.path.stem not in CONVENTIONS and folder not in FACES | SELF_CONTAINED:
                places[module.path.stem].add(module.package)
        found += [
            f"{stem}.py in {', '.join(sorted(p))}" for stem, p in places.items() if len(p) > 1
        ]
    return sorted(found)


def repeated_classes(tops: Iterable[list[Module]]) -> list[str]:
    """Public class names defined in two files of one top folder."""
    found = []
    for top in tops:
        places = defaultdict(set)
        for module in top:
            if module.path.parent.name in SELF_CONTAINED:
                continue
            for node in module.tree.body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].add(str(module.path))
        found += [f"{name} in {', '.join(sorted(p))}" for name, p in places.items() if len(p) > 1]
    return sorted(found)


def own_imports(module: Module) -> int:
    """Count our own names that a file imports."""
    return sum(
        len(node.names)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PACKAGES
    )


def functions(module: Module) -> Iterator[tuple[int, str]]:
    """The lines of each function from its ``def`` on, and where it is."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield (node.end_lineno or node.lineno) - node.lineno + 1, f"{module.path}:{node.lineno}"


def docstrings(module: Module) -> Iterator[str]:
    """The first line of every docstring."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(module.tree):
        if isinstance(node, kinds) and (text := ast.get_docstring(node)):
            yield text.splitlines()[0]


def folder_circles(top: list[Module]) -> list[str]:
    """Pairs of folders of one package that import each other; imports inside functions count."""
    arrows = defaultdict(set)
    for module in top:
        own = _room(module.path)
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for path in _targets(node):
                    other = _room(path)
                    if other and own and other != own and path.parts[0] == module.path.parts[0]:
                        arrows[own].add(other)
    return [
        f"{a} <-> {b}"
        for a, b in combinations(sorted(arrows), 2)
        if b in arrows[a] and a in arrows[b]
    ]


def _targets(node: ast.ImportFrom) -> Iterator[Path]:
    base = Path(*(node.module or "").split("."))
    for alias in node.names:
        inner = base / alias.name
        is_module = (ROOT / inner).is_dir() or (ROOT / inner).with_suffix(".py").exists()
        yield inner if is_module else base


def _room(path: Path) -> str:
    """The folder or file right below the top folder."""
    return path.parts[1].removesuffix(".py") if len(path.parts) > 1 else ""


def documentation() -> tuple[int, int, float]:
    """Words of docs/ in all, of its longest page, and for each example in a fence."""
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")]
    words = [len(page.split()) for page in pages]
    examples = sum(page.count("\n```") for page in pages) / 2
    return sum(words), max(words), sum(words) / examples


def figures() -> list[Figure]:
    """Everything that is counted, with its limit."""
    tops = {top: modules(top) for top in PACKAGES}
    everything = [module for top in tops.values() for module in top]
    lengths = sorted(found for module in everything for found in functions(module))
    lines = [length for length, _ in lengths]
    first_lines = [line for module in everything for line in docstrings(module)]
    questions = [line for line in first_lines if QUESTIONS.match(line)]
    names = statistics.quantiles([own_imports(m) for m in everything], n=10)[-1]
    inside = (ROOT / "service").iterdir()
    entries = [
        p.name
        for p in inside
        if (p.suffix == ".py" and p.name != "__init__.py") or any(p.glob("*.py"))
    ]
    stems, classes = repeated_stems(tops.values()), repeated_classes(tops.values())
    circles = [circle for top in tops.values() for circle in folder_circles(top)]
    words, longest_page, words_per_example = documentation()
    return [
        Figure("lines of service/", sum(m.lines for m in tops["service"]), 51_614),
        Figure("lines of all packages", sum(m.lines for m in everything), 92_232),
        Figure("entries at the top of service/", len(entries), 18, tuple(sorted(entries))),
        Figure("file names in two packages", len(stems), 2, tuple(stems)),
        Figure("class names defined twice", len(classes), 0, tuple(classes)),
        Figure("pairs of folders that import each other", len(circles), 0, tuple(circles)),
        Figure("our own names imported by a file, p90", names, 12),
        Figure("lines of a function, median", statistics.median(lines), 7),
        Figure("lines of a function, p90", statistics.quantiles(lines, n=10)[-1], 20),
        Figure("lines of a function, longest", lines[-1], 71, (lengths[-1][1],)),
        Figure(
            "docstrings that begin with a question, %", 100 * len(questions) / len(first_lines), 2
        ),
        Figure("words of docs/", words, 16_000),
        Figure("words of its longest page", longest_page, 1_020),
        Figure("words of docs/ for each example", words_per_example, 110),
    ]


def main() -> int:
    """Print the table; 1 if a figure is beyond its limit."""
    detail, beyond = "--detail" in sys.argv, 0
    for figure in figures():
        over = figure.value > figure.limit
        beyond += over
        mark = "  <- beyond its limit" if over else ""
        print(
            f"{figure.name:42} {figure.value:9,.4g} {figure.limit:9,.4g}{mark}".replace(
                "e+04", "e4"
            )
        )
        if over or detail:
            print("".join(f"    {line}\n" for line in figure.detail), end="")
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
