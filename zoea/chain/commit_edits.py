"""Changes the names, notes and retention of commits, and takes snapshots. Each is one op."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence

from msgspec.structs import replace

from zoea.chain.blob_policies import DAY_SECONDS, set_policy
from zoea.chain.chain_reader import ChainReader
from zoea.chain.commit import COMMANDER, Checkpoint, CommitNote, CommitType, ContextCommit, Provenance
from zoea.chain.commit_ops import BY_HAND, NewCommit, delete_ref, insert_commit, move_ref, prepare_blobs, update_note
from zoea.chain.commit_rows import read_ref, read_refs, shortest_id, walk_chain
from zoea.chain.entries import ContextEntry, answer_open_calls, encode_delta
from zoea.chain.formats import ZOEA
from zoea.chain.ref_names import REMOVABLE, SNAPSHOT, TAG, TICKET, branch_ref, thread_ref
from zoea.chain.revisions import TICKET_ID, refuse_time, resolve_revision
from zoea.model.errors import RevisionError, UsageError
from zoea.process.host_name import describe_machine
from zoea.store.store import Store
from zoea.store.writer_connection import WriterConnection
from zoea.text.control_characters import clean

_MOST_DAYS = 36_500
_TAG_NAME = re.compile(r"\w[\w.:/-]{0,79}")


async def annotate_commit(
    store: Store, revision: str, summary: str | None = None, tags: tuple[str, ...] | None = None
) -> str:
    """Change the summary or the tags of a commit, and return its id. Raises RevisionError."""

    def write(conn: WriterConnection) -> str:
        commit = resolve_revision(conn, revision, refuse_time)
        update_note(conn, commit.seq, summary=summary, tags=tags)
        return commit.id

    return await store.write(write, urgent=True)


async def take_snapshot(store: Store, revision: str) -> ContextCommit:
    """Store the conversation up to a commit as one snapshot commit. Reading it walks no further.

    On the tip of a mysis it goes on the branch; else the ref `snapshot/ID` names it.

    Raises:
        RevisionError: There is no such commit.
        MissingBlob: A part of the conversation is gone.
    """

    def read(conn: sqlite3.Connection) -> tuple[ContextCommit, list[str], NewCommit]:
        commit = resolve_revision(conn, revision, refuse_time)
        entries = ChainReader(conn).read_messages(commit)
        about = commit.provenance
        own = branch_ref(about.principal)
        discussions = () if about.thread_id is None else (thread_ref(about.thread_id, ""),)
        names = [name for name in read_refs(conn, [commit.seq]) if name == own or name.startswith(discussions)]
        is_tip = own in names
        new = build_whole(commit, entries, CommitType.SNAPSHOT, commit.note, principal="" if is_tip else COMMANDER)
        return commit, names if is_tip else [f"{SNAPSHOT}{shortest_id(conn, commit)}"], new

    async with store.search_reader() as reader:
        commit, refs, new = await reader.run(read)

    def write(conn: WriterConnection) -> ContextCommit:
        stored = insert_commit(conn, new)
        for ref in refs:
            if not ref.startswith(SNAPSHOT) and read_ref(conn, ref) != commit.seq:
                raise RevisionError(f"{ref} has new commits", hint="Give the command again.")
            move_ref(conn, ref, stored.seq, "snapshot")
        return stored

    return await store.write(write, urgent=True)


def build_whole(
    commit: ContextCommit, entries: Sequence[ContextEntry], kind: CommitType, note: CommitNote, principal: str = ""
) -> NewCommit:
    """Return a commit after another that stands for the whole conversation up to it. For use in a thread."""
    delta = encode_delta(entries)
    blob, lifted = prepare_blobs(delta.data, delta.lifted)
    about = commit.provenance
    return NewCommit(
        parent=commit.seq,
        kind=kind,
        format=ZOEA,
        blob=blob,
        lifted=lifted,
        checkpoint=Checkpoint.COMPACTION if kind is CommitType.COMPACTION else Checkpoint.EXPLICIT,
        provenance=replace(about, principal=principal or about.principal, machine=describe_machine(), session_id=None),
        message_count=len(entries),
        token_count=sum(entry.token_count for entry in entries),
        note=note,
        media=tuple(one.digest for entry in entries for one in entry.media),
    )


def build_picked(commit: ContextCommit, entries: Sequence[ContextEntry], name: str, about: Provenance) -> NewCommit:
    """Return a commit with the messages of another one, for the branch of a mysis. For use in a thread.

    Args:
        name: The id of the other one, as people see it.
        about: Who gets it.

    Raises:
        UsageError: It holds no messages.
    """
    whole, _ = answer_open_calls(entries)
    if not whole:
        raise UsageError(f"{name} holds no messages of its own", hint="`zoea ctx log` shows how many each commit has.")
    new = build_whole(
        commit, whole, CommitType.DELTA, CommitNote(f"Picked from {name}: {commit.note.summary}", ("picked",))
    )
    return replace(new, parent=None, provenance=about)


async def keep_commit(store: Store, revision: str, policy: str, days: float = 0.0, *, whole: bool = False) -> int:
    """Set how long the texts of a commit stay; return how many commits that is. See `SwarmApi.keep_commit`.

    Raises:
        RevisionError: There is no such commit.
        UsageError: There is no such policy, or a number of days is missing or makes no sense.
    """
    if policy not in ("pin", "ephemeral", "default"):
        raise UsageError(f"there is no policy {policy!r:.60}", hint="Policies: pin, ephemeral, default.")
    if (policy == "ephemeral") != (0 < days <= _MOST_DAYS):
        raise UsageError(
            f"{days:g} days are out of range" if policy == "ephemeral" else f"the policy {policy} takes no days",
            hint=f"Give more than 0 and at most {_MOST_DAYS:,} days to remove the texts then.",
        )

    def write(conn: WriterConnection) -> int:
        commit = resolve_revision(conn, revision, refuse_time)
        seqs = [one.seq for one in (walk_chain(conn, commit.seq) if whole else (commit,))]
        set_policy(conn, seqs, "" if policy == "default" else policy, days * DAY_SECONDS)
        return len(seqs)

    return await store.write(write, urgent=True)


async def name_commit(store: Store, name: str, revision: str) -> str:
    """Point `tag/NAME` at a commit; an empty revision removes the tag. Return the ref.

    A ticket, such as `tkt-7`, is `ticket/tkt-7`. Whole names of snapshots, compactions, threads and imports are
    removed too.

    Raises:
        UsageError: The name cannot be one.
        RevisionError: There is no such commit, or no such name to remove.
    """
    if revision and _TAG_NAME.fullmatch(name) is None:
        raise UsageError(
            f"{name!r:.60} cannot be the name of a commit",
            hint="Use 1 to 80 letters, digits, '_', '-', '.', ':' or '/', starting with a letter or digit.",
        )
    kind = TICKET if TICKET_ID.fullmatch(name) else TAG
    ref = clean(name if not revision and name.startswith(REMOVABLE) else f"{kind}{name}")

    def write(conn: WriterConnection) -> None:
        if revision:
            move_ref(conn, ref, resolve_revision(conn, revision, refuse_time).seq, BY_HAND)
        elif not delete_ref(conn, ref, "tag --delete"):
            raise RevisionError(f"no commit has the name {ref}", hint="`zoea ctx refs` lists the names.")

    await store.write(write, urgent=True)
    return ref
