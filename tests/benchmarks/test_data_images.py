import pickle
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from benchmarks.data import UnusableData
from benchmarks.data.images import EPOCH, Images, View, open_folder, random_area, random_square
from benchmarks.data.photographs import Photographs
from benchmarks.workload import Batch, Context

SET = Photographs(24, 200, 150)
VIEW = View(random_area, 32, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def _context(cache: Path, data_root: Path | None = None) -> Context:
    return Context(torch.device("cpu"), cache, data_root)


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Images:
    context = _context(tmp_path_factory.mktemp("cache"))
    return Images(open_folder(context, SET), VIEW, seed=0)


@pytest.fixture
def users(tmp_path: Path) -> Path:
    root = tmp_path / "mine"
    for label, colour in {"blue": (0, 0, 255), "red": (255, 0, 0)}.items():
        (root / label).mkdir(parents=True)
        Image.new("RGB", (80, 60), colour).save(root / label / "a.png")
    Image.new("L", (30, 90), 128).save(root / "red" / "grey.jpeg")
    (root / "red" / "notes.txt").write_text("not an image")
    return root


def _batches(data: Images, workers: int, start: str | None = None) -> list[list[torch.Tensor]]:
    loader: DataLoader[Batch] = DataLoader(
        data,
        batch_size=4,
        sampler=range(3, 19),
        num_workers=workers,
        multiprocessing_context=start,
    )
    return list(loader)


def _flat(batches: list[list[torch.Tensor]]) -> list[torch.Tensor]:
    return [tensor for batch in batches for tensor in batch]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("start", ["fork", pytest.param("forkserver", marks=pytest.mark.slow)])
def test_two_loader_processes_give_what_none_gives(photographs: Images, start: str) -> None:
    alone, together = _batches(photographs, 0), _batches(photographs, 2, start)
    assert [(x.shape, y.shape) for x, y in together] == [((4, 3, 32, 32), (4,))] * 4
    assert [(x.dtype, y.dtype) for x, y in together] == [(torch.float32, torch.int64)] * 4
    pairs = zip(_flat(alone), _flat(together), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_the_same_seed_gives_equal_samples_and_another_does_not(photographs: Images) -> None:
    same = Images(photographs.folder, VIEW, seed=0)
    other = Images(photographs.folder, VIEW, seed=1)
    assert torch.equal(photographs[5][0], same[5][0])
    assert not torch.equal(photographs[5][0], other[5][0])


def test_a_repeated_file_is_seen_under_a_new_crop(photographs: Images) -> None:
    first, again = photographs[7], photographs[7 + SET.count]
    assert torch.equal(first[1], again[1])
    assert not torch.equal(first[0], again[0])


def test_an_epoch_is_as_long_as_imagenets(photographs: Images) -> None:
    assert EPOCH <= len(photographs) < EPOCH + SET.count


def test_a_dataset_travels_small_to_another_process(photographs: Images) -> None:
    packed = pickle.dumps(photographs)
    assert len(packed) < 10_000
    assert torch.equal(pickle.loads(packed)[3][0], photographs[3][0])


def test_samples_are_contiguous_and_normalised(photographs: Images) -> None:
    images = torch.stack([photographs[i][0] for i in range(24)])
    assert photographs[0][0].is_contiguous()
    assert images.min() >= -0.485 / 0.229 - 1e-3
    assert images.max() <= (1 - 0.406) / 0.225 + 1e-3
    assert 0.5 < images.std() < 2


def test_a_users_image_folder_is_read(users: Path, tmp_path: Path) -> None:
    folder = open_folder(_context(tmp_path, users), SET, classes=1000)
    assert folder.name == "folder:mine:3"
    data = Images(folder, View(random_square, 8, (0.0,) * 3, (1.0,) * 3), seed=0)
    samples = [data[i] for i in range(3)]
    assert [label.item() for _, label in samples] == [0, 1, 1]
    assert samples[0][0].mean(dim=(1, 2)).tolist() == pytest.approx([0, 0, 1])
    assert samples[1][0].mean(dim=(1, 2)).tolist() == pytest.approx([1, 0, 0])
    assert samples[2][0].mean(dim=(1, 2)).tolist() == pytest.approx([128 / 255] * 3, abs=0.01)
    assert not (tmp_path / SET.folder).exists()


def test_imagenets_own_layout_is_read_from_train(users: Path, tmp_path: Path) -> None:
    root = tmp_path / "imagenet"
    root.mkdir()
    users.rename(root / "train")
    (root / "val").mkdir()
    assert len(open_folder(_context(tmp_path, root), SET).files) == 3


def test_a_missing_data_root_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnusableData, match="nowhere does not exist; this workload reads a folder"):
        open_folder(_context(tmp_path, tmp_path / "nowhere"), SET)


def test_a_file_as_data_root_is_told(tmp_path: Path) -> None:
    (tmp_path / "train.bin").touch()
    with pytest.raises(UnusableData, match=r"train\.bin is a file; this workload reads a folder"):
        open_folder(_context(tmp_path, tmp_path / "train.bin"), SET)


def test_images_outside_class_folders_are_told(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    with pytest.raises(UnusableData, match=r"no images in sub-folders; put them in as .*/CLASS/"):
        open_folder(_context(tmp_path, tmp_path), SET)


def test_more_classes_than_the_head_has_are_told(users: Path, tmp_path: Path) -> None:
    with pytest.raises(UnusableData, match="has 2 class folders and this workload tells 1 class"):
        open_folder(_context(tmp_path, users), SET, classes=1)


def test_a_damaged_image_is_named(users: Path, tmp_path: Path) -> None:
    damaged = users / "blue" / "a.png"
    damaged.write_bytes(damaged.read_bytes()[:60])
    data = Images(open_folder(_context(tmp_path, users), SET), VIEW, seed=0)
    with pytest.raises(UnusableData, match=r"The image .*blue/a\.png cannot be read"):
        data[0]


@pytest.mark.parametrize("crop", [random_area, random_square])
@pytest.mark.parametrize("shape", [(500, 375), (1, 1), (3000, 2), (2, 3000)])
def test_a_crop_stays_inside_the_image(crop: object, shape: tuple[int, int]) -> None:
    assert callable(crop)
    for seed in range(200):
        left, top, right, bottom = crop(*shape, random.Random(seed))
        assert 0 <= left < right <= shape[0]
        assert 0 <= top < bottom <= shape[1]


def test_a_large_photograph_decoded_small_looks_the_same(tmp_path: Path) -> None:
    """Where the decoder may skip detail (`draft`), the result stays that of a whole decode."""
    Photographs(12, 1600, 1200).made(tmp_path)
    jpeg = next((tmp_path / "builtin-photos-v1-1600x1200-12").rglob("*.jpg"))
    for name, suffix in (("small", "jpg"), ("whole", "png")):
        (tmp_path / name / "c").mkdir(parents=True)
        with Image.open(jpeg) as image:
            image.save(tmp_path / name / "c" / f"a.{suffix}", quality=95)
    drafted, whole = (
        Images(open_folder(_context(tmp_path, tmp_path / name), SET), VIEW, seed=4)[0][0]
        for name in ("small", "whole")
    )
    assert (drafted - whole).abs().mean() < 0.05  # of values whose deviation is 1


def test_the_sample_is_the_plain_pipelines(users: Path, tmp_path: Path) -> None:
    """Fast crop-and-scale in one pass against crop, scale, divide, subtract one by one."""
    photograph = SET.made(tmp_path) / "coffee" / "000004.jpg"
    view = View(lambda w, h, _: (8, 16, 72, 80), 64, VIEW.mean, VIEW.deviation)
    folder = open_folder(_context(tmp_path), SET)
    index = folder.files.tolist().index(b"coffee/000004.jpg")
    image, _ = Images(folder, view, seed=0)[index]
    with Image.open(photograph) as file:
        pixels = np.asarray(file.crop((8, 16, 72, 80)), dtype=np.float64) / 255
    expected = torch.from_numpy((pixels - VIEW.mean) / VIEW.deviation).permute(2, 0, 1).float()
    assert any(
        torch.allclose(image, candidate, atol=1e-5) for candidate in (expected, expected.flip(2))
    )
