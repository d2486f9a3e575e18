"""lengths=real of images: crops at their own scale, black edges, rates that count images."""

import itertools
import math
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from builders import short_resnet
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor

from benchmarks.axes import decode, lengths
from benchmarks.axes.lengths import CYCLE
from benchmarks.catalog import catalog
from benchmarks.contracts import Case, ParityStatus, Pass, ProcessSpec, Protocol, Replicate, Status
from benchmarks.data import UnusableData, decoded
from benchmarks.data.decoded import Normalise
from benchmarks.data.images import Files, Images, View, open_folder, random_area, sample_rng
from benchmarks.data.native_images import CROPS, NativeImages
from benchmarks.data.photographs import Photographs
from benchmarks.measure import batch_source, compilation, cycles, flops, loop, parity_check, session
from benchmarks.measure.cycles import Pad
from benchmarks.measure.loop import TimedPass
from benchmarks.measure.passes import Passes
from benchmarks.measure.progress import Reporter
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch, Context, Filling, Recipe
from benchmarks.workloads import resnet50

CPU = torch.device("cpu")
VIEW = replace(resnet50.view(224), step=32)
BRIEF = Protocol(
    warmup_min_s=0.0,
    warmup_max_s=0.0,
    settle_max_s=0.0,
    window_min_s=0.1,
    window_min_steps=8,
    window_max_s=60.0,
    window_min_blocks=2,
    window_max_blocks=2,
    block_min_s=0.01,
    block_min_steps=1,
)


