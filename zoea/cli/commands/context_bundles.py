"""`zoea ctx export` and `zoea ctx import`: bundles of commits, and conversations of other programs."""

from __future__ import annotations

import asyncio
import os
import shlex
import unicodedata
import uuid
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Annotated

import typer

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
from zoea.cli.options import AsJson, Workspace, write_json
from zoea.model.errors import UsageError
from zoea.process.clock import SystemClock
from zoea.queries.commit_details import read_model
from zoea.settings.paths import places
from zoea.settings.private_file import open_private
from zoea.settings.small_file import open_regular, read_small_file
from zoea.text.control_characters import strip
from zoea.text.sentences import count_of
from zoea.transfer.held_workspace import held_workspace


def export(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="COMMIT... FILE",
            help="What to export, commits with all before them, and the file to write; with --claude one commit.",
            show_default=False,
        ),
    ],
    claude: Annotated[
        bool, typer.Option("--claude", help="Write the conversation as a session that Claude Code resumes.")
    ] = False,
    folder: Annotated[
        str,
        typer.Option(metavar="DIR", help="With --claude: where it works; if not given, its own folder, else this one."),
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Write commits and all before them to a file, or a session for Claude Code.

    Example: zoea ctx export alpha beta~3 shop.bundle
    """
    if claude:
        if len(names) > 1:
            raise UsageError("a session of Claude Code has one conversation", hint="Name one commit, and no file.")
        _export_session(names[0], folder, as_json, workspace)
        return
    *revisions, file = names
    if folder or not revisions:
        what = "--folder goes with --claude" if folder else "a commit or the file is missing"
        raise UsageError(what, hint="For example: zoea ctx export alpha shop.bundle")
    _export_bundle(revisions, Path(file), force, as_json, workspace)


def _export_session(revision: str, folder: str, as_json: bool, workspace: str) -> None:
    """Write a conversation where Claude Code looks for its sessions, and say how it is resumed."""
    with open_contexts(workspace) as conn:
        commit, reader = find_commit(conn, revision), ChainReader(conn)
        native = reader.join_native(commit) if commit.format == CLAUDE_CODE else None
        context = reader.materialize(commit)
        works_in = folder or next((cwd for cwd in read_folders(native or b"") if Path(cwd).is_dir()), "")
        place = unicodedata.normalize("NFC", str(Path(works_in or ".").expanduser().resolve()))
        if not Path(place).is_dir():
            raise UsageError(f"{folder} is no folder", hint="Name the folder in which Claude Code shall work.")
        model = read_model(conn, commit).rpartition(" ")[2]
    home = Path(os.environ.get("CLAUDE_CONFIG_DIR") or "~/.claude").expanduser()
    sessions = (str(uuid.uuid5(uuid.NAMESPACE_OID, f"{commit.id} {number}")) for number in count(1))
    files = (home / "projects" / name_project(place) / f"{session}.jsonl" for session in sessions)
    file = next(one for one in files if not one.exists())  # Claude Code went on with those that exist
    owner = TranscriptOwner(file.stem, place, model or "unknown")
    data = readdress_transcript(native, owner) if native else write_transcript(context.entries, owner)
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(file, "xb", opener=open_private) as stream:
            stream.write(data)
    except OSError as error:
        raise UsageError(
            f"cannot write {file}: {error.strerror}", hint="CLAUDE_CONFIG_DIR names another folder."
        ) from None
    command = f"cd {shlex.quote(place)} && claude --resume {file.stem}"
    if as_json:
        write_json({"context": commit.id, "session": file.stem, "file": str(file), "folder": place, "command": command})
    else:
        typer.echo(strip(f"{file}\n{command}"))
    tell_left_out(() if native else context.entries)


def _export_bundle(revisions: list[str], file: Path, force: bool, as_json: bool, workspace: str) -> None:
    target = file.expanduser()
    if target.exists() and not force:
        raise UsageError(f"{file} is there already", hint="Name another file, or give --force.")
    with open_contexts(workspace) as conn:
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
    if as_json:
        write_json({**_counts(counts), "refs": {name: f"ctx-{digest}" for name, digest in refs.items()}})
    else:
        typer.echo(strip(f"{file}: {_describe(counts)}, {', '.join(refs)}"))


def import_(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A file of `zoea ctx export`, a Claude Code transcript or a list of OpenAI messages.",
            show_default=False,
        ),
    ],
    name: Annotated[str, typer.Option(metavar="NAME", help="Its name, after import/; else the name of the file.")] = "",
    format_name: Annotated[
        str,
        typer.Option(
            "--format", metavar="FORMAT", help="claude-code-v1 or openai-chat-v1; if not given, Zoea recognises it."
        ),
    ] = "",
    force: Annotated[
        bool, typer.Option("--force", help="Move tags and tickets that are here to the commits of the bundle.")
    ] = False,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Import commits from a file, or a conversation of another program. No swarm may run.

    Example: zoea ctx import ~/.claude/projects/shop/0f3a.jsonl --name shop
    """
    file = file.expanduser()
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
        _import_bundle(file, as_json, workspace, moves_names=force)
    else:
        if force:
            raise UsageError("--force is for bundles", hint="A conversation of another program moves no names.")
        if name and not is_ref_name(name):
            raise UsageError(
                f"{name!r:.60} cannot be the name of a commit",
                hint=f"Use up to {MOST_REF_NAME} characters without ~, ^, @, {{, }} and control characters.",
            )
        _import_conversation(
            prepare_import(data, name or make_ref_name(file.stem), format_name, agents), as_json, workspace
        )


def _read_agents(file: Path, most: int) -> dict[str, bytes]:
    """Read the transcripts of agents that Claude Code keeps beside that of a session, and name those it cannot read."""
    transcripts: dict[str, bytes] = {}
    for one in sorted(file.with_suffix("").glob("subagents/agent-*.jsonl")):
        try:
            transcripts[one.name] = read_small_file(one, most)
        except OSError as error:
            typer.echo(strip(f"left out: {one}: {error.strerror}"), err=True)
        else:
            most -= len(transcripts[one.name])
    return transcripts


def _import_conversation(imported: ImportedContext, as_json: bool, workspace: str) -> None:
    async def store() -> ContextCommit:
        async with held_workspace(places(workspace)) as held:
            return await held.store.write(lambda conn: store_import(conn, imported))

    commit = asyncio.run(store())
    with open_contexts(workspace) as conn:
        if as_json:
            write_json(describe_commit(conn, commit, [imported.ref]))
        else:
            chain = walk_chain(conn, commit.seq)
            own = contributing(chain)
            messages, tokens = sum(one.message_count for one in own), sum(one.token_count for one in own)
            size = f"{count_of(len(chain), 'commit')}, {count_of(messages, 'message')}, about {tokens:,} tokens"
            typer.echo(strip(f"{shortest_id(conn, commit)}  {imported.ref}  {size}, {commit.format}"))
    for note in imported.notes:
        typer.echo(strip(note), err=True)


def _import_bundle(file: Path, as_json: bool, workspace: str, *, moves_names: bool) -> None:
    with open_regular(file) as stream:
        checked = check_bundle(stream, now=SystemClock().now())

        async def store() -> StoredBundle:
            async with held_workspace(places(workspace)) as held:
                return await held.store.write(lambda conn: store_bundle(conn, checked, moves_names=moves_names))

        done = asyncio.run(store())
    if as_json:
        refs = {"refs": done.refs, "renamed": done.renamed, "kept": done.kept, "moved": done.moved}
        write_json({**_counts(done.counts), "known": done.known, **refs})
        return
    known = (
        f"; {count_of(done.known, 'commit')} {'was' if done.known == 1 else 'were'} here already" if done.known else ""
    )
    typer.echo(strip(f"{_describe(done.counts)}{known}"))
    for asked, given in done.renamed.items():
        typer.echo(strip(f"{asked} is {given} here"))
    for ref, theirs in done.kept.items():
        typer.echo(strip(f"{ref} stays: it is here already; --force moves it to {theirs} of the bundle"))
    for ref, ours in done.moved.items():
        typer.echo(strip(f"{ref} was moved from {ours} to {done.refs[ref]}"))
    for ref in done.refs.keys() - set(done.renamed.values()):
        typer.echo(strip(ref))


def _counts(counts: BundleCounts) -> Mapping[str, int]:
    return {"commits": counts.commits, "blobs": counts.blobs, "bytes": counts.bytes}


def _describe(counts: BundleCounts) -> str:
    return f"{count_of(counts.commits, 'commit')}, {count_of(counts.blobs, 'blob')} ({count_of(counts.bytes, 'byte')})"
