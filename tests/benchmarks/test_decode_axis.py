"""The same crops of the same files, whoever decodes them."""

import itertools
import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from builders import short_resnet
from builders.long_forms import long_but
from PIL import Image
from torch import Tensor
from torch.nn.functional import interpolate

from benchmarks.axes import decode
from benchmarks.catalog import catalog
from benchmarks.contracts import Case
from benchmarks.data import UnusableData, decoded, encoded
from benchmarks.data.decoded import Normalise
from benchmarks.data.images import Images, View, open_folder, random_area
from benchmarks.data.photographs import Photographs
from benchmarks.measure import batch_source
from benchmarks.measure.session import build
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch, Context, Recipe

CPU = torch.device("cpu")
VIEW = View(random_area, 48, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
SET = Photographs(12, 90, 70)
"""Short sides below twice the size: kept whole in the cache."""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def images(cache: Path) -> Images:
    return Images(open_folder(Context(CPU, cache), SET), VIEW, seed=0)


def raw(images: Images) -> Images:
    return images.raw_from(images.folder, images._pixels)


def cached(images: Images) -> Images:
    reader = decoded.Decoded(images.folder, images.view)
    return images.raw_from(reader.folder, reader)


def test_bytes_normalised_on_the_device_are_what_the_loader_would_have_made(
    images: Images,
) -> None:
    samples = [(images[index], raw(images)[index]) for index in range(20)]
    pixels = torch.stack([label[0] for _, label in samples])
    assert (pixels.dtype, pixels.shape) == (torch.uint8, (20, 48, 48, 3))
    (made,) = Normalise(VIEW)((pixels,))
    assert made.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(made, torch.stack([plain[0] for plain, _ in samples]))
    assert [plain[1] for plain, _ in samples] == [label[1] for _, label in samples]


def test_what_is_normalised_stays_as_it_is(images: Images) -> None:
    normalise = Normalise(VIEW)
    batch = (torch.stack([raw(images)[0][0]]), torch.tensor([3]))
    once = normalise(batch)
    again = normalise(once)
    assert all(one is other for one, other in zip(once, again, strict=True))


def test_a_crop_of_the_cache_is_the_crop_that_a_decoder_gives(images: Images) -> None:
    for index in range(60):
        plain, label = raw(images)[index]
        kept, same_label = cached(images)[index]
        assert label == same_label
        # Pillow looks a little beyond a crop's edge; a wrong crop or flip differs by tens.
        assert (plain.float() - kept.float()).abs().mean() < 1


def test_large_files_are_kept_at_twice_the_size_that_the_model_sees(
    cache: Path, tmp_path: Path
) -> None:
    (tmp_path / "large" / "a").mkdir(parents=True)
    rng = np.random.default_rng(0)
    waves = np.kron(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8), np.ones((50, 50, 1), np.uint8))
    Image.fromarray(waves).save(tmp_path / "large" / "a" / "x.png")  # 400 x 300
    folder = open_folder(Context(CPU, cache, tmp_path / "large"), SET)
    large = Images(folder, VIEW, seed=0)
    reader = decoded.Decoded(folder, VIEW)
    assert tuple(reader._index[0]) == (0, 96, 128, 300, 400)
    for index in range(20):
        plain, kept = raw(large)[index][0], large.raw_from(reader.folder, reader)[index][0]
        assert (plain.float() - kept.float()).abs().mean() < 8


