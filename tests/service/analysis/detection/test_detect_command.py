"""`throughline detect`: histories in, one JSON line each out."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders.forked import ForkServer
from typer.testing import CliRunner

from cli.commands import detect as detecting
from cli.detect_input import HistoryLine
from cli.detect_together import members
from cli.main import app
from service.analysis.detection.alarms import replay
from service.analysis.detection.history import History
from service.analysis.detection.windows import detect
from trials.detection.ours import ours
from trials.detection.synthetic import plant


def run(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """The command in this process: starting one takes longer than what is asked of it."""
    result = CliRunner().invoke(app, ["detect", *arguments], input=given, catch_exceptions=False)
    done = result.exit_code, result.stdout, result.stderr
    return subprocess.CompletedProcess(arguments, *done)


Process = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def process(forks: ForkServer, tmp_path: Path) -> Process:
    """The command as a process, which turns what it raises into a sentence and an exit code."""

    def call(*arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[str]:
        words, environment = ("cli", "detect", *arguments), os.environ
        return forks.run(*words, folder=tmp_path, environment=environment, limit_s=60, given=given)

    return call


def stepped(count: int = 100, place: int = 60) -> list[float]:
    values = np.random.default_rng(0).normal(100, 0.5, count)
    values[place:] *= 1.05
    return values.tolist()


def answers(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_json_lines_from_a_file_or_standard_input_give_the_same(
    tmp_path: Path, process: Process
) -> None:
    text = json.dumps({"id": "a", "direction": "higher", "values": stepped()}) + "\n\n"
    (tmp_path / "in.jsonl").write_text(text)
    one, other = process(str(tmp_path / "in.jsonl")), process("-", given=text.encode())
    assert one.returncode == 0
    assert one.stdout == other.stdout == run(given=text).stdout
    (answer,) = answers(one)
    assert answer["id"] == "a"
    (change,) = answer["change_points"]
    assert abs(change["index"] - 60) <= 1
    assert change["improvement"] is True
    assert {"effect", "confidence", "before", "after"} <= set(change)
    assert answer["noise"]["minimum_detectable_effect"] > 0


def test_the_command_says_what_the_library_says() -> None:
    series = plant("machine", 0.05, 0.01, np.random.default_rng(3))
    line = {"id": 7, "values": series.values, "groups": series.groups}
    (answer,) = answers(run(given=json.dumps(line)))
    assert [change["index"] for change in answer["change_points"]] == ours(series)


def test_histories_of_every_shape_are_answered() -> None:
    """Whatever is told has to be plain numbers: one history that is not ends the whole run."""
    random = np.random.default_rng(5)
    shapes = [
        *(random.normal(100, 1, length) for length in [12, 30] * 20),
        *(np.floor(random.normal(20, 1, 30)) for _ in range(10)),
        np.arange(100.0, 141.0),
        np.tile([100.0, 103.0], 20),
        np.exp(0.002 * np.arange(150.0)) * random.normal(100, 0.3, 150),
        random.normal(0, 1, 40),
    ]
    lines = [json.dumps({"id": n, "values": list(values)}) for n, values in enumerate(shapes)]
    done = run(given="\n".join(lines))
    assert done.returncode == 0, done.stderr
    assert len(answers(done)) == len(shapes)


def test_columns_of_csv_are_histories(tmp_path: Path) -> None:
    steps = stepped()
    rows = ["revision,flat,steps"] + [f"r{i},5,{value}" for i, value in enumerate(steps)]
    (tmp_path / "in.csv").write_text("\n".join(rows))
    flat, changed = answers(run(str(tmp_path / "in.csv"), "--direction", "lower"))
    assert (flat["id"], flat["change_points"]) == ("flat", [])
    assert changed["id"] == "steps"
    assert changed["change_points"][0]["improvement"] is False


def test_rows_of_csv_are_points() -> None:
    rows = ["id,value,group"] + [f"h,{value},gpu{i % 2}" for i, value in enumerate(stepped())]
    (answer,) = answers(run("--csv", given="\n".join(rows)))
    assert answer["id"] == "h"
    assert set(answer["noise"]["machine_offsets"]) == {"gpu0", "gpu1"}
    assert len(answer["change_points"]) == 1


def test_empty_cells_may_be_missing_or_too_many_at_the_end_of_a_row() -> None:
    ends = [",,, ", "", ","]
    rows = ["a,b", *(f"{value}{ends[at % 3]}" for at, value in enumerate(stepped()))]
    (answer,) = answers(run("--csv", given="\n".join(rows)))
    assert answer["id"] == "a"
    assert len(answer["change_points"]) == 1


@pytest.mark.parametrize(
    ("header", "missing", "end"),
    [
        ("a", '""', ""),
        ("a,b", ",", ",,"),
        ("value,note", ",", ",,"),
        (None, '""', ""),
    ],
)
@pytest.mark.parametrize("at", [0, 5])
def test_a_row_without_a_value_is_a_value_that_is_missing(
    header: str | None, missing: str, end: str, at: int
) -> None:
    """Without it, each later index would be one too small."""
    width = (header or "").count(",")
    rows = [f"{value}{f',{value}' * width}" for value in stepped()]
    kept = [*rows[:at], missing, *rows[at:]]
    head = [] if header is None else [header]
    for answer in answers(run("--csv", given="\n".join([*head, *kept, end, end]))):
        assert answer["error"] == f"Value {at} is nan, which cannot be analysed."


@pytest.mark.parametrize("line", ["", "  ", " \t"])
def test_lines_without_anything_are_passed_over(line: str) -> None:
    for head in ([], ["a"]):
        given = "\n".join([line, *head, line, *map(str, stepped()), line])
        (answer,) = answers(run("--csv", given=given.replace("\n7", f"\n{line}\n7")))
        assert abs(answer["change_points"][0]["index"] - 60) <= 1


def test_a_blank_row_among_histories_by_id_is_of_none() -> None:
    rows = [f"{name},{value}" for value in stepped() for name in "ab"]
    (a, b) = answers(run("--csv", given="\n".join([",", "id,value", *rows[:9], ",", *rows[9:]])))
    assert a["change_points"] == b["change_points"] != []


def test_csv_without_a_header_is_read_too() -> None:
    (answer,) = answers(run("--csv", given="\n".join(str(value) for value in stepped())))
    assert len(answer["change_points"]) == 1


def test_a_direction_is_that_of_the_lines_that_have_none() -> None:
    lines = [{"id": "a"}, {"id": "b", "direction": "lower"}, {"id": "c", "direction": "higher"}]
    given = "\n".join(json.dumps(line | {"values": stepped()}) for line in lines)

    def better(*arguments: str) -> list[bool]:
        histories = answers(run(*arguments, given=given))
        return [
            change["improvement"] for history in histories for change in history["change_points"]
        ]

    assert better() == [False, False, True]
    assert better("--direction", "higher") == [True, False, True]


def test_online_announces_once_and_knows_nothing_of_the_future() -> None:
    values = stepped(120)
    (answer,) = answers(run("--online", given=json.dumps({"id": "a", "values": values})))
    (alarm,) = answer["alarms"]
    assert alarm["at"] >= alarm["index"] + 4
    assert abs(alarm["index"] - 60) <= 5
    cut = alarm["at"] + 1
    assert not list(replay(History.of(values[: cut - 1])))
    (again,) = replay(History.of(values[:cut]))
    assert (again.at, again.change.index) == (alarm["at"], alarm["index"])


def test_online_says_what_is_odd() -> None:
    values = [value * (1000 if at >= 40 else 1) for at, value in enumerate(stepped(80, 80))]
    zeros = [0.0 if at % 17 == 3 else value for at, value in enumerate(stepped(80, 80))]
    lines: list[dict[str, object]] = [
        {"values": values, "revisions": [at // 2 for at in range(80)]},
        {"values": zeros},
        {"values": [1.0, 2.0]},
        {"values": stepped()},
    ]
    done = run("--online", given="\n".join(map(json.dumps, lines)))
    unit, zero, short, plain = (answer["warnings"] for answer in answers(done))
    assert unit[0].startswith("40 values repeat the revision before them")
    assert unit[1].startswith("From value 40 on the level is about 1000 times what it was")
    assert zero[0].startswith("Zeros or both signs: no ratios")
    assert short == ["2 points: changes are told from 10 on."]
    assert plain == []


@pytest.mark.parametrize(("count", "said"), [(99, 0), (100, 1)])
def test_a_long_replay_says_how_long_it_takes(
    count: int, said: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    (tmp_path / "in").write_text(json.dumps({"values": stepped(count)}))
    monkeypatch.setattr(detecting, "LONG", 100)
    options = detecting.DetectOptions(online=True, detector="steps", threshold=None)
    detecting.run(str(tmp_path / "in"), options, "lower", csv=False)
    notice = "A history of 100 points is replayed one by one, which takes 0.2\u00a0s or more.\n"
    assert capfd.readouterr().err == notice * said


def test_a_history_that_cannot_be_analysed_does_not_stop_the_others() -> None:
    lines = [{"id": "bad", "values": [1, None, 3]}, {"id": "good", "values": stepped()}]
    done = run(given="\n".join(json.dumps(line) for line in lines))
    bad, good = answers(done)
    assert done.returncode == 1
    assert bad == {"id": "bad", "error": "Value 1 is nan, which cannot be analysed."}
    assert len(good["change_points"]) == 1


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("abc", '"abc"'),
        ("1.5", '"1.5"'),
        ("x" * 100_000, '"' + "x" * 59),
        (True, "true"),
        ([1], "[1]"),
    ],
)
def test_text_is_no_number_and_does_not_stop_the_others(value: object, told: str) -> None:
    lines = [{"id": "t", "values": [1, value]}, {"id": "good", "values": stepped()}]
    done = run(given="\n".join(json.dumps(line) for line in lines))
    text, good = answers(done)
    assert done.returncode == 1
    assert text == {"id": "t", "error": f"Value 1 is {told}, which is no number."}
    assert len(good["change_points"]) == 1


def test_text_in_a_column_of_csv_does_not_stop_the_others() -> None:
    rows = ["a,b"] + [f"{'abc' if at == 7 else at},{value}" for at, value in enumerate(stepped())]
    done = run("--csv", given="\n".join(rows))
    text, good = answers(done)
    assert done.returncode == 1
    assert text == {"id": "a", "error": 'Value 7 is "abc", which is no number.'}
    assert len(good["change_points"]) == 1


def test_a_number_beyond_every_float_does_not_stop_the_others() -> None:
    huge = f'{{"id": "huge", "values": [1, {"9" * 400}]}}\n'
    refused, good = answers(run(given=huge + json.dumps({"id": "good", "values": stepped()})))
    assert refused == {"id": "huge", "error": "Value 1 is inf, which cannot be analysed."}
    assert len(good["change_points"]) == 1


def one(**line: object) -> dict[str, Any]:
    """The answer to one history."""
    (answer,) = answers(run(given=json.dumps({"id": "a", **line})))
    return answer


@pytest.mark.parametrize("values", [[], [5.0] * 2, [5.0] * 9])
def test_too_short_a_history_is_answered_with_what_is_missing(values: list[float]) -> None:
    answer = one(values=values)
    assert (answer["change_points"], answer["noise"]) == ([], None)
    assert answer["warnings"] == [f"{len(values)} points: changes are told from 10 on."]


@pytest.mark.parametrize("value", [0.0, 5.0, -5.0])
def test_a_constant_history_is_quiet(value: float) -> None:
    answer = one(values=[value] * 100)
    assert answer["change_points"] == []
    assert answer["noise"]["scale"] < 0.001


def test_zeros_are_analysed_and_said_to_have_no_ratios() -> None:
    values = [0.0 if at % 17 == 3 else value for at, value in enumerate(stepped(200, 120))]
    answer = one(values=values)
    assert "no ratios" in answer["warnings"][0]


def test_a_millionfold_outlier_neither_makes_nor_hides_a_change() -> None:
    values = stepped()
    values[30] *= 1e6
    assert [abs(c["index"] - 60) <= 1 for c in one(values=values)["change_points"]] == [True]


@pytest.mark.parametrize("factor", [1000.0, 1 / 60, 1024.0**2])
def test_a_new_unit_midway_is_a_change_that_is_said_to_look_like_one(factor: float) -> None:
    values = [value * (factor if at >= 50 else 1.0) for at, value in enumerate(stepped(100, 100))]
    answer = one(values=values)
    assert [c["index"] for c in answer["change_points"]] == [50]
    assert "if the unit changed" in answer["warnings"][0]
    assert not one(values=stepped())["warnings"]


@pytest.mark.parametrize(
    ("revisions", "sentence"),
    [
        ([*range(50), *range(49, -1, -1)], "Revision '48' comes after '49'"),
        (["2026-01-02T00:00:00Z", "2026-01-01"] * 50, "sort the values by revision"),
        ([f"sha{at % 50}" for at in range(100)], "'sha0' stands at 0 and again at 50"),
        (["a"], "1 revisions for 100 values"),
    ],
)
def test_values_out_of_the_order_of_their_revisions_are_refused(
    revisions: list[object], sentence: str
) -> None:
    assert sentence in one(values=stepped(), revisions=revisions)["error"]


def test_releases_with_one_point_need_not_rise_as_numbers() -> None:
    releases = ["2.8"] * 40 + ["2.9"] * 40 + ["2.10"] * 20
    assert len(one(values=stepped(), revisions=releases)["change_points"]) == 1
    fallen = one(values=stepped(), revisions=[*releases[:-1], "2.7"])
    assert "Revision '2.7' comes after '2.10'" in fallen["error"]
    numbers = [str(at / 8) for at in range(100)]
    assert len(one(values=stepped(), revisions=numbers)["change_points"]) == 1
    assert "comes after" in one(values=stepped(), revisions=numbers[::-1])["error"]


def test_several_values_of_one_revision_are_points_and_counted() -> None:
    answer = one(values=stepped(), revisions=[at // 2 for at in range(100)])
    assert len(answer["change_points"]) == 1
    assert answer["warnings"] == [
        "50 values repeat the revision before them; each value is analysed as a point."
    ]


def test_a_field_that_was_passed_over_and_may_have_been_meant_is_told() -> None:
    answer = one(values=stepped(), group=["a"] * 100, Direction="higher", uid=3, commit="x", ids=1)
    assert answer["warnings"] == [
        "'group' was not read: the field is called 'groups'.",
        "'Direction' was not read: the field is called 'direction'.",
    ]
    assert answer["change_points"][0]["improvement"] is False


@pytest.mark.parametrize(
    ("header", "warnings"),
    [
        ("value,groups", ["'groups' was not read as 'group': that is what the column"]),
        ("value,Direction", ["'Direction' is no direction: --direction says it for all of"]),
        ("Value,id", ["'Value' was not read as 'value'"]),
        ("a,Revision", ["'Revision' was not read as 'revision'"]),
        ("Value,note", []),
        ("value,note", []),
        ("values,uid", []),
    ],
)
def test_a_column_that_was_passed_over_and_may_have_been_meant_is_told(
    header: str, warnings: list[str]
) -> None:
    rows = [f"{value},x" for value in stepped()]
    (answer,) = answers(run("--csv", given="\n".join([header, *rows])))
    assert len(answer["warnings"]) == len(warnings)
    assert all(map(str.startswith, answer["warnings"], warnings))


def test_a_revision_column_orders_the_rows_and_is_no_history() -> None:
    rows = [f"{at},{value}" for at, value in enumerate(stepped())]
    (answer,) = answers(run("--csv", given="\n".join(["revision,a", *rows])))
    assert len(answer["change_points"]) == 1
    (refused,) = answers(run("--csv", given="\n".join(["revision,a", *rows[::-1]])))
    assert "comes after" in refused["error"]


@pytest.mark.parametrize(
    ("arguments", "given", "sentence"),
    [
        ([], "{", "Line 1 is no history"),
        ([], '{"id": "a"}', "Line 1 is no history (values"),
        ([], '{"values": "x"}', "Line 1 is no history (values"),
        ([], '{"values": [1], "direction": "up"}', "direction"),
        ([], f'{{"id": {10**30}, "values": [1]}}', "Line 1 is no history (id"),
        ([], "", "There is no history in the input: it is empty."),
        ([], "\n \n", "it is empty"),
        (["--csv"], "", "it is empty"),
        (["--csv"], "\n", "it is empty"),
        (["--csv"], "value,id", "no column of it holds a number"),
        (["--csv"], "a,b\nx,y", "no column of it holds a number"),
        (["--csv"], "value;id\n1.5;a\n1.6;a", "separated by commas, not by semicolons or tabs"),
        (["--csv"], "value\tid\n1.5\ta", "separated by commas"),
        (["--csv"], "1;2\n3;4", "separated by commas"),
        (["--csv"], "value,id\n1,a\n\n1,05,a", "Line 4 has 3 cells, and the first line 2:"),
        (["--csv"], 'value,id\n1,"a\nb"\n1,05,a', "Line 4 has 3 cells, and the first line 2:"),
        (["--csv"], "1\n1,05", "Line 2 has 2 cells, and the first line 1:"),
        (["--csv"], "value,value\n1,5\n1,6", "Line 1 names more than one column 'value'"),
        (["--csv"], "\na,group,group\n1,x,y", "Line 2 names more than one column 'group'"),
        (["--direction", "up"], '{"values": [1]}', "'higher' or 'lower'"),
        (["--csv", "--direction", "up"], "a\n1", "'higher' or 'lower'"),
        (["nowhere.jsonl"], "", "nowhere.jsonl cannot be read"),
        (["--detector", "magic"], "", "no detector 'magic'"),
        (["--threshold", "-1"], "", "above zero"),
        (["--online", "--detector", "ratio"], "", "--online"),
    ],
)
def test_wrong_input_is_one_sentence(
    process: Process, arguments: list[str], given: str, sentence: str
) -> None:
    done = process(*arguments, given=given.encode())
    assert done.returncode == 2
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "given", "sentence"),
    [
        ([], b'{"id": "\xe9", "values": [1]}', "no text in UTF-8"),
        (["--csv"], b"caf\xe9\n1\n2", "no text in UTF-8"),
        (["--csv"], b"a\n" + b"1" * 200_000, "Line 2 is no CSV (field larger"),
    ],
)
@pytest.mark.parametrize("from_file", [False, True])
def test_input_that_is_no_text_is_one_sentence(
    process: Process,
    tmp_path: Path,
    arguments: list[str],
    given: bytes,
    sentence: str,
    from_file: bool,
) -> None:
    if from_file:
        (tmp_path / "in").write_bytes(given)
        done = process(*arguments, "in")
    else:
        done = process(*arguments, given=given)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert sentence in done.stderr
    assert len(done.stderr) < 500


def test_a_threshold_may_be_asked_for() -> None:
    line = json.dumps({"id": "a", "values": stepped()})
    (answer,) = answers(run("--threshold", "1000", given=line))
    assert answer["change_points"] == []
    (answer,) = answers(run("--detector", "ratio", "--threshold", "0.03", given=line))
    assert len(answer["change_points"]) == 1
    assert answer["noise"] is None


def test_an_analysis_does_not_depend_on_the_caller_s_list() -> None:
    values = stepped()
    assert detect(History.of(values)) == detect(History.of(np.asarray(values)))


def suite_lines(count: int, step: float, **more: object) -> str:
    lines = []
    for seed in range(count):
        values = np.random.default_rng(seed).normal(100, 1, 100)
        values[60:] *= 1 + step
        lines.append(json.dumps({"id": f"m{seed}", "values": values.tolist(), **more}) + "\n")
    return "".join(lines)


def places_in(given: list[dict[str, Any]]) -> list[list[int]]:
    return [[change["index"] for change in one["change_points"]] for one in given]


def test_histories_of_a_suite_are_each_others_witnesses() -> None:
    text = suite_lines(9, 0.009)
    apart, together = (
        places_in(answers(run(given=text))),
        places_in(answers(run("--together", given=text))),
    )
    assert sum(map(bool, together)) > sum(map(bool, apart))
    by_suite = "".join(
        line.replace("{", f'{{"suite": "s{number}", ', 1)
        for number, line in enumerate(text.splitlines(keepends=True))
    )
    assert places_in(answers(run("--together", given=by_suite))) == apart


def test_histories_of_a_suite_meet_at_their_revisions() -> None:
    long = {"id": "a", "values": [1.0, 2.0, 3.0], "revisions": ["r1", "r2", "r3"]}
    short = {"id": "b", "values": [1.0, 2.0], "revisions": ["r2", "r3"]}
    lines = [HistoryLine.model_validate(line) for line in (long, short)]
    histories = [History.of(line.numbers) for line in lines]
    one, other = members(lines, histories)
    assert one.positions[1:] == other.positions
    bare = [HistoryLine.model_validate({"id": "c@gpu", "values": [1.0] * n}) for n in (3, 2)]
    one, other = members(bare, histories)
    assert one.positions[1:] == other.positions
    assert (one.measure, one.place) == ("c", "gpu")


def test_one_refused_history_leaves_the_rest_of_its_suite() -> None:
    bad = json.dumps({"id": "bad", "values": [1, "x"]}) + "\n"
    done = run("--together", given=bad + suite_lines(2, 0.05))
    assert done.returncode == 1
    assert "error" in answers(done)[0]
    assert places_in(answers(done)[1:]) == [[60], [60]]


def test_two_orders_of_revisions_in_one_suite_are_refused() -> None:
    lines = [
        json.dumps({"id": name, "values": [1.0, 2.0], "revisions": order}) + "\n"
        for name, order in (("a", ["x", "y"]), ("b", ["y", "x"]))
    ]
    done = run("--together", given="".join(lines))
    assert done.returncode == 1
    assert all("different orders" in one["error"] for one in answers(done))


@pytest.mark.parametrize("other", [["--online"], ["--detector", "ratio"]])
def test_together_is_for_whole_histories_and_steps(process: Process, other: list[str]) -> None:
    done = process("--together", *other, given=b"")
    assert done.returncode == 2
    assert "--together" in done.stderr
