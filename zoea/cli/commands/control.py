"""Commands for holds, approvals and grants."""

from __future__ import annotations

from typing import Annotated

import typer

from zoea.cli.options import AsJson, Workspace, row_ids, write_json
from zoea.cli.output import moment
from zoea.cli.swarm_access import ask, command
from zoea.cli.terminal_rows import indented
from zoea.model.enums import ApprovalAnswer
from zoea.model.errors import StoreMissing, UsageError
from zoea.model.swarm_api import SwarmApi
from zoea.model.values import ApprovalView, GrantView
from zoea.queries.phrases import approval_question
from zoea.queries.stored_swarm import read_approval, read_open_approvals
from zoea.queries.stored_swarm import read_grants as stored_grants
from zoea.settings.paths import Places, places
from zoea.text.call_text import reveal_call
from zoea.text.control_characters import one_line, reveal_exactly, strip

Asked = Annotated[
    str,
    typer.Argument(
        metavar="ID|NAME", help="The id that `zoea approvals` shows, or the name of a mysis that waits for one answer."
    ),
]
Sentence = Annotated[
    str, typer.Option("--say", metavar="TEXT", help="A sentence that the mysis reads with your answer.")
]


def hold(
    name: Annotated[str, typer.Argument(metavar="NAME", help="One mysis; the whole swarm if not given.")] = "",
    lift: Annotated[bool, typer.Option("--lift", help="Resume: everything continues where it was.")] = False,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, shown beside the hold.")] = "",
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Hold the swarm, or pause one mysis; --lift resumes.

    No new call of a model or a tool starts; calls that have begun end as usual, and messages wait.
    """
    command(workspace, lambda swarm: swarm.hold(not lift, ref=name, reason=reason))
    if as_json:
        write_json({"held": not lift, "mysis": name or None})
    else:
        typer.echo(f"{name or 'The swarm'} {'continues' if lift else 'is paused' if name else 'is on hold'}")


def approvals(as_json: AsJson = False, workspace: Workspace = "") -> None:
    """List what waits for your answer: questions, tool calls, requests over a budget."""
    listed = ask(workspace, lambda swarm: swarm.approvals(), _stored)
    database = places(workspace).database
    waiting = tuple((one.is_cut and read_approval(database, one.id)) or one for one in listed)
    if as_json:
        write_json(waiting)
        return
    if not waiting:
        typer.echo("Nothing waits for your answer")
    for asked in waiting:
        question = reveal_exactly(approval_question(asked))
        how = "answer" if question else "approve or deny"
        typer.echo(f"{asked.id}  {one_line(asked.mysis)} asks  until {moment(asked.expires_at)}  ({how})")
        typer.echo(indented(question or reveal_call(_tool_name(asked), asked.arguments)))


def _stored(where: Places) -> tuple[ApprovalView, ...]:
    try:
        return read_open_approvals(where.database)
    except StoreMissing:
        return ()


def grants(as_json: AsJson = False, workspace: Workspace = "") -> None:
    """List the tools that you allowed for all myses of a template, with `zoea approve ID --template`."""
    held = ask(workspace, lambda swarm: swarm.grants(), _stored_grants)
    if as_json:
        write_json(held)
        return
    if not held:
        typer.echo("Nothing is allowed for a whole template")
    for grant in held:
        typer.echo(one_line(f"{grant.id}  {grant.template}: {_tool_name(grant)}  since {moment(grant.granted_at)}"))


def revoke(
    grant: Annotated[int, typer.Argument(metavar="ID", callback=row_ids, help="As `zoea grants` shows it.")],
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Revoke a grant: the next call of that tool asks for approval again."""
    gone = command(workspace, lambda swarm: swarm.revoke(grant))
    if as_json:
        write_json(gone)
    else:
        typer.echo(one_line(f"{_tool_name(gone)} asks again for the myses of {gone.template}"))


def _tool_name(of: GrantView | ApprovalView) -> str:
    return f"{of.upstream}/{of.tool}" if of.upstream else of.tool


def _stored_grants(where: Places) -> tuple[GrantView, ...]:
    try:
        return stored_grants(where.database)
    except StoreMissing:
        return ()


def approve(
    asked: Asked,
    session: Annotated[
        bool, typer.Option("--session", help="Allow the same tool also until this mysis stops.")
    ] = False,
    template: Annotated[
        bool, typer.Option("--template", help="Allow the same tool also for every mysis of its template.")
    ] = False,
    sentence: Sentence = "",
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Allow a tool call, or a request over a budget.

    It is allowed once, unless --session or --template allows more.
    """
    answer = ApprovalAnswer.ONCE
    if session:
        answer = ApprovalAnswer.SESSION
    if template:
        answer = ApprovalAnswer.TEMPLATE
    _answer(workspace, asked, answer, sentence, as_json)


def answer(
    asked: Asked,
    text: Annotated[list[str], typer.Argument(metavar="TEXT", help="The answer that the mysis reads.")],
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Answer a question of a mysis.

    Example: zoea answer alpha take the southern belt
    """
    _answer(workspace, asked, ApprovalAnswer.ONCE, " ".join(text), as_json)


def deny(asked: Asked, sentence: Sentence = "", as_json: AsJson = False, workspace: Workspace = "") -> None:
    """Refuse a tool call, or a request over a budget; the mysis goes on without it."""
    _answer(workspace, asked, ApprovalAnswer.DENIED, sentence, as_json)


def _answer(workspace: str, asked: str, answer: ApprovalAnswer, sentence: str, as_json: bool) -> None:
    async def work(swarm: SwarmApi) -> ApprovalView:
        found = await _find_asked(swarm, asked)
        await swarm.answer(found.id, answer, sentence=sentence)
        return found

    found = command(workspace, work)
    if as_json:
        write_json({"approval": found.id, "answer": answer})
    elif approval_question(found):
        typer.echo(strip(f"{found.mysis} has your answer"))
    else:
        said = "denied" if answer is ApprovalAnswer.DENIED else f"allowed ({answer})"
        typer.echo(strip(f"{found.mysis}: {found.tool} is {said}"))


async def _find_asked(swarm: SwarmApi, given: str) -> ApprovalView:
    """Return the open approval with an id, or the only one of the mysis with a name.

    Raises:
        UsageError: There is none, or the mysis has several.
    """
    waiting = await swarm.approvals()
    if given.isascii() and given.isdecimal():
        for one in waiting:
            if str(one.id) == given:
                return one
        raise UsageError(
            f"approval {given} does not wait for an answer",
            hint="`zoea approvals` lists those that do, the 5,000 oldest first.",
        )
    mysis = await swarm.mysis(given)
    match [one for one in waiting if one.mysis_id == mysis.id]:
        case [one]:
            return one
        case []:
            raise UsageError(
                f"{mysis.name} waits for no answer", hint="`zoea approvals` lists what waits for an answer."
            )
        case several:
            ids = ", ".join(str(one.id) for one in several)
            raise UsageError(
                f"{mysis.name} waits for {len(several)} answers: {ids}", hint="Name the id of one of them."
            )