@pytest.fixture(autouse=True)
def short_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here is about what the layers of ResNet-50 compute."""
    short_resnet.apply(monkeypatch)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def context(cache: Path) -> Context:
    return Context(CPU, cache)


def case(workload: str = "resnet50", **axes: str) -> Case:
    return Case(workload=workload, preset="tiny", axes=axes)


def built(context: Context, **axes: str) -> Recipe:
    return session.build(catalog.normalise(case(lengths="real", **axes), "cpu"), context)


def native(recipe: Recipe) -> NativeImages:
    assert isinstance(recipe.dataset, NativeImages)
    return recipe.dataset


def shapes(recipe: Recipe, count: int) -> list[tuple[int, ...]]:
    feed = batch_source.batches(recipe, 0)
    return [tuple(images.shape) for images, _ in itertools.islice(feed, count)]


# Sides


@pytest.mark.parametrize(
    ("box", "size", "side"),
    [
        ((0, 0, 500, 375), (500, 375), 224),
        ((0, 0, 250, 375), (500, 375), 160),  # half of the area: 158.4
        ((10, 20, 260, 207.5), (500, 375), 128),  # a quarter: 112
        ((0, 0, 125, 120), (500, 375), 64),  # 8 %: 63.4
        ((0, 0, 100, 80), (100, 80), 96),  # all of 8,000 pixels, which a square of 89.4 has
        ((0, 0, 50, 40), (100, 80), 64),  # 44.7
        ((0, 0, 1, 1), (4000, 3000), 32),
        ((0, 0, 4000, 3000), (4000, 3000), 224),
    ],
)
def test_a_crop_keeps_its_scale(
    box: tuple[float, float, float, float], size: tuple[int, int], side: int
) -> None:
    assert VIEW.side(box, *size) == side
    assert replace(VIEW, step=0).side(box, *size) == 224


@given(st.integers(1, 900), st.integers(1, 900), st.integers(0, 10_000), st.integers(32, 400))
def test_no_side_is_larger_than_the_presets_nor_a_step_larger_than_the_crop(
    width: int, height: int, index: int, size: int
) -> None:
    view = replace(VIEW, size=size)
    left, top, right, bottom = box = random_area(width, height, sample_rng(0, index))
    side = view.side(box, width, height)
    assert side == size or side % 32 == 0
    assert 0 < side <= size
    assert side < ((right - left) * (bottom - top)) ** 0.5 + 32


@pytest.mark.parametrize("value", ["cpu", "cpu-uint8", "cache"])
def test_each_image_has_the_side_that_is_told_of_it(context: Context, value: str) -> None:
    data = native(built(context, resolution="224", decode=value))
    told = [int(side) for side in data.lengths[:40]]
    assert set(told) == {96, 128, 160, 192, 224}
    for index, side in enumerate(told):
        shape = (3, side, side) if value == "cpu" else (side, side, 3)
        assert tuple(data[index][0].shape) == shape
    assert len(data) == len(data.lengths) >= CROPS
    assert len(data) % len(data.folder.files) == 0


def test_the_sides_are_those_of_crops_of_8_to_100_percent(context: Context) -> None:
    data = native(built(context, resolution="224"))
    for index in range(0, len(data), 97):
        with Image.open(Files(data.folder).path(index % 96)) as image:
            width, height = image.size
        left, top, right, bottom = random_area(width, height, sample_rng(0, index))
        share = (right - left) * (bottom - top) / (500 * 375)
        assert data.lengths[index] == 32 * math.ceil(7 * math.sqrt(share))
    told = np.asarray(data.lengths)
    assert sorted(set(told.tolist())) == [64, 96, 128, 160, 192, 224]
    assert np.mean(told**2) / 224**2 == pytest.approx(0.53, abs=0.01)


def test_it_is_the_same_crop_as_without_a_scale_of_its_own(context: Context) -> None:
    plain = session.build(catalog.normalise(case(resolution="224"), "cpu"), context).dataset
    data = native(built(context, resolution="224"))
    for index in range(12):
        (image, label), (small, same_label) = plain[index], data[index]
        side = small.shape[-1]
        scaled = torch.nn.functional.interpolate(
            image[None], (side, side), mode="bilinear", antialias=True
        )[0]
        assert label == same_label
        assert (scaled - small).abs().mean() < 0.15  # another crop or flip differs by one or more


def test_a_users_files_count_with_their_own_pixels(context: Context, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    rng = np.random.default_rng(0)
    for number, (width, height) in enumerate([(400, 300), (90, 70), (40, 60), (20, 20)]):
        pixels = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "a" / f"{number}.png")
    own = replace(context, data_root=tmp_path)
    for value in ("cpu", "cache"):
        data = native(built(own, resolution="224", decode=value))
        of_file = [{int(side) for side in data.lengths[file::4]} for file in range(4)]
        assert max(of_file[0]) == 224
        assert of_file[1:] == [{32, 64, 96}, {32, 64}, {32}]
        for index in range(24):
            assert data[index][0].shape[1] == data.lengths[index]


def test_a_file_that_is_no_image_is_named(context: Context, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.jpg").write_bytes(b"no image")
    with pytest.raises(UnusableData, match=r"a/x\.jpg cannot be read"):
        built(replace(context, data_root=tmp_path))


def test_of_a_large_folder_each_decoder_reads_the_same_even_choice(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoded, "MOST_FILES", 30)
    data, kept, raw = (native(built(context, decode=v)) for v in ("cpu", "cache", "cpu-uint8"))
    assert (len(data.folder.files), len(kept.folder.files)) == (96, 24)
    assert len(data) == len(kept) == len(raw)
    assert data.lengths.tolist() == kept.lengths.tolist() == raw.lengths.tolist()
    for index in (0, 1, 23, 24, 1_000):
        assert data[index][1] == kept[index][1] == raw[index][1]
        close = (raw[index][0].float() - kept[index][0].float()).abs().mean()
        assert close < 8  # another photograph differs by tens


def test_axes_may_be_applied_in_either_order(context: Context) -> None:
    plain = session.build(catalog.normalise(case(), "cpu"), context)
    one = lengths.apply("real", decode.apply("cpu-uint8", plain))
    other = decode.apply("cpu-uint8", lengths.apply("real", plain))
    assert native(one).lengths.tolist() == native(other).lengths.tolist()
    assert all(torch.equal(native(one)[i][0], native(other)[i][0]) for i in range(8))
    assert native(one)[0][0].dtype == native(other)[0][0].dtype == torch.uint8


# Batches


@pytest.mark.parametrize("value", ["off", "on", "bucketed"])
def test_each_batch_has_the_side_that_the_axis_says(context: Context, value: str) -> None:
    recipe = built(context, dynamic=value, resolution="224", batch="16")
    own = cycles.lengths(recipe).max(axis=1).tolist() * 2
    made = shapes(recipe, 2 * CYCLE)
    assert len(set(own)) == 5 > cycles.BUCKETS, "the sides must differ for this to show anything"
    assert all(shape == (16, 3, shape[2], shape[2]) for shape in made)
    padded = [shape[2] for shape in made]
    match value:
        case "off":
            assert padded == [224] * len(own)
        case "on":
            assert padded == own
        case _:
            assert len(set(padded)) == cycles.BUCKETS
            assert all(least <= to for least, to in zip(own, padded, strict=True))
            assert max(padded) == max(own)


@pytest.mark.parametrize("value", ["cpu", "cpu-uint8"])
@pytest.mark.parametrize("dynamic", ["off", "on", "bucketed"])
def test_what_fills_up_an_image_is_black_at_the_right_and_at_the_bottom(
    context: Context, value: str, dynamic: str
) -> None:
    recipe = built(context, dynamic=dynamic, decode=value, resolution="224")
    data, order = native(recipe), iter(cycles.Order(recipe, 5))
    black = Normalise(data.view)((torch.zeros(1, 1, 1, 3, dtype=torch.uint8),))[0][0]
    filled = 0
    for images, labels in itertools.islice(batch_source.batches(recipe, 5), CYCLE):
        (planes,) = Normalise(data.view)((images,))
        for image, label in zip(planes, labels, strict=True):
            index = next(order)
            pixels, own_label = data[index]
            (own,) = Normalise(data.view)((pixels[None],))
            side = own.shape[-1]
            assert label == own_label
            torch.testing.assert_close(image[:, :side, :side], own[0])
            for edge in (image[:, side:], image[:, :, side:]):
                torch.testing.assert_close(edge, black.expand_as(edge))
                filled += edge.numel()
    assert filled > 0


def test_every_decoder_gives_a_step_the_same_batch_in_the_same_layout(context: Context) -> None:
    def first(**axes: str) -> tuple[Tensor, Tensor]:
        trainer = Trainer(built(context, dynamic="off", layout="channels_last", **axes), CPU)
        images, labels = batch_source.ring(trainer, batch_source.batches(trainer.recipe, 0))[2]
        assert images.is_contiguous(memory_format=torch.channels_last)
        assert (images[:, :, 32:] == images[:, :, -1:]).all(), "a small image was to be filled up"
        assert trainer.step((images, labels)).isfinite()
        return images, labels

    plain, labels = first()
    for value, most in (("cpu-uint8", 1e-5), ("cache", 0.1)):
        images, same_labels = first(decode=value)
        assert torch.equal(labels, same_labels)
        assert (images - plain).abs().mean() < most


@pytest.mark.parametrize("value", ["cpu", "cache"])
def test_loader_processes_give_the_same_batches(context: Context, value: str) -> None:
    recipe = built(context, dynamic="on", decode=value)
    more = replace(recipe, loader_options={"num_workers": 2})
    both = (batch_source.batches(one, 0) for one in (recipe, more))
    for one, other in itertools.islice(zip(*both, strict=True), CYCLE):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_images_travel_to_another_process(context: Context) -> None:
    data = native(built(context))
    assert torch.equal(pickle.loads(pickle.dumps(data))[7][0], data[7][0])


def test_a_search_for_the_largest_batch_tries_the_largest_images(context: Context) -> None:
    images, labels = batch_source.first(built(context, dynamic="on"), 3)
    assert (tuple(images.shape), tuple(labels.shape)) == ((3, 3, 64, 64), (3,))


@given(st.lists(st.integers(1, 7), min_size=5, max_size=8))
def test_buckets_of_images_add_the_fewest_pixels(longest: list[int]) -> None:
    def pixels(to: Sequence[int]) -> int:
        return sum(min(t for t in to if t >= own) ** 2 for own in longest)

    kinds = sorted(set(longest))
    others = itertools.combinations(kinds, min(cycles.BUCKETS, len(kinds)))
    chosen = cycles.buckets(longest, dims=2)
    assert pixels(chosen) == min(pixels(to) for to in others if to[-1] == kinds[-1])


def test_the_buckets_of_a_recipe_of_images_weigh_their_area(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cycles, "buckets", lambda longest, dims: (dims,))
    assert cycles.pad(built(context, dynamic="bucketed")).to == (2,)


def test_an_image_of_another_side_than_its_data_set_says_is_told() -> None:
    fill = (Filling(0.0, dims=(1, 2)), Filling(0, dims=()))
    wrong = [(torch.ones(3, side, side), torch.tensor(1)) for side in (32, 64)]
    assert [part.shape for part in Pad(fill)(wrong)] == [(2, 3, 64, 64), (2,)]
    with pytest.raises(catalog.Refused, match="samples of a batch are 96 long together, and by "):
        Pad(fill, items=frozenset({64, 128}), counted="samples")(wrong)


# Rates


@pytest.mark.parametrize("batch", ["1", "4", "6"])
def test_a_step_counts_its_images(context: Context, batch: str) -> None:
    for value in ("off", "on", "bucketed"):
        assert cycles.items_per_step(built(context, dynamic=value, batch=batch)) == int(batch)


def test_padding_is_told_by_area(context: Context) -> None:
    made = built(context, dynamic="off", batch="4")
    sides = cycles.lengths(made)
    share = 1 - (sides**2).mean() / made.dataset.most**2  # type: ignore[attr-defined]
    assert cycles.padding(made) == pytest.approx(share)
    assert share > 0.1


class Noted:
    """The loss of ResNet-50, which notes how many images of which side each step has."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int]] = []

    def __call__(self, model: torch.nn.Module, batch: Batch) -> Tensor:
        self.steps.append((len(batch[0]), batch[0].shape[-1]))
        return resnet50.loss(model, batch)


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> list[list[tuple[int, int]]]:
    """Images and side of each step, for every run of the loop."""
    runs: list[list[tuple[int, int]]] = []
    plain = loop.run

    def run(trainer: Trainer, *arguments: Any) -> TimedPass:
        loss = trainer.recipe.loss
        assert isinstance(loss, Noted)
        before = len(loss.steps)
        timed = plain(trainer, *arguments)
        runs.append(loss.steps[before:])
        return timed

    monkeypatch.setattr(loop, "run", run)
    return runs


