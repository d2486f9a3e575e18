"""This machine's pip configuration, as far as a container build needs it."""

import configparser
from pathlib import Path

from containers.pip_settings import MOUNTED_BUNDLE, read, write

LISTING = """\
global.cert='/etc/corporate.pem'
global.extra-index-url='file:///srv/index/simple https://packages.example/simple'
global.find-links='/srv/wheels /srv/wheels/more'
global.timeout='20'
install.user='true'
user.email='somebody'
:env:.find-links='/srv/wheels'
:env:.default-timeout='60'
"""


def options(text: str) -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(text)
    return dict(parser["global"])


def test_the_environment_wins_over_the_files_as_it_does_in_pip() -> None:
    told = options(read(LISTING.splitlines()).file())
    assert told["find-links"] == "/srv/wheels"
    assert told["timeout"] == "60"


def test_only_where_packages_come_from_is_passed_on() -> None:
    told = options(read(LISTING.splitlines()).file())
    assert set(told) == {"cert", "extra-index-url", "find-links", "timeout"}


def test_the_certificates_are_named_where_the_build_mounts_them() -> None:
    assert options(read(LISTING.splitlines()).file())["cert"] == MOUNTED_BUNDLE


def test_several_addresses_in_one_value_stay_several() -> None:
    told = options(read(LISTING.splitlines()).file())
    assert told["extra-index-url"].split() == [
        "file:///srv/index/simple",
        "https://packages.example/simple",
    ]


def test_local_folders_are_mounted_with_the_files_that_an_index_points_to() -> None:
    assert read(LISTING.splitlines()).folders == ("/srv/index", "/srv/wheels")


def test_a_folder_within_another_is_mounted_once() -> None:
    assert read(["global.find-links='/srv/wheels /srv/wheels/more'"]).folders == ("/srv/wheels",)


def test_a_machine_without_any_configuration_gives_empty_files(tmp_path: Path) -> None:
    write(read([]), tmp_path)
    assert options((tmp_path / "pip.conf").read_text(encoding="utf-8")) == {}
    assert (tmp_path / "ca_bundle").read_bytes() == b""
    assert (tmp_path / "mounts").read_text(encoding="utf-8") == ""


def test_the_bundle_itself_is_lent_to_the_build(tmp_path: Path) -> None:
    bundle = tmp_path / "corporate.pem"
    bundle.write_bytes(b"certificates")
    write(read([f"global.cert={str(bundle)!r}"]), tmp_path)
    assert (tmp_path / "ca_bundle").read_bytes() == b"certificates"


def test_a_folder_that_does_not_exist_is_not_mounted(tmp_path: Path) -> None:
    here = tmp_path / "wheels"
    here.mkdir()
    write(read([f"global.find-links='{here} {tmp_path / 'gone'}'"]), tmp_path)
    assert (tmp_path / "mounts").read_text(encoding="utf-8").splitlines() == [str(here)]
