"""The cells that a sentence names, of those that were simulated."""

import pytest

from trials.nights.cells import cases_of, named, named_alone, numbered
from trials.nights.events import ANY, BF16, COMPILED, GPUS, Factor

CASES = cases_of(43)
CELLS = numbered(CASES)


def those(factor: Factor) -> frozenset[int]:
    return frozenset(
        CELLS[case.key, gpu]
        for case in CASES
        for gpu in GPUS
        if factor.covers(case) and factor.on(gpu, "")
    )


@pytest.mark.parametrize(
    ("subject", "factor"),
    [
        ("bf16 training", BF16),
        ("compiled training", COMPILED),
        ("uncompiled unet", Factor(workload="unet", axes={"compile": None})),
        ("resnet50 on H100 80GB HBM3", Factor(workload="resnet50", gpu=GPUS[1])),
        ("training with workers=4 and graphs set", Factor(axes={"workers": "4", "graphs": ANY})),
        ("energy per item of resnet50 with default decode",
         Factor(workload="resnet50", axes={"decode": None})),
    ],
)  # fmt: skip
def test_all_cases_of_a_factor_are_its_cells(subject: str, factor: Factor) -> None:
    said = f"{subject} is 1.0 % to 1.9 % slower, little by little since r34: all 9 cases"
    rest = " on H100 80GB HBM3 and H200, none of the other 18. Confirmed on 3 nodes."
    assert named(said + rest, CASES) == those(factor)
    assert named(f"{said}{rest}", CASES)


def test_a_kind_of_gpu_that_stood_still_is_not_named() -> None:
    said = "unet is 1.0 % slower since r34: all 12 cases on H200, not on H100, none of the other 9."
    assert named(said, CASES) == those(Factor(workload="unet", gpu=GPUS[0]))
    assert not named(said.replace("cases on", "cases (1 of them not on all GPUs) on"), CASES)


def test_cases_that_cannot_tell_are_no_exceptions() -> None:
    said = "unet is 1.0 % slower since r34: {} on H200, none of the other 18."
    told = named(said.format("3 of 12 cases (9 unclear)"), CASES)
    assert told == those(Factor(workload="unet"))
    assert not named(said.format("3 of 12 cases (1 unchanged, 8 unclear)"), CASES)


@pytest.mark.parametrize(
    "sentence",
    [
        "bf16 training is 1.0 % slower since r34: 8 of 9 cases (1 unchanged).",
        "bf16 training is 1.0 % slower since r34: all 9 cases and 2 others, none of the other 16.",
        "unet:full graphs=on is 1.0 % slower since r34: 1 of 9 cases on H200.",
        "Worker node-a is 5.2 % slower since r29.",
    ],
)
def test_exceptions_and_single_cases_name_no_factor(sentence: str) -> None:
    assert not named(sentence, CASES)


@pytest.mark.parametrize(
    ("headline", "key"),
    [
        ("the resnet50 case with compile=reduce-overhead runs out of device memory since r34",
         "resnet50:full compile=reduce-overhead decode=cache layout=channels_last optimizer=fused "
         "pinning=on precision=bf16 workers=16"),
        ("first step of the fp16 resnet50 case 1.0 % longer since r34",
         "resnet50:full layout=channels_last optimizer=fused precision=fp16 workers=4"),
        ("bf16 resnet50 2.0 % slower since r34", ""),
        ("resnet50:full workers=8 2.0 % slower since r34", ""),
    ],
)  # fmt: skip
def test_a_headline_names_a_case_by_the_settings_that_it_alone_has(headline: str, key: str) -> None:
    assert named_alone(headline, CASES) == key
