"""The names of refs: the beginning of a name says what the ref names."""

from __future__ import annotations

from collections.abc import Iterable

BRANCH = "@"
"""The newest commit of a mysis; its name follows."""
DELETED = "deleted/"
"""The newest commit of a deleted mysis; its name and id follow."""
THREAD = "thread/"
"""The newest commit of a discussion; its thread and the name of the template follow."""
TICKET = "ticket/"
"""The newest commit of a ticket; its id follows."""
IMPORTED = "import/"
"""A conversation from a file or a bundle; a name follows."""
TAG = "tag/"
"""A commit that a person named; the name follows."""
SNAPSHOT, COMPACT = "snapshot/", "compact/"
"""A commit made by hand beside a branch; the short id of the commit that it follows comes after."""
REMOVABLE = (TAG, SNAPSHOT, COMPACT, TICKET, THREAD, IMPORTED)
"""The refs that a person may remove; those of myses go with their mysis."""


def branch_ref(name: str) -> str:
    """Return the ref of a mysis that is not deleted."""
    return f"{BRANCH}{name}"


def deleted_ref(name: str, mysis_id: int) -> str:
    """Return the ref of a deleted mysis."""
    return f"{DELETED}{name}-{mysis_id}"


def thread_ref(thread_id: str, template: str) -> str:
    """Return the ref of the discussion that a template has in a thread."""
    return f"{THREAD}{thread_id}/{template}"


def ticket_ref(ticket_id: str) -> str:
    """Return the ref of the newest commit that belongs to a ticket."""
    return f"{TICKET}{ticket_id}"


def find_branch(refs: Iterable[str], name: str) -> str:
    """Return the branch of a mysis, or of the newest deleted one. "" for none.

    Args:
        name: `alpha` or `@alpha` in any case, or a ref such as `deleted/alpha-3`.
    """
    wanted = name.strip().removeprefix("@").casefold()
    left: list[tuple[int, str]] = []
    for ref in refs:
        if ref.casefold() in (branch_ref(wanted), wanted) and ref.startswith((BRANCH, DELETED)):
            return ref
        old, _, mysis_id = ref.removeprefix(DELETED).rpartition("-")
        if ref.startswith(DELETED) and old.casefold() == wanted:
            left.append((int(mysis_id), ref))
    return max(left, default=(0, ""))[1]
