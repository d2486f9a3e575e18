"""A gate of two released versions of torch that hold the same code, on this machine's device.

``PYTHONPATH=.:tests python -m trials.gate.versions FILE CASE`` packs the torch that is installed
here as two wheels, ``+one`` and ``+two``, beside all that it needs. A worker makes
an environment of each from that folder, without a network, and a gate holds one against the other:
equal code in two environments. One line with its decision and the seconds is appended to FILE.
"""

from __future__ import annotations

import argparse
import json
import time
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from trials.live_service import here, service_and_workers, throughline
from worker.targets.upstream import NEEDS

TAG = "py3-none-any"


def main() -> None:
    """Pack, build both environments, run the gate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("case")
    parser.add_argument("--budget", default="8m")
    parser.add_argument("--port", type=int, default=8793)
    options = parser.parse_args()
    with TemporaryDirectory() as name:
        row = gated(Path(name), options)
    with options.file.open("a", encoding="utf-8") as out:
        out.write(json.dumps(row) + "\n")


def gated(folder: Path, options: argparse.Namespace) -> dict[str, object]:
    """Hold torch ``+one`` against ``+two`` in a gate; says what was decided, and how soon."""
    from_s = time.monotonic()
    versions, settings = offered(folder, ("one", "two"))
    packed_s = time.monotonic() - from_s
    state = {"THROUGHLINE_STATE_DIR": str(folder / "state"), **settings}
    built_s = []
    for version in versions:
        from_s = time.monotonic()
        made = throughline(["worker", "build", version], folder, **state)
        built_s.append(time.monotonic() - from_s)
        print(made.stdout[-500:], made.stderr[-1500:], f"{built_s[-1]:.1f} s", flush=True)
    with service_and_workers(folder, options.port, settings):
        words = ["gate", "--baseline", versions[0], "--contender", versions[1], "--case"]
        words += [options.case, "--url", here(options.port), "--budget", options.budget]
        from_s = time.monotonic()
        run = throughline([*words, "--format", "json"], folder)
    print(run.stderr[-3000:], flush=True)
    decision = json.loads(run.stdout)["decision"]
    print(decision["outcome"], decision["cases"][0]["sentence"], flush=True)
    took = {"packed_s": packed_s, "built_s": built_s, "took_s": time.monotonic() - from_s}
    return {"case": options.case, "versions": versions, **took, "decision": decision}


def offered(folder: Path, names: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Pack a version of torch for each name into ``folder``.

    Returns their revisions, and the settings of a worker that builds them from there alone.
    """
    wheels = folder / "wheels"
    wheels.mkdir()
    pack_all(wheels)
    torch = distribution("torch").version.partition("+")[0]
    versions = [pack_torch(wheels, f"{torch}+{name}") for name in names]
    targets = folder / "targets.toml"
    index = f'[upstream]\npackages = ["torch"]\nindex = "{wheels}"\n'
    targets.write_text(index, encoding="utf-8")
    return versions, {
        "THROUGHLINE_TARGETS": str(targets),
        "UV_NO_INDEX": "1",
        "UV_OFFLINE": "1",
    }


def pack_all(wheels: Path) -> None:
    """Pack what the harness needs, but torch, with all that it requires."""
    seen: set[tuple[str, str]] = set()
    left = [*((name, "") for name in NEEDS), *_required(distribution("torch"), "")]
    while left:
        name, extra = left.pop()
        if name == "torch" or (name, extra) in seen:
            continue
        seen.add((name, extra))
        with suppress(PackageNotFoundError):  # an optional one, or one of another platform
            found = distribution(name)
            if not extra:  # each name stands without an extra, too
                pack(found, wheels, found.version, {})
            left += _required(found, extra)


def pack_torch(wheels: Path, version: str) -> str:
    """Pack the installed torch as ``version``; returns the revision that names it."""
    found = distribution("torch")
    code = f'__version__ = "{version}"\n'
    said = Path(str(found.locate_file("torch/version.py"))).read_text(encoding="utf-8")
    lines = [code if one.startswith("__version__") else f"{one}\n" for one in said.splitlines()]
    pack(found, wheels, version, {"torch/version.py": "".join(lines)})
    return f"torch=={version}"


def pack(found: Distribution, wheels: Path, version: str, changed: dict[str, str]) -> None:
    """Write the files of an installed distribution into a wheel that names ``version``.

    Its files are stored as they are: time matters here, and size does not.
    """
    name = found.metadata["Name"].replace("-", "_").replace(".", "_")
    info = f"{name}-{version}.dist-info"
    record = []
    with zipfile.ZipFile(wheels / f"{name}-{version}-{TAG}.whl", "w", zipfile.ZIP_STORED) as wheel:
        for file in found.files or ():
            path = Path(str(found.locate_file(file)))
            inner = ".dist-info/" in str(file)
            if file.parts[0] == ".." or path.suffix == ".pyc" or inner or not path.is_file():
                continue
            if str(file) in changed:
                wheel.writestr(str(file), changed[str(file)])
            else:
                wheel.write(path, str(file))
            record.append(f"{file},,")
        metadata = (found.read_text("METADATA") or "").splitlines()
        said = [f"Version: {version}" if one.startswith("Version: ") else one for one in metadata]
        wheel.writestr(f"{info}/METADATA", "\n".join(said) + "\n")
        points = found.read_text("entry_points.txt")  # Triton finds its drivers by them
        if points:
            wheel.writestr(f"{info}/entry_points.txt", points)
            record.append(f"{info}/entry_points.txt,,")
        tag = f"Wheel-Version: 1.0\nGenerator: here\nRoot-Is-Purelib: true\nTag: {TAG}\n"
        wheel.writestr(f"{info}/WHEEL", tag)
        record += [f"{info}/{file},," for file in ("METADATA", "WHEEL", "RECORD")]
        wheel.writestr(f"{info}/RECORD", "\n".join(record) + "\n")


def _required(found: Distribution, extra: str) -> list[tuple[str, str]]:
    """What a distribution requires here, as names, each with an extra or none."""
    every = [Requirement(one) for one in found.requires or ()]
    needed = [one for one in every if not one.marker or one.marker.evaluate({"extra": extra})]
    return [
        (canonicalize_name(one.name), more) for one in needed for more in ("", *sorted(one.extras))
    ]


if __name__ == "__main__":
    main()
