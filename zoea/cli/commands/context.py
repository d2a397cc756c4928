"""`zoea ctx show`, `cat`, `refs`, `resolve` and `diff`: read and compare commits."""

from __future__ import annotations

import sqlite3
import sys

from zoea.chain.blob_policies import read_policy
from zoea.chain.chain_reader import ChainReader
from zoea.chain.commit import CommitType, ContextCommit
from zoea.chain.commit_rows import find_common, read_children, read_refs, resolve_time, shortest_id
from zoea.chain.entries import ContextEntry
from zoea.chain.formats import CLAUDE_CODE, ZOEA, known_formats
from zoea.chain.materialize import Tier, contributing, find_format, write_as
from zoea.cli import output
from zoea.cli.commands.context_access import (
    COMMIT,
    commit_with,
    describe_commit,
    describe_entry,
    find_commit,
    name_commits,
    open_contexts,
    read_time,
    tell_left_out,
)
from zoea.cli.output import Output, Outputs, moment, write_document, write_json
from zoea.model.enums import Role
from zoea.model.errors import RevisionError, UsageError
from zoea.process.command_line import REQUIRED, argument, flag, option
from zoea.queries.commit_details import read_learned
from zoea.settings.paths import Places
from zoea.text.call_text import reveal_call
from zoea.text.control_characters import split_lines
from zoea.text.sentences import count_of

_NATIVE = {"openai": "openai-chat-v1", "claude": "claude-code-v1"}
_TIERS = {Tier.NARRATIVE: "narrative: texts only", Tier.RAW: "raw: some bytes are not understood"}


def show(where: Places, revision: str = COMMIT) -> Output:
    """Show where a commit comes from, its summary and size."""
    with open_contexts(where) as conn:
        commit = find_commit(conn, revision)
        shown = describe_commit(conn, commit, name_commits(conn, [commit])[commit.seq])
        children, is_released = read_children(conn, commit.seq), ChainReader(conn).is_released(commit.blob)
        policy, until = read_policy(conn, commit.seq)
        kept = {"policy": policy or "default", "until": until, "is_released": is_released}
        value = {**shown, "children": [one.id for one in children], "kept": kept}
        if template := shown["template"]:
            shown["template"] = f"{shown['template_name'] or ''}@{template[:8]}"
        del shown["template_name"]
        kept_text = policy if until is None else f"texts until {moment(until)}"
        shown["kept"] = "without its texts, which were let go" if is_released else kept_text
        shown["followed by"] = [shortest_id(conn, one) for one in children]
    shown["created_at"] = moment(shown["created_at"])
    texts = {name: ", ".join(part) if isinstance(part, list) else part for name, part in shown.items()}
    return Output(value, [f"{name:<14}{text}" for name, text in texts.items() if text not in (None, "")])


def cat(
    where: Places,
    revision: str = COMMIT,
    form: str = option("--as FORM", "md, jsonl, openai, claude, or the name of another format.", "md"),
    root: bool = flag("--root", "Begin with the first commit, not with the nearest summary."),
    stop: str = option("--stop COMMIT", "Begin with this earlier commit."),
) -> Output | Outputs | None:
    """Write the conversation up to a commit, for reading or for another program.

    Example: zoea ctx cat import/shop --as openai > messages.json
    """
    if output.is_json and form != "md":
        raise UsageError("--json and --as exclude each other", hint="Give one of them.")
    name = _NATIVE.get(form, form)
    if form not in ("md", "jsonl"):
        find_format(name)
    with open_contexts(where) as conn:
        commit, reader = find_commit(conn, revision), ChainReader(conn)
        begin = find_commit(conn, stop) if stop else None
        whole = reader.select_range(commit, stop=begin, to_root=root)
        is_native = {one.format for one in whole} == {name} and contributing(whole) == whole
        if is_native and name in known_formats() and name != ZOEA:
            write_document(reader.join_native(commit, stop=begin, to_root=root) or b"")
            return None
        context = reader.materialize(commit, stop=begin, to_root=root)
        earlier = () if output.is_json or form != "md" else _read_replaced(reader, conn, whole[0])
    if output.is_json:
        return Output(
            {
                "context": commit.id,
                "tier": int(context.tier),
                "tokens": context.token_count,
                "repaired": context.repaired,
                "messages": [describe_entry(entry) for entry in context.entries],
            }
        )
    if context.tier in _TIERS:
        sys.stderr.write(f"Translated as {_TIERS[context.tier]}.\n")
    if context.repaired:
        sys.stderr.write(f"{count_of(context.repaired, 'call')} had no result; each got one that says so.\n")
    if earlier:
        sys.stderr.write(f"A fork begins with the summary behind the first {count_of(len(earlier), 'message')}.\n")
    if form == "md":
        return Output(None, "\n\n".join(_markdown(entry) for entry in (*earlier, *context.entries)))
    if form == "jsonl":
        for entry in context.entries:
            write_json(describe_entry(entry))
        return None
    tell_left_out(context.entries if name == CLAUDE_CODE else ())
    write_document(write_as(context, name))
    return None


