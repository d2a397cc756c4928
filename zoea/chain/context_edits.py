"""Writes about commits that a person asks for, each as one op: names, checkpoints by hand, snapshots."""

from __future__ import annotations

import re

from zoea.chain.commit_ops import delete_ref, move_ref
from zoea.chain.revisions import refuse_time, resolve_revision
from zoea.model.errors import RevisionError, UsageError
from zoea.store import Store, WriterConnection
from zoea.text.control_characters import clean

TAG = "tag/"
"""The beginning of refs that people give."""
_TAG_NAME = re.compile(r"\w[\w.:/-]{0,79}")


async def name_commit(store: Store, name: str, revision: str) -> str:
    """Let `tag/NAME` name a commit; an empty revision removes the name. Return the ref.

    Raises:
        UsageError: The name cannot be one.
        RevisionError: There is no such commit, or no such name to remove.
    """
    if revision and _TAG_NAME.fullmatch(name) is None:
        raise UsageError(
            f"{name!r:.60} cannot be the name of a commit",
            hint="Use 1 to 80 letters, digits, '_', '-', '.', ':' or '/', starting with a letter or digit.",
        )
    ref = clean(f"{TAG}{name}")

    def write(conn: WriterConnection) -> None:
        if revision:
            move_ref(conn, ref, resolve_revision(conn, revision, refuse_time).seq, "tag")
        elif not delete_ref(conn, ref, "tag --delete"):
            raise RevisionError(f"there is no ref {ref}", hint="`zoea ctx refs` lists names.")

    await store.write(write, urgent=True)
    return ref
