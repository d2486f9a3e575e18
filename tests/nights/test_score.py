"""The score of simulated nights: what each finding is about, and what is wrong with it."""

from dataclasses import replace

from trials.nights.cells import cases_of, numbered
from trials.nights.score import History, Told, Truth, inbox, judged, table, waited

TRUTH = Truth(
    kind="bf16 slower",
    first=20,
    until=10_000,
    ramp=1,
    size=0.02,
    finding="regression",
    metrics=("throughput",),
    causes=("code",),
    says=("bf16",),
    worker="",
    cells=frozenset(range(12)),
)
NODE = replace(
    TRUTH,
    kind="bad node",
    first=30,
    until=35,
    worker="node-a",
    finding="bad_node",
    causes=("node",),
    says=("node-a",),
)
FAILURE = replace(TRUTH, kind="oom", first=40, finding="", metrics=(), cells=frozenset({3}))
TOLD = Told(
    opened=20,
    kind="regression",
    state="open",
    cause="code",
    certainty="confirmed",
    first_bad=20,
    worker="",
    metric="throughput",
    cells=frozenset(range(12)),
    series=24,
    first_headline="bf16 training 2.0 % slower since r20",
    headline="bf16 training 2.0 % slower since r20",
    sentence="bf16 training is 2.0 % slower since r20.",
)
WORKER = replace(
    TOLD,
    opened=31,
    kind="bad_node",
    cause="node",
    first_bad=30,
    worker="node-a",
    metric="",
    cells=frozenset(),
    headline="Worker node-a 5 % slower since r30",
)


def wrong(told: Told, *truths: Truth) -> list[str]:
    """What is wrong with a finding."""
    (row,) = judged([told], truths)
    return row.wrong


def test_a_finding_that_says_what_happened_is_right() -> None:
    assert wrong(TOLD, TRUTH) == []
    assert wrong(WORKER, NODE) == []


def test_each_part_of_a_headline_may_be_wrong_by_itself() -> None:
    assert wrong(replace(TOLD, metric="energy_per_item"), TRUTH) == ["metric"]
    assert wrong(replace(TOLD, cells=frozenset(range(6))), TRUTH) == ["factor"]
    assert wrong(replace(TOLD, headline="training 2.0 % slower since r20"), TRUTH) == ["factor"]
    assert wrong(replace(TOLD, kind="improvement"), TRUTH) == ["direction"]
    assert wrong(replace(TOLD, cause="clocks"), TRUTH) == ["cause"]
    assert wrong(replace(WORKER, worker="node-b"), NODE) == ["false"]


def test_a_cause_that_is_told_twice_is_told_again() -> None:
    twice = judged([TOLD, replace(TOLD, opened=22, first_bad=21)], [TRUTH])
    assert [row.wrong for row in twice] == [[], ["again"]]


def test_what_tells_of_the_end_of_an_event_tells_it_again() -> None:
    back = replace(TOLD, opened=36, first_bad=35, kind="improvement", cells=frozenset({1, 2}))
    rows = judged([WORKER, back], [NODE])
    assert [row.again for row in rows] == [False, True]


def test_what_is_about_nothing_is_false() -> None:
    assert wrong(replace(TOLD, first_bad=27, opened=28), TRUTH) == ["false"]
    assert wrong(replace(TOLD, cells=frozenset(range(20, 30))), TRUTH) == ["false"]
    assert wrong(replace(TOLD, opened=19, first_bad=19), TRUTH) == ["false"]


def test_a_failure_is_no_change_of_speed() -> None:
    assert wrong(replace(TOLD, first_bad=40, opened=40, cells=frozenset({3})), FAILURE) == ["false"]


def test_a_failure_is_told_by_a_finding_of_its_own_kind() -> None:
    truth = replace(FAILURE, finding="failure", metrics=("",))
    said = "bf16 nanogpt runs out of memory since r40"
    told = replace(
        TOLD, kind="failure", opened=41, first_bad=40, metric="", cells=truth.cells, headline=said
    )
    assert wrong(told, truth) == []
    assert wrong(replace(told, cells=frozenset({3, 4})), truth) == ["factor"]
    assert wrong(TOLD, truth) == ["false"]


def test_of_two_events_a_finding_is_about_the_one_that_it_fits() -> None:
    faster = replace(TRUTH, kind="faster", size=-0.04, finding="improvement")
    rows = judged([TOLD, replace(TOLD, kind="improvement")], [faster, TRUTH])
    assert [row.truth and row.truth.kind for row in rows] == ["bf16 slower", "faster"]
    assert not any(row.again for row in rows)


def test_the_night_of_an_event_is_the_first_that_is_waited() -> None:
    assert waited(judged([TOLD], [TRUTH]), TRUTH) == 1
    assert waited(judged([replace(TOLD, opened=23)], [TRUTH]), TRUTH) == 4
    assert waited([], TRUTH) is None
    back = replace(TOLD, opened=36, first_bad=35, kind="improvement")
    ended = replace(TRUTH, until=35)
    assert waited(judged([back], [ended]), ended) is None


def test_the_table_counts_findings_a_cause_and_false_ones() -> None:
    stray = replace(TOLD, opened=50, first_bad=50)
    history = History(
        0, 60, 43, 5, (TRUTH, NODE, FAILURE), (TOLD, stray), (1.0, 3.0), (2.0, 4.0), 9
    )
    lines = table([history])
    assert "| causes, of them told | 2, 1 |" in lines
    assert "| findings a cause that was told | 1.00 |" in lines
    assert "| false findings per 1,000 case-nights | 0.39 |" in lines
    assert "| headline names the right factor | 1 of 1 |" in lines
    assert "| nights until told: 2% in 12 cells or more | 1; 1 of 1 within three |" in lines
    assert "| bad node | 1 | never; 0 of 1 within three | 0 | 0 |" in lines
    assert "| bf16 slower | 1 | 1; 1 of 1 within three | 1 | 1 |" in lines
    assert "| analysis after a night, processor s | 2.0, at most 3.0 |" in lines


def test_the_inbox_shows_each_finding_with_what_is_wrong() -> None:
    history = History(0, 60, 43, 5, (TRUTH,), (replace(TOLD, cause="clocks"),), (1.0,), (1.0,), 9)
    said = "\n".join(inbox(history))
    assert "[cause] night 20: bf16 training 2.0 % slower since r20" in said
    assert "about bf16 slower from 20" in said


def test_all_cases_of_the_factor_are_named_before_all_are_measured() -> None:
    cells = numbered(cases_of(43))
    chosen = frozenset(at for (key, _), at in cells.items() if key.startswith("unet:"))
    some = frozenset(sorted(chosen)[:5])
    said = "unet is 2.0 % slower since r20: all 3 cases, none of the other 9."
    truth = replace(TRUTH, says=("unet",), cells=chosen)
    told = replace(TOLD, headline="unet 2.0 % slower since r20", sentence=said, cells=some)
    few = replace(told, sentence=said.replace("all 3", "2 of 3"))
    (whole,), (part,) = (judged([one], [truth], cases_of(43)) for one in (told, few))
    assert whole.factor
    assert not whole.listed
    assert not part.factor
