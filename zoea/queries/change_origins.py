"""Reads the turns that made changes, and the approvals that allowed them."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from zoea.files.git import Git
from zoea.files.ownership import Record
from zoea.files.work_left import find_changes
from zoea.model.errors import GitError
from zoea.queries.stored_swarm import open_database
from zoea.swarm.persistence import approval_ops
from zoea.text.command_lines import find_grant_scope
from zoea.text.patches import FileDiff

MOST_FILES = 100
"""Files that are traced; the origins of the others stay unknown."""
UNCOMMITTED = "uncommitted"
_BLAMED = re.compile(rb"([0-9a-f]{40,64}) (\d+) (\d+)(?: \d+)?")
_TREE_DIGITS = 12
_MYSIS = "SELECT id FROM mysis WHERE iif(:uid = '', name = :name, uid = :uid) ORDER BY id DESC LIMIT 1"
_TURNS = """
SELECT n.value AS tag, min(t.number) AS number, t.opened_at FROM ctx_commit x JOIN ctx_note o ON o.commit_seq = x.seq
JOIN json_each(o.tags) n JOIN memory m ON m.id = x.last_memory_id JOIN turn t ON t.id = m.turn_id
WHERE x.mysis_id = ? AND n.value LIKE 'tree-%' GROUP BY n.value
"""
# A question that was answered when a grant was made for another one was stored as allowed once.
_CALLS = f"""
SELECT t.number, c.name, a.answer, a.answered_at, coalesce(a.about ->> 'arguments', c.arguments) ->> 'path' AS path,
  (SELECT g.created_at FROM grant_ g WHERE g.upstream = c.upstream
    AND g.created_at BETWEEN coalesce(a.asked_at, 0) AND coalesce(a.answered_at, c.started_at)
    AND coalesce(g.revoked_at >= coalesce(a.answered_at, c.started_at), true)
    AND (g.mysis_id = y.id OR (g.mysis_id IS NULL AND g.template = ({approval_ops.GRANTEE})))
    AND g.tool IN (c.name, c.name || ': ' || grant_scope(coalesce(a.about ->> 'arguments', c.arguments)))
    ORDER BY g.id DESC LIMIT 1) AS granted_at
FROM mysis y JOIN template p ON p.hash = y.template_hash JOIN turn t ON t.mysis_id = y.id
JOIN memory m ON m.turn_id = t.id JOIN tool_call c ON c.memory_id = m.id
LEFT JOIN approval a ON a.tool_call_id = c.id AND a.answer IN ('once', 'session', 'template')
WHERE y.id = ? AND json_valid(coalesce(a.about ->> 'arguments', c.arguments)) AND
  (c.name = 'run' AND c.state <> 'denied' OR c.name IN ('write_file', 'edit_file') AND c.state = 'done') ORDER BY c.id
