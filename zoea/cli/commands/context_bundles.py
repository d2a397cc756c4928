"""`zoea ctx export` and `zoea ctx import`: bundles of commits, and conversations of other programs."""

from __future__ import annotations

import asyncio
import os
import shlex
import unicodedata
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path

from zoea.chain.bundle_export import BundleCounts, write_bundle
from zoea.chain.bundle_file import MAGIC, MOST_BLOB
from zoea.chain.bundle_import import StoredBundle, check_bundle, store_bundle
from zoea.chain.chain_reader import ChainReader
from zoea.chain.commit import ContextCommit
from zoea.chain.commit_rows import read_ref, shortest_id, walk_chain
from zoea.chain.formats import CLAUDE_CODE
from zoea.chain.formats.claude_code import (
    TranscriptOwner,
    name_project,
    read_folders,
    readdress_transcript,
    write_transcript,
)
from zoea.chain.imports import ImportedContext, prepare_import, store_import
from zoea.chain.materialize import contributing
from zoea.chain.ref_names import IMPORTED
from zoea.chain.revisions import MOST_REF_NAME, is_ref_name, make_ref_name
from zoea.cli.commands.context_access import describe_commit, find_commit, open_contexts, tell_left_out
from zoea.cli.output import Output, warn
from zoea.model.errors import UsageError
from zoea.process.clock import SystemClock
from zoea.process.command_line import argument, arguments, flag, option
from zoea.queries.commit_details import read_model
from zoea.settings.paths import Places, expand_home, is_folder, make_private_folder
from zoea.settings.private_file import open_private
from zoea.settings.small_file import open_regular, read_small_file
from zoea.text.sentences import count_of
from zoea.transfer.held_workspace import held_workspace


def export(
    where: Places,
    names: tuple[str, ...] = arguments(
        "COMMIT... FILE",
        "What to export, commits with all before them, and the file to write; with --claude one commit.",
    ),
    claude: bool = flag("--claude", "Write the conversation as a session that Claude Code resumes."),
    folder: str = option("--folder DIR", "With --claude: where it works; if not given, its own folder, else this one."),
    force: bool = flag("--force", "Replace an existing file."),
) -> Output:
    """Write commits and all before them to a file, or a session for Claude Code.

    Example: zoea ctx export alpha beta~3 shop.bundle
    """
    if claude:
        if len(names) > 1:
            raise UsageError("a session of Claude Code has one conversation", hint="Name one commit, and no file.")
        return _export_session(names[0], folder, where)
    *revisions, file = names
    if folder or not revisions:
        what = "--folder goes with --claude" if folder else "a commit or the file is missing"
        raise UsageError(what, hint="For example: zoea ctx export alpha shop.bundle")
    return _export_bundle(revisions, Path(file), force, where)


def _export_session(revision: str, folder: str, where: Places) -> Output:
    """Write a conversation where Claude Code looks for its sessions, and say how it is resumed."""
    with open_contexts(where) as conn:
        commit, reader = find_commit(conn, revision), ChainReader(conn)
        native = reader.join_native(commit) if commit.format == CLAUDE_CODE else None
        context = reader.materialize(commit)
        works_in = folder or next((cwd for cwd in read_folders(native or b"") if is_folder(cwd)), "")
        place = unicodedata.normalize("NFC", str(expand_home(works_in or ".").resolve()))
        if not is_folder(place):
            raise UsageError(f"{folder} is no folder", hint="Name the folder in which Claude Code shall work.")
        model = read_model(conn, commit).rpartition(" ")[2]
    home = expand_home(os.environ.get("CLAUDE_CONFIG_DIR") or "~/.claude")
    sessions = (str(uuid.uuid5(uuid.NAMESPACE_OID, f"{commit.id} {number}")) for number in count(1))
    files = (home / "projects" / name_project(place) / f"{session}.jsonl" for session in sessions)
    file = next(one for one in files if not one.exists())  # Claude Code went on with those that exist
    owner = TranscriptOwner(file.stem, place, model or "unknown")
    data = readdress_transcript(native, owner) if native else write_transcript(context.entries, owner)
    try:
        make_private_folder(file.parent)
        with open(file, "xb", opener=open_private) as stream:
            stream.write(data)
    except OSError as error:
        raise UsageError(
            f"cannot write {file}: {error.strerror}", hint="CLAUDE_CONFIG_DIR names another folder."
        ) from None
    command = f"cd {shlex.quote(place)} && claude --resume {file.stem}"
    tell_left_out(() if native else context.entries)
    return Output(
        {"context": commit.id, "session": file.stem, "file": str(file), "folder": place, "command": command},
        f"{file}\n{command}",
    )


def _export_bundle(revisions: list[str], file: Path, force: bool, where: Places) -> Output:
    target = expand_home(file)
    if os.path.lexists(target) and not force:
        raise UsageError(f"{file} is there already", hint="Name another file, or give --force.")
    with open_contexts(where) as conn:
        tips = {revision: find_commit(conn, revision) for revision in revisions}
        refs: dict[str, str] = {}
        for revision, commit in tips.items():
            name = next((one for one in (revision, f"@{revision}") if read_ref(conn, one) is not None), "")
            refs[name or IMPORTED + shortest_id(conn, commit)] = commit.digest.hex()
        unfinished = target.with_name(f"{target.name}.unfinished")
        try:
            with open(unfinished, "wb", opener=open_private) as stream:
                counts = write_bundle(conn, stream, list(tips.values()), refs)
                stream.flush()
                os.fsync(stream.fileno())
            unfinished.replace(target)
        except OSError as error:
            raise UsageError(
                f"cannot write {file}: {error.strerror}", hint="Name a file in a folder that you may write to."
            ) from None
        finally:
            with suppress(OSError):  # the first error is the one to report
                unfinished.unlink(missing_ok=True)
    value = {**_counts(counts), "refs": {name: f"ctx-{digest}" for name, digest in refs.items()}}
    return Output(value, f"{file}: {_describe(counts)}, {', '.join(refs)}")


