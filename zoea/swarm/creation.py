"""Stores a new mysis with its first messages or its first commit."""

from __future__ import annotations

import sqlite3

from msgspec import Struct
from msgspec.structs import replace

from zoea.agents.agent_launch import find_agent
from zoea.chain.chain_reader import ChainReader
from zoea.chain.commit import ContextCommit
from zoea.chain.revisions import refuse_time, resolve_revision
from zoea.model.enums import DeliveryMode
from zoea.model.errors import MissingBlob, TemplateError
from zoea.model.values import COMMANDER, Mysis, Sender
from zoea.settings.schema import Settings, SwarmSettings
from zoea.settings.template import AGENT_PREFIX, Template, parse_template, play_by
from zoea.settings.template_library import Templates
from zoea.store.store import Store
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.persistence import capture_ops, message_ops, mysis_ops

NO_WORK = capture_ops.Work()
CODER = "coder"
"""The template of a mysis that works on files."""


class NewMysis(Struct, frozen=True):
    """The values of a new mysis; empty ones are chosen.

    Attributes:
        broadcast: The message of a broadcast that it gets before its task; 0 for none.
        work: The thread and ticket that its commits name.
        on: The folder that it works on; that of its template if empty.
        worktree: It has its own git worktree of that folder.
        question: Its first message where it is no task, by `asker` and with `hop`.
    """

    uid: str
    name: str = ""
    provider: str = ""
    model: str = ""
    tags: tuple[str, ...] = ()
    task: str = ""
    broadcast: int = 0
    work: capture_ops.Work = NO_WORK
    question: str = ""
    asker: Sender = COMMANDER
    hop: int = 0
    on: str = ""
    worktree: bool = False


class ContextOrigin(Struct, frozen=True):
    """The commit that a mysis is made from. Template, provider and model are of the commit's mysis.

    Attributes:
        unread: The commit, where its conversation cannot be read and the mysis begins without it.
    """

    commit: ContextCommit | None = None
    unread: ContextCommit | None = None
    template: Template | None = None
    provider: str = ""
    model: str = ""
    family: str = ""


NO_ORIGIN = ContextOrigin()
_WITHOUT = "With --allow-fresh, `zoea ctx resume` and `zoea new --from` start without the conversation."


async def read_origin(store: Store, revision: str, *, allow_fresh: bool = False) -> ContextOrigin:
    """Read what a revision names, and check that its conversation can be read.

    With `allow_fresh`, one that cannot be read is left out, and only the template and model of its mysis serve.

    Raises:
        RevisionError: It names no commit, or several.
        MissingBlob: A part of the conversation is gone.
    """
    if not revision:
        return NO_ORIGIN
    async with store.search_reader() as reader:
        return await reader.run(lambda conn: _read_origin(conn, revision, allow_fresh))


def check_readable(conn: sqlite3.Connection, commit: ContextCommit) -> None:
    """Check that the conversation up to a commit can be read. Raises MissingBlob."""
    try:
        ChainReader(conn).materialize(commit)
    except MissingBlob as error:
        raise MissingBlob(error.what, hint=_WITHOUT) from error


def _read_origin(conn: sqlite3.Connection, revision: str, allow_fresh: bool) -> ContextOrigin:
    origin = read_maker(conn, resolve_revision(conn, revision, refuse_time))
    assert origin.commit is not None
    try:
        check_readable(conn, origin.commit)
    except MissingBlob:
        if not allow_fresh:
            raise
        return replace(origin, commit=None, unread=origin.commit)
    return origin


def read_maker(conn: sqlite3.Connection, commit: ContextCommit) -> ContextOrigin:
    """Return a commit with the template, provider and model of its mysis. Reads none of its texts."""
    about = commit.provenance
    row = conn.execute(capture_ops.MADE_BY, (about.template_hash, about.mysis_id)).fetchone()
    body, provider, model, family = row
    try:
        template = None if body is None else parse_template(body)
    except TemplateError:
        template = None  # of a newer Zoea; the default one serves
    return ContextOrigin(commit, None, template, provider or "", model or "", family or "")


