"""Estimates what the first request of a fork will hold and cost. It makes no request."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from zoea.chain.commit import ContextCommit
from zoea.chain.commit_rows import read_commit, shortest_id
from zoea.model.errors import RevisionError
from zoea.model.values import SAME_MYSIS, MysisOverrides
from zoea.queries.stored_swarm import open_database
from zoea.text.amounts import format_dollars
from zoea.text.sentences import count_of

if TYPE_CHECKING:
    from zoea.queries.fork_costs import ForkCost
    from zoea.settings.paths import Places
    from zoea.settings.schema import Settings

MOST_FORKS = 50
_WHOLE_TIER = 2


class FirstRequestEstimate(Struct, frozen=True):
    """The commit that a request begins with, and the sizes and price of the request."""

    commit: ContextCommit
    short_id: str
    cost: ForkCost
    where: Places
    settings: Settings

    def price(self, count: int = 1) -> int | None:
        """Return what so many cost, in millionths of a dollar. None where the price is not known."""
        return self.price_of(self.cost.tokens * count, 0)

    def price_of(self, tokens: int, output: int) -> int | None:
        """Return what so many tokens and those of an answer cost, in the same unit."""
        from zoea.llm.prices import PriceList
        from zoea.runtime.provider_set import costs_nothing

        prices = PriceList(self.where.prices, partial(costs_nothing, self.settings))
        price = prices.find(self.cost.provider, self.cost.model)
        return None if price is None else price.cost(tokens, output)


def estimate_from_commit(
    where: Places, database: Path, seq: int, message: str, overrides: MysisOverrides = SAME_MYSIS, *, thread: str = ""
) -> FirstRequestEstimate:
    """Estimate the first request of a mysis made from a commit that gets this message.

    Args:
        thread: The discussion that the message belongs to: its newest commit counts, where it has one.

    Raises:
        MissingBlob: A part of the conversation is gone.
        PlanError: The request does not fit.
        RevisionError: The commit was collected.
        SettingsError: The settings cannot be read.
        TemplateError: There is no such template.
    """
    # The planner and the settings take most of the start of the commands that import this module and seldom call it.
    from zoea.queries.fork_costs import read_fork_cost
    from zoea.settings.layers import load
    from zoea.swarm.persistence.capture_ops import find_thread

    loaded = load(where)
    settings = loaded.settings
    with open_database(database) as reader:
        commit = read_commit(reader, seq)
        if commit is None:
            raise RevisionError(
                "this commit was removed by `zoea ctx gc`",
                hint="Choose another one. A commit with a name (`zoea ctx note --name`) is never removed.",
            )
        if thread:
            commit = find_thread(reader, commit, thread, settings.swarm.default_template)[1]
        cost = read_fork_cost(reader, commit, message, settings, loaded.templates, overrides)
        return FirstRequestEstimate(commit, shortest_id(reader, commit), cost, where, settings)


def describe_price(micros: int | None) -> str:
    """Return a price in words."""
    if micros is None:
        return "at a price that is not known"
    return f"about {format_dollars(micros)}" if micros else "at no cost"


def describe_first_request(said: FirstRequestEstimate, count: int, micros: int | None) -> str:
    """Return the messages, tokens and price in one line."""
    cost = said.cost
    shown = "" if cost.shown == cost.messages else f", the newest {cost.shown} as they were and a summary of the others"
    if cost.is_summed_by_model:
        shown += ", which a model writes first as background work"
    if cost.tier > _WHOLE_TIER:
        shown = ", told as one text, because its format is not understood message by message"
    money = describe_price(micros)
    whose = "" if cost.has_own_tools else f" that {said.commit.provenance.principal} has"
    tools = f", with the prompt and the tools{whose}"
    if not cost.has_tools:
        tools = ", without the schemas of tools"
    each = f"about {cost.tokens:,} tokens"
    total = f"{each}{tools}" if count == 1 else f"{each} each{tools}, {cost.tokens * count:,} for {count}"
    return f"{said.short_id}: {count_of(cost.messages, 'message')}{shown}. First request: {total}, {money}"
