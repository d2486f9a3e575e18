import subprocess
import sys
from pathlib import Path

from PIL import Image

from benchmarks.data.photographs import SOURCES, Photographs

SET = Photographs(48, 200, 150)


def _contents(root: Path) -> dict[str, bytes]:
    files = (path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}


def test_two_builds_give_the_same_bytes(tmp_path: Path) -> None:
    first, second = SET.made(tmp_path / "a"), SET.made(tmp_path / "b")
    assert first.name == second.name == "builtin-photos-v1-200x150-48"
    assert _contents(first) == _contents(second)


def test_every_file_is_another_picture_of_the_right_size(tmp_path: Path) -> None:
    files = sorted(SET.made(tmp_path).rglob("*.jpg"))
    assert len(files) == len({path.read_bytes() for path in files}) == 48
    sizes = set()
    for path in files:
        with Image.open(path) as image:
            assert (image.format, image.mode) == ("JPEG", "RGB")
            sizes.add(image.size)
    assert sizes == {(200, 150), (150, 200)}


def test_each_source_is_a_class_folder(tmp_path: Path) -> None:
    folders = sorted(path.name for path in SET.made(tmp_path).iterdir())
    assert folders == [Path(name).stem for name in SOURCES]


def test_files_at_imagenets_size_hold_as_much_as_the_reference_rows_had(tmp_path: Path) -> None:
    files = list(Photographs(60, 500, 375).made(tmp_path).rglob("*.jpg"))
    mean = sum(path.stat().st_size for path in files) / len(files)
    assert 32_000 < mean < 42_000


def test_scikit_image_is_read_and_never_imported(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from benchmarks.data.photographs import Photographs;"
        f"Photographs(12, 40, 30).made(Path({str(tmp_path)!r}));"
        "assert not {'skimage', 'torch', 'scipy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