def import_(
    where: Places,
    file: Path = argument(
        "FILE", "A file of `zoea ctx export`, a Claude Code transcript or a list of OpenAI messages.", read=Path
    ),
    name: str = option("--name NAME", "Its name, after import/; else the name of the file."),
    format_name: str = option("--format FORMAT", "claude-code-v1 or openai-chat-v1; if not given, Zoea recognises it."),
    force: bool = flag("--force", "Move tags and tickets that are here to the commits of the bundle."),
) -> Output:
    """Import commits from a file, or a conversation of another program. No swarm may run.

    Example: zoea ctx import ~/.claude/projects/shop/0f3a.jsonl --name shop
    """
    file = expand_home(file)
    try:
        with open_regular(file) as stream:
            is_bundle = stream.read(len(MAGIC)) == MAGIC
        data = b"" if is_bundle else read_small_file(file, MOST_BLOB)
        agents = {} if is_bundle else _read_agents(file, MOST_BLOB - len(data))
    except OSError as error:
        raise UsageError(
            f"cannot read {file}: {error.strerror}",
            hint=f"Name a bundle, or a conversation of at most {MOST_BLOB:,} bytes, that you may read.",
        ) from None
    if is_bundle:
        if name or format_name:
            raise UsageError("a bundle has its own names and formats", hint="Leave out --name and --format.")
        return _import_bundle(file, where, moves_names=force)
    if force:
        raise UsageError("--force is for bundles", hint="A conversation of another program moves no names.")
    if name and not is_ref_name(name):
        raise UsageError(
            f"{name!r:.60} cannot be the name of a commit",
            hint=f"Use up to {MOST_REF_NAME} characters without ~, ^, @, {{, }} and control characters.",
        )
    return _import_conversation(prepare_import(data, name or make_ref_name(file.stem), format_name, agents), where)


def _read_agents(file: Path, most: int) -> dict[str, bytes]:
    """Read the agents' transcripts that Claude Code keeps beside a session's. Name those that cannot be read."""
    transcripts: dict[str, bytes] = {}
    for one in sorted(file.with_suffix("").glob("subagents/agent-*.jsonl")):
        try:
            transcripts[one.name] = read_small_file(one, most)
        except OSError as error:
            warn(f"left out: {one}: {error.strerror}")
        else:
            most -= len(transcripts[one.name])
    return transcripts


def _import_conversation(imported: ImportedContext, where: Places) -> Output:
    async def store() -> ContextCommit:
        async with held_workspace(where) as held:
            return await held.store.write(lambda conn: store_import(conn, imported))

    commit = asyncio.run(store())
    for note in imported.notes:
        warn(note)
    with open_contexts(where) as conn:
        chain = walk_chain(conn, commit.seq)
        own = contributing(chain)
        messages, tokens = sum(one.message_count for one in own), sum(one.token_count for one in own)
        size = f"{count_of(len(chain), 'commit')}, {count_of(messages, 'message')}, about {tokens:,} tokens"
        text = f"{shortest_id(conn, commit)}  {imported.ref}  {size}, {commit.format}"
        return Output(describe_commit(conn, commit, [imported.ref]), text)


def _import_bundle(file: Path, where: Places, *, moves_names: bool) -> Output:
    with open_regular(file) as stream:
        checked = check_bundle(stream, now=SystemClock().now())

        async def store() -> StoredBundle:
            async with held_workspace(where) as held:
                return await held.store.write(lambda conn: store_bundle(conn, checked, moves_names=moves_names))

        done = asyncio.run(store())
    refs = {"refs": done.refs, "renamed": done.renamed, "kept": done.kept, "moved": done.moved}
    return Output({**_counts(done.counts), "known": done.known, **refs}, _describe_import(done))


def _describe_import(done: StoredBundle) -> Iterator[str]:
    known = (
        f"; {count_of(done.known, 'commit')} {'was' if done.known == 1 else 'were'} here already" if done.known else ""
    )
    yield f"{_describe(done.counts)}{known}"
    for theirs, ours in done.renamed.items():
        yield f"{theirs} is {ours} here"
    for ref, theirs in done.kept.items():
        yield f"{ref} stays: it is here already; --force moves it to {theirs} of the bundle"
    for ref, ours in done.moved.items():
        yield f"{ref} was moved from {ours} to {done.refs[ref]}"
    yield from done.refs.keys() - set(done.renamed.values())


def _counts(counts: BundleCounts) -> Mapping[str, int]:
    return {"commits": counts.commits, "blobs": counts.blobs, "bytes": counts.bytes}


def _describe(counts: BundleCounts) -> str:
    return f"{count_of(counts.commits, 'commit')}, {count_of(counts.blobs, 'blob')} ({count_of(counts.bytes, 'byte')})"
