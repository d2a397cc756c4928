"""Revisions: the ways to name a commit.

`ctx-1a2b3c4d` or any other unique prefix, a ref such as `@alpha` or `import/talk`, and after either:
`~3` three commits before, `^^` the compaction before, `@{10:30}` where the ref was at that time.
`tkt-7` is the commit of a ticket. The names of tags and imports can be given without `tag/` and `import/`.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from difflib import get_close_matches

from zoea.chain.commit import ID_PREFIX, CommitType, ContextCommit
from zoea.chain.commit_rows import find_by_prefix, read_commit, read_ref, read_refs, ref_at, shortest_id, walk_chain
from zoea.chain.ref_names import IMPORTED, TAG, branch_ref, ticket_ref
from zoea.model.errors import RevisionError
from zoea.text.control_characters import clean
from zoea.text.sentences import count_of

ReadTime = Callable[[str], int]
"""Return the µs UTC of a time as a person writes it. Raises UsageError."""

MOST_REF_NAME = 200
_NO_NAME = re.compile(r"[~^{}@\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
TICKET_ID = re.compile(r"tkt-\w[\w.-]{0,54}")
"""The id of a ticket, such as `tkt-7`."""
_STEP = re.compile(r"~(?P<back>\d{0,9})|\^\^")
_AT = re.compile(r"@\{(?P<time>[^{}]+)\}")


def resolve_revision(conn: sqlite3.Connection, revision: str, read_time: ReadTime) -> ContextCommit:
    """Return the commit that a revision names.

    Raises:
        RevisionError: It names none, or several.
        UsageError: Its time cannot be read.
    """
    start = re.match(r"@?[^~^{}@]+", revision)
    if start is None or clean(revision) != revision:
        raise RevisionError(f"{revision!r} names no commit", hint=_HINT)
    name, rest = start[0], revision[start.end() :]
    if timed := _AT.match(rest):
        at = read_time(timed["time"])
        seq = next((number for ref in _refs_of(name) if (number := _find_at(conn, ref, at)) is not None), None)
        if seq is None:
            raise RevisionError(f"{name} named no commit at {timed['time']}", hint=_HINT)
        commit, rest = _commit(conn, seq, revision), rest[timed.end() :]
    else:
        commit = _named(conn, name)
    while rest:
        step = _STEP.match(rest)
        if step is None:
            raise RevisionError(f"{rest!r} in {revision!r} is not understood", hint=_HINT)
        commit = _compaction(conn, commit) if step["back"] is None else _back(conn, commit, int(step["back"] or 1))
        rest = rest[step.end() :]
    return commit


def is_ref_name(name: str) -> bool:
    """Return whether a revision can begin with this name of a ref."""
    return bool(name.strip()) and len(name) <= MOST_REF_NAME and clean(name) == name and not _NO_NAME.search(name)


def make_ref_name(name: str) -> str:
    """Return a name of a ref that is like the name of a file."""
    return _NO_NAME.sub("-", clean(name))[:MOST_REF_NAME].strip() or "unnamed"


def refuse_time(text: str) -> int:
    """Serve as `read_time` where no person writes the revision. Raises RevisionError."""
    raise RevisionError(
        f"a time such as {text} is not read here", hint="Name the commit by its id; `zoea ctx log` shows it."
    )


_HINT = "Names of commits: ctx-1a2b3c4d, @NAME, @NAME~3, @NAME^^, @NAME@{10:30}, tkt-7; `zoea ctx log` lists commits."


def _named(conn: sqlite3.Connection, name: str) -> ContextCommit:
    seq = next((tip for ref in _refs_of(name) if (tip := read_ref(conn, ref)) is not None), None)
    if seq is not None:
        return _commit(conn, seq, name)
    digits = name.removeprefix(ID_PREFIX).lower()
    shortest = 1 if name.startswith(ID_PREFIX) else 4  # a word such as "face" may be meant as a name
    if not shortest <= len(digits) <= 64 or set(digits) - set("0123456789abcdef"):
        near = next(iter(get_close_matches(name, read_refs(conn), n=1)), "")
        hint = f"Did you mean {near}? " if near else ""
        raise RevisionError(f"no commit has the name {name!r}", hint=hint + _HINT)
    commits = find_by_prefix(conn, digits, 4)
    if not commits:
        raise RevisionError(f"there is no commit {name}", hint=_HINT)
    if len(commits) > 1:
        ids = ", ".join(shortest_id(conn, one) for one in commits[:3])
        raise RevisionError(f"{name} is the beginning of several commits: {ids}", hint="Give more digits.")
    return commits[0]


def _find_at(conn: sqlite3.Connection, ref: str, at: int) -> int | None:
    """Return the commit that a ref had at a time. For an import, search the times of its commits too."""
    seq = ref_at(conn, ref, at)
    tip = read_ref(conn, ref) if seq is None and ref.startswith(IMPORTED) else None
    earlier = [] if tip is None else [one.seq for one in walk_chain(conn, tip) if one.created_at <= at]
    return max(earlier, default=None) if seq is None else seq


def _refs_of(name: str) -> tuple[str, ...]:
    """Return the refs that a name may stand for, the most likely first."""
    return name, branch_ref(name), ticket_ref(name), TAG + name, IMPORTED + name


def _commit(conn: sqlite3.Connection, seq: int, name: str) -> ContextCommit:
    commit = read_commit(conn, seq)
    if commit is None:
        raise RevisionError(f"the commit of {name} was removed by `zoea ctx gc`", hint=_HINT)
    return commit


def _back(conn: sqlite3.Connection, commit: ContextCommit, count: int) -> ContextCommit:
    chain = walk_chain(conn, commit.seq, limit=count + 1)
    if len(chain) <= count:
        are = "is" if len(chain) == 2 else "are"
        sentence = (
            f"there {are} only {count_of(len(chain) - 1, 'commit')} before {shortest_id(conn, commit)}, not {count}"
        )
        raise RevisionError(sentence, hint=_HINT)
    return chain[0]


def _compaction(conn: sqlite3.Connection, commit: ContextCommit) -> ContextCommit:
    oldest = walk_chain(conn, commit.parent, to_compaction=True)[:1] if commit.parent is not None else []
    if not oldest or oldest[0].kind is CommitType.DELTA:
        raise RevisionError(f"there is no compaction before {shortest_id(conn, commit)}", hint=_HINT)
    return oldest[0]
