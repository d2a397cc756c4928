"""Has a model summarise a commit, or the conversation up to it, on demand.

A mysis pays for it as background work.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from zoea.chain.chain_reader import ChainReader
from zoea.chain.commit import COMMANDER, SUMMARY_TOKENS, CommitNote, CommitType, ContextCommit
from zoea.chain.commit_edits import build_whole
from zoea.chain.commit_ops import insert_commit, move_ref
from zoea.chain.commit_rows import shortest_id
from zoea.chain.entries import ContextEntry
from zoea.chain.ref_names import COMPACT
from zoea.chain.revisions import refuse_time, resolve_revision
from zoea.context import FrozenTurn
from zoea.context.window.conversation_shape import ConversationShape
from zoea.context.window.conversation_summary import summarise
from zoea.model.errors import StateRefused, UsageError
from zoea.store.store import Store
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.memory_entries import as_memories, build_summary
from zoea.swarm.persistence import capture_ops
from zoea.swarm.resolved_template import ResolvedTemplate, build_profile
from zoea.swarm.runner import MysisRunner
from zoea.swarm.services import Services
from zoea.swarm.turn import turn_types as t
from zoea.swarm.turn.summary_stage import SummaryStage
from zoea.text.sentences import count_of


async def read_conversation(store: Store, revision: str) -> tuple[ContextCommit, tuple[ContextEntry, ...]]:
    """Read a commit and every message up to it, without summaries. Raises RevisionError, MissingBlob."""

    def read(conn: sqlite3.Connection) -> tuple[ContextCommit, tuple[ContextEntry, ...]]:
        commit = resolve_revision(conn, revision, refuse_time)
        return commit, ChainReader(conn).materialize(commit, to_root=True).entries

    async with store.search_reader() as reader:
        return await reader.run(read)


async def write_summary(
    services: Services,
    payer: MysisRunner,
    known: ResolvedTemplate,
    entries: Sequence[ContextEntry],
    within_s: float,
    *,
    tokens: int = SUMMARY_TOKENS,
) -> tuple[str, str]:
    """Have the model of a mysis write a summary. Return it and the model's name, "" where no model writes.

    Raises:
        UsageError: The model wrote none, with the reason.
        StateRefused: The swarm is on hold.
        ProviderError: There is no such provider or model.
    """
    memories = as_memories(entries)
    rows = await services.store.read(capture_ops.NEWEST_TURN, (payer.mysis.id,))
    if not rows:
        raise UsageError(
            f"{payer.mysis.name} has had no turn yet, so that the limits of its requests are not known",
            hint="Name another mysis whose model writes it (--by NAME).",
        )
    profile = await build_profile(payer.mysis, known, services.providers)
    frozen = FrozenTurn.from_json(rows[0]["frozen"], system=profile.template.prompt)
    session = services.tools.session(payer.mysis.id, payer.mysis.name, known.template.text, uid=payer.mysis.uid)
    try:
        stage = SummaryStage(services, profile, session, frozen, within_s)
        shape = ConversationShape(middle=memories, summary_tokens=tokens)
        retries = 1
        while (prose := await stage.find_prose(shape)) is None:
            if services.hold.holds(payer.mysis.id):
                raise StateRefused(
                    "the swarm is on hold, so that no model is asked",
                    hint="Resume the swarm first: x in the cockpit, or `zoea hold --lift`.",
                )
            match await stage.write():
                case t.SummaryFailed(can_retry=can_retry) if not can_retry or not retries:
                    stage.give_up()
                case t.SummaryFailed():
                    retries -= 1
                case _:
                    pass
    finally:
        await session.close()
    if not prose and stage.failure:
        raise UsageError(
            f"no model wrote a summary: {stage.failure}",
            hint="Nothing was stored. Try again; `zoea ctx commit --compact --extract` chooses lines without a model.",
        )
    return summarise(memories, tokens, prose=prose), stage.model_name if prose else ""


async def read_delta(store: Store, revision: str) -> tuple[ContextCommit, tuple[ContextEntry, ...]]:
    """Read a commit and its own messages. Raises RevisionError, MissingBlob."""

    def read(conn: sqlite3.Connection) -> tuple[ContextCommit, tuple[ContextEntry, ...]]:
        commit = resolve_revision(conn, revision, refuse_time)
        return commit, ChainReader(conn).read_messages(commit, stop=commit)

    async with store.search_reader() as reader:
        return await reader.run(read)


async def store_compaction(
    store: Store, commit: ContextCommit, count: int, summary: str, model: str, at: int
) -> ContextCommit:
    """Store a summary as a commit beside the branch, under the ref `compact/ID`."""
    note = CommitNote(f"A summary of {count_of(count, 'message')}: {summary}", model=model)
    new = build_whole(commit, [build_summary(summary, at)], CommitType.COMPACTION, note, principal=COMMANDER)

    def write(conn: WriterConnection) -> ContextCommit:
        stored = insert_commit(conn, new)
        move_ref(conn, f"{COMPACT}{shortest_id(conn, commit)}", stored.seq, "compact")
        return stored

    return await store.write(write, urgent=True)
