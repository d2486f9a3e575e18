import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from benchmarks.data import UnusableData
from benchmarks.data.tokens import TokenFile, Tokenizer, Windows, open_tokens
from benchmarks.workload import Batch, Context

TEXT = b"def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n    return a - b\n"


def _context(cache: Path, data_root: Path | None = None) -> Context:
    return Context(torch.device("cpu"), cache, data_root)


@pytest.fixture(scope="module")
def builtin(tmp_path_factory: pytest.TempPathFactory) -> TokenFile:
    return open_tokens(_context(tmp_path_factory.mktemp("cache")), 1024, 1_000_000)


@pytest.fixture
def users(tmp_path: Path) -> Path:
    file = tmp_path / "train.bin"
    np.arange(5_000, dtype=np.uint16).tofile(file)
    return file


def test_two_builds_give_the_same_bytes(builtin: TokenFile, tmp_path: Path) -> None:
    again = open_tokens(_context(tmp_path), 1024, 1_000_000)
    assert again.path.read_bytes() == builtin.path.read_bytes()


def test_the_name_outlives_an_upgrade_of_python(builtin: TokenFile) -> None:
    assert builtin.name == "builtin-tokens-v1"


def test_the_built_in_tokens_are_real_text(builtin: TokenFile) -> None:
    tokens = np.fromfile(builtin.path, dtype=np.uint16)
    assert len(tokens) > 250_000
    assert tokens.max() == 1023
    assert len(np.unique(tokens)) > 850  # bytes that no source holds are never used
    _, counts = np.unique(tokens, return_counts=True)
    assert counts.max() > 50 * np.median(counts)  # words are not equally frequent


@given(st.binary(max_size=200))
def test_every_text_can_be_written_and_read_back(text: bytes) -> None:
    tokenizer = Tokenizer.learn([TEXT], 270)
    assert tokenizer.decode(tokenizer.encode([text]).tolist()) == text


def test_the_commonest_pieces_come_first_and_ties_by_alphabet() -> None:
    pieces = Tokenizer.learn([b"two two two bb aa bb aa rare"], 260).pieces
    assert pieces[:256] == tuple(bytes([value]) for value in range(256))
    assert pieces[256:] == (b" aa", b" bb", b" two", b" rare")


def test_a_vocabulary_is_never_exceeded() -> None:
    tokenizer = Tokenizer.learn([TEXT], 259)
    assert len(tokenizer.pieces) == 259
    assert tokenizer.encode([TEXT]).max() < 259


def test_y_is_x_one_token_later(users: Path, tmp_path: Path) -> None:
    data = Windows(open_tokens(_context(tmp_path, users), 50304, 0), 64, seed=0)
    for index in range(50):
        x, y = data[index]
        assert (x.dtype, x.shape, y.shape) == (torch.int64, (64,), (64,))
        assert torch.equal(x + 1, y)  # the file counts upwards
        assert torch.equal(x[1:], y[:-1])


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("start", ["fork", pytest.param("forkserver", marks=pytest.mark.slow)])
def test_two_loader_processes_give_what_none_gives(builtin: TokenFile, start: str) -> None:
    data = Windows(builtin, 32, seed=0)
    alone = [data[index] for index in range(16)]
    loader: DataLoader[Batch] = DataLoader(
        data, batch_size=4, sampler=range(16), num_workers=2, multiprocessing_context=start
    )
    together = list(loader)
    assert [(x.shape, y.shape) for x, y in together] == [((4, 32), (4, 32))] * 4
    assert torch.equal(torch.cat([x for x, _ in together]), torch.stack([x for x, _ in alone]))


def test_the_same_seed_gives_equal_windows_and_another_does_not(builtin: TokenFile) -> None:
    data = Windows(builtin, 32, seed=0)
    assert torch.equal(data[9][0], Windows(builtin, 32, seed=0)[9][0])
    assert not torch.equal(data[9][0], Windows(builtin, 32, seed=1)[9][0])
    assert not torch.equal(data[9][0], data[10][0])


def test_a_dataset_travels_without_its_file(builtin: TokenFile) -> None:
    data = Windows(builtin, 32, seed=0)
    packed = pickle.dumps(data)
    assert len(packed) < 2_000
    assert torch.equal(pickle.loads(packed)[4][0], data[4][0])


def test_a_users_token_file_is_read(users: Path, tmp_path: Path) -> None:
    file = open_tokens(_context(tmp_path, users), 50304, 0)
    assert (file.path, file.name) == (users, "file:train.bin:5000")


def test_a_folder_with_train_bin_is_read(users: Path, tmp_path: Path) -> None:
    assert open_tokens(_context(tmp_path, users.parent), 50304, 0).path == users


@pytest.mark.parametrize("root", ["nowhere.bin", "."])
def test_a_missing_token_file_is_told(root: str, tmp_path: Path) -> None:
    with pytest.raises(UnusableData, match="has no token file; this workload reads one file of"):
        open_tokens(_context(tmp_path, tmp_path / root), 50304, 0)


@pytest.mark.parametrize("content", [b"", b"abc"])
def test_half_a_token_is_told(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "odd.bin").write_bytes(content)
    with pytest.raises(UnusableData, match="no whole number of uint16 tokens; write it as numpy"):
        open_tokens(_context(tmp_path, tmp_path / "odd.bin"), 50304, 0)


def test_a_file_shorter_than_a_window_is_told(users: Path, tmp_path: Path) -> None:
    file = open_tokens(_context(tmp_path, users), 50304, 0)
    Windows(file, 4_999, seed=0)
    with pytest.raises(UnusableData, match="holds 5000 tokens and one window needs 5001"):
        Windows(file, 5_000, seed=0)


def test_a_token_outside_the_vocabulary_is_told_even_far_inside(tmp_path: Path) -> None:
    tokens = np.zeros(1_000_100, dtype=np.uint16)
    tokens[-50] = 60_000
    tokens.tofile(tmp_path / "late.bin")
    file = open_tokens(_context(tmp_path, tmp_path / "late.bin"), 50304, 0)
    data = Windows(file, 1_000_050, seed=0)
    with pytest.raises(UnusableData, match="holds token 60000 and the model's vocabulary ends at"):
        [data[index] for index in range(100)]
