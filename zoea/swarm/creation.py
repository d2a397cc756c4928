"""Stores a new mysis with the messages that open its first turn."""

from __future__ import annotations

from zoea.model.enums import DeliveryMode
from zoea.model.values import COMMANDER, Mysis
from zoea.settings import Settings, Template
from zoea.store import WriterConnection
from zoea.swarm.persistence import message_ops, mysis_ops
from zoea.swarm.rules import HOUR


def checked_prompt(text: str, settings: Settings) -> str:
    """Return a first message as it will be stored, "" for a blank one. Raises UsageError where it is too long."""
    return message_ops.checked(text, settings.budget.token_budget_per_agent) if text.strip() else ""


def default_model(provider: str, settings: Settings) -> str:
    """Return the model of a provider that is used where none is named, "" for none."""
    found = settings.provider_named(provider)
    return found.model if found is not None else ""


def store_new(
    conn: WriterConnection, new: mysis_ops.MysisSpec, template: Template, settings: Settings, inherit: bool
) -> Mysis:
    """Store a mysis with its first messages: its task, else its template's opening, and the latest broadcast.

    Raises SwarmFull, NameRefused and UsageError.
    """
    mysis = mysis_ops.create(conn, new, settings.swarm.max_myses)
    if first := new.goal or checked_prompt(template.opening, settings):
        outgoing = message_ops.OutgoingMessage(first, COMMANDER, DeliveryMode.QUEUE, is_task=bool(new.goal))
        message_ops.send(conn, mysis.id, outgoing, settings.swarm.max_hops, 0)
    hours = settings.swarm.inherit_broadcast_hours
    if inherit and hours:
        message_ops.inherit(conn, mysis.id, conn.now() - int(hours * HOUR))
    return mysis_ops.find(conn, mysis.id)
