"""Revisions that a worker makes itself: commits of repositories that its operator allows, and
released versions of packages.

definitions.py  reads targets.toml: repositories, allowed refs, how to install, packages (pure)
recipe.py       what a commit and versions have in common: a folder, and what writes it (pure)
commands.py     runs git and uv: bounded in time and disk, without token and GPU, under guard
mirror.py       keeps a bare mirror of a repository and writes a commit's files into a folder
environment.py  makes the Python environment of a revision, shared by those with the same lock
upstream.py     resolves versions of packages, and puts the harness beside them
releases.py     looks which release of a package is the newest
known_failures.py  remembers the revisions that cannot be built
target.py       says where a revision runs: what is installed, a deployed checkout, or a build
builds.py       gives the folder of a revision, built if it is not there; removes what was unused
"""
