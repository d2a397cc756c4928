"""Reads the conversation of a commit as the messages of a request."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from zoea.chain.chain_reader import ChainReader
from zoea.chain.commit import ContextCommit
from zoea.chain.commit_rows import read_commit
from zoea.chain.entries import ContextEntry
from zoea.context import InheritedContext, InheritedMessages
from zoea.context.inherited_pack import SUMMARY_SHARE, split_room, summary_message
from zoea.context.window.conversation_summary import summarise
from zoea.model.enums import Role, Source
from zoea.model.errors import MissingBlob
from zoea.model.request import RequestCall, RequestMessage
from zoea.model.values import Memory
from zoea.store import Store
from zoea.swarm.context_capture import ContextCapture
from zoea.swarm.services import Services
from zoea.text.sentences import count_of

_SUMMARY_TOKENS = 2_000


async def read_inherited(store: Store, need: InheritedContext) -> InheritedMessages:
    """Answer the need from the chain. Raises MissingBlob where a part of it is gone."""
    async with store.search_reader() as reader:
        return await reader.run(lambda conn: build_inherited(conn, need))


def build_inherited(conn: sqlite3.Connection, need: InheritedContext) -> InheritedMessages:
    """Do the same on a connection."""
    commit = read_commit(conn, need.commit)
    if commit is None:
        raise MissingBlob(
            "the commit that the mysis was made from is gone", hint="`zoea ctx fsck` lists what is missing."
        )
    return fit_messages(commit, conn, need.max_tokens)


def fit_messages(commit: ContextCommit, conn: sqlite3.Connection, max_tokens: int) -> InheritedMessages:
    """Return the newest messages up to a commit that fit, and summaries."""
    context = ChainReader(conn).materialize(commit)
    messages = request_messages(context.entries)
    begin = split_room(messages, max_tokens)
    size = min(_SUMMARY_TOKENS, max(1, max_tokens // SUMMARY_SHARE))
    return InheritedMessages(
        messages[begin:],
        whole=len(messages),
        left_out=begin,
        left_out_summary=_summarise(context.entries[:begin], size) if begin else "",
        summary=_summarise(context.entries, min(_SUMMARY_TOKENS, max(1, max_tokens // 2))),
        tier=int(context.tier),
    )


async def commit_inherited_summary(services: Services, capture: ContextCapture, need: InheritedContext) -> None:
    """Commit the fitting messages of an inherited conversation with a summary of the others.

    Once: it follows the commit that the mysis began with.
    """

    def read(conn: sqlite3.Connection) -> tuple[InheritedMessages, tuple[ContextEntry, ...]]:
        found = build_inherited(conn, need)
        commit = read_commit(conn, need.commit)
        assert commit is not None
        return found, ChainReader(conn).materialize(commit).entries[found.left_out :]

    async with services.store.search_reader() as reader:
        found, kept = await reader.run(read)
    told = summary_message(found.left_out_summary, found.left_out).content
    summary = ContextEntry(Role.USER, told, Source.SYSTEM.value, at=services.clock.now(), is_synthetic=True)
    said = f"A summary of {count_of(found.left_out, 'message')}: {found.left_out_summary}"
    step = await capture.prepare_compaction((summary, *kept), said, only_after=need.commit)
    if step.has_commit:
        await services.write(step.write)
        step.settle()


def request_messages(entries: Sequence[ContextEntry]) -> tuple[RequestMessage, ...]:
    """Convert entries to messages; calls get ids that no other message of a request has."""
    made: list[RequestMessage] = []
    newest = 0
    for place, entry in enumerate(entries):
        if entry.role is Role.TOOL:
            made.append(
                RequestMessage(
                    Role.TOOL,
                    entry.content,
                    Source.TOOL,
                    call_id=_call_id(newest, entry.position or 0),
                    name=entries[newest].calls[entry.position or 0].name,
                    is_error=entry.is_error,
                )
            )
            continue
        calls = tuple([RequestCall(_call_id(place, n), one.name, one.arguments) for n, one in enumerate(entry.calls)])
        if calls:
            newest = place
        made.append(RequestMessage(entry.role, _labelled(entry), _source_of(entry), calls=calls))
    return tuple(made)


def _call_id(place: int, position: int) -> str:
    return f"i{place}x{position}"


def _labelled(entry: ContextEntry) -> str:
    if entry.role is not Role.USER or not entry.sender:
        return entry.content
    what = "broadcast" if entry.source == Source.BROADCAST else "message"
    return f"[{what} from mysis {entry.sender}]\n{entry.content}"


def _source_of(entry: ContextEntry) -> Source:
    try:
        return Source(entry.source)
    except ValueError:  # of another program
        return Source.LLM if entry.role is Role.ASSISTANT else Source.DIRECT


def _summarise(entries: Sequence[ContextEntry], size: int) -> str:
    memories = [
        Memory(place, 0, 0, 1, place, entry.role, _source_of(entry), entry.content)
        for place, entry in enumerate(entries)
    ]
    return summarise(memories, size) or "Nothing in them stands out."
