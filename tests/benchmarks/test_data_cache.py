import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.data import UnusableData
from benchmarks.data.cache import made_once

MAKER = """
import sys, time
from pathlib import Path
from benchmarks.data.cache import made_once

folder = Path(sys.argv[1])

def make(to):
    with open(folder.parent / "calls", "a") as calls:
        calls.write("made\\n")
    time.sleep(0.5)
    (to / "file").write_text("complete")

made_once(folder, "a test folder", make)
assert (folder / "file").read_text() == "complete"
"""


def test_a_folder_is_made_once_and_then_only_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = [made_once(tmp_path / "set", "files", lambda to: (to / "a").touch()) for _ in range(2)]
    assert made == [tmp_path / "set"] * 2
    output = capsys.readouterr().err
    assert output.count("Making files in") == output.count("Made files in") == 1


def test_processes_that_start_together_make_it_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MAKER, str(tmp_path / "set")]
    children = [subprocess.Popen(command) for _ in range(3)]
    assert [child.wait(timeout=60) for child in children] == [0, 0, 0]
    assert (tmp_path / "calls").read_text() == "made\n"


def test_a_maker_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    def fail(to: Path) -> None:
        (to / "half").touch()
        raise UnusableData("no source")

    with pytest.raises(UnusableData, match="no source"):
        made_once(tmp_path / "set", "files", fail)
    assert [path.name for path in tmp_path.iterdir()] == [".set.lock"]


def test_a_maker_that_loses_the_race_uses_the_winners_folder(tmp_path: Path) -> None:
    def lose(to: Path) -> None:
        (tmp_path / "set").mkdir()
        (tmp_path / "set" / "winner").touch()
        (to / "loser").touch()

    folder = made_once(tmp_path / "set", "files", lose)
    assert [path.name for path in folder.iterdir()] == ["winner"]


def test_a_cache_that_cannot_be_written_says_what_to_set(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnusableData, match="set THROUGHLINE_CACHE_DIR to a folder"):
        made_once(tmp_path / "file" / "set", "files", lambda to: None)


def test_a_full_disk_is_told_in_one_sentence(tmp_path: Path) -> None:
    def full(to: Path) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(UnusableData, match=r"\(No space left on device\); set THROUGHLINE_CACHE"):
        made_once(tmp_path / "set", "files", full)
