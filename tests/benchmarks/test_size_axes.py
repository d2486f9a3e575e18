"""sequence=, resolution= and width= build the workload with another size; all that follows does."""

from pathlib import Path

import numpy as np
import pytest
import torch
from builders.long_forms import long_but

from benchmarks import workload_module
from benchmarks.catalog import catalog
from benchmarks.contracts import Case
from benchmarks.data.images import Images
from benchmarks.diagnosis.suggestions import Place, possible
from benchmarks.measure import flops, parity_check, session
from benchmarks.workload import Context, Recipe

CPU = torch.device("cpu")


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(CPU, tmp_path)


def case(workload: str, **axes: str) -> Case:
    return Case(workload=workload, preset="tiny", axes=axes)


def built(context: Context, workload: str, **axes: str) -> Recipe:
    return session.build(catalog.normalise(case(workload, **axes), "cpu"), context)


def test_a_window_has_the_tokens_that_were_asked_for_and_each_counts(context: Context) -> None:
    np.arange(2_000, dtype=np.uint16).clip(max=1023).tofile(context.cache / "train.bin")
    own = Context(CPU, context.cache, data_root=context.cache)
    recipe = built(own, "nanogpt", sequence="256")
    assert [tuple(part.shape) for part in recipe.dataset[0]] == [(256,), (256,)]
    assert recipe.items_per_sample == 256
    assert built(own, "nanogpt").items_per_sample == 128
    x, y = (torch.stack([part]) for part in recipe.dataset[0])
    assert torch.isfinite(recipe.loss(recipe.model, (x, y)))


@pytest.mark.parametrize("workload", ["resnet50", "unet"])
@pytest.mark.parametrize("decode", ["cpu", "cache"])
def test_images_and_the_files_decoded_once_have_the_side_that_was_asked_for(
    context: Context, workload: str, decode: str
) -> None:
    recipe = built(context, workload, resolution="96", decode=decode)
    image = recipe.dataset[0][0]
    assert tuple(image.shape) == ((3, 96, 96) if decode == "cpu" else (96, 96, 3))
    assert isinstance(recipe.dataset, Images)
    assert recipe.items_per_sample == 1


def test_the_cache_of_decoded_images_is_another_one_for_another_side(context: Context) -> None:
    for side in ("32", "48"):
        built(context, "resnet50", resolution=side, decode="cache")
    assert len(list(context.cache.glob("decoded-v1-????????????????"))) == 2


def test_the_unet_is_the_same_network_at_each_resolution(context: Context) -> None:
    small, large = (built(context, "unet", resolution=side) for side in ("16", "48"))
    shapes = [{n: w.shape for n, w in one.model.state_dict().items()} for one in (small, large)]
    assert shapes[0] == shapes[1]
    with pytest.raises(catalog.Refused, match="must be a multiple of 8, and 20 is none"):
        built(context, "unet", resolution="20")


def test_a_wider_transformer_has_more_heads_of_the_same_size(context: Context) -> None:
    wide = built(context, "nanogpt", width="160").model
    attention = wide.get_submodule("transformer.h.0.attn")
    assert (attention.c_attn.in_features, attention.head) == (160, 32)
    shapes = {name: tuple(weight.shape) for name, weight in wide.state_dict().items()}
    preset = built(context, "nanogpt").model.state_dict()
    assert shapes.keys() == preset.keys()
    assert shapes["transformer.h.0.mlp.c_fc.weight"] == (640, 160)


def test_a_wider_unet_has_the_same_layers_and_trains(context: Context) -> None:
    wide, preset = built(context, "unet", width="64"), built(context, "unet")
    counts = [sum(w.numel() for w in one.model.parameters()) for one in (wide, preset)]
    assert 3.5 < counts[0] / counts[1] < 4.0
    batch = tuple(torch.stack([part]) for part in wide.dataset[0])
    assert torch.isfinite(wide.loss(wide.model, batch))


