"""Commands for myses: new, list, show, start, stop, configure, dismiss, delete, undelete."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zoea.cli.commands.context_access import locate_commit
from zoea.cli.options import LARGEST_ID, AllowFresh, AsJson, MysisRef, MysisRefs, Workspace, write_json
from zoea.cli.output import moment
from zoea.cli.swarm_access import ask, command, read_begun
from zoea.cli.terminal_rows import details, state_word
from zoea.model.errors import MysisMissing, StoreMissing, UsageError
from zoea.model.status import StatusWord
from zoea.model.swarm_api import SwarmApi
from zoea.model.values import MysisView
from zoea.process.clock import SystemClock
from zoea.queries.broadcasts import OfferedBroadcast, read_offered_broadcast
from zoea.queries.stored_swarm import DeletedMysis, read_deleted_myses, read_mysis_view
from zoea.settings.paths import Places, places
from zoea.text.control_characters import strip

if TYPE_CHECKING:
    from zoea.runtime.model_check import ModelDoubt

KeepModel = Annotated[
    bool, typer.Option("--keep-model", help="Accept a model that its server does not list, from now on.")
]


def new(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="1 to 40 letters, digits, - _ . or spaces.", show_default=False),
    ] = None,
    template: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Its template: a file in the templates folder, without .toml; see `zoea config path`."
        ),
    ] = "",
    provider: Annotated[str, typer.Option(metavar="NAME", help="Its provider; see `zoea providers`.")] = "",
    model: Annotated[str | None, typer.Option(metavar="NAME", help="Its model.", show_default=False)] = None,
    keep_model: KeepModel = False,
    task: Annotated[
        str,
        typer.Option(
            metavar="TEXT", help="Its first message and its goal: it is nudged until it reports that it is done."
        ),
    ] = "",
    from_: Annotated[
        str,
        typer.Option("--from", metavar="COMMIT", help="Begin with the conversation up to a commit; see `zoea fork`."),
    ] = "",
    allow_fresh: AllowFresh = False,
    tag: Annotated[list[str], typer.Option(metavar="TAG", help="A tag; may be repeated.")] = [],  # noqa: B006  # typer reads the default, which is never changed
    idle: Annotated[bool, typer.Option("--idle", help="Do not start it.")] = False,
    broadcast: Annotated[
        bool, typer.Option("--broadcast", help="Give it your newest broadcast to all before its task.")
    ] = False,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Create a mysis and start it. Without a name Zoea chooses one.

    Without a task it waits for its first message.

    Example: zoea new alpha --task "Find the three cheapest stations for fuel"
    """
    if name is not None and not name.strip():
        raise UsageError("the name is empty", hint="Give a name, or leave it out and Zoea chooses one.")
    settle_model(model, workspace, provider=provider, template=template, keeps=keep_model, asks=not as_json)
    first = _read_newest_broadcast(places(workspace)) if broadcast else None
    commit = locate_commit(workspace, from_).id if from_ else ""

    async def create(swarm: SwarmApi) -> tuple[MysisView, ...]:
        made = await swarm.create(
            name or "",
            template=template,
            provider=provider,
            model=model or "",
            tags=tuple(tag),
            start=not idle,
            broadcast=first.id if first is not None else 0,
            task=task,
            commit=commit,
            allow_fresh=allow_fresh,
        )
        return (made,)

    views, hold_reason = command(workspace, partial(_carry_out, create))
    if as_json:
        write_json(views[0])
    else:
        typer.echo(f"{views[0].name} is {state_word(views[0], hold_reason)}")
        if first is not None:
            typer.echo(f"First it gets {first.describe(SystemClock().now())}")


def show(name: MysisRef, as_json: AsJson = False, workspace: Workspace = "") -> None:
    """Show all fields of one mysis."""
    view = ask(workspace, lambda swarm: swarm.mysis(name), lambda where: read_mysis_view(where.database, name))
    if as_json:
        write_json(view)
    else:
        typer.echo(details(view))


