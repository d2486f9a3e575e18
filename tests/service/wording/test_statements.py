"""Every statement that the service makes has words, and no words are left over."""

import ast
from collections.abc import Iterator
from pathlib import Path

from service.wording.statements import WORDS

SERVICE = Path(__file__).parents[3] / "service"


def strings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def made(path: Path) -> Iterator[str]:
    """The kinds of the statements that a file makes by name."""
    for node in ast.walk(ast.parse(path.read_text())):
        called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id
        if called in ("state", "_unresolved", "_because") and isinstance(
            node.args[0], ast.Constant
        ):
            yield str(node.args[0].value)


def test_every_statement_has_words() -> None:
    files = [path for path in SERVICE.rglob("*.py") if path.parent.name != "wording"]
    assert {kind for path in files for kind in made(path)} <= WORDS.keys()


def test_all_words_are_of_some_statement() -> None:
    files = [path for path in SERVICE.rglob("*.py") if path.parent.name != "wording"]
    known = {text for path in files for text in strings(path)}
    by_state = ("loader_unchanged", "loader_unclear", "loader_changed")
    by_state += ("quantity_unchanged", "quantity_unclear", "quantity_changed")
    assert WORDS.keys() <= known | set(by_state)
