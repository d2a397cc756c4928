"""Keeps uncommitted memories of a mysis, and adds commits to the ops of its turns.

Texts are encoded, hashed and compressed before the op; inside it ready blobs are inserted. A commit that fails leaves
the op as it was, and the next one holds its messages too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial

from blake3 import blake3
from msgspec import Struct
from msgspec.structs import replace

from zoea.chain.commit import Checkpoint, CommitNote, CommitType, ContextCommit, Provenance
from zoea.chain.commit_ops import NewCommit, prepare_blobs
from zoea.chain.entries import ContextCall, ContextEntry, ContextMedia, encode_delta, find_report, summarise_entries
from zoea.chain.formats import ZOEA
from zoea.context import Note
from zoea.context.inherited_pack import Inheritance
from zoea.model.enums import CallState, Role, Source
from zoea.model.ports import Clock
from zoea.model.request import Answer
from zoea.model.values import Memory, Mysis
from zoea.process.host_name import describe_machine
from zoea.settings.commit_settings import ChainSettings
from zoea.store.store import Store
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.memory_entries import PlacedEntry, build_entry, build_notes, build_nudge
from zoea.swarm.persistence import capture_ops
from zoea.swarm.turn import turn_types as t
from zoea.text import clean

_PAGE = 500
"""Memories of one commit that is made from stored memories."""
_INLINE_CHARS = 32_768
"""Up to so many characters are encoded at once, because a thread costs more."""
_TELLING = ("zoea_broadcast", "zoea_publish")
FRESH = "fresh"
"""The tag of the first commit of a mysis that began without its conversation, because that could not be read."""
TREE = "tree-"
"""The beginning of the tag that names the git commit of the worktree that a mysis knew."""
_TREE_DIGITS = 12
RECOVERED = "recovered"
"""The tag of a commit that holds what a killed process left."""


class CapturePolicy(Struct, frozen=True):
    """When a mysis commits; see the setting `chain.capture`.

    Attributes:
        every: After so many answers; 0 for never.
        days: After so many days the texts of a commit are let go; 0 for never.
    """

    every: int = 1
    at_turn_end: bool = True
    at_results: bool = False
    at_telling: bool = False
    at_session_end: bool = True
    days: float = 0.0

    @classmethod
    def parse(cls, chain: ChainSettings) -> CapturePolicy:
        """Return the policy of settings that were checked."""
        return replace(cls._parse_capture(chain.capture), days=chain.ephemeral_days)

    @classmethod
    def _parse_capture(cls, text: str) -> CapturePolicy:
        kind, _, count = text.partition(":")
        match kind:
            case "tool_results":
                return cls(at_results=True)
            case "every":
                return cls(every=int(count), at_turn_end=False)
            case "significant":
                return cls(every=0, at_telling=True)
            case "explicit" | "off":
                return cls(every=0, at_turn_end=False, at_session_end=False)
            case _:
                return cls()


class CaptureStep:
    """The commit that belongs to one op of a turn, if any.

    Call `write` at the end of the op, and `settle` once it is stored.
    """

    def __init__(self, owner: CommitCapture, new: NewCommit | None, covered: Sequence[PlacedEntry], added: int) -> None:
        self._owner = owner
        self._new = new
        self._covered = covered
        self._added = added
        self._made: ContextCommit | None = None
        self._upto = 0
        self._wanted: asyncio.Future[ContextCommit | None] | None = None

    @property
    def has_commit(self) -> bool:
        return self._new is not None

    def write(self, conn: WriterConnection, memories: Sequence[Memory] = ()) -> None:
        """Store the commit; `memories` are those that the op stored, the committed ones first."""
        if self._new is None:
            return
        ids = [one.memory_id for one in self._covered if one.memory_id]
        ids += [memory.id for memory in memories[: self._added]]
        span = (min(ids), max(ids)) if ids else None
        self._upto = max(ids, default=0)
        self._made = capture_ops.record_commit(conn, self._owner.name, replace(self._new, memories=span))

    def fulfil(self, note: CommitNote, wanted: asyncio.Future[ContextCommit | None]) -> None:
        """Give the commit the summary that was asked for, and tell once it is stored."""
        self._wanted = wanted
        if self._new is not None and note.summary:
            self._new = replace(self._new, note=note)

    def settle(self, memories: Sequence[Memory] = (), notes: Iterable[Note] = (), at: int = 0) -> None:
        """Remember the memories that the op stored and the commit does not hold."""
        self._owner.note_settled(self)
        if self._wanted is not None and not self._wanted.done():
            self._wanted.set_result(self._made)
        if self._made is not None:
            self._owner.forget(self._covered, self._upto)
        self._owner.add(memories, notes, at, committed=self._added if self._made is not None else 0)


class CompactionStep:
    """The commit of a summary and the delta before it, for one op."""

    def __init__(
        self,
        owner: CommitCapture,
        delta: NewCommit | None,
        covered: Sequence[PlacedEntry],
        compaction: NewCommit | None,
        only_after: int,
    ) -> None:
        self._owner = owner
        self._delta = delta
        self._covered = covered
        self._compaction = compaction
        self._only_after = only_after
        self._made: ContextCommit | None = None

    @property
    def has_commit(self) -> bool:
        return self._compaction is not None

    def write(self, conn: WriterConnection, summary_id: int = 0) -> None:
        """Store the commits; `summary_id` is the row of the summary, 0 where it has none."""
        name = self._owner.name
        if self._compaction is None or (self._only_after and not capture_ops.is_tip(conn, name, self._only_after)):
            return
        if self._delta is not None:
            ids = [one.memory_id for one in self._covered if one.memory_id]
            span = (min(ids), max(ids)) if ids else None
            self._made = capture_ops.record_commit(conn, name, replace(self._delta, memories=span))
            if self._made is None:
                return
        capture_ops.record_compaction(conn, name, self._compaction, summary_id)

    def settle(self) -> None:
        """Forget the memories that the commits hold now."""
        self._owner.note_settled(self)
        if self._made is not None:
            self._owner.forget(self._covered)


class CommitCapture:
    """Keeps what no commit of a mysis holds yet, and prepares its commits. One for each runner.

    Attributes:
        session_id: The running session.
        inherited: The commit that the mysis began with, once loaded.
        ends_session: True where the op that ends the turn also ends the session.
    """

    def __init__(self, mysis: Mysis, chain: ChainSettings, store: Store, clock: Clock) -> None:
        self.name = mysis.name
        self.policy = CapturePolicy.parse(chain)
        self.session_id: int | None = None
        self.ends_session = False
        self.inherited = Inheritance()
        self.mysis = mysis
        self._store = store
        self._clock = clock
        self._waiting: list[PlacedEntry] = []
        self._media: dict[int, tuple[ContextMedia, ...]] = {}  # of results, by the id of their call
        self._positions: dict[int, int] = {}
        self._names: dict[int, str] = {}  # of the tools of open calls
        self._report = ""  # in the newest answer with calls
        self._turn_number = 0
        self._answers = 0
        self._for: tuple[str | None, str | None] = (None, None)
        self._committed = 0  # the newest memory that a commit of this capture holds
        self._is_loaded = False
        self._is_fresh = False
        self.tree = ""
        self._wanted: tuple[CommitNote, asyncio.Future[ContextCommit | None]] | None = None
        self._unsettled: CaptureStep | CompactionStep | None = None

    def note_settled(self, step: CaptureStep | CompactionStep) -> None:
        """Note that the op of a step is stored and known."""
        if self._unsettled is step:
            self._unsettled = None

    async def _catch_up(self) -> None:
        """Read the waiting messages again if the last op may or may not be stored.

        That is so where its caller was cancelled. The read runs in the writer, behind that op.
        """
        if self._unsettled is None:
            return
        self._unsettled = None
        tail, calls = await self._store.write(
            partial(capture_ops.read_state, name=self.name, mysis_id=self.mysis.id, most=_PAGE)
        )
        self._waiting = list(tail.entries) if self.policy.at_session_end else []
        self._positions = {call_id: position for call_id, position, _ in calls}
        self._names = {call_id: name for call_id, _, name in calls}

    def adopt(self, chain: ChainSettings) -> None:
        """Use a changed policy from the next op on."""
        if (changed := CapturePolicy.parse(chain)) != self.policy:
            self.policy = changed
            self._is_loaded = False

    async def load(self) -> None:
        """Commit the stored messages that no commit holds, after an update, import or changed policy.

        Call it before a turn is opened: until `begin_turn` or `go_on`, it is unknown what that op stores, because its
        caller may be cancelled.
        """
        await self._catch_up()
        self._unsettled = CaptureStep(self, None, (), 0)
        if self._is_loaded:
            return
        self._is_loaded = True
        self._waiting.clear()  # it is stored, and read from there
        origin = (await self._store.read(capture_ops.ORIGIN, {"name": self.name, "mysis": self.mysis.id}))[0]
        self._for = (origin["ticket_id"], origin["thread_id"])
        self._is_fresh = bool(origin["is_fresh"])
        self.inherited = Inheritance(origin["inherited"], origin["upto"], origin["turn"])
        if self.policy.at_session_end and origin["newest"] > origin["committed"]:
            await self.commit_stored(Checkpoint.EXPLICIT)

    async def commit_stored(self, checkpoint: Checkpoint, note: CommitNote | None = None) -> ContextCommit | None:
        """Commit the stored memories that no commit holds, in parts; return the last commit."""
        about = {"name": self.name, "mysis": self.mysis.id}
        origin = (await self._store.read(capture_ops.ORIGIN, about))[0]
        self._for = (origin["ticket_id"], origin["thread_id"])
        after, upto, made = origin["committed"], origin["newest"], None
        while after < upto:
            read = partial(capture_ops.read_tail, mysis_id=self.mysis.id, after=after, upto=upto, most=_PAGE)
            async with self._store.search_reader() as reader:
                tail = await reader.run(read)
            if not tail.entries:
                break
            after = tail.last
            new = await self._pack(tail.entries, checkpoint)
            new = replace(
                new,
                memories=(tail.first, tail.last),
                note=CommitNote(note.summary or new.note.summary, (*note.tags, *new.note.tags)) if note else new.note,
                provenance=replace(new.provenance, session_id=self.session_id or origin["session_id"] or None),
            )
            made = await self._store.write(partial(capture_ops.record_commit, name=self.name, new=new))
            if made is None:
                break
        return made

    def begin_turn(self, number: int, memories: Sequence[Memory], notes: Iterable[Note], nudge: str, at: int) -> None:
        """Keep what opened a turn; `nudge` is empty where a message did."""
        self._unsettled = None
        self._turn_number = number
        self.ends_session = False
        self._forget_calls()
        if nudge:
            self._waiting.append(build_nudge(number, nudge, at))
        self.add(memories, notes, at)

    def go_on(self, number: int, memories: Sequence[Memory], nudge: str, at: int) -> None:
        """Continue with an interrupted turn. What no commit holds of its memories is read with the next step."""
        self._turn_number = number
        self.ends_session = False
        self._forget_calls()
        self._note_calls(memories)
        if not memories:
            self._unsettled = None
            if nudge:
                self._waiting.append(build_nudge(number, nudge, at))

    def add(self, memories: Sequence[Memory], notes: Iterable[Note] = (), at: int = 0, *, committed: int = 0) -> None:
        """Keep stored memories and notes, but the first `committed` ones."""
        self._note_calls(memories)
        if not self.policy.at_session_end:
            return
        waiting_ids = {one.memory_id for one in self._waiting}
        for place, memory in enumerate(memories):
            media = self._media.pop(memory.call_id or 0, ())
            # A state that is stored while a turn opens may have read and committed its prompts.
            if place >= committed and memory.id > self._committed and memory.id not in waiting_ids:
                self._waiting.append(build_entry(memory, self._positions, media))
        self._waiting += build_notes(self._turn_number, notes, at)

    def forget(self, covered: Sequence[PlacedEntry], upto: int = 0) -> None:
        """Forget the memories up to an id, because a commit holds them."""
        self._committed = max(self._committed, upto)
        gone = {id(one) for one in covered}
        self._waiting = [one for one in self._waiting if id(one) not in gone]
        self._is_fresh = False
        self._answers = 0

    def _note_calls(self, memories: Sequence[Memory]) -> None:
        for memory in memories:
            if memory.role is Role.ASSISTANT and memory.calls:
                # Those of earlier answers stay: calls of an external agent overlap.
                self._positions |= {call.id: call.position for call in memory.calls}
                self._names |= {call.id: call.name for call in memory.calls}
                self._report = find_report(memory.calls)

    def _forget_calls(self) -> None:
        self._positions, self._names = {}, {}

    async def prepare(self, op: t.TurnOp) -> CaptureStep:
        """Return the commit that belongs to an op of the turn, with its blobs ready."""
        await self._catch_up()
        checkpoint = self._find_trigger(op)
        if self._wanted is not None and isinstance(op, t.StoreAnswer | t.StoreResult | t.LeaveTurn):
            checkpoint = Checkpoint.SESSION_END if checkpoint is Checkpoint.SESSION_END else Checkpoint.EXPLICIT
        self._note_media(op)
        if checkpoint is None:
            step = self._unsettled = CaptureStep(self, None, (), 0)
            return step
        if self._wanted is not None and not self.policy.at_session_end:
            await self.commit_stored(Checkpoint.EXPLICIT)  # this policy keeps nothing for a commit
        step = await self._prepare(checkpoint, self._build_added(op))
        if self._wanted is not None:
            step.fulfil(*self._wanted)
            self._wanted = None
        return step

    async def prepare_end(self, *, ends: bool = True) -> CaptureStep:
        """Return the last commit of a session, where it ends."""
        if not ends or not self.policy.at_session_end:
            return CaptureStep(self, None, (), 0)
        await self._catch_up()
        return await self._prepare(Checkpoint.SESSION_END, [])

    async def commit_now(self, note: CommitNote) -> ContextCommit | None:
        """Commit what waits, while no turn is open; None where nothing does."""
        made = await self.commit_stored(Checkpoint.EXPLICIT, note)
        if made is not None:
            self._waiting.clear()
        return made

    def commit_next(self, note: CommitNote) -> asyncio.Future[ContextCommit | None]:
        """Commit with the next answer or result of the open turn. The future is done when it is stored."""
        if self._wanted is None:
            self._wanted = note, asyncio.get_running_loop().create_future()
        return self._wanted[1]

    async def prepare_compaction(
        self, entries: Sequence[ContextEntry], summary: str, *, model: str = "", only_after: int = 0
    ) -> CompactionStep:
        """Return the commits before the open turn: of a summary, and of uncommitted memories.

        Args:
            entries: What stands for the conversation now: the summary, and the messages that stay beside it.
            model: The model that wrote the summary; empty where none did.
            only_after: The commit that the branch has to end with; 0 for any.
        """
        if not self.policy.at_session_end:
            return CompactionStep(self, None, (), None, 0)
        await self._catch_up()
        covered = tuple([one for one in self._waiting if one.place[0] < self._turn_number])
        delta = await self._pack(covered, Checkpoint.COMPACTION) if covered else None
        made = await asyncio.to_thread(self._build, tuple(entries), Checkpoint.COMPACTION)
        made = replace(made, kind=CommitType.COMPACTION, note=CommitNote(summary, model=model))
        step = self._unsettled = CompactionStep(self, delta, covered, made, only_after)
        return step

    async def flush(self) -> None:
        """Commit what waits, because the process ends."""
        step = await self.prepare_end()
        if step.has_commit:
            await self._store.write(step.write)
            step.settle()

    async def _prepare(self, checkpoint: Checkpoint, added: list[PlacedEntry]) -> CaptureStep:
        covered = tuple(self._waiting)
        if not covered and not added:
            return CaptureStep(self, None, (), 0)
        entries = sorted((*covered, *added), key=lambda one: one.place)
        step = self._unsettled = CaptureStep(self, await self._pack(entries, checkpoint), covered, len(added))
        return step

    async def _pack(self, placed: Sequence[PlacedEntry], checkpoint: Checkpoint) -> NewCommit:
        entries = tuple(one.entry for one in placed)
        size = sum(len(one.content) + len(one.reasoning) + sum(len(c.arguments) for c in one.calls) for one in entries)
        if size <= _INLINE_CHARS:
            return self._build(entries, checkpoint)
        return await asyncio.to_thread(self._build, entries, checkpoint)

    def _build(self, entries: tuple[ContextEntry, ...], checkpoint: Checkpoint) -> NewCommit:
        delta = encode_delta(entries)
        blob, lifted = prepare_blobs(delta.data, delta.lifted)
        ticket_id, thread_id = self._for
        mysis = self.mysis
        tags = (FRESH,) if self._is_fresh else ()
        if self.tree:  # as a tag, so that stored and exported commits keep their form
            tags = (*tags, f"{TREE}{self.tree[:_TREE_DIGITS]}")
        return NewCommit(
            parent=None,  # the branch knows it
            kind=CommitType.DELTA,
            format=ZOEA,
            blob=blob,
            lifted=lifted,
            checkpoint=checkpoint,
            provenance=Provenance(
                mysis.name, describe_machine(), mysis.template_hash, mysis.id, self.session_id, ticket_id, thread_id
            ),
            message_count=len(entries),
            token_count=sum([one.token_count for one in entries]),
            note=CommitNote(summarise_entries(entries, self._report), tags),
            media=tuple([one.digest for entry in entries for one in entry.media]),
            days=self.policy.days,
        )

    def _find_trigger(self, op: t.TurnOp) -> Checkpoint | None:
        """Return what the commit of an op is called; None where the policy wants none."""
        policy = self.policy
        match op:
            case t.StoreAnswer():
                self._answers += 1
                ends = op.outcome is not None and policy.at_turn_end
                is_due = ends or 0 < policy.every <= self._answers
            case t.CloseTurn():
                is_due = policy.at_turn_end
            case t.StoreResult():
                tells = policy.at_telling and self._names.get(op.call_id) in _TELLING and op.state is CallState.DONE
                return Checkpoint.TOOL_CALL if policy.at_results or tells else None
            case t.BreakOffTurn():
                is_due = False
            case _:
                return None
        if self.ends_session and policy.at_session_end:
            return Checkpoint.SESSION_END
        return Checkpoint.TURN_BOUNDARY if is_due else None

    def _build_added(self, op: t.TurnOp) -> list[PlacedEntry]:
        """Return the entries of what an op will store, in its order."""
        match op:
            case t.StoreAnswer():
                calls = tuple([ContextCall(clean(one.name), clean(one.arguments)) for one in op.calls])
                return [self._answer(op.answer, op.seq, calls=calls)]
            case t.StoreResult():
                return [self._result(op)]  # those of identical calls are kept for the next commit
            case t.CloseTurn() | t.BreakOffTurn():
                entries = [self._result(result) for result in op.results]
                if op.partial is not None and (op.partial.text.strip() or op.partial.reasoning.strip()):
                    entries.append(self._answer(op.partial, op.seq, is_partial=True))
                return entries
            case _:
                return []

    def _answer(
        self, answer: Answer, seq: int, *, calls: tuple[ContextCall, ...] = (), is_partial: bool = False
    ) -> PlacedEntry:
        entry = ContextEntry(
            Role.ASSISTANT,
            clean(answer.text),
            Source.LLM.value,
            at=self._clock.now(),
            reasoning=clean(answer.reasoning),
            calls=calls,
            is_partial=is_partial,
        )
        return PlacedEntry((self._turn_number, seq, 0), entry)

    def _result(self, op: t.StoreResult) -> PlacedEntry:
        entry = ContextEntry(
            Role.TOOL,
            clean(op.result.content),
            Source.TOOL.value,
            at=self._clock.now(),
            position=self._positions.get(op.call_id),
            is_error=op.state is not CallState.DONE,
            media=_media_of(op),
        )
        return PlacedEntry((self._turn_number, op.seq, 0), entry)

    def _note_media(self, op: t.TurnOp) -> None:
        """Note the images of results that a later commit will hold."""
        results = (op,) if isinstance(op, t.StoreResult) else op.results if isinstance(op, t.LeaveTurn) else ()
        for result in results:
            if result.result.blobs:
                self._media[result.call_id] = _media_of(result)


def _media_of(op: t.StoreResult) -> tuple[ContextMedia, ...]:
    return tuple([ContextMedia(blake3(one.data).digest(), one.media_type, clean(one.note)) for one in op.result.blobs])