def start(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Names of myses, or #ID.")] = None,
    every_mysis: Annotated[
        bool, typer.Option("--all", help="Every idle mysis; stopped and errored ones have to be named.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Those that were running when Zoea ended; they continue where they were.")
    ] = False,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Start or relaunch myses; a relaunch clears the last error."""
    if again and (names or every_mysis):
        raise UsageError("--again stands alone", hint="Leave out the names and --all.")
    chosen = [] if again else _chosen(names, every_mysis)

    async def work(swarm: SwarmApi) -> tuple[MysisView, ...]:
        if every_mysis or again:
            await swarm.start_all(again=again)
            return (await swarm.view()).myses
        return tuple([await swarm.start(ref) for ref in chosen])

    views, hold_reason = command(workspace, partial(_carry_out, work))
    _written(views, as_json, hold_reason)


def stop(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Names of myses, or #ID.")] = None,
    every_mysis: Annotated[
        bool,
        typer.Option("--all", help="Every mysis, also idle and errored ones, so that no message or retry starts them."),
    ] = False,
    swarm: Annotated[bool, typer.Option("--swarm", help="End the swarm and the process that runs it.")] = False,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Stop myses at once, or with --swarm end the whole swarm. Their partial work stays readable."""
    if swarm:
        command(workspace, _end)
        typer.echo("[]" if as_json else "The swarm is ending; everything stored is kept")
        return
    chosen = _chosen(names, every_mysis)

    async def work(api: SwarmApi) -> tuple[MysisView, ...]:
        if every_mysis:
            await api.stop_all()
            return (await api.view()).myses
        return tuple([await api.stop(ref) for ref in chosen])

    _written(command(workspace, work), as_json)


def configure(
    name: MysisRef,
    template: Annotated[str, typer.Option(metavar="NAME", help="New template.")] = "",
    provider: Annotated[str, typer.Option(metavar="NAME", help="New provider.")] = "",
    model: Annotated[str | None, typer.Option(metavar="NAME", help="New model.", show_default=False)] = None,
    keep_model: KeepModel = False,
    tag: Annotated[
        list[str] | None, typer.Option(metavar="TAG", help="A tag in place of those it has; may be repeated.")
    ] = None,
    no_tags: Annotated[bool, typer.Option("--no-tags", help="Remove all its tags.")] = False,
    setting: Annotated[
        list[str], typer.Option("--set", metavar="KEY=VALUE", help="A setting for this mysis only; KEY= removes it.")
    ] = [],  # noqa: B006  # typer reads the default, which is never changed
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Change template, provider, model, tags or settings of a mysis that does not run.

    Example: zoea configure alpha --set budget.mysis=90000
    """
    from zoea.runtime.mysis_options import parse_settings  # only here, as it is half of the imports

    tags = () if no_tags else tuple(tag) if tag else None
    gone: dict[str, Any] = {one[:-1]: None for one in setting if one.endswith("=")}
    settings = gone | parse_settings(" ".join(one for one in setting if not one.endswith("=")))

    settle_model(model, workspace, mysis=name, provider=provider, template=template, keeps=keep_model, asks=not as_json)
    changed = command(
        workspace,
        lambda swarm: swarm.configure(
            name, template=template, provider=provider, model=model or "", tags=tags, settings=settings or None
        ),
    )
    if as_json:
        write_json(changed)
    else:
        typer.echo(details(changed))


def delete(
    names: MysisRefs,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Stop and delete myses. Their names become free, their memories stay."""
    if not yes and as_json:
        raise UsageError("deleting asks for confirmation, which --json cannot do", hint="Add --yes.")
    if not yes and not typer.confirm(f"Delete {strip(', '.join(names))}? Their memories stay", err=True):
        raise UsageError("nothing was deleted", hint="Answer y, or give --yes.")

    async def work(swarm: SwarmApi) -> tuple[MysisView, ...]:
        return tuple([await swarm.delete(ref) for ref in names])

    gone = command(workspace, work)
    if as_json:
        write_json(gone)
    else:
        typer.echo("\n".join(f"{view.name} (#{view.id}) is deleted" for view in gone))


def undelete(
    refs: Annotated[
        list[str] | None,
        typer.Argument(metavar="#ID", help="Ids as `zoea undelete` without arguments lists them, or names."),
    ] = None,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Restore deleted myses; without arguments, list them."""
    found = _deleted(places(workspace))
    if not refs:
        _list_deleted(found, as_json)
        return
    chosen = [find_deleted(ref, found) for ref in refs]

    async def work(swarm: SwarmApi) -> tuple[MysisView, ...]:
        return tuple([await swarm.undelete(mysis_id) for mysis_id in chosen])

    _written(command(workspace, work), as_json)


def dismiss(names: MysisRefs, as_json: AsJson = False, workspace: Workspace = "") -> None:
    """Clear the error of myses, or mark what they report as reviewed; their state stays."""

    async def work(swarm: SwarmApi) -> tuple[tuple[MysisView, MysisView], ...]:
        return tuple([(await swarm.mysis(ref), await swarm.dismiss(ref)) for ref in names])

    found = command(workspace, work)
    if as_json:
        write_json(tuple(after for _, after in found))
        return
    for before, after in found:
        is_needed = before.failure is not None or (before.status is StatusWord.DONE and not before.is_reviewed)
        said = "is dismissed" if is_needed else "has nothing to dismiss"
        typer.echo(f"{after.name} {said}; it is {state_word(after)}")


def _deleted(where: Places) -> tuple[DeletedMysis, ...]:
    try:
        return read_deleted_myses(where.database)
    except StoreMissing:
        return ()


def _list_deleted(found: tuple[DeletedMysis, ...], as_json: bool) -> None:
    if as_json:
        write_json(found)
        return
    for one in found:
        typer.echo(strip(f"#{one.id}  {one.name}  deleted {moment(one.deleted_at)}"))
    if not found:
        typer.echo("There are no deleted myses")


def find_deleted(ref: str, found: tuple[DeletedMysis, ...]) -> int:
    """Return the id of a deleted mysis, given as `#ID` or by its unique name."""
    if ref.startswith("#") and ref[1:].isascii() and ref[1:].isdecimal() and int(ref[1:]) <= LARGEST_ID:
        return int(ref[1:])
    named = [one for one in found if one.name.casefold() == ref.casefold()]
    if len(named) == 1:
        return named[0].id
    if named:
        which = ", ".join(f"#{one.id}" for one in named)
        raise UsageError(f"several deleted myses had the name {ref!r}", hint=f"Give one of these ids: {which}.")
    raise MysisMissing(f"there is no deleted mysis {ref!r}", hint="`zoea undelete` lists them.")


def settle_model(
    model: str | None,
    workspace: str | Places,
    *,
    mysis: str | None = None,
    provider: str,
    template: str,
    keeps: bool,
    asks: bool,
) -> None:
    """Refuse an empty name of a model, and one that its server does not list unless the person keeps it.

    Args:
        mysis: Whose provider and template count where none is given.
        keeps: The person has said so.
        asks: Ask in a terminal.
    """
    if model is None:
        return
    if not model.strip():
        raise UsageError("the model's name is empty", hint="Name a model, or leave out --model for the provider's own.")
    from zoea.runtime.model_check import find_doubt  # only where a model is named, as it is half of the imports
    from zoea.runtime.model_lists import keep_setting

    where = places(workspace) if isinstance(workspace, str) else workspace
    named: str = model

    async def doubt_of(swarm: SwarmApi) -> ModelDoubt | None:
        now = await swarm.mysis(mysis) if mysis is not None else None
        return await find_doubt(
            swarm,
            where,
            named,
            provider=provider or (now.provider if now else ""),
            template=template or (now.template if now else ""),
        )

    doubt = command(workspace, doubt_of)
    if doubt is None:
        return
    refusal = doubt.refuse("Name one of them, or give --keep-model.")
    if not keeps and asks and sys.stdin.isatty():
        typer.echo(strip(f"{refusal.what}\n{refusal.hint}"), err=True)
        keeps = typer.confirm("Use it all the same?", err=True)
        refusal = UsageError("nothing was changed", hint="Answer y, or give --keep-model.")
    if not keeps:
        raise refusal
    keep_setting(where, doubt.provider, model)


def _read_newest_broadcast(where: Places) -> OfferedBroadcast:
    """Read the broadcast that a new mysis gets. Raises UsageError where there is none."""
    from zoea.settings import load  # only where it is asked for, as it is half of the imports

    hours = load(where).settings.swarm.inherit_broadcast_hours
    newest = read_offered_broadcast(where.database, hours, SystemClock().now())
    if newest is None:
        raise UsageError(
            f"there is no broadcast of yours to all of the last {hours:g} hours",
            hint="Leave out --broadcast, or change swarm.inherit_broadcast_hours.",
        )
    return newest


async def _end(swarm: SwarmApi) -> None:
    async with asyncio.timeout(12.0):
        await swarm.shutdown()


def _chosen(names: list[str] | None, every_mysis: bool) -> list[str]:
    if names and every_mysis:
        raise UsageError("names and --all exclude each other", hint="Give one of them.")
    if not names and not every_mysis:
        raise UsageError("name the myses, or give --all", hint="`zoea list` shows them.")
    return names or []


async def _carry_out(
    work: Callable[[SwarmApi], Awaitable[tuple[MysisView, ...]]], swarm: SwarmApi
) -> tuple[tuple[MysisView, ...], str]:
    """Run a command that starts myses. Return them once their turns have begun, and why the swarm is on hold."""
    views = await work(swarm)
    now = await read_begun(swarm, {view.id for view in views})
    by_id = {view.id: view for view in now.myses}
    return tuple(by_id.get(view.id, view) for view in views), now.hold_reason


def _written(views: tuple[MysisView, ...], as_json: bool, hold_reason: str = "") -> None:
    if as_json:
        write_json(views)
    else:
        typer.echo(
            "\n".join(f"{view.name} is {state_word(view, hold_reason)}" for view in views) or "There are no myses"
        )
