"""Answer what the strategy `window` needs of a conversation, once a turn, before its first plan.

Reading, shaping and choosing lines take a while for a long conversation, so they run beside the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from zoea.context import FrozenTurn, ShownConversation, StoredAnswer, message_tokens, request_limit
from zoea.context.forms import FULL, render_memory
from zoea.context.window.conversation_shape import Conversation, ConversationShape, CoveredMessages, shape_conversation
from zoea.context.window.conversation_summary import summarise
from zoea.context.window.window_estimate import estimate_memory
from zoea.context.window.window_rules import WindowRules
from zoea.model.values import Memory
from zoea.store import WriterConnection
from zoea.swarm.context_capture import CompactionStep
from zoea.swarm.memory_entries import build_entries, build_summary
from zoea.swarm.persistence import turn_ops, window_ops
from zoea.swarm.turn.opened_turn_facts import OpenedTurnFacts
from zoea.text import estimate
from zoea.text.sentences import count_of


class _Prepared(Struct, frozen=True):
    """A shaped conversation, with its new summary where one is due."""

    shape: ConversationShape
    covered: CoveredMessages
    new: window_ops.NewSummary | None = None
    failure: str = ""

    def answer(self) -> StoredAnswer:
        shape = self.shape
        primers = sorted((*shape.primers, *shape.marked), key=lambda memory: (memory.turn_id, memory.seq))
        return StoredAnswer.of(
            {
                "primers": [memory.id for memory in primers],
                "recents": [memory.id for memory in shape.recents],
                "elided": sorted(shape.elided),
                "summary": self.new.content if self.new is not None else self.covered.text,
                "steps": list(shape.steps),
                "is_for_budget": shape.is_for_budget,
                "whole": shape.whole,
            }
        )


async def read_conversation_view(facts: OpenedTurnFacts, need: ShownConversation) -> StoredAnswer | None:
    """Answer the view of a turn; a summary that it needs is written and stored with it.

    None where a model has to write a part of the summary first.
    """
    frozen, services, summaries = facts.frozen, facts.services, facts.summaries
    rules = frozen.window or WindowRules()
    rows = await window_ops.read_conversation(services.store, frozen, need.before, rules)
    now = services.clock.now()
    conversation, shape = await asyncio.to_thread(_shape, frozen, rules, rows, facts.prompts, now)
    prepared = _Prepared(shape, conversation.covered)
    if shape.is_due:
        prose = await summaries.find_prose(conversation, shape)
        if prose is None:
            return None
        new = await asyncio.to_thread(_write_summary, conversation, shape, prose, summaries.model_name)
        prepared = replace(prepared, new=new, failure="" if prose else summaries.failure)
    answer = prepared.answer()
    if prepared.new is not None or shape.is_skipped:
        stored = {need.key: answer.text}
        step = await _prepare_commit(facts, prepared)
        await services.write(partial(_store, frozen=frozen, prepared=prepared, answers=stored, step=step))
        if step is not None:
            step.settle()
    return answer


def _shape(
    frozen: FrozenTurn, rules: WindowRules, rows: window_ops.ConversationRows, prompts: tuple[Memory, ...], now: int
) -> tuple[Conversation, ConversationShape]:
    conversation = rows.conversation()
    # The estimate of this strategy has a margin of its own; a model that counts more than it gets less.
    budget = int(request_limit(frozen).tokens / max(1.0, frozen.calibration))
    overhead = estimate.tokens(frozen.system) + frozen.tools_tokens + estimate.tokens(frozen.situation)
    overhead += sum(message_tokens(render_memory(memory, FULL)) for memory in prompts)
    shape = shape_conversation(rules, conversation, budget=max(1, budget), overhead=overhead, now=now)
    return conversation, shape


def _write_summary(
    conversation: Conversation, shape: ConversationShape, prose: str, model: str
) -> window_ops.NewSummary:
    """Return the summary that extends the former one by the middle."""
    earlier, middle = conversation.covered, shape.middle
    content = summarise(middle, shape.summary_tokens, earlier=earlier.text, prose=prose, unread=conversation.unread)
    places = [(memory.turn_id, memory.seq) for memory in middle]
    covered = CoveredMessages(
        first=min([*places, *([earlier.first] if earlier.messages else [])]),
        last=max([*places, earlier.last]),
        messages=earlier.messages + len(middle),
        tokens=earlier.tokens + int(sum(map(estimate_memory, middle))),
        kept=len(shape.recents),
    )
    return window_ops.NewSummary(content, covered, model if prose else "")


async def _prepare_commit(facts: OpenedTurnFacts, prepared: _Prepared) -> CompactionStep | None:
    """Return the commit of a new summary: with it stand the messages that requests show beside it."""
    new, shape = prepared.new, prepared.shape
    if new is None:
        return None
    return await facts.capture.prepare_compaction(
        [
            *build_entries(shape.primers),
            build_summary(new.content, facts.services.clock.now()),
            *build_entries(shape.recents),
        ],
        f"A summary of {count_of(new.covered.messages, 'message')}: {new.content}",
        model=new.model,
    )


def _store(
    conn: WriterConnection,
    frozen: FrozenTurn,
    prepared: _Prepared,
    answers: Mapping[str, str],
    step: CompactionStep | None,
) -> None:
    """Store a new summary with the answer that shows it, and report its numbers."""
    turn_ops.store_answers(conn, frozen.turn_id, answers)
    shape, new = prepared.shape, prepared.new
    if new is not None:
        summary_id = window_ops.store_summary(conn, frozen.mysis_id, new)
        if step is not None:
            step.write(conn, summary_id)
        before = int(sum(map(estimate_memory, shape.middle)))
        conn.emit(
            "context.summary",
            frozen.mysis_id,
            turn=frozen.turn_id,
            messages=len(shape.middle),
            covered=new.covered.messages,
            tokens_before=before,
            tokens=estimate.tokens(new.content),
            status="failed" if prepared.failure else "triggered",
            model=bool(new.model),
        )
    elif shape.is_skipped:
        conn.emit("context.summary_skipped", frozen.mysis_id, turn=frozen.turn_id)
