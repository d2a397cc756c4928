"""Commands for myses: new, show, start, stop, configure, dismiss, delete, undelete."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from zoea.cli import output
from zoea.cli.commands.context_access import locate_commit
from zoea.cli.options import ALLOW_FRESH, KEEP_MODEL, MYSES, MYSIS, YES
from zoea.cli.output import Output, moment
from zoea.cli.swarm_access import ask, command, read_begun
from zoea.cli.terminal_rows import details, state_word
from zoea.model.errors import MysisMissing, StoreMissing, UsageError
from zoea.model.status import StatusWord
from zoea.model.swarm_api import SwarmApi
from zoea.model.values import MysisView
from zoea.process.clock import SystemClock
from zoea.process.command_line import LARGEST_ID, argument, arguments, flag, option, options
from zoea.queries.broadcasts import OfferedBroadcast, read_offered_broadcast
from zoea.queries.stored_swarm import DeletedMysis, read_deleted_myses, read_mysis_view
from zoea.settings.paths import Places, absolute_path
from zoea.text.control_characters import reveal

if TYPE_CHECKING:
    from zoea.runtime.model_check import ModelDoubt


def new(
    where: Places,
    name: str | None = argument("NAME", "1 to 40 letters, digits, - _ . or spaces.", None),
    template: str = option(
        "--template NAME", "Its template: a file in the templates folder, without .toml; see `zoea config path`."
    ),
    provider: str = option("--provider NAME", "Its provider; see `zoea providers`."),
    model: str | None = option("--model NAME", "Its model.", None),
    keep_model: bool = KEEP_MODEL,
    task: str = option("--task TEXT", "Its first message and its goal: it is nudged until it reports that it is done."),
    from_: str = option("--from COMMIT", "Begin with the conversation up to a commit; see `zoea fork`."),
    allow_fresh: bool = ALLOW_FRESH,
    tag: tuple[str, ...] = options("--tag TAG", "A tag; may be repeated."),
    idle: bool = flag("--idle", "Do not start it."),
    broadcast: bool = flag("--broadcast", "Give it your newest broadcast to all before its task."),
    on: str | None = option(
        "--on DIR", "The folder in which it reads and changes files and runs commands; each change asks.", None
    ),
    worktree: bool = flag(
        "--worktree", "Give it a git worktree of that folder; the second mysis of a repository gets one anyway."
    ),
    key: str = option("--key KEY", "Idempotency key: a repeated command with the same key makes no second mysis."),
) -> Output:
    """Create a mysis and start it. Without a name Zoea chooses one.

    Without a task it waits for its first message.

    Example: zoea new alpha --task "Find the three cheapest stations for fuel"
    """
    if name is not None and not name.strip():
        raise UsageError("the name is empty", hint="Give a name, or leave it out and Zoea chooses one.")
    settle_model(model, where, provider=provider, template=template, keeps=keep_model)
    first = _read_newest_broadcast(where) if broadcast else None
    commit = locate_commit(where, from_).id if from_ else ""
    if on == "":
        raise UsageError("--on names no folder", hint="Name one, such as `--on .`.")
    if worktree and on is None:
        raise UsageError("--worktree is of a folder", hint="Name a git repository with --on DIR.")
    folder = str(absolute_path(on)) if on else ""

    async def create(swarm: SwarmApi) -> tuple[MysisView, ...]:
        made = await swarm.create(
            name or "",
            template=template,
            provider=provider,
            model=model or "",
            tags=tag,
            start=not idle,
            broadcast=first.id if first is not None else 0,
            task=task,
            commit=commit,
            allow_fresh=allow_fresh,
            on=folder,
            worktree=worktree,
            idempotency_key=key,
        )
        return (made,)

    views, hold_reason = command(where, partial(_carry_out, create))
    lines = [f"{views[0].name} is {state_word(views[0], hold_reason)}"]
    if views[0].works_on:
        lines.append(f"It works on: {reveal(views[0].works_on)}")
    if first is not None:
        lines.append(f"First it gets {first.describe(SystemClock().now())}")
    return Output(views[0], lines)


def show(where: Places, name: str = MYSIS) -> Output:
    """Show all fields of one mysis."""
    view = ask(where, lambda swarm: swarm.mysis(name), lambda where: read_mysis_view(where.database, name))
    return Output(view, details(view))


def start(
    where: Places,
    names: tuple[str, ...] = arguments("NAME", "Names of myses, or #ID.", (), is_name=True),
    every_mysis: bool = flag("--all", "Every idle mysis; stopped and errored ones have to be named."),
    again: bool = flag("--again", "Those that were running when Zoea ended; they continue where they were."),
) -> Output:
    """Start or relaunch myses; a relaunch clears the last error."""
    if again and (names or every_mysis):
        raise UsageError("--again stands alone", hint="Leave out the names and --all.")
    chosen = () if again else _chosen(names, every_mysis)

    async def work(swarm: SwarmApi) -> tuple[MysisView, ...]:
        if every_mysis or again:
            await swarm.start_all(again=again)
            return (await swarm.view()).myses
        return tuple([await swarm.start(ref) for ref in chosen])

    views, hold_reason = command(where, partial(_carry_out, work))
    return _list_states(views, hold_reason)


def stop(
    where: Places,
    names: tuple[str, ...] = arguments("NAME", "Names of myses, or #ID.", (), is_name=True),
    every_mysis: bool = flag(
        "--all", "Every mysis, also idle and errored ones, so that no message or retry starts them."
    ),
    swarm: bool = flag("--swarm", "End the swarm and the process that runs it."),
) -> Output:
    """Stop myses at once, or with --swarm end the whole swarm. Their partial work stays readable."""
    if swarm:
        command(where, _end)
        return Output((), "The swarm is ending; everything stored is kept")
    chosen = _chosen(names, every_mysis)

    async def work(api: SwarmApi) -> tuple[MysisView, ...]:
        if every_mysis:
            await api.stop_all()
            return (await api.view()).myses
        return tuple([await api.stop(ref) for ref in chosen])

    return _list_states(command(where, work))


def configure(
    where: Places,
    name: str = MYSIS,
    template: str = option("--template NAME", "New template."),
    provider: str = option("--provider NAME", "New provider."),
    model: str | None = option("--model NAME", "New model.", None),
    keep_model: bool = KEEP_MODEL,
    tag: tuple[str, ...] = options("--tag TAG", "A tag in place of those it has; may be repeated."),
    no_tags: bool = flag("--no-tags", "Remove all its tags."),
    setting: tuple[str, ...] = options("--set KEY=VALUE", "A setting for this mysis only; KEY= removes it."),
) -> Output:
    """Change template, provider, model, tags or settings of a mysis; while it runs, from its next turn on.

    Budgets of turn and mysis count from its next request on, and answer a question that waits for them.

    Example: zoea configure alpha --set budget.mysis=90000
    """
    from zoea.runtime.mysis_options import parse_settings  # only here, as it is half of the imports

    tags = () if no_tags else tag or None
    gone: dict[str, Any] = {one[:-1]: None for one in setting if one.endswith("=")}
    settings = gone | parse_settings(" ".join(one for one in setting if not one.endswith("=")))

    settle_model(model, where, mysis=name, provider=provider, template=template, keeps=keep_model)
    changed = command(
        where,
        lambda swarm: swarm.configure(
            name, template=template, provider=provider, model=model or "", tags=tags, settings=settings or None
        ),
    )
    return Output(changed, details(changed))


def delete(where: Places, names: tuple[str, ...] = MYSES, yes: bool = YES) -> Output:
    """Stop and delete myses. Their names become free, their memories stay."""
    if not yes and output.is_json:
        raise UsageError("deleting asks for confirmation, which --json cannot do", hint="Add --yes.")
    if not yes and not output.confirm(f"Delete {', '.join(names)}? Their memories stay"):
        raise UsageError("nothing was deleted", hint="Answer y, or give --yes.")

    async def work(swarm: SwarmApi) -> tuple[MysisView, ...]:
        return tuple([await swarm.delete(ref) for ref in names])

    gone = command(where, work)
    lines = [f"{view.name} (#{view.id}) is deleted" for view in gone]
    for name in (view.name for view in gone if view.works_on):
        tree = where.data / "worktrees" / name
        if tree.with_name(f"{name}.json").exists():
            lines.append(f"Its worktree holds work and stays: {tree}")
            lines.append(f"`zoea merge {name}` keeps the work, `zoea drop {name} --force` loses it")
    return Output(gone, lines)


def undelete(
    where: Places,
    refs: tuple[str, ...] = arguments("#ID", "Ids as `zoea undelete` without arguments lists them, or names.", ()),
) -> Output:
    """Restore deleted myses; without arguments, list them."""
    deleted = _deleted(where)
    if not refs:
        lines = [f"#{one.id}  {one.name}  deleted {moment(one.deleted_at)}" for one in deleted]
        return Output(deleted, lines or "There are no deleted myses")
    chosen = [find_deleted(ref, deleted) for ref in refs]

    async def work(swarm: SwarmApi) -> tuple[MysisView, ...]:
        return tuple([await swarm.undelete(mysis_id) for mysis_id in chosen])

    return _list_states(command(where, work))


def dismiss(where: Places, names: tuple[str, ...] = MYSES) -> Output:
    """Clear the error of myses, or mark what they report as reviewed; their state stays."""

    async def work(swarm: SwarmApi) -> tuple[tuple[MysisView, MysisView], ...]:
        return tuple([(await swarm.mysis(ref), await swarm.dismiss(ref)) for ref in names])

    found = command(where, work)
    return Output(tuple(after for _, after in found), [_describe_dismissal(*pair) for pair in found])


def _describe_dismissal(before: MysisView, after: MysisView) -> str:
    is_needed = before.failure is not None or (before.status is StatusWord.DONE and not before.is_reviewed)
    return f"{after.name} {'is dismissed' if is_needed else 'has nothing to dismiss'}; it is {state_word(after)}"


def _deleted(where: Places) -> tuple[DeletedMysis, ...]:
    try:
        return read_deleted_myses(where.database)
    except StoreMissing:
        return ()


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
    model: str | None, where: Places, *, mysis: str | None = None, provider: str, template: str, keeps: bool
) -> None:
    """Refuse an empty model name. Refuse one that its server does not list unless the person keeps it.

    Args:
        mysis: Whose provider and template count where none is given.
        keeps: The person agreed on the command line; else it is asked in a terminal.
    """
    if model is None:
        return
    if not model.strip():
        raise UsageError("the model's name is empty", hint="Name a model, or leave out --model for the provider's own.")
    from zoea.runtime.model_check import find_doubt  # only where a model is named, as it is half of the imports
    from zoea.runtime.model_lists import keep_setting

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

    doubt = command(where, doubt_of)
    if doubt is None:
        return
    refusal = doubt.refuse("Name one of them, or give --keep-model.")
    if not keeps and not output.is_json and output.is_typed():
        output.warn(f"{refusal.what}\n{refusal.hint}")
        keeps = output.confirm("Use it all the same?")
        refusal = UsageError("nothing was changed", hint="Answer y, or give --keep-model.")
    if not keeps:
        raise refusal
    keep_setting(where, doubt.provider, model)


def _read_newest_broadcast(where: Places) -> OfferedBroadcast:
    """Read the broadcast that a new mysis gets. Raises UsageError where there is none."""
    from zoea.settings.layers import load  # only where it is asked for, as it is half of the imports

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


def _chosen(names: tuple[str, ...], every_mysis: bool) -> tuple[str, ...]:
    if names and every_mysis:
        raise UsageError("names and --all exclude each other", hint="Give one of them.")
    if not names and not every_mysis:
        raise UsageError("name the myses, or give --all", hint="`zoea list` shows them.")
    return names


async def _carry_out(
    work: Callable[[SwarmApi], Awaitable[tuple[MysisView, ...]]], swarm: SwarmApi
) -> tuple[tuple[MysisView, ...], str]:
    """Run a command that starts myses. Return them once their turns have begun, and why the swarm is on hold."""
    views = await work(swarm)
    now = await read_begun(swarm, {view.id for view in views})
    by_id = {view.id: view for view in now.myses}
    return tuple(by_id.get(view.id, view) for view in views), now.hold_reason


def _list_states(views: tuple[MysisView, ...], hold_reason: str = "") -> Output:
    lines = [f"{view.name} is {state_word(view, hold_reason)}" for view in views]
    return Output(views, lines or "There are no myses")
