"""Brings contexts of other programs into the store, as commits that keep every byte.

A transcript of Claude Code becomes one commit for each prompt, with the time of its last line, and branches; any other
context is one snapshot commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct, field
from msgspec.structs import replace

from zoea.chain.commit import Checkpoint, CommitNote, CommitType, ContextCommit, Provenance
from zoea.chain.commit_ops import NewCommit, insert_commit, move_ref, prepare_blobs
from zoea.chain.commit_rows import read_commit, read_ref, read_refs, walk_chain
from zoea.chain.entries import ContextEntry, summarise_entries
from zoea.chain.formats import CLAUDE_CODE, OPENAI, ZOEA, ContextFormat, clean_entries, known_formats
from zoea.chain.formats.claude_code import build_entries
from zoea.chain.formats.claude_lines import TranscriptKind, TranscriptLine, read_lines
from zoea.chain.formats.claude_tree import TranscriptTree, split_parts
from zoea.chain.formats.openai_chat import drop_unreadable
from zoea.chain.materialize import find_format
from zoea.chain.ref_names import IMPORTED
from zoea.model.errors import ContextFormatError
from zoea.store.writer_connection import WriterConnection
from zoea.text.sentences import count_of

_NAMED = 10
"""The most damaged lines or messages that are named each."""


class ImportedContext(Struct, frozen=True):
    """A context read from a file, ready to be stored under a ref.

    Attributes:
        commits: Each with the place of its parent in this list, which stands before it; None for a root.
        refs: Places of commits by the names that they get; the conversation itself is the first.
        notes: What was left out or stands apart, a sentence each.
    """

    commits: tuple[tuple[int | None, NewCommit], ...]
    refs: Mapping[str, int]
    notes: tuple[str, ...] = ()

    @property
    def ref(self) -> str:
        """The name of the conversation."""
        return next(iter(self.refs))


def prepare_import(
    data: bytes, name: str, format_name: str = "", agents: Mapping[str, bytes] = MappingProxyType({})
) -> ImportedContext:
    """Read and check a context whole; for use in a thread.

    Args:
        name: What the ref is called, after `import/`.
        format_name: Its format; empty to recognise it.
        agents: Transcripts of the agents that Claude Code started in it, by the names of their files.

    Raises:
        ContextFormatError: It is in no known format, or holds no messages.
    """
    if format_name not in ("", CLAUDE_CODE):
        return _prepare_whole(name, format_name, find_format(format_name), data)
    why: list[str] = []
    for each, one in known_formats().items():
        if each == ZOEA or format_name not in ("", each):
            continue  # the long texts of Zoea's own lie elsewhere
        try:
            if each == CLAUDE_CODE:
                return _prepare_transcript(data, name, agents)
            return _prepare_whole(name, each, one, data)
        except ContextFormatError as error:
            if format_name:
                raise
            why.append(f"{each}: {error}")
    raise ContextFormatError("the file is in no known format", hint="; ".join(why))


def store_import(conn: WriterConnection, imported: ImportedContext) -> ContextCommit:
    """Store an imported context, set its refs, and return the newest commit of the conversation. For use in an op.

    Commits that the same names reach already are not stored again: of a longer version only what is new.
    """
    stored = {
        (one.parent, one.blob, one.kind): one.seq
        for ref, tip in read_refs(conn).items()
        if ref in imported.refs or ref.startswith(f"{imported.ref}/")
        for one in walk_chain(conn, tip)
    }
    seqs: list[int] = []
    for place, new in imported.commits:
        parent = None if place is None else seqs[place]
        seq = stored.get((parent, new.blob.digest, new.kind))
        seqs.append(insert_commit(conn, replace(new, parent=parent)).seq if seq is None else seq)
    for ref, place in imported.refs.items():
        if read_ref(conn, ref) != seqs[place]:
            move_ref(conn, ref, seqs[place], "import")
    tip = read_commit(conn, seqs[imported.refs[imported.ref]])
    assert tip is not None
    return tip


class _CommitList(Struct):
    """Commits of a transcript; those that branches share stand once."""

    commits: list[tuple[int | None, NewCommit]] = field(default_factory=list)
    places: dict[tuple[int | None, tuple[str, ...]], int] = field(default_factory=dict)

    def add_chain(self, lines: list[TranscriptLine]) -> int | None:
        """Add the commits of a conversation, and return the place of its newest one."""
        place: int | None = None
        for part in split_parts(lines):
            key = (place, part.key)
            if key not in self.places:
                entries = clean_entries(build_entries(part.lines))
                if not entries:
                    continue
                kind = CommitType.COMPACTION if part.is_compaction else CommitType.DELTA
                before = 0 if place is None else self.commits[place][1].at
                new = _build(CLAUDE_CODE, kind, entries, part.data, at=max(before, part.at))
                self.places[key] = len(self.commits)
                self.commits.append((place, new))
            place = self.places[key]
        return place


def _prepare_transcript(data: bytes, name: str, agents: Mapping[str, bytes]) -> ImportedContext:
    lines, damaged = read_lines(data)
    for file, its_data in agents.items():
        its_lines, its_damage = read_lines(its_data, file)
        lines += [line for line in its_lines if line.is_side_chain]
        damaged += its_damage
    tree, made = TranscriptTree(lines), _CommitList()
    tip = made.add_chain(tree.with_side_lines(tree.select_conversation()))
    if tip is None:
        raise ContextFormatError(damaged[0].why) if damaged else _no_messages()
    refs = {IMPORTED + name: tip}
    branches, more = tree.find_branches()
    for branch, its_lines in branches:
        end = made.add_chain(its_lines)
        if end is not None and end not in refs.values():
            refs[f"{IMPORTED}{name}/{branch}"] = end
    notes = _name_left_out([one.why for one in damaged], "line")
    noise = [one.data.get("type") == "assistant" for one in lines if one.kind is TranscriptKind.NOISE]
    if noise:
        failed, said = sum(noise), len(noise) - sum(noise)
        both = [count_of(failed, "synthetic answer")] * bool(failed) + [count_of(said, "local command")] * bool(said)
        notes.append(f"left out, because neither person nor model said it: {' and '.join(both)}")
    if len(refs) > 1:
        notes.append(f"{count_of(len(refs) - 1, 'branch')} beside it: {', '.join(list(refs)[1:])}")
    if more:
        notes.append(f"{count_of(more, 'more line')} of other branches were left out")
    return ImportedContext(tuple(made.commits), refs, tuple(notes))


def _prepare_whole(name: str, format_name: str, chosen: ContextFormat, data: bytes) -> ImportedContext:
    reasons: list[str] = []
    if format_name == OPENAI:
        data, reasons = drop_unreadable(data)
    entries = chosen.read(data, _no_blobs)
    if not entries:
        raise _no_messages()
    new = _build(format_name, CommitType.SNAPSHOT, entries, data)
    return ImportedContext(((None, new),), {IMPORTED + name: 0}, tuple(_name_left_out(reasons, "message")))


def _name_left_out(reasons: Sequence[str], noun: str) -> list[str]:
    """Return a sentence for each of the first omitted items, and the number of others."""
    notes = [f"{why}; it was left out" for why in reasons[:_NAMED]]
    if (more := len(reasons) - _NAMED) > 0:
        notes.append(
            f"{count_of(more, f'more {noun}')} could not be read and {'was' if more == 1 else 'were'} left out"
        )
    return notes


def _build(
    format_name: str, kind: CommitType, entries: tuple[ContextEntry, ...], data: bytes, *, at: int = 0
) -> NewCommit:
    checkpoints = {CommitType.DELTA: Checkpoint.TURN_BOUNDARY, CommitType.COMPACTION: Checkpoint.COMPACTION}
    blob, lifted = prepare_blobs(data, {})
    return NewCommit(
        parent=None,  # known where it is stored
        kind=kind,
        format=format_name,
        blob=blob,
        lifted=lifted,
        checkpoint=checkpoints.get(kind, Checkpoint.EXPLICIT),
        provenance=Provenance(principal=format_name.removesuffix("-v1")),
        message_count=len(entries),
        token_count=sum(entry.token_count for entry in entries),
        note=CommitNote(summarise_entries(entries)),
        at=at,
    )


def _no_messages() -> ContextFormatError:
    return ContextFormatError("the context holds no messages", hint="Name a file with at least one prompt or answer.")


def _no_blobs(digest: bytes) -> bytes:
    raise ContextFormatError(
        f"the context needs blob {digest.hex()}, which a file cannot bring",
        hint="Export it with `zoea ctx cat COMMIT --as openai` or `--as claude`, which hold all texts.",
    )
