"""Commands on myses: new, list, show, start, stop, configure, dismiss, delete, undelete."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer

from zoea.cli.list_command import write_list
from zoea.cli.options import LARGEST_ID, AsJson, MysisRef, MysisRefs, Workspace, write_json
from zoea.cli.swarm_access import ask, command
from zoea.cli.terminal_rows import details, moment, state_word
from zoea.model.errors import MysisMissing, StoreMissing, UsageError
from zoea.model.swarm_api import SwarmApi
from zoea.model.values import MysisView
from zoea.queries.stored_swarm import DeletedMysis, read_deleted_myses, read_mysis_view
from zoea.runtime.mysis_options import parse_settings
from zoea.settings.paths import Places, places
from zoea.text.control_characters import strip


def new(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="1 to 40 letters, digits, - _ . or spaces.", show_default=False),
    ] = None,
    template: Annotated[str, typer.Option(help="What it is; see `zoea config show`.")] = "",
    provider: Annotated[str, typer.Option(help="Where its model is.")] = "",
    model: Annotated[str, typer.Option(help="The model's name.")] = "",
    tag: Annotated[list[str], typer.Option(help="A tag, as often as you like.")] = [],  # noqa: B006  # typer reads the default, nobody changes it
    idle: Annotated[bool, typer.Option("--idle", help="Do not start it.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Leave out the latest broadcast.")] = False,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Create a mysis and start it. Without a name Zoea chooses one."""
    if name is not None and not name.strip():
        raise UsageError("an empty name names nobody", hint="give a name, or none at all and Zoea chooses one")
    made = command(
        workspace,
        lambda swarm: swarm.create(
            name or "",
            template=template,
            provider=provider,
            model=model,
            tags=tuple(tag),
            start=not idle,
            inherit_broadcast=not fresh,
        ),
    )
    if as_json:
        write_json(made)
    else:
        typer.echo(f"{made.name} is {state_word(made)}")


def list_(as_json: AsJson = False, workspace: Workspace = "") -> None:
    """All myses and their states, from the running swarm or as stored."""
    write_list(as_json, workspace)


def show(name: MysisRef, as_json: AsJson = False, workspace: Workspace = "") -> None:
    """One mysis in full."""
    view = ask(workspace, lambda swarm: swarm.mysis(name), lambda where: read_mysis_view(where.database, name))
    if as_json:
        write_json(view)
    else:
        typer.echo(details(view))


def start(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME...]", help="Names or #ID.")] = None,
    everyone: Annotated[bool, typer.Option("--all", help="Every idle mysis.")] = False,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Start or relaunch myses."""
    chosen = _chosen(names, everyone)

    async def work(swarm: SwarmApi) -> tuple[MysisView, ...]:
        if everyone:
            await swarm.start_all()
            return (await swarm.view()).myses
        return tuple([await swarm.start(ref) for ref in chosen])

    _written(command(workspace, work), as_json)


def stop(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME...]", help="Names or #ID.")] = None,
    everyone: Annotated[bool, typer.Option("--all", help="Every running mysis.")] = False,
    swarm: Annotated[bool, typer.Option("--swarm", help="End the whole swarm and the process that owns it.")] = False,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Stop myses at once; their partial work stays readable."""
    if swarm:
        command(workspace, _end)
        typer.echo("[]" if as_json else "The swarm is ending; nothing is lost")
        return
    chosen = _chosen(names, everyone)

    async def work(api: SwarmApi) -> tuple[MysisView, ...]:
        if everyone:
            await api.stop_all()
            return (await api.view()).myses
        return tuple([await api.stop(ref) for ref in chosen])

    _written(command(workspace, work), as_json)


def configure(
    name: MysisRef,
    template: Annotated[str, typer.Option(help="Another template.")] = "",
    provider: Annotated[str, typer.Option(help="Another provider.")] = "",
    model: Annotated[str, typer.Option(help="Another model.")] = "",
    tag: Annotated[list[str] | None, typer.Option(help="Its tags from now on, as often as you like.")] = None,
    no_tags: Annotated[bool, typer.Option("--no-tags", help="Take all its tags off.")] = False,
    setting: Annotated[
        list[str], typer.Option("--set", metavar="KEY=VALUE", help="A setting of its own; without a value it goes.")
    ] = [],  # noqa: B006  # typer reads the default, nobody changes it
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Change what a mysis is, while it does not run. Example: --set budget.mysis=90000."""
    tags = () if no_tags else tuple(tag) if tag else None
    gone: dict[str, Any] = {one[:-1]: None for one in setting if one.endswith("=")}
    settings = gone | parse_settings(" ".join(one for one in setting if not one.endswith("=")))
    changed = command(
        workspace,
        lambda swarm: swarm.configure(
            name, template=template, provider=provider, model=model, tags=tags, settings=settings or None
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
    """Stop and archive myses: the name is freed, memories stay."""
    if not yes and as_json:
        raise UsageError("deleting asks first, and --json asks nobody", hint="Say so with --yes.")
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
        list[str] | None, typer.Argument(metavar="[#ID...]", help="As `zoea undelete` alone lists them, or a name.")
    ] = None,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Bring deleted myses back as they were, or list those that can be."""
    found = _deleted(places(workspace))
    if not refs:
        _list_deleted(found, as_json)
        return
    chosen = [_meant(ref, found) for ref in refs]

    async def work(swarm: SwarmApi) -> tuple[MysisView, ...]:
        return tuple([await swarm.undelete(mysis_id) for mysis_id in chosen])

    _written(command(workspace, work), as_json)


def dismiss(names: MysisRefs, as_json: AsJson = False, workspace: Workspace = "") -> None:
    """Take the error off myses; they stay in the state they are in."""

    async def work(swarm: SwarmApi) -> tuple[MysisView, ...]:
        return tuple([await swarm.dismiss(ref) for ref in names])

    _written(command(workspace, work), as_json)


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
        typer.echo("There is no deleted mysis")


def _meant(ref: str, found: tuple[DeletedMysis, ...]) -> int:
    """The id of the deleted mysis that is meant: by `#ID` always, by its name where only one is called so."""
    if ref.startswith("#") and ref[1:].isascii() and ref[1:].isdecimal() and int(ref[1:]) <= LARGEST_ID:
        return int(ref[1:])
    named = [one for one in found if one.name.casefold() == ref.casefold()]
    if len(named) == 1:
        return named[0].id
    if named:
        which = ", ".join(f"#{one.id}" for one in named)
        raise UsageError(f"several deleted myses were called {ref!r}", hint=f"Say which: {which}.")
    raise MysisMissing(f"there is no deleted mysis {ref!r}", hint="`zoea undelete` lists them.")


async def _end(swarm: SwarmApi) -> None:
    async with asyncio.timeout(12.0):
        await swarm.shutdown()


def _chosen(names: list[str] | None, everyone: bool) -> list[str]:
    if bool(names) == everyone:
        raise UsageError("name the myses, or give --all", hint="`zoea list` shows them.")
    return names or []


def _written(views: tuple[MysisView, ...], as_json: bool) -> None:
    if as_json:
        write_json(views)
    else:
        typer.echo("\n".join(f"{view.name} is {state_word(view)}" for view in views) or "There is no mysis")
