"""Reads what the strategy `window` needs of a conversation before the first plan.

Reading, shaping and choosing lines take a while for a long conversation, so they run beside the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

from zoea.context import FrozenTurn, ShownConversation, StoredAnswer, message_tokens, request_limit
from zoea.context.forms import FULL, render_memory
from zoea.context.strategies.sliding_window import count_verbatim
from zoea.context.window.conversation_shape import Conversation, ConversationShape, SummaryRange, shape_conversation
from zoea.context.window.conversation_summary import (
    COMPARED_MESSAGES,
    ComposedSummary,
    RangeDigest,
    clean_prose,
    compose_summary,
    digest_all,
    digest_messages,
    join_digests,
    read_digest,
    split_ranges,
    write_digest,
)
from zoea.context.window.window_estimate import estimate_memory, estimate_text
from zoea.context.window.window_rules import WindowRules
from zoea.model.values import Memory
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.commit_capture import CompactionStep
from zoea.swarm.memory_entries import build_entries, build_summary
from zoea.swarm.persistence import turn_ops, window_ops
from zoea.swarm.turn.summary_stage import OpenedTurnFacts
from zoea.text import estimate
from zoea.text.sentences import count_of

_SMALL_SHARE = 0.8
"""The share of its room below which the text of a summary leaves room for messages."""


class _Prepared(Struct, frozen=True):
    """A shaped conversation with its summary, and the ranges to store, if any.

    Attributes:
        verbatim: The tokens of all messages that a request may show.
        compact: A shorter form of the summary.
        before: Messages that summaries cover, as far as they were read; they show what is said often.
        covered: How many messages the summary stands for.
        failure: Why no model wrote it, where one was to.
    """

    shape: ConversationShape
    summary: ComposedSummary = ComposedSummary()
    verbatim: int = 0
    compact: str = ""
    before: tuple[Memory, ...] = ()
    new: tuple[SummaryRange, ...] = ()
    covered: int = 0
    covered_tokens: int = 0
    models: tuple[str, ...] = ()
    failure: str = ""

    def answer(self) -> StoredAnswer:
        shape = self.shape
        primers = sorted((*shape.primers, *shape.marked), key=lambda memory: (memory.turn_id, memory.seq))
        return StoredAnswer.of(
            {
                "primers": [memory.id for memory in primers],
                "recents": [memory.id for memory in shape.recents],
                "elided": sorted(shape.elided),
                "summary": self.summary.text,
                "compact": self.compact,
                "covered": self.covered,
                "left_out": self.summary.left_out,
                "models": list(self.models),
                "no_model": self.failure,
                "steps": list(shape.steps),
                "cause": shape.cause,
                "is_for_budget": shape.is_for_budget,
                "whole": shape.whole,
                "verbatim": self.verbatim,
            }
        )


async def read_conversation_view(facts: OpenedTurnFacts, need: ShownConversation) -> StoredAnswer | None:
    """Answer the view of a turn. A summary that it needs is written and stored with it.

    None where a model has to write a part of the summary first.
    """
    frozen, services, summaries = facts.frozen, facts.services, facts.summaries
    rules = frozen.window or WindowRules()
    rows = await window_ops.read_conversation(services.store, frozen, need.before, rules)
    prepared = await asyncio.to_thread(_shape, frozen, rules, rows, facts.prompts)
    shape = prepared.shape
    if shape.is_due:
        prose = await summaries.find_prose(shape)
        if prose is None:
            return None
        before: tuple[Memory, ...] = ()
        if shape.ranges:
            before = await window_ops.read_covered(services.store, frozen.mysis_id, shape.ranges[-1], COMPARED_MESSAGES)
        failure = "" if prose else summaries.failure
        new = await asyncio.to_thread(_write_ranges, shape, before, prose, summaries.model_name, failure)
        prepared = await asyncio.to_thread(_compose, replace(prepared, new=new), rows.unread)
    answer = prepared.answer()
    if prepared.new or shape.is_skipped:
        stored = {need.key: answer.text}
        step = await _prepare_commit(facts, prepared)
        await services.write(partial(_store, frozen=frozen, prepared=prepared, answers=stored, step=step))
        if step is not None:
            step.settle()
    return answer


def shape_limits(frozen: FrozenTurn, prompts: Sequence[Memory]) -> tuple[int, int]:
    """Return the budget of a request, and the tokens beside the conversation."""
    # The estimate of this strategy has a margin of its own; a model that counts more than it gets less.
    budget = max(1, int(request_limit(frozen).tokens / max(1.0, frozen.calibration)))
    overhead = estimate.tokens(frozen.system) + frozen.tools_tokens + estimate.tokens(frozen.situation)
    return budget, overhead + sum(message_tokens(render_memory(memory, FULL)) for memory in prompts)


def _shape(
    frozen: FrozenTurn, rules: WindowRules, rows: window_ops.ConversationRows, prompts: tuple[Memory, ...]
) -> _Prepared:
    conversation = rows.conversation()
    budget, overhead = shape_limits(frozen, prompts)
    shaped = partial(shape_conversation, rules, conversation, budget=budget, overhead=overhead)
    prepared = _compose(_prepare(shaped(), conversation), conversation.unread)
    taken = int(estimate_text(prepared.summary.text))
    if taken < _SMALL_SHARE * prepared.shape.summary_tokens:
        # The text is smaller than it may be, so that more messages stay.
        prepared = _compose(_prepare(shaped(summary_tokens=taken), conversation), conversation.unread)
    return replace(prepared, verbatim=count_verbatim(conversation, frozen))


def _prepare(shape: ConversationShape, conversation: Conversation) -> _Prepared:
    """Return a shape with the messages of ranges that were wholly read. They serve many turns."""
    held = [tuple(filter(one.holds, conversation.newer)) for one in shape.ranges]
    whole = [memories for one, memories in zip(shape.ranges, held, strict=True) if len(memories) == one.messages]
    return _Prepared(shape, before=tuple([memory for memories in whole for memory in memories]))


def _compose(prepared: _Prepared, unread: int) -> _Prepared:
    """Compose the summary of all that is not verbatim."""
    shape = prepared.shape
    if not shape.summary_tokens:
        return prepared
    ranges, waiting = shape.ranges, shape.middle
    if prepared.new:
        ranges, waiting = _replace_ranges(ranges, prepared.new), ()
    digests = [read_digest(one.text, one.messages) for one in ranges]
    if waiting:
        digests += digest_all(waiting, prepared.before)
    return replace(
        prepared,
        summary=compose_summary(digests, shape.summary_tokens, unread=unread),
        compact=compose_summary(digests, shape.summary_tokens // 2, unread=unread).text,
        covered=sum(one.messages for one in digests),
        covered_tokens=sum(one.tokens for one in ranges) + int(sum(map(estimate_memory, waiting))),
        models=tuple(dict.fromkeys(one.model for one in ranges if one.model)),
        failure=next((one.failure for one in reversed(digests) if one.failure), ""),
    )


def _replace_ranges(ranges: Sequence[SummaryRange], new: Sequence[SummaryRange]) -> tuple[SummaryRange, ...]:
    """Return the ranges in order, without those that a new one covers."""
    kept = [one for one in ranges if not any(other.first <= one.first <= other.last for other in new)]
    return tuple(sorted((*kept, *new), key=lambda one: one.first))


def _write_ranges(
    shape: ConversationShape, before: tuple[Memory, ...], prose: str, model: str, failure: str
) -> tuple[SummaryRange, ...]:
    """Return ranges for the middle, and one that joins old ones, if too many.

    Args:
        before: The newest messages that ranges cover; those of the newest go on with the middle where it is open.
    """
    made: list[SummaryRange] = []
    for number, waiting in groupby(
        shape.middle, key=lambda memory: sum(one.last < (memory.turn_id, memory.seq) for one in shape.ranges)
    ):
        is_newest = number == len(shape.ranges)
        goes_on = is_newest and bool(shape.ranges) and shape.ranges[-1].is_open
        opened = [memory for memory in before if goes_on and shape.ranges[-1].holds(memory)]
        parts = split_ranges([*opened, *waiting])
        former = before[: len(before) - len(opened)] if is_newest else ()
        for place, part in enumerate(parts, 1):
            digest = replace(digest_messages(part, former), failure=failure)
            former = (*former, *part)[-COMPARED_MESSAGES:]
            by = ""
            if is_newest and place == len(parts) and prose:
                digest, by = replace(digest, prose=clean_prose(prose)), model
            elif goes_on and place == 1:
                former_range = shape.ranges[-1]
                digest, by = replace(digest, prose=read_digest(former_range.text, 0).prose), former_range.model
            made.append(_make_range(part, digest, by))
    ranges = _replace_ranges(shape.ranges, made)
    if len(ranges) > window_ops.MOST_RANGES:
        oldest = ranges[: window_ops.JOINED]
        digest = join_digests([read_digest(one.text, one.messages) for one in oldest])
        by = next((one.model for one in oldest if one.model), "")
        tokens = sum(one.tokens for one in oldest)
        text = write_digest(digest)
        made.append(SummaryRange(0, oldest[0].first, oldest[-1].last, digest.messages, tokens, text, by))
    return tuple(made)


def _make_range(part: Sequence[Memory], digest: RangeDigest, model: str) -> SummaryRange:
    places = [(memory.turn_id, memory.seq) for memory in part]
    tokens = int(sum(map(estimate_memory, part)))
    return SummaryRange(0, min(places), max(places), len(part), tokens, write_digest(digest), model)


async def _prepare_commit(facts: OpenedTurnFacts, prepared: _Prepared) -> CompactionStep | None:
    """Return the commit of a new summary: with it stand the messages that requests show beside it."""
    shape, text = prepared.shape, prepared.summary.text
    if not prepared.new:
        return None
    return await facts.capture.prepare_compaction(
        [*build_entries(shape.primers), build_summary(text, facts.services.clock.now()), *build_entries(shape.recents)],
        f"A summary of {count_of(prepared.covered, 'message')}: {text}",
        model=prepared.models[-1] if prepared.models else "",
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
    shape = prepared.shape
    if prepared.new:
        ids = [window_ops.store_range(conn, frozen.mysis_id, one, len(shape.recents)) for one in prepared.new]
        if step is not None:
            step.write(conn, ids[-1])
        conn.emit(
            "context.summary",
            frozen.mysis_id,
            turn=frozen.turn_id,
            messages=len(shape.middle),
            covered=prepared.covered,
            tokens_before=prepared.covered_tokens,
            tokens=estimate.tokens(prepared.summary.text),
            status="failed" if prepared.failure else "triggered",
            model=bool(prepared.models),
        )
    elif shape.is_skipped:
        conn.emit("context.summary_skipped", frozen.mysis_id, turn=frozen.turn_id)
