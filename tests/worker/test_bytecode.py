"""A worker notices that processes compile torch's own files anew, and keeps what they made."""

import sys
from importlib.machinery import ModuleSpec
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from worker.child import bytecode
from worker.child.workspace import environment_in
from worker.settings import Settings


@pytest.fixture
def torch_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation of torch without bytecode; nothing says that there shall be none."""
    source = tmp_path / "torch" / "__init__.py"
    source.parent.mkdir()
    source.write_text("")
    found = ModuleSpec("torch", None, origin=str(source))
    monkeypatch.setattr(bytecode, "find_spec", lambda name: found if name == "torch" else None)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    return source


def test_nothing_is_said_where_the_first_process_will_keep_it(torch_there: Path) -> None:
    assert bytecode.lost() is None


def test_nothing_is_said_where_it_is_there(
    torch_there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    kept = Path(cache_from_source(str(torch_there)))
    kept.parent.mkdir()
    kept.write_bytes(b"")
    assert bytecode.lost() is None


def test_a_python_that_may_keep_none_is_noticed(
    torch_there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert bytecode.lost() == torch_there.parent


def test_so_is_one_whose_folder_takes_nothing(
    torch_there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Root may write anywhere, whatever the modes say.
    monkeypatch.setattr("worker.child.bytecode.os.access", lambda path, mode: False)
    assert bytecode.lost() == torch_there.parent


def test_without_torch_there_is_nothing_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bytecode, "find_spec", lambda name: None)
    assert bytecode.lost() is None


def test_later_processes_of_a_case_find_what_the_first_one_compiled(
    torch_there: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: Settings
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    caches = tmp_path / "caches"
    environment = environment_in(tmp_path / "job", settings, caches)
    assert environment["PYTHONPYCACHEPREFIX"].startswith(str(caches))
    assert "PYTHONDONTWRITEBYTECODE" not in environment
    assert "PYTHONPYCACHEPREFIX" not in environment_in(tmp_path / "job", settings), "no later one"
