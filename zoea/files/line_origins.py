"""Finds the commits that added and removed the lines of a file."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

from zoea.files.git import Git
from zoea.model.errors import GitError

UNCOMMITTED = "uncommitted"
_LINE = re.compile(rb"([0-9a-f]{40,64}) \d+ (\d+)(?: \d+)?")


def trace_lines(git: Git, base: str, path: str) -> tuple[Mapping[int, str], Mapping[int, str]]:
    """Return the commit since `base` that added each new line, and the one that removed each old line, by number.

    What git cannot tell is left out, as for a file that has another name now. Raises GitError.
    """
    commits = git.text("rev-list", "--reverse", "--topo-order", f"{base}..HEAD").split()
    if not commits:
        nothing = defaultdict[int, str](lambda: UNCOMMITTED)
        return nothing, nothing
    mine, after = set(commits), dict(zip((base, *commits), (*commits, UNCOMMITTED), strict=True))
    added = {
        line: commit if commit in mine else UNCOMMITTED
        for commit, line in _blame(git, f"^{base}", "--", path)
        if commit in mine or not commit.strip("0")
    }
    lasted = _blame(git, "--reverse", f"{base}..HEAD", "--", path)
    return added, {line: after[commit] for commit, line in lasted if commit in after}


def _blame(git: Git, *arguments: str) -> list[tuple[str, int]]:
    """Return the commit of each line; nothing for a file that is not there."""
    try:
        out = git.run("blame", "-s", "--porcelain", "--no-textconv", *arguments).out
    except GitError:
        return []
    return [(found[1].decode(), int(found[2])) for line in out.split(b"\n") if (found := _LINE.fullmatch(line))]
