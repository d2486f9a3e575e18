"""Which facts count as a change of the environment, and which never do."""

from dataclasses import replace

import pytest
from builders.attributed import FACTS, Night, measurement, question, side

from service.analysis.attribution import Measurement, attribute
from service.analysis.attribution.environment import (
    FactGroup,
    acts_on,
    differences,
    evidence,
    group,
    telling,
    title,
)
from service.schemas.findings import Part, State, Strength
from service.wording.statements import say


def night(day: int, worker: str = "w1", **facts: str | None) -> Measurement:
    named = {name.replace("__", "."): value for name, value in facts.items()}
    return measurement(Night(day=day, worker=worker, processes=1, facts=named))


def test_only_what_differs_in_all_after_against_all_before_counts() -> None:
    before = [night(0), night(1)]
    assert [d.name for d in differences(before, [night(2, sw__torch="2.12"), night(3)])] == []
    both = [night(2, sw__torch="2.12"), night(3, sw__torch="2.12")]
    (difference,) = differences(before, both)
    assert (difference.name, difference.before, difference.after) == ("sw.torch", "2.11.0", "2.12")


def test_what_varies_on_one_machine_within_a_side_is_no_reason() -> None:
    before = [night(0, sw__env__X="1"), night(1, sw__env__X="2")]
    after = [night(2, sw__env__X="3"), night(3, sw__env__X="4")]
    assert differences(before, after) == ()


def test_machines_may_differ_among_themselves_and_still_all_change() -> None:
    before = [night(0, sw__kernel="5"), night(1, "w2", sw__kernel="6")]
    after = [night(2, sw__kernel="7"), night(3, "w2", sw__kernel="7")]
    (difference,) = differences(before, after)
    assert say(difference.says) == "kernel 5 or 6 -> 7"


def test_a_value_that_occurs_on_both_sides_is_no_reason_whoever_measured() -> None:
    before = [night(0, sw__kernel="5"), night(1, "w2", sw__kernel="7")]
    after = [night(2, sw__kernel="7"), night(3, "w2", sw__kernel="7")]
    assert differences(before, after) == ()


def test_what_differs_between_workers_and_not_in_time_is_no_change() -> None:
    """Three workers with other drivers and clocks, which measured all nights or took turns."""
    own = [{"hw__gpu__driver": str(570 + n), "hw__gpu__max_sm_clock_hz": str(n)} for n in range(3)]
    before = [night(0, f"w{n}", **facts) for n, facts in enumerate(own)]
    after = [night(1, f"w{n}", **facts) for n, facts in enumerate(own)]
    assert differences(before, after) == ()
    (unchanged,) = evidence(before, after)
    assert say(unchanged.says) == f"environment unchanged ({len(before[0].facts) - 2} facts)"
    apart = differences(before[:1], after[1:])
    assert {one.state for one in apart} == {State.UNCLEAR}
    updated = [night(1, f"w{n}", **own[n] | {"hw__gpu__driver": "580"}) for n in range(3)]
    (changed,) = differences(before, updated)
    assert (changed.name, changed.state) == ("hw.gpu.driver", State.CHANGED)


@pytest.mark.parametrize(
    "fact",
    [
        "hw.host",
        "hw.gpu.uuid",
        "flag.cpu_affinity",
        "sw.env.CUDA_VISIBLE_DEVICES",
        "hw.gpu.temperature_c",
        "hw.memory_free_b",
        "hw.disk.available_b",
        "hw.uptime_s",
        "sw.env.NCCL_COMM_ID",
        "sw.env.CUDA_MPS_PIPE_DIRECTORY",
        "sw.env.TORCH_RUN_PORT",
    ],
)
def test_identities_and_momentary_readings_are_never_named(fact: str) -> None:
    assert not telling(fact)
    before = [measurement(Night(day=0, processes=1, facts={fact: "10"}))]
    after = [measurement(Night(day=1, processes=1, facts={fact: "99"}))]
    assert differences(before, after) == ()


def test_every_fact_of_a_real_fingerprint_but_the_identities_is_telling() -> None:
    assert [fact for fact in FACTS if not telling(fact)] == ["hw.host", "hw.gpu.uuid"]


