"""Commands for holds, approvals and grants."""

from __future__ import annotations

from collections.abc import Iterator

from zoea.cli.output import Output, moment, read_stdin
from zoea.cli.swarm_access import ask, command
from zoea.cli.terminal_rows import indented
from zoea.model.enums import ApprovalAnswer
from zoea.model.errors import StoreMissing, UsageError
from zoea.model.swarm_api import SwarmApi
from zoea.model.values import ApprovalView, GrantView
from zoea.process.command_line import argument, arguments, flag, option, row_id
from zoea.queries.phrases import approval_question, budget_question
from zoea.queries.stored_swarm import read_approval, read_open_approvals
from zoea.queries.stored_swarm import read_grants as stored_grants
from zoea.settings.paths import Places
from zoea.text.call_text import reveal_call
from zoea.text.control_characters import one_line

ASKED = argument(
    "ID|NAME", "The id that `zoea approvals` shows, or the name of a mysis that waits for one answer.", is_name=True
)
SESSION = flag("--session", "Allow the same tool also until this mysis stops.")
TEMPLATE = flag("--template", "Allow the same tool also for every mysis of its template.")
SENTENCE = option("--say TEXT", "A sentence that the mysis reads with your answer.")


def hold(
    where: Places,
    name: str = argument("NAME", "One mysis; the whole swarm if not given.", "", is_name=True),
    lift: bool = flag("--lift", "Resume: everything continues where it was."),
    reason: str = option("--reason TEXT", "Why, shown beside the hold."),
) -> Output:
    """Hold the swarm, or pause one mysis; --lift resumes.

    No new call of a model or a tool starts; calls that have begun end as usual, and messages wait.
    """
    command(where, lambda swarm: swarm.hold(not lift, ref=name, reason=reason))
    status = "continues" if lift else "is paused" if name else "is on hold"
    return Output({"held": not lift, "mysis": name or None}, f"{name or 'The swarm'} {status}")


def approvals(where: Places) -> Output:
    """List what waits for your answer: questions, tool calls, requests over a budget."""
    listed = ask(where, lambda swarm: swarm.approvals(), _stored)
    waiting = tuple((one.is_cut and read_approval(where.database, one.id)) or one for one in listed)
    return Output(waiting, _describe_waiting(waiting) if waiting else "Nothing waits for your answer")


def _describe_waiting(waiting: tuple[ApprovalView, ...]) -> Iterator[str]:
    for asked in waiting:
        question = approval_question(asked)
        how = "answer" if question else "approve or deny"
        yield f"{asked.id}  {one_line(asked.mysis)} asks  until {moment(asked.expires_at)}  ({how})"
        yield indented(question or budget_question(asked) or reveal_call(_tool_name(asked), asked.arguments))


def _stored(where: Places) -> tuple[ApprovalView, ...]:
    try:
        return read_open_approvals(where.database)
    except StoreMissing:
        return ()


def grants(
    where: Places,
    revoked: int | None = option("--revoke ID", "Revoke this grant: the tool asks for approval again.", None, row_id),
) -> Output:
    """List the tools that you allowed for all myses of a template, with `zoea approve ID --template`."""
    if revoked is not None:
        gone = command(where, lambda swarm: swarm.revoke(revoked))
        return Output(gone, one_line(f"{_tool_name(gone)} asks again for the myses of {gone.template}"))
    held = ask(where, lambda swarm: swarm.grants(), _stored_grants)
    lines = [one_line(f"{one.id}  {one.template}: {_tool_name(one)}  since {moment(one.granted_at)}") for one in held]
    return Output(held, lines or "Nothing is allowed for a whole template")


def _tool_name(of: GrantView | ApprovalView) -> str:
    return f"{of.upstream}/{of.tool}" if of.upstream else of.tool


def _stored_grants(where: Places) -> tuple[GrantView, ...]:
    try:
        return stored_grants(where.database)
    except StoreMissing:
        return ()


def answer(
    where: Places,
    asked: str = ASKED,
    text: tuple[str, ...] = arguments("TEXT", "The answer, or a sentence that the mysis reads with it.", ()),
    allow: bool = flag("--allow", "Allow a tool call, or a request over a budget, once."),
    session: bool = SESSION,
    template: bool = TEMPLATE,
    deny: bool = flag("--deny", "Refuse it; the mysis goes on without it."),
) -> Output:
    """Answer what a mysis asks: a question with TEXT, a tool call or a request over a budget with --allow or --deny.

    `zoea approve` and `zoea deny` are short for the last two.

    Example: zoea answer alpha take the southern belt
    """
    if deny and (allow or session or template):
        raise UsageError("--deny excludes what allows", hint="Give one of them.")
    verdict = ApprovalAnswer.DENIED if deny else _scope(session, template) if allow or session or template else None
    return _answer(where, asked, verdict, " ".join(text))


def approve(
    where: Places,
    asked: str = ASKED,
    session: bool = SESSION,
    template: bool = TEMPLATE,
    sentence: str = SENTENCE,
    changed: str | None = option(
        "--change JSON", "Run the call with these arguments instead, a JSON object; - reads stdin.", None
    ),
) -> Output:
    """Allow a tool call, or a request over a budget.

    It is allowed once, unless --session or --template allows more.

    Example: zoea approve alpha --change '{"command": "pytest -q"}'
    """
    arguments = read_stdin() if changed == "-" else changed
    if arguments is not None and not arguments.strip():  # of a file that is empty, say: the call is not the one meant
        raise UsageError("--change gives no arguments", hint="Give a JSON object; {} stands for no arguments.")
    return _answer(where, asked, _scope(session, template), sentence, arguments or "")


def deny(where: Places, asked: str = ASKED, sentence: str = SENTENCE) -> Output:
    """Refuse a tool call, or a request over a budget; the mysis goes on without it."""
    return _answer(where, asked, ApprovalAnswer.DENIED, sentence)


def _scope(session: bool, template: bool) -> ApprovalAnswer:
    if template:
        return ApprovalAnswer.TEMPLATE
    return ApprovalAnswer.SESSION if session else ApprovalAnswer.ONCE


def _answer(where: Places, asked: str, verdict: ApprovalAnswer | None, sentence: str, changed: str = "") -> Output:
    """Answer an open approval; without a verdict only a question.

    Raises:
        UsageError: It waits for a yes or no.
    """

    async def work(swarm: SwarmApi) -> ApprovalView:
        answered = await _find_asked(swarm, asked)
        if verdict is None and not approval_question(answered):
            raise UsageError(
                f"{answered.mysis} asks whether {answered.tool} may go on", hint="Say which: --allow or --deny."
            )
        await swarm.answer(answered.id, verdict or ApprovalAnswer.ONCE, sentence=sentence, arguments=changed)
        return answered

    answered = command(where, work)
    answer = verdict or ApprovalAnswer.ONCE
    how = f"{answer}, with your arguments" if changed else answer
    scope = "denied" if answer is ApprovalAnswer.DENIED else f"allowed ({how})"
    is_question = bool(approval_question(answered))
    text = f"{answered.mysis} has your answer" if is_question else f"{answered.mysis}: {answered.tool} is {scope}"
    return Output({"approval": answered.id, "answer": answer}, text)


async def _find_asked(swarm: SwarmApi, given: str) -> ApprovalView:
    """Return the open approval with an id, or the only one of a named mysis.

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
