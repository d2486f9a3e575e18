"""The file that says what a worker may build."""

from __future__ import annotations

from pathlib import Path

import pytest

from worker.targets import definitions
from worker.targets.definitions import BadTargets


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "targets: Field required"),
        ("targets = 1", "Input should be a valid dictionary"),
        ('[targets.a]\ngit = "ext::sh -c id"', "must begin with one of https://"),
        ('[targets.a]\ngit = "-oProxyCommand=id"', "must begin with one of https://"),
        ('[targets.a]\ngit = "/x"\npath = "../y"', "must be a folder within the repository"),
        ('[targets.a]\ngit = "/x"\ninstall = "make"', "Input should be 'none' or 'uv-sync'"),
        ('[targets.a]\ngit = "/x"\nrefs = ["--upload-pack=id"]', "should match pattern"),
        ('[targets.a]\ngit = "/x"\ncommand = "id"', "Extra inputs are not permitted"),
        ('[targets.a]\ngit = "/x"\npython = "sh -c id"', "should match pattern"),
        ("[targets", "is no TOML"),
        ("[upstream]", "upstream.packages: Field required"),
        ("[upstream]\npackages = []", "at least 1 item"),
        ('[upstream]\npackages = ["evil"]', "must be one of numpy, torch, torchvision, triton"),
        ('[upstream]\npackages = ["torch"]\nindex = "-c x"', "must begin with one of https://"),
        ('[targets.upstream]\ngit = "/x"', "upstream is built in"),
    ],
)
def test_a_wrong_file_says_what_is_wrong(tmp_path: Path, text: str, says: str):
    file = tmp_path / "targets.toml"
    file.write_text(text)
    with pytest.raises(BadTargets, match=r"targets\.toml") as told:
        definitions.read(file)
    assert says in str(told.value)


def test_a_file_that_is_not_there_says_so(tmp_path: Path):
    with pytest.raises(BadTargets, match=r"none\.toml cannot be read: No such file"):
        definitions.read(tmp_path / "none.toml")
