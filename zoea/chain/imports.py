"""Brings contexts of other programs into the store, as snapshot commits that keep every byte."""

from __future__ import annotations

from msgspec import Struct

from zoea.chain.commit import Checkpoint, CommitNote, CommitType, ContextCommit, Provenance
from zoea.chain.commit_ops import NewCommit, insert_commit, move_ref, prepare_blobs
from zoea.chain.delta_summary import summarise_entries
from zoea.chain.entries import ContextEntry
from zoea.chain.formats import ZOEA, known_formats
from zoea.chain.materialize import find_format
from zoea.chain.ref_names import IMPORTED
from zoea.model.errors import ContextFormatError
from zoea.store import WriterConnection


class ImportedContext(Struct, frozen=True):
    """A context read from a file, ready to be stored under a ref."""

    ref: str
    commit: NewCommit


def prepare_import(data: bytes, name: str, format_name: str = "") -> ImportedContext:
    """Read and check a context whole; for use in a thread.

    Args:
        name: What the ref is called, after `import/`.
        format_name: Its format; empty to recognise it.

    Raises:
        ContextFormatError: It is in no known format, or does not parse whole.
    """
    format_name, entries = (
        (format_name, find_format(format_name).read(data, _no_blobs)) if format_name else _recognise(data)
    )
    if not entries:
        raise ContextFormatError(
            "the context holds no messages", hint="Name a file with at least one prompt or answer."
        )
    blob, lifted = prepare_blobs(data, {})
    new = NewCommit(
        parent=None,
        kind=CommitType.SNAPSHOT,
        format=format_name,
        blob=blob,
        lifted=lifted,
        checkpoint=Checkpoint.EXPLICIT,
        provenance=Provenance(principal=format_name.removesuffix("-v1")),
        message_count=len(entries),
        token_count=sum(entry.token_count for entry in entries),
        note=CommitNote(summarise_entries(entries)),
    )
    return ImportedContext(IMPORTED + name, new)


def store_import(conn: WriterConnection, imported: ImportedContext) -> ContextCommit:
    """Store an imported context and set its ref. For use in an op."""
    stored = insert_commit(conn, imported.commit)
    move_ref(conn, imported.ref, stored.seq, "import")
    return stored


def _recognise(data: bytes) -> tuple[str, tuple[ContextEntry, ...]]:
    """Return the first format that the bytes parse in, and the entries."""
    why: list[str] = []
    for name, one in known_formats().items():
        if name == ZOEA:
            continue  # its long texts lie elsewhere
        try:
            entries = one.read(data, _no_blobs)
        except ContextFormatError as error:
            why.append(f"{name}: {error}")
            continue
        if entries:
            return name, entries
        why.append(f"{name}: no messages")
    raise ContextFormatError("the file is in no known format", hint="; ".join(why))


def _no_blobs(digest: bytes) -> bytes:
    raise ContextFormatError(
        f"the context needs blob {digest.hex()}, which a file cannot bring",
        hint="Export it with `zoea ctx cat COMMIT --as openai` or `--as claude`, which hold all texts.",
    )
