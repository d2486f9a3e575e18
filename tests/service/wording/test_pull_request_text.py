"""What a pull request is told, word for word."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from builders.shown_gates import GATES, HOSTILE, LINK, case, finding, gate, many
from markdown_it import MarkdownIt

from service.schemas.policy import Policy
from service.wording import pull_request as words

ENDS = f"aaaaaaaaaa against bbbbbbbbbb, smoke. [Every number and attempt]({LINK})."
REPEAT = """\
throughline gate \\
  --baseline bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb \\
  --contender aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa \\
  --suite smoke"""
COMMENTS = Path(__file__).parent / "comments"
"""The expected texts, as a forge would render them."""


@pytest.mark.parametrize("kind", sorted(GATES.keys() - {"running"}))
def test_a_comment_begins_with_its_answer(kind: str) -> None:
    expected = (COMMENTS / f"{kind.replace(' ', '_').lower()}.md").read_text(encoding="utf-8")
    assert words.gates_comment(GATES[kind]) + "\n" == expected


def test_a_gate_that_runs_says_so() -> None:
    assert words.gates_comment(GATES["running"]) == f"**Measuring 6 cases.**\n\n{ENDS}"


def test_a_finding_is_told_and_what_became_of_it() -> None:
    sentence = "Throughput of unet:full fell by 5.1 % \\(5.4 % to 4.8 %\\) with cccccccccc: code."
    repeat = REPEAT.replace("a" * 40, "c" * 40).replace(
        "--suite smoke", "--case 'unet:full precision=bf16'"
    )
    link = "[The finding with its evidence](https://perf.example.com/findings/0192cd)."
    rest = f"{sentence}\n\n{link} To measure it again:\n\n```sh\n{repeat}\n```"
    was = "unet:full is 5.1 % slower since cccccccccc."
    assert words.finding_comment(finding("open")) == (
        f"**Regression after the merge: {was}**\n\n{rest}"
    )
    assert words.finding_comment(finding("resolved")) == f"**Recovered.** Before: {was}\n\n{rest}"
    said = words.finding_comment(finding("withdrawn"))
    assert said == f"**Withdrawn: it was never there.** Before: {was}\n\n{rest}"
    assert words.finding_comment(finding("expected")).startswith("**Closed as expected.** ")


def test_at_most_ten_cases_have_a_row_and_the_others_are_counted() -> None:
    shown = gate("regression", *many("worse", 30, -0.1), *many("failed", 3), *many("same", 4, 0.0))
    said = words.gates_comment([shown])
    assert said.count("\n| `") == 10
    assert "\n\n27 more cases: 20 worse, 4 same, 3 failed.\n\n" in said
    both = words.gates_comment(GATES["two gates"])
    assert both.count("\n| `") == 6
    assert both.startswith("**smoke: Regression in 1 of 1 case"), "the worst first"
    many_gates = [gate("pass", case("a", "same", 0.0), suite=f"s{n}") for n in range(9)]
    assert words.gates_comment(many_gates).endswith("4 more gates not shown here.")


@pytest.mark.parametrize("verdict", ["missing", "failed", "foreign", "unsupported", "disturbed"])
def test_without_data_nothing_reads_as_good(verdict: str) -> None:
    shown = gate("inconclusive", *many(verdict, 3))
    assert words.description(shown) == f"Nothing could be compared. 3 cases: {verdict}."
    assert words.description(gate("inconclusive")) == "Nothing could be compared."


def test_a_description_fits_a_status() -> None:
    kinds = [*GATES["regression"], *GATES["improved"], *GATES["two gates"]]
    long = gate("regression", case("my." * 60 + "bench:build", "worse", -0.5))
    for one in (*kinds, long):
        said = words.description(one)
        assert len(said) <= 140
        assert "\u00a0" not in said
    assert words.description(long) == (
        "Regression in 1 of 1 case: \u221250.0 % throughput (\u221250.4 % to \u221249.6 %) in…"
    )


def test_strangers_words_mention_nobody_and_begin_no_line() -> None:
    said = words.gates_comment([gate("inconclusive", case("a|b`c", "missing", None, HOSTILE))])
    assert not re.search(r"(?<!\\)[<`]b>|@\w|#\d|http://", said)
    assert not re.search(r"^/", said, re.MULTILINE), "GitLab would obey it"
    assert "| `a\\|b'c` |" in said


def test_rendered_it_is_a_table_and_has_no_link_of_a_stranger() -> None:
    shown = gate("inconclusive", case("a|b`c", "missing", None, HOSTILE))
    page = MarkdownIt("commonmark").enable("table").render(words.gates_comment([shown]))
    assert re.findall('href="([^"]*)"', page) == [LINK]
    assert "<b>" not in page
    assert (page.count("<table>"), page.count("<th>"), page.count("<td>")) == (1, 4, 4)


def test_the_largest_gates_fit_a_comment() -> None:
    axes = {f"axis{n}": "v" * 60 for n in range(20)}
    cases = [{"workload": f"w{n}", "axes": axes} for n in range(100)]
    largest = [gate("inconclusive", *many("failed", 100), suite=f"s{n}") for n in range(9)]
    largest.append(gate("pass", case("a", "same", 0.0), suite=None, cases=cases))
    assert len(words.gates_comment(largest)) < 60_000
    [shown] = largest[-1:]
    assert "--case" not in words.gates_comment([shown])


@pytest.mark.parametrize(
    ("more", "ends"),
    [
        ({"budget_s": 1_800.0}, "--suite smoke --budget 1800s"),
        ({"requires": {"gpu": "H200"}, "worker": "w1"}, "--require gpu=H200 --worker w1"),
        ({"project": "vision", "duet": False}, "--project vision --no-duet"),
        (
            {"suite": None, "case": {"workload": "unet", "axes": {"precision": "bf16"}}},
            "--case 'unet:auto precision=bf16'",
        ),
        (
            {"policy": Policy.model_validate({"rules": [{"limits": [{"max_regression": "2%"}]}]})},
            "--max-regression 0.02",
        ),
        ({"policy": Policy(min_pairs=5)}, "--policy gate.toml"),
    ],
)
def test_the_command_measures_the_same_again(more: dict[str, object], ends: str) -> None:
    assert words.command(gate("pass", **more).request).endswith(ends)
