"""Modules as a tree: sums, the one that is slower than its like, and what changed most."""

import pytest
from builders.profiled import a_layer, a_transformer

from benchmarks.contracts import Layers
from benchmarks.diagnosis import module_times


def layers(*modules: tuple[str, str, float, float], noise: float = 0.0) -> Layers:
    """Modules of (name, class, forward seconds, FLOPs)."""
    made = tuple(a_layer(name, of, s, flops) for name, of, s, flops in modules)
    return Layers(of="step", steps=3, outside_s=1.0, noise=noise, modules=made)


def test_a_module_has_the_sum_of_what_lies_within_it() -> None:
    nodes = module_times.tree(a_transformer(1.0))
    assert nodes["blocks.7"].s == pytest.approx(3 * (1 + 3 + 8))
    assert nodes["blocks.7"].flops == 26e9
    assert nodes[""].s == pytest.approx(450)
    assert module_times.step_s(a_transformer(1.0)) == pytest.approx(500)
    assert [node.label for node in nodes["blocks.7"].within] == ["norm", "attn", "mlp"]
    assert (nodes["blocks.7"].label, nodes["blocks.7"].parent) == ("blocks.7", "")


def test_a_block_that_does_its_work_twice_is_named_with_its_factor() -> None:
    odd = module_times.odd_one(a_transformer(1.0, twice="blocks.7"))
    assert odd is not None
    assert (odd.name, odd.siblings, odd.flops) == ("blocks.7", 11, 2.0)
    assert odd.times == pytest.approx(2.0)
    assert odd.sentence == (
        "blocks.7 takes 2.0 times as long as its 11 siblings, for 2.0 times their FLOPs."
    )


def test_blocks_that_take_the_same_time_name_none() -> None:
    assert module_times.odd_one(a_transformer(1.0)) is None


def of_times(*times: float, noise: float = 0.0) -> Layers:
    blocks = ((f"h.{n}", "Block", s, 5.0) for n, s in enumerate(times))
    return layers(("", "Net", 0.0, 0.0), *blocks, noise=noise)


def test_a_quarter_more_is_not_yet_slower() -> None:
    assert module_times.odd_one(of_times(1.0, 1.25, 1.0)) is None
    odd = module_times.odd_one(of_times(1.0, 1.26, 1.0))
    assert odd is not None
    assert odd.sentence == "h.1 takes 1.3 times as long as its 2 siblings, for the same FLOPs."


def test_two_cannot_tell_which_of_them_is_odd() -> None:
    assert module_times.odd_one(of_times(1.0, 5.0)) is None


def test_times_that_vary_from_step_to_step_name_none() -> None:
    assert module_times.odd_one(of_times(1.0, 2.0, 1.0, noise=0.6)) is None
    assert module_times.odd_one(of_times(1.0, 2.0, 1.0, noise=0.4)) is not None


def test_blocks_that_differ_by_design_name_none() -> None:
    """As a U-Net's, whose resolutions differ while its weights may not."""
    pyramid = layers(*((f"h.{n}", "Block", 4.0**-n, 4.0**-n) for n in range(4)))
    assert module_times.odd_one(pyramid) is None
    level = layers(*((f"h.{n}", "Block", s, s) for n, s in enumerate((16.0, 4.0, 1.0, 1.0))))
    assert module_times.odd_one(level) is None
    larger = layers(*((f"h.{n}", "Block", 1.0, 1.0) for n in range(3)), ("h.3", "Linear", 9.0, 1.0))
    assert module_times.odd_one(larger) is None


def test_of_several_the_one_that_loses_most_is_named() -> None:
    fast, slow = ((f"a.{n}", "A", 1.0 + n // 2, 1.0) for n in range(3)), (3.0, 3.0, 9.0)
    both = layers(*fast, *((f"b.{n}", "B", s, 1.0) for n, s in enumerate(slow)))
    odd = module_times.odd_one(both)
    assert odd is not None
    assert odd.name == "b.2"


def test_the_largest_difference_of_own_work_stands_first() -> None:
    changes = module_times.changes(a_transformer(1.0), a_transformer(1.0, twice="blocks.7"))
    assert [change.name for change in changes[:3]] == [
        "blocks.7.mlp",
        "blocks.7.attn",
        "blocks.7.norm",
    ]
    assert [change.seconds for change in changes[:4]] == pytest.approx([24.0, 9.0, 3.0, 0.0])
    assert "blocks.7" not in {change.name for change in changes}  # no work of its own


def test_a_module_that_one_run_lacks_is_a_difference_as_well() -> None:
    before, after = layers(("a", "A", 1.0, 0.0)), layers(("b", "B", 2.0, 0.0))
    gained, lost = module_times.changes(before, after)
    assert (gained.name, gained.baseline, gained.seconds) == ("b", None, 6.0)
    assert (lost.name, lost.contender, lost.seconds) == ("a", None, -3.0)