def find_template(
    name: str, origin: ContextOrigin, templates: Templates, settings: Settings, *, on: str = ""
) -> Template:
    """Return the template of a name, else that of the commit, else the default one. Raises TemplateError.

    Args:
        on: The folder that the mysis is to work on; for it `coder` stands in for the default that Zoea comes with.
    """
    if name or origin.template is None:
        return templates.get(name or choose_template(on, settings))
    return origin.template


def choose_agent(new: NewMysis, template: Template) -> tuple[NewMysis, Template]:
    """Let an external agent play the mysis, if named in place of a provider. Raises AgentError."""
    if not new.provider.startswith(AGENT_PREFIX):
        return new, template
    agent = find_agent(new.provider.removeprefix(AGENT_PREFIX))
    return replace(new, provider=""), play_by(template, agent.name)


def choose_template(on: str, settings: Settings) -> str:
    """Return the template of a mysis for which none is named."""
    default = settings.swarm.default_template
    return CODER if on and default == SwarmSettings().default_template else default


def build_spec(new: NewMysis, template: Template, origin: ContextOrigin, settings: Settings) -> mysis_ops.MysisSpec:
    """Return the values of a new mysis. Raises NameRefused, UsageError."""
    has_origin_template = origin.template is not None and origin.template.hash == template.hash
    inherited = origin.provider if has_origin_template and not new.provider else ""
    provider = settings.provider_name(new.provider or inherited or template.provider)
    model = new.model or (origin.model if inherited else "") or template.model or default_model(provider, settings)
    return mysis_ops.MysisSpec(
        uid=new.uid,
        name=mysis_ops.check_name(new.name) if new.name.strip() else "",
        template_name=template.name,
        template_hash=template.hash,
        template_body=template.text,
        provider=provider,
        model=model,
        tags=new.tags,
        goal=checked_prompt(new.task, settings),
        family=origin.family,
    )


def checked_prompt(text: str, settings: Settings) -> str:
    """Return a first message as it will be stored, "" for a blank one. Raises UsageError where it is too long."""
    return message_ops.checked(text, settings.budget.token_budget_per_agent) if text.strip() else ""


def default_model(provider: str, settings: Settings) -> str:
    """Return the model that a provider uses where none is named, "" for none."""
    own = settings.provider_named(provider)
    return own.model if own is not None else ""


def store_new(
    conn: WriterConnection,
    spec: mysis_ops.MysisSpec,
    template: Template,
    settings: Settings,
    new: NewMysis,
    origin: ContextOrigin = NO_ORIGIN,
) -> Mysis:
    """Store a mysis with its first messages: the chosen broadcast, then the task or the template's opening.

    One that is made from a commit gets no opening, because it goes on from there.
    Raises SwarmFull, NameRefused and UsageError.
    """
    mysis = mysis_ops.create(conn, spec, settings.swarm.max_myses)
    if origin.commit is not None:
        capture_ops.begin_branch(conn, mysis, origin.commit.seq, new.work)
    elif origin.unread is not None:
        capture_ops.begin_fresh(conn, mysis.id, origin.unread.seq, origin.unread.seq)
    if new.broadcast:
        message_ops.deliver_again(conn, new.broadcast, mysis.id)
    opening = "" if origin.commit is not None else template.opening
    if first := spec.goal or checked_prompt(opening, settings):
        outgoing = message_ops.OutgoingMessage(first, COMMANDER, DeliveryMode.QUEUE, is_task=bool(spec.goal))
        message_ops.send(conn, mysis.id, outgoing, settings.swarm.max_hops, 0)
    elif new.question:
        outgoing = message_ops.OutgoingMessage(new.question, new.asker, DeliveryMode.QUEUE, new.hop)
        message_ops.send(conn, mysis.id, outgoing, settings.swarm.max_hops, settings.swarm.messages_per_hour)
    return mysis_ops.find(conn, mysis.id)
