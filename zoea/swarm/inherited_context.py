"""Reads the conversation of a commit as the messages of a request."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import suppress

from zoea.chain.chain_reader import ChainReader
from zoea.chain.commit import CommitType
from zoea.chain.commit_rows import count_known, find_whole, read_children, read_commit, read_notes, walk_chain
from zoea.chain.entries import ContextEntry
from zoea.chain.materialize import MaterializedContext
from zoea.context import InheritedContext, InheritedMessages
from zoea.context.inherited_pack import SUMMARY_SHARE, split_room, summary_message
from zoea.context.window.conversation_shape import ConversationShape
from zoea.context.window.conversation_summary import read_prose, summarise
from zoea.model.enums import Role, Source
from zoea.model.errors import MissingBlob
from zoea.model.request import RequestCall, RequestMessage
from zoea.store.store import Store
from zoea.swarm.commit_capture import CommitCapture
from zoea.swarm.memory_entries import as_memories, source_of
from zoea.swarm.services import Services
from zoea.swarm.turn.summary_stage import SummaryStage
from zoea.text.sentences import count_of

_SUMMARY_TOKENS = 2_000
_FEW = 16
"""How many of the newest commits are read first for an estimate."""
_WORD = " sum"
"""A text of about one token."""


async def read_inherited(store: Store, need: InheritedContext, mysis_id: int) -> InheritedMessages:
    """Read the inherited conversation from the chain of commits. Raises MissingBlob where a part of it is gone."""
    async with store.search_reader() as reader:
        return await reader.run(lambda conn: build_inherited(conn, need, mysis_id))


def build_inherited(conn: sqlite3.Connection, need: InheritedContext, mysis_id: int = 0) -> InheritedMessages:
    """Build the inherited conversation on a connection, with the summary that a model wrote before."""
    context = _read_context(conn, need)
    begin = split_room(request_messages(context.entries), need.max_tokens)
    return _fit(context, begin, need.max_tokens, _read_written(conn, need, mysis_id) if begin and mysis_id else "")


def estimate_inherited(conn: sqlite3.Connection, need: InheritedContext) -> InheritedMessages:
    """Estimate the size of the inherited conversation from stored counts.

    Of a conversation that has no room only the newest commits are read, and its summary has its full length.
    """
    commit = read_commit(conn, need.commit)
    messages, size = count_known(conn, need.commit)
    limit = _FEW
    while commit is not None and size > need.max_tokens and limit < messages:
        chain = walk_chain(conn, commit.seq, to_compaction=True, limit=limit)
        if len(chain) < limit:
            break
        if sum(one.token_count for one in chain) > need.max_tokens:
            context = ChainReader(conn).materialize(commit, stop=chain[0])
            newest = request_messages(context.entries)
            if begin := split_room(newest, need.max_tokens):
                shown = newest[begin:]
                summary = _WORD * _summary_size(need.max_tokens)
                return InheritedMessages(shown, messages, messages - len(shown), summary, "", int(context.tier))
        limit *= 2
    return build_inherited(conn, need)


async def begin_inherited(
    services: Services, capture: CommitCapture, need: InheritedContext, summaries: SummaryStage
) -> InheritedMessages | None:
    """Answer the need in the first turn; commit the summary of what does not fit.

    The commit holds the messages that fit too. It is made once: it follows the commit that the mysis began with.
    None where a model has to write a part of the summary first. Raises MissingBlob.
    """
    async with services.store.search_reader() as reader:
        context = await reader.run(lambda conn: _read_context(conn, need))
    begin = split_room(request_messages(context.entries), need.max_tokens)
    if not begin:
        return _fit(context, 0, need.max_tokens, "")
    middle = as_memories(context.entries[:begin])
    shape = ConversationShape(middle=middle, summary_tokens=_summary_size(need.max_tokens))
    prose = await summaries.find_prose(shape)
    if prose is None:
        return None
    fitted = await asyncio.to_thread(_fit, context, begin, need.max_tokens, prose)
    told = summary_message(fitted.left_out_summary, fitted.left_out).content
    summary = ContextEntry(Role.USER, told, Source.SYSTEM.value, at=services.clock.now(), is_synthetic=True)
    note = f"A summary of {count_of(fitted.left_out, 'message')}: {fitted.left_out_summary}"
    step = await capture.prepare_compaction(
        (summary, *context.entries[begin:]), note, model=summaries.model_name if prose else "", only_after=need.commit
    )
    if step.has_commit:
        await services.write(step.write)
        step.settle()
    return fitted


def _read_context(conn: sqlite3.Connection, need: InheritedContext) -> MaterializedContext:
    commit = read_commit(conn, need.commit)
    if commit is None:
        raise MissingBlob(
            "the commit that the mysis was made from is gone", hint="`zoea ctx fsck` lists what is missing."
        )
    reader = ChainReader(conn)
    whole = find_whole(conn, commit.seq, need.max_tokens) if need.from_root else None
    if whole is not None:
        with suppress(MissingBlob):  # of what a summary stands for a part may have been let go
            return reader.materialize(commit, stop=read_commit(conn, whole[0]))
    return reader.materialize(commit)


def _fit(context: MaterializedContext, begin: int, max_tokens: int, prose: str) -> InheritedMessages:
    """Return the messages from a place on, and summaries of those before and of all."""
    entries, messages = context.entries, request_messages(context.entries)
    whole = min(_SUMMARY_TOKENS, max(1, max_tokens // 2))
    return InheritedMessages(
        messages[begin:],
        whole=len(messages),
        left_out=begin,
        left_out_summary=_summarise(entries[:begin], _summary_size(max_tokens), prose) if begin else "",
        summary=_summarise(entries, whole, prose),
        tier=int(context.tier),
    )


def _read_written(conn: sqlite3.Connection, need: InheritedContext, mysis_id: int) -> str:
    """Return what a model wrote for a mysis about older messages, "" for nothing."""
    for one in read_children(conn, need.commit):
        if one.kind is CommitType.COMPACTION and one.provenance.mysis_id == mysis_id:
            _, note = read_notes(conn, one.seq)[0]  # the first one, because a later one may be a person's
            return read_prose(note.summary.partition(": ")[2]) if note.model else ""
    return ""


def _summary_size(max_tokens: int) -> int:
    return min(_SUMMARY_TOKENS, max(1, max_tokens // SUMMARY_SHARE))


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
        made.append(RequestMessage(entry.role, _labelled(entry), source_of(entry), calls=calls))
    return tuple(made)


def _call_id(place: int, position: int) -> str:
    return f"i{place}x{position}"


def _labelled(entry: ContextEntry) -> str:
    if entry.role is not Role.USER or not entry.sender:
        return entry.content
    what = "broadcast" if entry.source == Source.BROADCAST else "message"
    return f"[{what} from mysis {entry.sender}]\n{entry.content}"


def _summarise(entries: Sequence[ContextEntry], size: int, prose: str) -> str:
    return summarise(as_memories(entries), size, prose=prose) or "Nothing in them stands out."
