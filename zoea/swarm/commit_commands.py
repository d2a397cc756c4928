"""What people and clients ask of commits while the swarm runs: `CommitApi` over the commander."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from itertools import takewhile

from msgspec import Struct

from zoea.chain import commit_edits
from zoea.chain.chain_reader import ChainReader
from zoea.chain.commit import NOTE_TOKENS, SUMMARY_TOKENS, CommitNote, ContextCommit, Provenance
from zoea.chain.commit_ops import update_note
from zoea.chain.commit_rows import (
    read_children,
    read_descendants,
    read_ref,
    read_refs,
    read_template_name,
    shortest_id,
    walk_chain,
)
from zoea.chain.entries import ContextEntry
from zoea.chain.ref_names import DELETED, branch_ref, find_branch
from zoea.chain.revisions import TICKET_ID, refuse_time, resolve_revision
from zoea.context.window.conversation_summary import summarise
from zoea.model.enums import DeliveryMode, MysisState, Role
from zoea.model.errors import MysisMissing, RevisionError, StateRefused, StoreError, UsageError
from zoea.model.values import COMMANDER, CommitQuestion, Mysis, MysisView, Sender
from zoea.process.host_name import describe_machine
from zoea.settings.schema import Settings
from zoea.store.writer_connection import WriterConnection
from zoea.swarm import creation, hand_compaction
from zoea.swarm.commander import Commander
from zoea.swarm.memory_entries import as_memories
from zoea.swarm.persistence import capture_ops, message_ops, mysis_ops
from zoea.swarm.runner import MysisRunner
from zoea.text import clean

_THREAD = re.compile(r"\w[\w.:-]{0,59}")
_THREAD_DIGITS = 8


class _Discussion(Struct, frozen=True):
    """The goal of a question: its thread's tip, else the commit. `mysis_id` is 0 where none answers in it."""

    commit: ContextCommit
    ref: str
    mysis_id: int


