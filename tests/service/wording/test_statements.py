"""Every statement that the service makes has words, and no words are left over."""

import ast
from collections.abc import Iterator
from pathlib import Path

from service.analysis.statement import Statement
from service.wording import formats
from service.wording.statements import WORDS, headline_of, say

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


def overtaken(**facts: object) -> Statement:
    known: dict[str, object] = {
        "workload": "unet",
        "device": "NVIDIA H200",
        "ahead": "graphs=off and workers=4",
        "other": "graphs=on and workers=16",
        "since": "r44",
        "faster": 1.012,
        "low": 1.003,
        "high": 1.022,
        "gained": -0.027,
        "lost": -0.039,
    }
    return Statement.of("overtaken", **known | facts)


def test_a_fastest_case_may_have_become_slower_too() -> None:
    told = headline_of(overtaken()).replace(formats.NBSP, " ")
    assert told == "unet: fastest case lost 3.9 %, another one leads since r44"
    assert say(overtaken()).replace(formats.NBSP, " ") == (
        "In 14 days the case with graphs=on and workers=16, until then the fastest of unet on "
        "H200, lost 3.9 %, the case with graphs=off and workers=4 lost 2.7 %. Since r44 the latter "
        "leads, by 1.2 % (+0.3 % to +2.2 %)."
    )


def test_a_fastest_case_may_not_have_been_measured_before() -> None:
    new = overtaken(gained=None)
    assert headline_of(new) == "unet is fastest with graphs=off workers=4 since r44"
    assert "the case with graphs=off and workers=4 was not measured before. Since r44" in say(new)


def test_cases_that_differ_in_many_settings_are_not_named_in_a_headline() -> None:
    many = " and ".join(f"axis{number}=on" for number in range(9))
    said = headline_of(overtaken(ahead=many, gained=0.1))
    assert said == "unet: another case is the fastest since r44"


def test_a_slow_worker_is_told_by_what_was_measured_again() -> None:
    why = Statement.of(
        "new_level_here", last_good="r18", first_bad="r19", worker="node-b", other="node-a"
    )
    said = say(
        Statement.of("worker_at_fault", worker="node-b", share=0.048, first_bad="r19", why=why)
    )
    assert said.replace(formats.NBSP, " ") == (
        "Worker node-b is 4.8 % slower since r19: the machine, not the code. Measured again, even "
        "r18 is at the new level on node-b, and r19 is still at the old one on node-a."
    )
