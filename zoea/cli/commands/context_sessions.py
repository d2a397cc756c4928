"""`zoea ctx resume` and `ask`: sessions that begin with a conversation of a commit."""

from __future__ import annotations

import shlex

from msgspec import UNSET

from zoea.chain.commit_rows import read_refs
from zoea.chain.ref_names import find_branch
from zoea.cli import output
from zoea.cli.commands.context_access import estimate_first_request, open_contexts
from zoea.cli.options import ALLOW_FRESH
from zoea.cli.output import Output, tell, warn
from zoea.cli.swarm_access import command
from zoea.cli.terminal_rows import state_word
from zoea.model.errors import AnswerLate, MissingBlob, NotAnswered, RevisionError, UsageError
from zoea.model.request import EMPTY_ANSWER, NO_RESPONSE
from zoea.model.swarm_api import SwarmApi
from zoea.model.values import CommitQuestion, MysisView
from zoea.process.command_line import REQUIRED, argument, flag, number, option
from zoea.queries.stored_swarm import NewestAnswer, read_newest_answer
from zoea.runtime.first_request_estimate import describe_first_request
from zoea.settings.paths import Places


def resume(
    where: Places,
    name: str = argument("NAME", "A mysis, as @alpha, also a deleted one; or deleted/alpha-3.", is_name=True),
    message: str = option("-m, --message TEXT", "Its first message."),
    new_name: str = option("--name NAME", "The name of the new mysis, if the old one was deleted."),
    allow_fresh: bool = ALLOW_FRESH,
    dry_run: bool = flag("--dry-run", "Only say what it would cost."),
) -> Output:
    """Start a mysis again with its whole conversation, up to its newest commit. The cost is said first.

    `zoea start` instead continues with what the strategy of its template shows of its memories.

    Example: zoea ctx resume @alpha -m "Where were we?"
    """
    with open_contexts(where) as conn:
        branch = find_branch(read_refs(conn), name)
    if not branch:
        raise RevisionError(f"{name} has no commits", hint="`zoea ctx refs` lists branches; `zoea start` starts it.")
    try:
        estimate = estimate_first_request(where, branch, message)
    except MissingBlob as gone:
        if not allow_fresh:
            raise MissingBlob(gone.what, hint="With --allow-fresh it starts without the conversation.") from gone
        estimate = None
        warn(f"It starts without its conversation: {gone.what}")
    micros = None if estimate is None else estimate.price()
    if estimate is not None:
        tell(describe_first_request(estimate, 1, micros))

    async def work(swarm: SwarmApi) -> MysisView:
        made = await swarm.resume(name, name=new_name, allow_fresh=allow_fresh)
        if message:
            await swarm.send(made.name, message)
        return made

    view = None if dry_run else command(where, work)
    cost = (
        {}
        if estimate is None
        else {"messages": estimate.cost.messages, "shown": estimate.cost.shown, "tier": estimate.cost.tier}
    )
    tokens = None if estimate is None else estimate.cost.tokens
    context = None if estimate is None else estimate.commit.id
    return Output(
        {"context": context, **cost, "tokens": tokens, "cost_micros": micros, "mysis": view},
        f"{view.name} is {state_word(view)}" if view is not None else "",
    )


def ask(
    where: Places,
    revision: str = argument("COMMIT", "Whom to ask: a mysis, or a commit such as alpha~3 or ctx-1a2b3c4d."),
    question: str = option("-m, --message TEXT", "The question.", REQUIRED),
    thread: str = option(
        "--thread NAME", "Name of a discussion: another question with this name goes on from the answer."
    ),
    ticket: str = option(
        "--ticket ID", "The ticket of a new discussion, such as tkt-7; if not given, that of the commit."
    ),
    timeout: float = option("--timeout SECONDS", "Longest time to wait for the answer.", 300.0, number(1, 86400)),
) -> Output:
    """Ask what a mysis knew at a commit, and print the answer. The mysis itself learns nothing of it.

    A mysis with the commit's template answers and then rests. The cost is said first, on stderr.

    Example: zoea ctx ask alpha~3 -m "Why did you choose this plan?"
    """
    request = estimate_first_request(where, revision, question, thread=thread)
    micros = request.price()
    warn(describe_first_request(request, 1, micros))
    begun: list[CommitQuestion] = []

    async def work(swarm: SwarmApi) -> MysisView:
        begun.append(await swarm.ask(request.commit.id, question, thread=thread, ticket=ticket))
        return await swarm.wait(begun[0].mysis.name, timeout_s=timeout)

    try:
        view = command(where, work)
    except KeyboardInterrupt:
        if begun:
            warn(_goes_on(begun[0]))
        raise
    except UsageError as error:
        if begun:
            raise AnswerLate(error.what, hint=_goes_on(begun[0])) from None
        raise
    asked = begun[0]
    answer = read_newest_answer(where.database, view.id)
    output.write(
        Output(
            {
                "thread": asked.thread,
                "ticket": ticket or request.commit.provenance.ticket_id,
                "ref": asked.ref,
                "context": asked.context,
                "mysis": view,
                "outcome": answer.outcome,
                "answer": answer.text,
                "tokens": request.cost.tokens,
                "cost_micros": micros,
            },
            answer.text,
        )
    )
    _check_answered(asked, view, answer)
    if not output.is_json:
        again = f"zoea ctx ask {shlex.quote(revision)} --thread {shlex.quote(asked.thread)} -m TEXT"
        warn(f"{asked.mysis.name} answered. Ask again: {again}")
    return Output(UNSET)


def _check_answered(asked: CommitQuestion, view: MysisView, found: NewestAnswer) -> None:
    if found.outcome == "answered" and found.text != NO_RESPONSE:
        return
    if found.outcome == "answered":
        why = EMPTY_ANSWER
    else:
        why = view.failure.what if view.failure is not None else f"the turn ended: {found.outcome or 'not yet'}"
    raise NotAnswered(
        f"{asked.mysis.name} gave no answer: {why}",
        hint=f"`zoea show {asked.mysis.name}` says more, `zoea log` what it did.",
    )


def _goes_on(asked: CommitQuestion) -> str:
    name = shlex.quote(asked.mysis.name)
    return f"{asked.mysis.name} goes on: zoea log {name} shows its answer, zoea stop {name} stops it."