class CommitCommands:
    """The bodies of the methods of `CommitApi`, which says what each does."""

    def __init__(self, commander: Commander) -> None:
        self._commander = commander
        self._swarm = commander.swarm
        self._services = commander.swarm.services

    @property
    def _settings(self) -> Settings:
        return self._services.settings

    async def name_commit(self, name: str, revision: str) -> str:
        """See `CommitApi.name_commit`."""
        return await commit_edits.name_commit(self._services.store, name, revision)

    async def keep_commit(self, revision: str, policy: str, *, days: float = 0.0, whole: bool = False) -> int:
        """See `CommitApi.keep_commit`."""
        return await commit_edits.keep_commit(self._services.store, revision, policy, days, whole=whole)

    async def checkpoint(self, ref: str, *, summary: str = "", timeout_s: float = 20.0) -> str:
        """See `CommitApi.checkpoint`."""
        runner = self._swarm.runner(ref)
        note = CommitNote(clean(summary))
        if runner.is_settled:
            made = await runner.capture.commit_now(note)
        else:
            try:
                async with asyncio.timeout(timeout_s):
                    made = await asyncio.shield(runner.capture.commit_next(note))
            except TimeoutError:
                raise UsageError(
                    f"{runner.mysis.name} is in a turn and stored nothing for {timeout_s:g} s",
                    hint="The commit is made with its next answer or result.",
                ) from None
        return "" if made is None else made.id

    async def annotate(self, revision: str, *, summary: str | None = None, tags: tuple[str, ...] | None = None) -> str:
        """See `CommitApi.annotate`."""
        return await commit_edits.annotate_commit(self._services.store, revision, summary, tags)

    async def snapshot(self, revision: str) -> str:
        """See `CommitApi.snapshot`."""
        return (await commit_edits.take_snapshot(self._services.store, revision)).id

    async def pick(self, revision: str, ref: str) -> str:
        """See `CommitApi.pick`."""
        runner = self._swarm.runner(ref)
        mysis = runner.mysis
        async with self._services.store.search_reader() as reader:
            commit, short, entries = await reader.run(lambda conn: _read_unknown(conn, revision, mysis.name))
        about = Provenance(mysis.name, describe_machine(), mysis.template_hash, mysis.id)
        new = await asyncio.to_thread(commit_edits.build_picked, commit, entries, short, about)
        was_running = await self._leave_session(runner)
        made: list[ContextCommit] = []

        def store(conn: WriterConnection) -> Mysis:
            stored = capture_ops.record_commit(conn, mysis.name, new)
            if stored is None:
                raise StoreError(f"the commit for {mysis.name} could not be stored", hint="The log says why.")
            made.append(stored)
            capture_ops.begin_again(conn, mysis)
            return mysis_ops.find(conn, mysis.id)

        await runner.capture.commit_now(CommitNote())
        await self._swarm.replace(runner, store)
        if was_running:
            await self._commander.start(mysis.name)
        return made[-1].id

    async def _leave_session(self, runner: MysisRunner) -> bool:
        """Stop a mysis that rests; return whether it was running. Raises StateRefused where a turn is open."""
        name = runner.mysis.name
        if not runner.is_settled:
            raise StateRefused(f"{name} is in a turn", hint="Wait until it has answered, or stop it first.")
        was_running = runner.life.state is MysisState.RUNNING
        if was_running:
            await self._commander.stop(name)
        return was_running

    async def compact(self, revision: str, *, extract: bool = False, payer: str = "", timeout_s: float = 300.0) -> str:
        """See `CommitApi.compact`."""
        store = self._services.store
        if (own := self._find_own(revision)) is not None and own.is_settled:
            await own.capture.commit_now(CommitNote())
        commit, entries = await hand_compaction.read_conversation(store, revision)
        if extract:
            summary, model = summarise(as_memories(entries), SUMMARY_TOKENS), ""
        else:
            runner = self._swarm.runner(payer or f"#{commit.provenance.mysis_id or 0}")
            resolved = self._swarm.resolved_template(runner.mysis.template_hash)
            summary, model = await hand_compaction.write_summary(self._services, runner, resolved, entries, timeout_s)
        now = self._services.clock.now()
        return (await hand_compaction.store_compaction(store, commit, len(entries), summary, model, now)).id

    async def summarise(self, revision: str, *, payer: str = "", timeout_s: float = 300.0) -> str:
        """See `CommitApi.summarise`."""
        store = self._services.store
        commit, entries = await hand_compaction.read_delta(store, revision)
        runner = self._swarm.runner(payer or f"#{commit.provenance.mysis_id or 0}")
        resolved = self._swarm.resolved_template(runner.mysis.template_hash)
        summary, model = await hand_compaction.write_summary(
            self._services, runner, resolved, entries, timeout_s, tokens=NOTE_TOKENS
        )
        if not model:
            raise UsageError(
                f"no model writes summaries of {runner.mysis.name}",
                hint='Set context.summary to "model", or name another mysis whose model writes them (--by NAME).',
            )
        await store.write(lambda conn: update_note(conn, commit.seq, summary=summary, model=model))
        return summary

    def _find_own(self, revision: str) -> MysisRunner | None:
        """Return the mysis that a revision names by its branch alone."""
        try:
            return self._swarm.runner(revision)
        except MysisMissing:
            return None

    async def resume(self, ref: str, *, name: str = "", allow_fresh: bool = False) -> MysisView:
        """See `CommitApi.resume`."""
        try:
            runner = self._swarm.runner(ref)
        except MysisMissing as missing:
            return await self._revive(ref, name, missing, allow_fresh=allow_fresh)
        mysis_name = runner.mysis.name
        if name:
            raise UsageError(f"{mysis_name} keeps its name", hint="Leave out the name, or fork it: zoea fork.")
        await self._leave_session(runner)
        await self._begin_again(runner, allow_fresh=allow_fresh)
        return await self._commander.start(mysis_name)

    async def _begin_again(self, runner: MysisRunner, *, allow_fresh: bool = False) -> None:
        """Let the next session of a mysis begin with its own tip. Raises MissingBlob, RevisionError."""

        own = branch_ref(runner.mysis.name)
        try:
            origin = await creation.read_origin(self._services.store, own, allow_fresh=allow_fresh)
        except RevisionError:  # it has no commit yet
            if allow_fresh:
                return
            raise

        def store(conn: WriterConnection) -> Mysis:
            if origin.unread is None:
                capture_ops.begin_again(conn, runner.mysis)
            else:
                capture_ops.begin_fresh(conn, runner.mysis.id, origin.unread.seq)
            return mysis_ops.find(conn, runner.mysis.id)

        await self._swarm.replace(runner, store)

    async def _revive(self, ref: str, name: str, missing: MysisMissing, *, allow_fresh: bool) -> MysisView:
        """Make a mysis from the branch of a deleted one. It gets its name back where that is free."""
        async with self._services.store.search_reader() as reader:
            branch = find_branch(await reader.run(read_refs), ref)
        if not branch.startswith(DELETED):
            raise missing
        old = branch.removeprefix(DELETED).rpartition("-")[0]
        taken = {runner.mysis.name.casefold() for runner in self._swarm.runners.values()}
        origin = await creation.read_origin(self._services.store, branch, allow_fresh=allow_fresh)
        chosen = name or ("" if old.casefold() in taken else old)
        return await self._commander.spawn(creation.NewMysis(self._services.ids.uid(), chosen), origin)

    async def ask(
        self,
        revision: str,
        question: str,
        *,
        thread: str = "",
        ticket: str = "",
        sender: Sender = COMMANDER,
        hop: int = 0,
    ) -> CommitQuestion:
        """See `CommitApi.ask`; `hop` is that of the question, 0 from a person."""
        text = creation.checked_prompt(question, self._settings)
        if not text:
            raise UsageError("the question is empty", hint="Give its text.")
        if thread and _THREAD.fullmatch(thread) is None:
            raise UsageError(
                f"{thread!r:.80} cannot be a thread",
                hint="Use 1 to 60 letters, digits, '_', '-', '.' or ':', starting with a letter or digit.",
            )
        if ticket and TICKET_ID.fullmatch(ticket) is None:
            raise UsageError(f"{ticket!r:.80} cannot be a ticket", hint="Give its id, such as tkt-7.")
        uid = self._services.ids.uid()
        thread = thread or uid.replace("-", "")[-_THREAD_DIGITS:]
        async with self._services.store.search_reader() as reader:
            default = self._settings.swarm.default_template
            place = await reader.run(lambda conn: _find_discussion(conn, revision, thread, default))
        runner = self._swarm.runners.get(place.mysis_id)
        if runner is not None:
            view = await self._go_on(runner, text, sender, hop)
        else:
            work = capture_ops.Work(ticket or place.commit.provenance.ticket_id, thread, moves_ticket=bool(ticket))
            new = creation.NewMysis(uid, work=work, question=text, asker=sender, hop=hop)
            origin = await creation.read_origin(self._services.store, place.commit.id)
            view = await self._commander.spawn(new, origin)
        return CommitQuestion(view, thread, place.ref, place.commit.id)

    async def _go_on(self, runner: MysisRunner, text: str, sender: Sender, hop: int) -> MysisView:
        """Ask the mysis that answers in the thread already. At rest, it begins a session with its own tip."""
        name = runner.mysis.name
        if runner.is_settled:
            if runner.life.state is MysisState.RUNNING:
                await self._commander.stop(name)
            await self._begin_again(runner)
            if not self._swarm.runner(name).life.state.accepts_messages:
                await self._commander.start(name)
        room = self._swarm.resolved_template(runner.mysis.template_hash).settings.budget.token_budget_per_agent
        outgoing = message_ops.OutgoingMessage(message_ops.checked(text, room), sender, DeliveryMode.QUEUE, hop)
        await self._commander.say(outgoing, runner.mysis.id)
        return await self._commander.mysis(name)


