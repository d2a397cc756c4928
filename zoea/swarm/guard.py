"""The loop guard: sees when a mysis repeats itself. Pure. Source: turns.md, "A turn", 6."""

from __future__ import annotations

from collections import Counter
from fnmatch import fnmatchcase

from zoea.model.values import Memory
from zoea.model.words import Role
from zoea.swarm.rules import LoopRules
from zoea.swarm.turn_types import PastCall

NOTE_KIND = "loop"


def warning(repeated: str) -> str:
    """What the model reads before the turn is ended for looping."""
    return (
        f"[note from Zoea] You are repeating yourself: {repeated}. Do something else, or answer without tool calls. "
        "If it happens again this turn ends."
    )


def calls_of(memories: tuple[Memory, ...]) -> tuple[PastCall, ...]:
    """The finished calls of these memories, in call order."""
    return tuple(
        PastCall(call.name, call.fingerprint, call.result_fingerprint)
        for memory in memories
        for call in memory.calls
        if not call.state.is_open
    )


def texts_of(memories: tuple[Memory, ...]) -> tuple[str, ...]:
    """What the model said beside its calls, where it said something."""
    return tuple(
        text
        for memory in memories
        if memory.role is Role.ASSISTANT and not memory.partial and (text := memory.content.strip())
    )


def repetition(
    memories: tuple[Memory, ...], earlier_calls: tuple[PastCall, ...], earlier_texts: tuple[str, ...], rules: LoopRules
) -> str:
    """What repeats, in words; empty where nothing does.

    Args:
        memories: Those of the current turn.
        earlier_calls, earlier_texts: Those of the turn before, oldest first.
    """
    own = calls_of(memories)
    # A call of this turn must be part of it: what the turn before did alone is past.
    if own:
        window = [call for call in (*earlier_calls, *own)[-rules.window :] if not _is_exempt(call, rules)]
        found = _calls(window, rules)
        if found:
            return found
    texts = texts_of(memories)
    if texts:
        said = Counter((*earlier_texts, *texts)[-rules.window :])
        if said[texts[-1]] >= rules.same_text:
            return f"the same text {said[texts[-1]]} times"
    return ""


def _calls(window: list[PastCall], rules: LoopRules) -> str:
    if not window:
        return ""
    last = window[-1]
    same = [call for call in window if call.fingerprint == last.fingerprint]
    if len(same) >= rules.same_call:
        return f"{last.name} with the same arguments {len(same)} times"
    alike = [call for call in same if call.result_fingerprint == last.result_fingerprint]
    if len(alike) >= rules.same_result:
        return f"{last.name} with the same arguments and the same result {len(alike)} times"
    tail = [call.fingerprint for call in window[-6:]]
    if len(tail) == 6 and tail[0] != tail[1] and tail == [tail[0], tail[1]] * 3:
        return f"{window[-2].name} and {last.name} in turns, three times"
    return ""


def _is_exempt(call: PastCall, rules: LoopRules) -> bool:
    return any(fnmatchcase(call.name, pattern) for pattern in rules.exempt)