"""


class HunkOrigin(Struct, frozen=True):
    """Where one changed place comes from.

    Attributes:
        turns: The numbers of the turns whose commits made it, in order.
        allowed_at: When a person allowed the newest call that changed the file in these turns, in µs; 0 where none was
            asked. Where none names the file, the newest command of these turns, which may have changed it.
        answer: How it was allowed: `once`, `session`, `template`, or `grant` by such an answer to another question.
        is_command: Whether that call was a command.
        is_committed: Whether all of it is committed.
    """

    turns: tuple[int, ...] = ()
    allowed_at: int = 0
    answer: str = ""
    is_committed: bool = True
    is_command: bool = False


class History(Struct, frozen=True):
    """The commits since a base.

    Attributes:
        times: When each was made, in s.
        fork: Where their branch began: before the base, where the branch has merged that or merges it now.
        chain: Those of the branch after it, the oldest first. What they merged is theirs.
        merge: The one that merged the base.
        changed: The files with uncommitted changes.
    """

    times: Mapping[str, int]
    fork: str
    chain: Sequence[str]
    merge: str
    changed: Collection[str]


def read_origins(
    database: Path, record: Record, git: Git, base: str, files: Sequence[FileDiff]
) -> dict[tuple[int, int], HunkOrigin]:
    """Return the origin of each hunk, by file and line of its head. Raises StoreError, GitError.

    Args:
        record: The worktree. One without a mysis of its own is that of the newest mysis of its name.
    """
    turns, calls = _read_turns(database, record)
    origins: dict[tuple[int, int], HunkOrigin] = {}
    history = read_history(git, base)
    made = {
        commit: turns[commit[:_TREE_DIGITS]][0]
        for commit, time in history.times.items()
        # A turn without a change ends with what others have committed before it.
        if commit[:_TREE_DIGITS] in turns and time >= turns[commit[:_TREE_DIGITS]][1] // 1_000_000
    }
    for at, file in enumerate(files[:MOST_FILES]):
        added, removed = trace_lines(git, base, file.path, file.former, history, {line.sign for line in file.lines})
        hunks: list[tuple[int, set[str]]] = []
        for number, line in enumerate(file.lines):
            if line.sign == "@":
                hunks.append((number, set()))
            elif line.sign in ("+", "-") and hunks:
                hunks[-1][1].add(added[line.new] if line.new else removed[line.old])
        for head, commits in hunks:
            numbers = tuple(sorted({made[one] for one in commits if one in made}))
            edits, commands = ([call for call in calls.get(key, ()) if call[0] in numbers] for key in (file.path, ""))
            allowed = [call for call in edits or commands if call[1]]
            _, allowed_at, answer = allowed[-1] if allowed else (0, 0, "")
            is_command = bool(allowed) and not edits
            origins[at, head] = HunkOrigin(numbers, allowed_at, answer, UNCOMMITTED not in commits, is_command)
    return origins


def _read_turns(
    database: Path, record: Record
) -> tuple[dict[str, tuple[int, int]], dict[str, list[tuple[int, int, str]]]]:
    """Return the turns by commit, and the calls that may have changed files by path.

    A turn has the time when it began, in µs. Calls that no one was asked about have 0; commands stand below "".
    """
    with open_database(database) as reader:
        row = reader.execute(_MYSIS, {"uid": record.uid, "name": record.name}).fetchone()
        if row is None:
            return {}, {}
        tagged = reader.execute(_TURNS, (row["id"],))
        turns = {one["tag"].removeprefix("tree-"): (one["number"], one["opened_at"]) for one in tagged}
        calls: dict[str, list[tuple[int, int, str]]] = {}
        reader.create_function("grant_scope", 1, find_grant_scope, deterministic=True)
        for call in reader.execute(_CALLS, (row["id"],)):
            path = "" if call["name"] == "run" else str(Path(str(call["path"])))
            is_granted = call["granted_at"] is not None and call["answer"] in (None, "once")
            at = call["granted_at"] or call["answered_at"] or 0
            calls.setdefault(path, []).append((call["number"], at, "grant" if is_granted else call["answer"] or ""))
    return turns, calls


def read_history(git: Git, base: str) -> History:
    """Return the commits since `base`. Raises GitError."""
    lines = git.text("rev-list", "--timestamp", "--parents", "--topo-order", f"{base}..HEAD").splitlines()
    rows = [line.split() for line in lines]
    parents = {commit: others for _, commit, *others in rows}
    fork, chain = rows[0][1] if rows else base, list[str]()
    while parents.get(fork):
        chain.insert(0, fork)
        fork = parents[fork][0]
    merge = next((one for one in chain if base in parents[one]), "")
    changed = {os.fsencode(one).decode("utf-8", "replace") for one in find_changes(git)} if rows else set[str]()
    return History({commit: int(time) for time, commit, *_ in rows}, fork, tuple(chain), merge, changed)


def trace_lines(
    git: Git, base: str, path: str, former: str, history: History, signs: Collection[str]
) -> tuple[Mapping[int, str], Mapping[int, str]]:
    """Return by line number the commits since `base` that added or removed each line.

    What git cannot tell is "". Raises GitError.

    Args:
        former: The name of the file in `base`, or "" if it is the same.
        history: The commits since `base`.
        signs: `+` for lines that were added, `-` for those that were removed. Git is not asked about the others.
    """
    mine, fork, former = history.times, history.fork, former or path
    end = UNCOMMITTED if path in history.changed or not mine else ""
    now = _blame(git, f"^{base}", "--", path) if mine and "+" in signs else []
    own = dict.fromkeys(mine, "") | {"0" * len(base): UNCOMMITTED}
    added = {line: own[commit] or commit for commit, _, line in now if commit in own}
    lasted = _blame(git, "--reverse", "--first-parent", f"{fork}..HEAD", "--", former) if mine and "-" in signs else []
    after = dict(zip((fork, *history.chain), (*history.chain, end), strict=True))
    removed = {line: after[commit] for commit, _, line in lasted if commit in after}
    if fork != base and "-" in signs:
        # A line that the merge kept went later. Another one went before, or came with the base and went with the merge.
        lasted, after[base] = _blame(git, "--reverse", f"{base}..HEAD", "--", former), ""
        kept = {line: after.get(commit, "") for commit, _, line in lasted}
        there = _blame(git, f"^{fork}", base, "--", former)
        early = {
            line: removed.get(first, "") if commit == fork else history.merge or end for commit, first, line in there
        }
        removed = {line: kept.get(line) or commit for line, commit in early.items()}
    return defaultdict(lambda: "" if now else end, added), defaultdict(lambda: "" if lasted else end, removed)


def _blame(git: Git, *arguments: str) -> list[tuple[str, int, int]]:
    """Return commit, number there and number here of each line; nothing for a missing file."""
    try:
        out = git.run("blame", "-s", "--porcelain", "--no-textconv", "--no-ignore-revs-file", *arguments).out
    except GitError:
        return []
    lines = (_BLAMED.fullmatch(line) for line in out.split(b"\n"))
    return [(match[1].decode(), int(match[2]), int(match[3])) for match in lines if match]