def test_the_cache_is_made_once_and_anew_when_a_file_changes(
    cache: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = open_folder(Context(CPU, cache), SET)
    mine = replace(folder, cache=tmp_path)
    decoded.Decoded(mine, VIEW)
    assert "Making 12 decoded images" in capfd.readouterr().err
    decoded.Decoded(mine, VIEW)
    assert capfd.readouterr().err == ""
    changed = replace(mine, files=mine.files[:-1], labels=mine.labels[:-1])
    decoded.Decoded(changed, VIEW)
    assert "Making 11 decoded images" in capfd.readouterr().err


def test_a_large_folder_is_kept_in_part_evenly(
    images: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoded, "MOST_FILES", 5)
    few = decoded.few(images.folder)
    assert few.files.tolist() == images.folder.files[::3].tolist()
    assert few.labels.tolist() == images.folder.labels[::3].tolist()
    assert few.name == images.folder.name


def test_a_reader_sent_to_another_process_leaves_its_map_behind(images: Images) -> None:
    reader = cached(images)
    reader[0]
    packed = pickle.dumps(reader)
    assert len(packed) < 20_000
    assert torch.equal(pickle.loads(packed)[7][0], reader[7][0])


def test_a_file_that_is_no_image_is_named(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "own" / "a").mkdir(parents=True)
    (tmp_path / "own" / "a" / "x.jpg").write_bytes(b"no image")
    folder = open_folder(Context(CPU, cache, tmp_path / "own"), SET)
    with pytest.raises(UnusableData, match=r"a/x\.jpg cannot be read"):
        decoded.Decoded(folder, VIEW)


@pytest.mark.parametrize(
    ("value", "layout", "workload"),
    long_but(
        itertools.product(
            ["cpu-uint8", "cache"], ["contiguous", "channels_last"], ["resnet50", "unet"]
        ),
        *(0, 6),
    ),
)
def test_a_step_takes_what_each_decoder_gives(
    cache: Path, value: str, layout: str, workload: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    short_resnet.apply(monkeypatch)

    def first(**axes: str) -> tuple[Recipe, Batch]:
        case = catalog.normalise(Case(workload=workload, axes=axes), "cpu")
        recipe = build(case, Context(CPU, cache))
        trainer = Trainer(recipe, CPU)
        ring = batch_source.ring(trainer, iter(batch_source.loader(recipe, 0)))
        assert trainer.step(ring[0]).isfinite()
        return recipe, ring[0]

    recipe, batch = first(decode=value, layout=layout)
    _, plain = first(layout=layout)
    for made, expected in zip(batch, plain, strict=True):
        assert made.stride() == expected.stride()
        if made.dtype == torch.float32:
            # Of large files the cache holds a smaller copy, which is scaled again.
            assert (made - expected).abs().mean() < (0.1 if value == "cache" else 1e-5)
    assert recipe.data_name == "builtin-photos-v1"


def test_text_is_not_decoded() -> None:
    with pytest.raises(catalog.Refused) as refused:
        catalog.normalise(Case(workload="nanogpt", axes={"decode": "cache"}))
    assert str(refused.value) == "decode=cache needs input=images, and nanogpt has input=tokens."


def test_decoding_on_the_device_is_refused_without_torchvision(
    images: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoded, "find_spec", lambda name: None)
    recipe = Recipe(
        model=torch.nn.Linear(1, 1),
        loss=lambda model, batch: model(batch[0]).mean(),
        optimizer=torch.optim.SGD,
        parameters=torch.nn.Module.parameters,
        dataset=images,
        batch=2,
    )
    with pytest.raises(catalog.Refused, match="needs torchvision, and this worker does not have"):
        decode.apply("gpu", recipe)


def _plain_align(
    whole: Tensor, boxes: Tensor, size: int, scale: float, sampling: int, aligned: bool
) -> Tensor:
    """What torchvision's roi_align is taken for: each box, scaled with a filter that averages."""
    assert (scale, sampling, aligned) == (1.0, -1, True)
    parts = []
    for number, left, top, right, bottom in boxes.int().tolist():
        part = whole[number, :, top:bottom, left:right][None]
        parts.append(interpolate(part, (size, size), mode="bilinear", antialias=True))
    return torch.cat(parts)


def test_files_sent_whole_become_the_same_crops_on_the_device(images: Images) -> None:
    filled, lengths, plan, labels = _sixteen(images)
    assert filled.dtype == torch.uint8
    made = encoded.scaled(
        encoded.canvas(_decoded_by_pillow(filled, lengths)), plan, VIEW.size, _plain_align
    )
    for index, pixels in enumerate(made):
        plain, label = raw(images)[index]
        assert label == labels[index]
        # Pillow looks a little beyond a crop's edge; a wrong crop or flip differs by tens.
        assert (plain.float() - pixels.float()).abs().mean() < 1


def _decoded_by_pillow(filled: Tensor, lengths: Tensor) -> Sequence[Tensor]:
    import io

    files = [row[:n].numpy().tobytes() for row, n in zip(filled, lengths.tolist(), strict=True)]
    arrays = [np.array(Image.open(io.BytesIO(file)).convert("RGB")) for file in files]
    return [torch.from_numpy(array).permute(2, 0, 1) for array in arrays]


def test_a_file_that_is_no_jpeg_is_named_with_what_to_do(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "own" / "a").mkdir(parents=True)
    Image.new("RGB", (20, 20)).save(tmp_path / "own" / "a" / "x.png")
    folder = open_folder(Context(CPU, cache, tmp_path / "own"), SET)
    with pytest.raises(UnusableData, match="is no JPEG; read this folder with decode=cpu"):
        encoded.Encoded(Images(folder, VIEW, seed=0))[0]


def _sixteen(images: Images) -> Batch:
    """Sixteen files as the loader collates them."""
    files = encoded.Encoded(images)
    return files.collate([files[index] for index in range(16)])


@pytest.fixture
def decoder() -> encoded.DeviceDecoder:
    if not torch.cuda.is_available():
        pytest.skip("no NVIDIA GPU here")
    try:
        return encoded.DeviceDecoder(VIEW.size)
    except catalog.Refused as refused:
        pytest.skip(str(refused))


@pytest.mark.gpu
def test_a_decoder_does_not_write_into_what_the_step_before_still_reads(
    images: Images, decoder: encoded.DeviceDecoder
) -> None:
    device = torch.device("cuda", 0)
    batch = _sixteen(images)
    decoder(batch, device)
    for _ in range(20):
        held = [torch.ones(48 * 36 * 3, device=device, dtype=torch.uint8) for _ in range(64)]
        torch.cuda._sleep(20_000_000)
        sums = [one.sum() for one in held]  # queued behind the sleep, and not yet begun
        del held
        decoder(batch, device)
        assert {int(one) for one in sums} == {48 * 36 * 3}


@pytest.mark.gpu
def test_the_gpu_decodes_the_crops_that_pillow_gives(
    images: Images, decoder: encoded.DeviceDecoder
) -> None:
    made, labels = decoder(_sixteen(images), torch.device("cuda"))
    for index, pixels in enumerate(made.cpu()):
        plain, label = raw(images)[index]
        assert label == labels[index].cpu()
        assert (plain.float() - pixels.float()).abs().mean() < 6  # another decoder, other filter
