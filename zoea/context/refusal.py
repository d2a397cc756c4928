"""What a person reads when a request cannot be made to fit: which part, how large, what to change (I1)."""

from __future__ import annotations

from collections.abc import Sequence

from zoea.context.choice import Choice
from zoea.context.frozen import Frozen, Limit, raised
from zoea.model.errors import PlanError

_PARTS = {
    "system": ("the system prompt", "shorten the template's prompt"),
    "tools": ("the tool schemas", "allow fewer tools in the template"),
    "order": ("the standing order", "give the mysis a shorter order"),
    "turn": ("the prompts and latest calls of the turn", "send the text in smaller parts"),
}


def refusal(choices: Sequence[Choice], bound: Limit, frozen: Frozen) -> PlanError:
    """The error for packs that must be there and take more than `bound` together."""
    must = sorted((one for one in choices if one.size.tokens), key=lambda one: -one.size.tokens)
    need = sum(choice.size.tokens for choice in must)
    sizes = ", ".join(f"{_part(one)[0]} {one.size.tokens:,} ({one.size.chars:,} characters)" for one in must)
    return PlanError(
        f"The request needs at least {need:,} tokens and may have {max(bound.tokens, 0):,}. It must hold {sizes}.",
        hint=f"Raise {bound.setting} to at least {raised(bound, frozen, need):,}, or {_part(must[0])[1]}.",
    )


def _part(choice: Choice) -> tuple[str, str]:
    return _PARTS.get(choice.pack.id, (choice.pack.id, f"make the pack {choice.pack.id} shorter"))
