"""A worker says when each of its processes will compile torch's own files anew."""

import sys
from importlib.machinery import ModuleSpec
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from worker import startup


@pytest.fixture
def torch_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation of torch without bytecode; nothing says that there shall be none."""
    source = tmp_path / "torch" / "__init__.py"
    source.parent.mkdir()
    source.write_text("")
    found = ModuleSpec("torch", None, origin=str(source))
    monkeypatch.setattr(startup, "find_spec", lambda name: found if name == "torch" else None)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    return source


def test_nothing_is_said_where_the_first_process_will_keep_it(torch_there: Path) -> None:
    assert startup.bytecode_lost() is None


def test_nothing_is_said_where_it_is_there(
    torch_there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    kept = Path(cache_from_source(str(torch_there)))
    kept.parent.mkdir()
    kept.write_bytes(b"")
    assert startup.bytecode_lost() is None


def test_a_python_that_may_keep_none_is_told_what_to_do(
    torch_there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert f"`python -m compileall -q {torch_there.parent}`" in (startup.bytecode_lost() or "")


def test_so_is_one_whose_folder_takes_nothing(
    torch_there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Root may write anywhere, whatever the modes say.
    monkeypatch.setattr("worker.startup.os.access", lambda path, mode: False)
    assert "compiles torch's own files again" in (startup.bytecode_lost() or "")


def test_without_torch_there_is_nothing_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "find_spec", lambda name: None)
    assert startup.bytecode_lost() is None