def _read_replaced(reader: ChainReader, conn: sqlite3.Connection, first: ContextCommit) -> tuple[ContextEntry, ...]:
    """Return what a summary of another program replaced: a person reads an imported conversation whole."""
    if first.kind is not CommitType.COMPACTION or first.format == ZOEA or first.parent is None:
        return ()
    return reader.read_messages(commit_with(conn, first.parent), to_root=True)


def refs(where: Places) -> Output:
    """List the names that stand for commits: of myses, tags and imports."""
    with open_contexts(where) as conn:
        commits = {name: commit_with(conn, seq) for name, seq in read_refs(conn).items()}
        lines = [f"{shortest_id(conn, commit)}  {name}" for name, commit in commits.items()]
        return Output({name: commit.id for name, commit in commits.items()}, lines)


def resolve(
    where: Places,
    principal: str = argument("NAME", "A mysis, or a program that made commits, as `zoea ctx log` shows it."),
    at: str = option("--at TIME", "10:30 today, 2h (two hours ago), 2026-01-31, or a time in ISO 8601.", REQUIRED),
) -> Output:
    """Show which commit of a mysis was the newest at a time."""
    with open_contexts(where) as conn:
        commit = resolve_time(conn, principal.removeprefix("@"), read_time(at))
        if commit is None:
            raise RevisionError(f"{principal} has no commit at {at} or before", hint="`zoea ctx log` lists commits.")
        value = describe_commit(conn, commit, name_commits(conn, [commit])[commit.seq])
        return Output(value, shortest_id(conn, commit))


def diff(where: Places, one: str = COMMIT, other: str = COMMIT) -> Output:
    """Show the newest commit that two commits have in common, then what each adds to it."""
    with open_contexts(where) as conn:
        first, second = find_commit(conn, one), find_commit(conn, other)
        common = find_common(conn, first.seq, second.seq)
        reader = ChainReader(conn)
        learned = [read_learned(reader, commit, common) for commit in (first, second)]
        lines = [f"common  {'none' if common is None else shortest_id(conn, common)}"]
        for commit, entries in zip((first, second), learned, strict=True):
            lines.append(f"\n{shortest_id(conn, commit)}  {count_of(len(entries), 'message')} since\n")
            lines.append("\n\n".join(_markdown(entry) for entry in entries))
    return Output(
        {
            "common": None if common is None else common.id,
            "one": [describe_entry(entry) for entry in learned[0]],
            "other": [describe_entry(entry) for entry in learned[1]],
        },
        lines,
    )


def _markdown(entry: ContextEntry) -> str:
    title = {Role.USER: entry.sender or entry.source or "user", Role.ASSISTANT: "answer", Role.TOOL: "result"}
    lines = [f"## {title.get(entry.role, entry.role.value)}"]
    lines += ["\n".join(f"> {line}" for line in split_lines(entry.reasoning))] if entry.reasoning else []
    lines += [entry.content] if entry.content else []
    lines += [f"    {reveal_call(call.name, call.arguments)}" for call in entry.calls]
    return "\n\n".join(lines)
