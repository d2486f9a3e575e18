"""Recorded processes are judged by the product's rules: equal ones agree, slower ones are found."""

import json
from random import Random

import pytest

from service.schemas.gate import CaseVerdict
from trials.agreement.read import differ, equal_pairs, gated, judge, read, table


def rows(pairs: int, more: float, noise: float, tier: str = "gate", hz: float = 1e9) -> list[str]:
    """As `trials.agreement.record` writes them; side B runs at ``hz``, side A at 1 GHz."""
    random = Random(1)
    lines = []
    for pair in range(pairs):
        for side in "AB" if pair % 2 == 0 else "BA":
            rate = 1000.0 * (1 - more * (side == "B")) * (1 + random.gauss(0, noise))
            fields = {"name": "resnet50", "tier": tier, "gpu": "GPU-1", "side": side, "pair": pair}
            clock = {"sm_clock_hz": hz if side == "B" else 1e9}
            rates = {"full": rate, "step_s": 1 / rate}
            lines.append(json.dumps(fields | rates | clock | {"status": "ok"}))
    return lines


def test_equal_processes_agree() -> None:
    ((key, processes),) = read(rows(12, 0.01, 0.001, "standard")).items()
    agreement = judge(key, processes)
    assert (agreement.differing, agreement.equal_pairs) == (0, 12)  # four results a side
    assert agreement.time.windows == 0


def test_slower_processes_are_found() -> None:
    ((key, processes),) = read(rows(12, 0.01, 0.001)).items()
    agreement = judge(key, processes)
    assert (agreement.time.answer, agreement.time.caught, agreement.time.windows) == ("worse", 2, 2)
    assert agreement.time.more == pytest.approx(0.01, abs=0.002)
    assert agreement.equal_pairs == 0
    assert (agreement.time.chosen, agreement.time.choices) == (792, 792)
    assert "| 24 | 0 |  |  |  |  | 2 of 2 (792 of 792) | 2 of 2 (792 of 792) |" in table(
        [agreement]
    )


def test_comparisons_in_which_the_host_was_late_are_left_out_of_the_last_row() -> None:
    lines, others = rows(5, 0.01, 0.001), rows(5, 0.0, 0.05)
    late = [json.dumps(json.loads(line) | {"gpu": "GPU-2"}) for line in others]
    late[-1] = json.dumps(json.loads(late[-1]) | {"flags": ["synth.tail"]})
    agreements = [judge(key, processes) for key, processes in read(lines + late).items()]
    *_, every, prompt = table(agreements).splitlines()
    assert every.startswith("| all |  |  | 20 | 1 |")
    assert "1 of 2" in every
    assert prompt.startswith("| all in which the host was never late |  |  | 10 | 0 |")
    assert "1 of 1" in prompt


def test_a_second_recording_on_the_same_device_has_pairs_of_its_own() -> None:
    ((key, processes),) = read(rows(5, 0.01, 0.001) + rows(5, 0.01, 0.001)).items()
    assert judge(key, processes).time.windows == 2


def test_equal_processes_need_no_other_side() -> None:
    only = [line for line in rows(12, 0.01, 0.001, "standard") if '"side": "A"' in line]
    ((key, processes),) = read(only).items()
    assert judge(key, processes).equal_pairs == 6


def test_nothing_is_found_where_nothing_was_planted() -> None:
    ((key, processes),) = read(rows(12, 0.0, 0.001)).items()
    agreement = judge(key, processes)
    assert (agreement.time.answer, agreement.time.caught) == ("same", 0)


def test_work_that_a_higher_clock_hides_is_found_in_cycles() -> None:
    ((key, processes),) = read(rows(12, 0.002, 0.001, hz=1.01e9)).items()
    agreement = judge(key, processes)
    assert (agreement.time.caught, agreement.cycles.caught) == (0, 2)


def test_results_that_differ_are_told_apart() -> None:
    assert differ([100.0, 100.1, 99.9], [101.0, 101.1, 100.9])
    assert not differ([100.0, 100.1, 99.9], [100.2, 100.3, 100.1])
    assert equal_pairs([1.0] * 8) == [([1.0] * 3, [1.0] * 3)]


def test_a_process_that_failed_and_half_a_pair_count_for_nothing() -> None:
    lines = rows(6, 0.01, 0.001)
    lines[3] = json.dumps({"name": "resnet50", "tier": "gate", "gpu": "GPU-1", "status": "oom"})
    ((key, processes),) = read(lines).items()
    assert len(processes) == 11
    assert judge(key, processes).time.windows == 1


def test_noise_as_large_as_the_effect_is_called_neither() -> None:
    pairs = [(99.0, 100.0), (100.0, 99.0), (98.5, 100.5), (100.0, 98.0), (99.5, 100.0)]
    assert gated(pairs)[0] is CaseVerdict.UNCLEAR