def _read_unknown(
    conn: sqlite3.Connection, revision: str, name: str
) -> tuple[ContextCommit, str, tuple[ContextEntry, ...]]:
    """Read a commit that a mysis does not know: itself, its short id and its messages.

    Where it begins with results, the answer with their calls, of the commit before, is the first message. Where it ends
    with calls, their results, of the commit after it, are the last ones.

    Raises:
        RevisionError, UsageError: There is no such commit, or the mysis knows it.
        MissingBlob: A part of it is gone.
    """
    commit = resolve_revision(conn, revision, refuse_time)
    short = shortest_id(conn, commit)
    if read_ref(conn, branch_ref(name)) in read_descendants(conn, commit.seq):
        raise UsageError(f"{name} knows {short} already", hint=f"`zoea ctx log {name}` lists what it knows.")
    reader = ChainReader(conn)
    own = entries = reader.read_messages(commit, stop=commit)
    parent = commit.parent
    while entries and entries[0].role is Role.TOOL and parent is not None:
        before = walk_chain(conn, parent, limit=1)[0]
        entries, parent = (*reader.read_messages(before, stop=before), *entries), before.parent
    start = len(entries) - len(own)
    while start and entries[start].role is Role.TOOL:
        start -= 1
    return commit, short, (*entries[start:], *_read_later_results(conn, reader, commit, own))


def _read_later_results(
    conn: sqlite3.Connection, reader: ChainReader, commit: ContextCommit, own: tuple[ContextEntry, ...]
) -> tuple[ContextEntry, ...]:
    """Return the results that begin the commits after one that ends in an open answer."""
    results: list[ContextEntry] = []
    entries, seq = own, commit.seq
    while entries and (entries[-1].calls or entries[-1].role is Role.TOOL):
        for child in read_children(conn, seq):
            entries, seq = reader.read_messages(child, stop=child), child.seq
            if entries and entries[0].role is Role.TOOL:
                break
        else:
            break
        first = list(takewhile(lambda one: one.role is Role.TOOL, entries))
        results += first
        if len(first) < len(entries):
            break
    return tuple(results)


def _find_discussion(conn: sqlite3.Connection, revision: str, thread: str, default: str) -> _Discussion:
    """Find where a question goes. Raises RevisionError."""
    commit = resolve_revision(conn, revision, refuse_time)
    template = read_template_name(conn, commit.provenance.template_hash) or default
    ref, commit = capture_ops.find_thread(conn, commit, thread, default)
    answering = conn.execute(capture_ops.IN_THREAD, (thread, template)).fetchone()
    return _Discussion(commit, ref, answering[0] if answering else 0)
