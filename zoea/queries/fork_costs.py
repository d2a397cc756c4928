"""Plans the first request of a fork without sending it, to count messages and tokens."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace

from zoea.chain.commit import ContextCommit
from zoea.context import FrozenTurn, InheritedContext, InheritedMessages, TurnRecord, TurnSoFar, plan_turn
from zoea.context.inherited_pack import Inheritance, freeze_inherited
from zoea.model.enums import OpenedBy, Role, Source
from zoea.model.values import Memory
from zoea.settings import Settings, Template, effective_settings, parse_template
from zoea.settings.endpoints import ProviderType
from zoea.swarm.inherited_context import build_inherited
from zoea.text.estimate import tokens

# The newest turn of the mysis that made a commit, and what made it.
_NEWEST = """
SELECT (SELECT body FROM template WHERE hash = :template) AS body,
  (SELECT frozen FROM turn WHERE mysis_id = :mysis ORDER BY id DESC LIMIT 1) AS frozen,
  (SELECT provider FROM mysis WHERE id = :mysis) AS provider,
  (SELECT coalesce(nullif(y.model, ''), (SELECT model FROM request WHERE mysis_id = y.id ORDER BY id DESC LIMIT 1))
   FROM mysis y WHERE y.id = :mysis) AS model
"""


@dataclass(frozen=True, slots=True)
class ForkCost:
    """Sizes of the first request of one mysis.

    Attributes:
        messages: Of the conversation up to the commit; `shown` of them stand in the request as they were.
        tokens: The estimate of the whole request.
        tier: How faithful the messages are; from 3 on they are one text.
        has_tools: Whether the schemas of tools are counted; not for a context of another program.
        is_summed_by_model: Whether a model writes first what the others say.
    """

    messages: int
    shown: int
    tokens: int
    tier: int
    provider: str
    model: str
    has_tools: bool
    is_summed_by_model: bool = False


def read_fork_cost(conn: sqlite3.Connection, commit: ContextCommit, text: str, settings: Settings) -> ForkCost:
    """Estimate the first request of a mysis made from a commit that gets this message.

    Raises:
        MissingBlob: A part of the conversation is gone.
        PlanError: The request does not fit.
    """
    about = {"template": commit.provenance.template_hash, "mysis": commit.provenance.mysis_id}
    body, frozen_text, provider, model = conn.execute(_NEWEST, about).fetchone()
    template = parse_template(body) if body else Template(name="default")
    own = effective_settings(settings, template)
    if frozen_text:
        frozen = FrozenTurn.from_json(frozen_text, system=template.prompt)
    else:
        frozen = FrozenTurn(0, 1, 1, system=template.prompt, max_tokens=own.budget.token_budget_per_agent)
    frozen = replace(
        frozen,
        turn_number=1,
        opened_by=OpenedBy.PROMPT,
        nudge_text="",
        before=0,
        earlier=(),
        keep_turns=0,
        recall_items=0,
        strategy="turns",
        window=None,
        topics=None,
    )
    frozen = freeze_inherited(frozen, Inheritance(commit.seq), own.inherited.max_tokens, own.inherited.keep)
    need = InheritedContext(frozen.inherited, frozen.inherited_tokens)
    found = build_inherited(conn, need)
    prompt = Memory(1, 0, frozen.turn_id, 1, 1, Role.USER, Source.DIRECT, text or "-", tokens=tokens(text))
    plan = plan_turn(frozen, {TurnSoFar(frozen.turn_id): TurnRecord((prompt,)), need: found})
    cost = _cost(found, plan.budget.final_tokens, provider or "", model or "", has_tools=bool(frozen_text))
    return replace(cost, is_summed_by_model=bool(found.left_out) and _has_writer(own, provider or ""))


def _has_writer(own: Settings, provider: str) -> bool:
    """Return whether a model writes summaries, as far as settings tell."""
    if own.context.summary != "auto":
        return own.context.summary == "model"
    known = own.provider_named(provider)
    has_model = known is not None and known.type not in (ProviderType.SCRIPTED, ProviderType.AUTOPILOT)
    return has_model or bool(own.context.summary_provider)


def _cost(found: InheritedMessages, size: int, provider: str, model: str, *, has_tools: bool) -> ForkCost:
    return ForkCost(found.whole, len(found.messages), size, found.tier, provider, model, has_tools)
