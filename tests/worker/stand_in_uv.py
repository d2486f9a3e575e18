"""Stands in for uv: resolves exact versions out of a folder of wheels, and unpacks them.

It knows the few commands that a worker gives it, and refuses whatever would run a package's code.
"""

import sys
import venv
import zipfile
from pathlib import Path


def value(option):
    return sys.argv[sys.argv.index(option) + 1]


def wheels():
    """By package, by version: the file."""
    found = {}
    for path in Path(value("--find-links")).glob("*.whl"):
        name, version = path.name.split("-")[:2]
        found.setdefault(name, {})[version] = path
    return found


def pinned(path):
    lines = path.read_text().splitlines() if path.exists() else []
    return dict(line.split("==") for line in lines if "==" in line)


def compile_():
    out, there, chosen = Path(value("--output-file")), wheels(), []
    preferred = pinned(out)
    for asked in Path(sys.argv[-1]).read_text().split():
        name, _, version = asked.partition("==")
        held = preferred.get(name)
        version = version or (held if held in there[name] else max(there[name]))
        matching = [one for one in there[name] if one == version or one.startswith(f"{version}+")]
        if not matching:
            sys.exit(
                "error: No solution found when resolving dependencies\n"
                f"  cause: Because there is no version of {asked} and you require {asked}, we can "
                "conclude that your requirements are unsatisfiable."
            )
        chosen.append(f"{name}=={matching[0]}")
    out.write_text("\n".join(sorted(chosen)) + "\n")


def sync():
    [packages] = Path(value("--python")).glob("lib/python3*/site-packages")
    there = wheels()
    for name, version in pinned(Path(sys.argv[-1])).items():
        zipfile.ZipFile(there[name][version]).extractall(packages)


def main():
    if sys.argv[1] == "venv":
        venv.create(sys.argv[-1], symlinks=True)
        return
    assert value("--only-binary") == ":all:"
    {"compile": compile_, "sync": sync}[sys.argv[2]]()


main()