def replicate_of(made: Recipe) -> Replicate:
    with Reporter(None, "test") as reporter:
        return Passes(Trainer(made, CPU), BRIEF, reporter, "img/s").replicate(0, 0.0, 0.0)


def counted(timed: Pass, steps: Sequence[tuple[int, int]], sides: Sequence[int]) -> None:
    """Check a pass against its own steps: whole cycles, and each image once."""
    assert timed.steps == len(steps)
    assert timed.steps % CYCLE == 0
    assert sorted(side for _, side in steps) == sorted([*sides] * (timed.steps // CYCLE))
    images = sum(count for count, _ in steps)
    assert images == 2 * timed.steps
    assert timed.rate * sum(timed.step_trace.values()) == pytest.approx(images, rel=1e-4)


@pytest.mark.parametrize(
    ("dynamic", "sides"),
    [
        pytest.param("on", [32, 32, 64, 64, 64, 64, 64, 64], marks=pytest.mark.slow),
        ("bucketed", [32, 32, 64, 64, 64, 64, 64, 64]),
    ],
)
def test_rates_count_the_images_of_whole_cycles(
    context: Context, windows: list[list[tuple[int, int]]], dynamic: str, sides: list[int]
) -> None:
    noted = Noted()
    replicate = replicate_of(replace(built(context, dynamic=dynamic, batch="2"), loss=noted))
    assert [side for _, side in noted.steps[:CYCLE]].count(32) == sides.count(32)
    warmup, _, full, _, synth = windows
    counted(replicate.full, full, sides)
    counted(replicate.synth, synth, sides)
    assert replicate.warmup.steps == len(warmup) + CYCLE
    assert "synth.small_ring" not in replicate.flags


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    from torch._dynamo import utils  # seconds to import

    torch._dynamo.reset()
    utils.counters.clear()
    utils.clear_compilation_metrics()
    yield
    torch._dynamo.reset()


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_compiler")
def test_nothing_compiles_in_a_timed_pass(context: Context) -> None:
    made = built(context, dynamic="bucketed", batch="2")
    replicate = replicate_of(replace(made, compile_options={"backend": "eager"}))
    assert replicate.compilation is not None
    assert replicate.compilation.graphs == 2
    assert (replicate.full.compile_s, replicate.synth.compile_s) == (0.0, 0.0)


@pytest.mark.usefixtures("fresh_compiler")
def test_sides_of_a_whole_preset_share_one_graph(context: Context) -> None:
    made = built(context, dynamic="on", batch="2", resolution="224", layout="channels_last")
    trainer = Trainer(replace(made, compile_options={"backend": "eager"}), CPU)
    with torch.no_grad():
        for batch in itertools.islice(batch_source.batches(trainer.recipe, 0), CYCLE):
            trainer._forward(trainer.place(batch))
    read = compilation.read()
    assert read is not None
    assert (read.graphs, dict(read.recompiles)) == (1, {})


@pytest.mark.slow
def test_a_process_tells_images_and_that_it_computes_the_same_numbers(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THROUGHLINE_CACHE_DIR", str(cache))
    asked = BRIEF.model_copy(update={"parity": True})
    small = case(lengths="real", dynamic="on", batch="2")
    spec = ProcessSpec(case=small, protocol=asked)
    result = session.measure(spec, CPU, Reporter(None, "test"))
    assert result.status is Status.OK, result.reason
    assert (result.item, result.batch_items) == ("img", 2)
    assert result.parity is not None
    assert result.parity.status is ParityStatus.PASS, result.parity.reason


def test_no_utilisation_is_told_of_images_with_work_of_their_own(context: Context) -> None:
    on_gpu = replace(context, device=torch.device("cuda"))
    facts = {"hw.device": "cuda", "hw.gpu.name": "NVIDIA H200", "hw.gpu.sm_count": "132"}
    told = flops.efficiency(
        case(lengths="real"), 4, on_gpu, facts, lambda case, _: session.build(case, context)
    )
    assert told.work is None
    assert told.reason.startswith("The work of a step was not counted: samples of different len")


def test_parity_compares_every_shape_of_the_case_with_the_same_batches(context: Context) -> None:
    timed = built(context, dynamic="on")
    given = parity_check.inputs(replace(built(context), dynamic=timed.dynamic), 0)
    feed = batch_source.batches(timed, 0)
    assert len(given) == CYCLE
    assert all(torch.equal(images, next(feed)[0]) for images, _ in given)
    assert cycles.several_shapes(given)


# Refusals


@pytest.mark.parametrize(
    ("wrong", "device", "sentence"),
    [
        (
            case("unet", lengths="real"),
            None,
            "lengths=real needs real_lengths=yes, and unet declares no real_lengths in its FACTS.",
        ),
        (
            case(lengths="real", decode="gpu"),
            "cuda",
            "lengths=real needs decode=cpu or cpu-uint8 or cache, and this case has decode=gpu.",
        ),
        (
            case(lengths="real", accumulation="2"),
            None,
            "lengths=real needs accumulation=1, and this case has accumulation=2.",
        ),
        (
            case(lengths="real", dynamic="on", graphs="on"),
            "cuda",
            "graphs=on needs dynamic=off, and this case has dynamic=on.",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(
    wrong: Case, device: str | None, sentence: str
) -> None:
    with pytest.raises(catalog.Refused) as refused:
        catalog.normalise(wrong, device)
    assert str(refused.value) == sentence


def test_a_data_set_that_counts_something_else_is_refused(context: Context) -> None:
    class Pixels(NativeImages):
        counted = "pixels"

    def of_pixels(recipe: Recipe) -> Recipe:
        assert isinstance(recipe.dataset, Images)
        return replace(recipe, dataset=Pixels.of(recipe.dataset, 32))

    plain = session.build(catalog.normalise(case(), "cpu"), context)
    with pytest.raises(catalog.Refused, match="is 'pixels', and lengths or samples is needed"):
        lengths.apply("real", replace(plain, real_lengths=of_pixels))


def test_the_defaults_change_nothing(context: Context) -> None:
    recipe = session.build(catalog.normalise(case(), "cpu"), context)
    assert type(recipe.dataset) is Images
    assert recipe.cycle == 1
    folder = open_folder(context, Photographs(96, 500, 375))
    plain = Images(folder, View(random_area, 64, VIEW.mean, VIEW.deviation), 0)
    assert torch.equal(recipe.dataset[11][0], plain[11][0])
