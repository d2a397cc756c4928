"""`zoea ctx export` and `zoea ctx import`: bundles of commits, and conversations of other programs."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from zoea.chain.bundle_export import BundleCounts, write_bundle
from zoea.chain.bundle_file import MAGIC, MOST_BLOB
from zoea.chain.bundle_import import StoredBundle, check_bundle, store_bundle
from zoea.chain.commit import ContextCommit
from zoea.chain.commit_rows import read_ref, shortest_id, walk_chain
from zoea.chain.imports import ImportedContext, prepare_import, store_import
from zoea.chain.materialize import contributing
from zoea.chain.ref_names import IMPORTED
from zoea.chain.revisions import MOST_REF_NAME, is_ref_name, make_ref_name
from zoea.cli.commands.context_access import describe_commit, find_commit, open_contexts
from zoea.cli.options import AsJson, Workspace, write_json
from zoea.model.errors import UsageError
from zoea.process.clock import SystemClock
from zoea.settings.paths import places
from zoea.settings.private_file import open_private
from zoea.settings.small_file import read_small_file
from zoea.text.control_characters import strip
from zoea.text.sentences import count_of
from zoea.transfer.held_workspace import held_workspace


def export(
    revisions: Annotated[
        list[str],
        typer.Argument(metavar="COMMIT", help="What to export: commits with all before them.", show_default=False),
    ],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.", show_default=False)],
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Write commits and all before them to a file for another workspace.

    Example: zoea ctx export alpha beta~3 shop.bundle
    """
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
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Import commits from a file, or a conversation of another program. No swarm may run.

    Example: zoea ctx import ~/.claude/projects/shop/0f3a.jsonl --name shop
    """
    file = file.expanduser()
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            raise OSError(errno.EINVAL, "it is not a file")
        with file.open("rb") as stream:
            is_bundle = stream.read(len(MAGIC)) == MAGIC
        data = b"" if is_bundle else read_small_file(file, MOST_BLOB)
    except OSError as error:
        raise UsageError(
            f"cannot read {file}: {error.strerror}",
            hint=f"Name a bundle, or a conversation of at most {MOST_BLOB:,} bytes, that you may read.",
        ) from None
    if is_bundle:
        if name or format_name:
            raise UsageError("a bundle has its own names and formats", hint="Leave out --name and --format.")
        _import_bundle(file, as_json, workspace)
    else:
        if name and not is_ref_name(name):
            raise UsageError(
                f"{name!r:.60} cannot be the name of a commit",
                hint=f"Use up to {MOST_REF_NAME} characters without ~, ^, @, {{, }} and control characters.",
            )
        _import_conversation(prepare_import(data, name or make_ref_name(file.stem), format_name), as_json, workspace)


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


def _import_bundle(file: Path, as_json: bool, workspace: str) -> None:
    with file.open("rb") as stream:
        checked = check_bundle(stream, now=SystemClock().now())

        async def store() -> StoredBundle:
            async with held_workspace(places(workspace)) as held:
                return await held.store.write(lambda conn: store_bundle(conn, checked))

        done = asyncio.run(store())
    if as_json:
        write_json({**_counts(done.counts), "known": done.known, "refs": done.refs, "renamed": done.renamed})
        return
    known = (
        f"; {count_of(done.known, 'commit')} {'was' if done.known == 1 else 'were'} here already" if done.known else ""
    )
    typer.echo(strip(f"{_describe(done.counts)}{known}"))
    for asked, given in done.renamed.items():
        typer.echo(strip(f"{asked} is {given} here"))
    for ref in done.refs.keys() - set(done.renamed.values()):
        typer.echo(strip(ref))


def _counts(counts: BundleCounts) -> Mapping[str, int]:
    return {"commits": counts.commits, "blobs": counts.blobs, "bytes": counts.bytes}


def _describe(counts: BundleCounts) -> str:
    return f"{count_of(counts.commits, 'commit')}, {count_of(counts.blobs, 'blob')} ({count_of(counts.bytes, 'byte')})"
