"""Plans the first request of a fork without sending it, to count messages and tokens."""

from __future__ import annotations

import sqlite3

from msgspec import Struct
from msgspec.structs import replace

from zoea.chain.commit import ContextCommit
from zoea.chain.commit_rows import count_known, find_whole
from zoea.context import FrozenTurn, InheritedContext, TurnRecord, TurnSoFar, plan_turn
from zoea.context.inherited_pack import Inheritance, freeze_inherited
from zoea.model.enums import OpenedBy, Role, Source
from zoea.model.values import SAME_MYSIS, Memory, MysisOverrides
from zoea.settings.endpoints import ProviderType
from zoea.settings.schema import Settings
from zoea.settings.template import effective_settings
from zoea.settings.template_library import Templates
from zoea.swarm.creation import NewMysis, build_spec, find_template, read_maker
from zoea.swarm.inherited_context import estimate_inherited
from zoea.text.estimate import tokens

# The newest turn of a mysis with the template, if possible of the one that made the commit, else of that one alone.
_NEWEST = """
SELECT t.frozen, y.template_hash = :template AS has_template FROM mysis y
JOIN turn t ON t.id = (SELECT max(id) FROM turn WHERE mysis_id = y.id)
WHERE y.id = :mysis OR y.template_hash = :template ORDER BY has_template DESC, y.id = :mysis DESC, t.id DESC LIMIT 1
"""
_ASKED_MODEL = "SELECT model FROM request WHERE mysis_id = ? ORDER BY id DESC LIMIT 1"


class ForkCost(Struct, frozen=True):
    """Sizes of the first request of one mysis.

    Attributes:
        messages: Of the conversation up to the commit; `shown` of them stand in the request as they were.
        tokens: The estimate of the whole request.
        tier: How faithful the messages are; from 3 on they are one text.
        has_tools: Whether the schemas of tools are counted; not for a context of another program.
        has_own_tools: Whether they are those of its template; else those of the mysis that made the commit.
        is_summed_by_model: Whether a model writes first what the others say.
    """

    messages: int
    shown: int
    tokens: int
    tier: int
    provider: str
    model: str
    has_tools: bool
    has_own_tools: bool = True
    is_summed_by_model: bool = False


def read_fork_cost(
    conn: sqlite3.Connection,
    commit: ContextCommit,
    text: str,
    settings: Settings,
    templates: Templates,
    overrides: MysisOverrides = SAME_MYSIS,
) -> ForkCost:
    """Estimate the first request of a mysis made from a commit that gets this message.

    Raises:
        MissingBlob: A part of the conversation is gone.
        PlanError: The request does not fit.
        TemplateError: There is no such template.
    """
    origin = read_maker(conn, commit)
    template = find_template(overrides.template, origin, templates, settings)
    about = {"template": template.hash, "mysis": commit.provenance.mysis_id}
    frozen_text, has_template = conn.execute(_NEWEST, about).fetchone() or ("", True)
    if overrides == SAME_MYSIS and origin.provider:
        provider, model = origin.provider, origin.model  # also where the settings know the provider no more
    else:
        spec = build_spec(NewMysis("", provider=overrides.provider, model=overrides.model), template, origin, settings)
        provider, model = spec.provider, spec.model
    if not model and provider == origin.provider:
        asked = conn.execute(_ASKED_MODEL, (commit.provenance.mysis_id,)).fetchone()
        model = asked[0] if asked else ""
    own = effective_settings(settings, template)
    if frozen_text:
        frozen = FrozenTurn.from_json(frozen_text, system=template.prompt)
    else:
        frozen = FrozenTurn(0, 1, 1, system=template.prompt, max_tokens=own.budget.token_budget_per_agent)
    frozen = replace(
        frozen,
        tools_tokens=frozen.tools_tokens + frozen.withheld_tokens,  # a fork is not alone
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
    need = InheritedContext(frozen.inherited, frozen.inherited_tokens, from_root=True)
    inherited = estimate_inherited(conn, need)
    prompt = Memory(1, 0, frozen.turn_id, 1, 1, Role.USER, Source.DIRECT, text or "-", tokens=tokens(text))
    plan = plan_turn(frozen, {TurnSoFar(frozen.turn_id): TurnRecord((prompt,)), need: inherited})
    # Without the results that Zoea adds for open calls.
    whole = find_whole(conn, commit.seq, need.max_tokens)
    messages = count_known(conn, commit.seq)[0] if whole is None else whole[1]
    return ForkCost(
        messages,
        len(inherited.messages) if inherited.left_out else messages,
        plan.budget.final_tokens,
        inherited.tier,
        provider,
        model,
        has_tools=bool(frozen_text),
        has_own_tools=bool(has_template),
        is_summed_by_model=bool(inherited.left_out) and _has_writer(own, provider),
    )


def _has_writer(own: Settings, provider: str) -> bool:
    """Return whether a model writes summaries, as far as settings tell."""
    if own.context.summary != "auto":
        return own.context.summary == "model"
    own_provider = own.provider_named(provider)
    has_model = own_provider is not None and own_provider.type not in (ProviderType.SCRIPTED, ProviderType.AUTOPILOT)
    return has_model or bool(own.context.summary_provider)
