"""A backup has the traces too; `verify` reads them there, and `restore` brings them back."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders.service_hand import Hand, result_of
from builders.traces import a_trace_file
from typer.testing import CliRunner

from cli.main import app
from service.history.artifacts.folder import FolderStore
from service.settings import Settings
from tests.service.history.artifacts.test_folder import age

TRACE = a_trace_file()
DIGEST = hashlib.sha256(TRACE).hexdigest()


def test_a_backup_has_the_traces_and_brings_them_back(
    settings: Settings,
    hand: Hand,
    submit: Callable[..., dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PostgreSQL is copied by its own tool; its folder is copied alike."""
    submit("r1", trace=True)
    lease = hand.must_claim()
    hand.post(lease, result_of(lease))
    assert hand.post_trace(lease, TRACE).status_code == 201
    copy, back = tmp_path / "copy", f"sqlite:///{tmp_path}/back.sqlite3"
    monkeypatch.setenv("THROUGHLINE_DATABASE_URL", settings.url)
    monkeypatch.setenv("THROUGHLINE_ARTIFACTS", str(settings.artifacts))

    def run(*arguments: str) -> str:
        said = CliRunner().invoke(app, arguments)
        assert said.exit_code == 0, said.output
        return said.output

    assert f"1 artifact in {copy}.artifacts" in run("backup", str(copy)).replace("\n", " ")
    run("verify", "--database", f"sqlite:///{copy}")
    run("restore", str(copy), "--database", back)
    run("verify", "--database", back)
    assert FolderStore(tmp_path / "back.sqlite3.artifacts").get(DIGEST) == TRACE
    age(FolderStore(tmp_path / "copy.artifacts"), DIGEST).unlink()
    broken = CliRunner().invoke(app, ["verify", "--database", f"sqlite:///{copy}"])
    assert broken.exit_code == 1
    assert "It is not among the artifacts" in broken.output.replace("\n", " ")