@pytest.mark.parametrize(
    ("workload", "sentence"),
    [
        ("nanogpt", "Each head has 32 channels: the width must be a multiple of 32, and 80 is "),
        ("unet", "Each norm has 32 groups: the width must be a multiple of 32, and 80 is none."),
    ],
)
def test_a_width_that_cannot_be_shared_out_is_refused(
    context: Context, workload: str, sentence: str
) -> None:
    with pytest.raises(catalog.Refused, match=sentence):
        built(context, workload, width="80")


@pytest.mark.parametrize(
    ("workload", "axes"),
    long_but(
        [
            ("nanogpt", {"sequence": "64"}),
            ("resnet50", {"resolution": "96"}),
            ("unet", {"resolution": "16"}),
            ("unet", {"resolution": "64"}),
            ("nanogpt", {"width": "64"}),
            ("nanogpt", {"width": "96", "sequence": "64"}),
            ("unet", {"width": "64"}),
        ],
        0,
        1,
        2,
        4,
    ),
)
def test_the_formula_of_another_size_gives_what_is_counted_there(
    context: Context, workload: str, axes: dict[str, str]
) -> None:
    sized = catalog.normalise(case(workload, **axes), "cpu")
    work = flops._kept(sized, 2, context, {}, session.build)
    plain = flops._kept(case(workload), 2, context, {}, session.build)
    assert work.flops_by_formula == pytest.approx(work.flops_per_item, rel=0.02)
    assert abs(work.flops_per_item / plain.flops_per_item - 1) > 0.03


@pytest.mark.parametrize("of", [parity_check.reference_of, parity_check.base_of, catalog.baseline])
def test_what_a_case_is_held_against_has_its_size(of: object) -> None:
    tuned = case("nanogpt", sequence="64", precision="bf16", optimizer="fused")
    assert of(tuned).axes["sequence"] == "64"  # type: ignore[operator]


def test_the_presets_own_size_is_the_default_and_not_named() -> None:
    assert catalog.normalise(case("nanogpt", sequence="preset")) == case("nanogpt")


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (
            case("resnet50", sequence="64"),
            "sequence=64 needs a workload whose PRESETS have the size length, and resnet50 has "
            "batch, files, image.",
        ),
        (
            case("resnet50", width="64"),
            "width=64 needs a workload whose PRESETS have the size width, and resnet50 has "
            "batch, files, image.",
        ),
        (
            case("nanogpt", resolution="64"),
            "resolution=64 needs a workload whose PRESETS have the size image, and nanogpt has "
            "batch, head, layers, length, text, vocabulary, width.",
        ),
    ],
)
def test_a_workload_without_that_size_is_refused(wrong: Case, sentence: str) -> None:
    with pytest.raises(catalog.Refused) as refused:
        catalog.normalise(wrong)
    assert str(refused.value) == sentence


def test_a_model_of_ones_own_has_the_axis_once_its_presets_have_the_size(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sized_model.py").write_text(
        '"""A line."""\n'
        "import torch\n"
        "from torch.utils.data import TensorDataset\n"
        "from benchmarks.workload import Recipe\n"
        "PRESETS = {'tiny': {'batch': 2, 'length': 8}}\n"
        "def build(size, context):\n"
        "    n = size['length']\n"
        "    return Recipe(torch.nn.Linear(n, 1), lambda m, b: m(b[0]).mean(), torch.optim.SGD,\n"
        "        lambda m: m.parameters(), TensorDataset(torch.ones(4, n)), size['batch'], n)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    entry = workload_module.load("sized_model:build").entry
    own = Case(workload="sized_model:build", preset="tiny", axes={"sequence": "16"})
    normal = catalog.normalise(own, "cpu", entry)
    assert session.build(normal, context).items_per_sample == 16
    images = Case(workload="sized_model:build", preset="tiny", axes={"resolution": "16"})
    with pytest.raises(catalog.Refused, match="size image, and sized_model:build has batch, len"):
        catalog.normalise(images, "cpu", entry)
    assert possible(normal, "optimizer", "fused", Place(device="cpu"))


def test_a_measured_model_may_have_an_axis_of_another_version() -> None:
    case = Case(workload="my.pkg:build", preset="full", axes={"gone": "x"})
    assert not possible(case, "accumulation", "2", Place(device="cuda"))