@pytest.mark.parametrize(("after", "counts"), [("134999000000", False), ("67000000000", True)])
def test_a_size_that_differs_by_some_megabytes_is_the_same(after: str, counts: bool) -> None:
    differing = differences([night(0)], [night(1, hw__memory_b=after)])
    assert bool(differing) == counts


def test_a_fact_that_was_not_recorded_is_not_a_change_but_an_unset_variable_is() -> None:
    facts = {"sw__libc": "glibc-2.39", "sw__env__OMP_NUM_THREADS": "4"}
    (difference,) = differences([night(0)], [night(1, **facts)])
    assert say(difference.says) == "env.OMP_NUM_THREADS none -> 4"


def test_the_weak_digests_come_last_and_do_not_say_what_changed() -> None:
    facts = {"sw.packages": "ff", "sw.benchmarks": "ee", "hw.gpu.driver": "560"}
    after = side(Night(revision="r12", facts=facts), 1, first_day=5)
    differing = evidence(side(Night(), 1), after)
    assert [fact.name for fact in differing] == ["hw.gpu.driver", "sw.packages", "sw.benchmarks"]
    assert [fact.strength for fact in differing] == [Strength.STRONG, Strength.WEAK, Strength.WEAK]
    assert "ff" not in say(differing[1].says)


def test_an_environment_with_mixed_facts_is_not_called_unchanged() -> None:
    after = [night(5, sw__torch="2.12"), night(6)]
    answer = attribute(question([night(0)], after, first_bad="r12"))
    facts = [fact for fact in answer.evidence if fact.part is Part.ENVIRONMENT]
    assert [fact.state for fact in facts] == [State.UNCHANGED]
    assert say(facts[0].says) == "12 environment facts unchanged"


@pytest.mark.parametrize(
    ("fact", "expected", "name"),
    [
        ("hw.gpu.driver", FactGroup.DRIVER, "driver"),
        ("hw.gpu.vbios", FactGroup.DRIVER, "VBIOS"),
        ("hw.cpu.usable", FactGroup.HARDWARE, "cpu.usable"),
        ("sw.package.numpy", FactGroup.PACKAGES, "package.numpy"),
        ("sw.package.triton", FactGroup.TORCH, "triton"),
        ("sw.env.OMP_NUM_THREADS", FactGroup.VARIABLES, "env.OMP_NUM_THREADS"),
        ("sw.container.image", FactGroup.CONTAINER, "container.image"),
        ("flag.torch_threads", FactGroup.FLAGS, "torch_threads"),
        ("sw.something", FactGroup.OTHER, "something"),
    ],
)
def test_each_fact_has_a_group_and_a_name_for_people(
    fact: str, expected: FactGroup, name: str
) -> None:
    assert (group(fact), title(fact)) == (expected, name)


def test_a_library_lowers_no_clock_and_a_driver_delays_no_loader() -> None:
    assert not acts_on("sw.package.pillow", Part.CLOCKS)
    assert acts_on("sw.package.pillow", Part.INPUT)
    assert not acts_on("hw.gpu.driver", Part.INPUT)
    assert acts_on("hw.gpu.driver", Part.CLOCKS)


def test_every_group_says_what_it_can_act_on() -> None:
    facts = ("hw.gpu.driver", "hw.gpu.ecc", "hw.x", "sw.kernel", "sw.container", "sw.python")
    more = ("sw.torch", "sw.cuda", "sw.package.x", "sw.env.X", "sw.data", "flag.x", "sw.benchmarks")
    known = {group(fact) for fact in (*facts, *more, "other")}
    assert known == set(FactGroup)
    assert all(acts_on(fact, Part.INPUT) in (True, False) for fact in (*facts, *more, "other"))


def test_swapping_the_sides_swaps_the_values() -> None:
    before = side(Night(), 2)
    after = side(replace(Night(), facts={"hw.gpu.driver": "560", "sw.env.X": "1"}), 2, first_day=9)
    there, back = differences(before, after), differences(after, before)
    assert [(d.name, d.before, d.after) for d in there] == [
        (d.name, d.after, d.before) for d in back
    ]
