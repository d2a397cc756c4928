"""Lines of the inspector: packs, cuts, messages, estimate against actual usage, times of turns. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from zoea.context import Decision, PackStatus, Plan, PlanStep, Reason, Variant, describe_reason, describe_step
from zoea.context.explain import advise
from zoea.context.forms import FormKind
from zoea.model.enums import Finish, RequestState, Role
from zoea.queries.phrases import failure_phrase, is_unsent
from zoea.queries.request_inspection import Inspection, SentMessage, StoredRequest
from zoea.queries.request_troubles import Trouble
from zoea.queries.turn_times import TurnTime, TurnWork
from zoea.text.amounts import format_dollars
from zoea.text.call_text import reveal_call
from zoea.text.control_characters import one_line
from zoea.tui import number_format
from zoea.tui.conversation.blocks import Symbols
from zoea.tui.conversation.focus_lines import name_pack
from zoea.tui.swarm_list.mysis_row import describe_model
from zoea.tui.text_layout import Piece, count_cells, fit_text, wrap_words
from zoea.tui.widgets.folding_list import FoldingItem

PACK_ROLES = ("llm", "running", "asking", "tool", "commander", "reasoning", "waiting")
"""Theme roles of the packs, in their order, in bar and table."""

ID_WIDTH, MOST_ID_WIDTH = 12, 22
TOKENS_WIDTH = 7
_FORMS = {
    FormKind.FULL: "in full",
    FormKind.BARE: "in full, reasoning left out",
    FormKind.SUPERSEDED: "superseded by a later call",
    FormKind.ORDER: "shown again as data",
}
_ENDS: dict[str, str] = {
    Finish.STOP: "answered",
    Finish.CALLS: "answered with tool calls",
    Finish.LENGTH: "cut off at the longest answer",
    Finish.FILTER: "cut off by a filter of the provider",
    Finish.UNKNOWN: "ended: the model gave no reason",
}
"""How a request ended, by the stored reason."""
_WHO = {Role.ASSISTANT: "answer", Role.TOOL: "result"}
"""Words for roles, as the history of a mysis has them; other roles have their names."""
_ROLES = {Role.SYSTEM: "quiet", Role.USER: "commander", Role.ASSISTANT: "llm", Role.TOOL: "tool"}


def build_head_lines(request: StoredRequest, now: int) -> list[list[Piece]]:
    """Build status and usage of a request: three lines, two while it is in progress."""
    usage = request.usage
    role, words = _state(request)
    first: list[Piece] = [
        (words, role),
        (f"  attempt {request.attempt}" if request.attempt > 1 else "", "asking"),
        (f"  {describe_model(request.model, request.provider)}", ""),
        (f"  {number_format.clock(request.created_at, now, seconds=True)}", "quiet"),
    ]
    if request.state == RequestState.RESERVED:
        reserved = number_format.tokens(request.reserved_tokens)
        return [
            first,
            [
                (f"~{number_format.tokens(request.planned_tokens)} tokens estimated", ""),
                (
                    f"; {reserved} set aside in the budgets until it ends: a high estimate and the longest answer",
                    "quiet",
                ),
            ],
        ]
    off = request.off_by
    counted = number_format.tokens(usage.input_tokens) if usage.input_tokens is not None else "nothing"
    second: list[Piece] = [
        (f"~{number_format.tokens(request.planned_tokens)} tokens estimated", ""),
        (
            f" ({_describe_error(off)})" if off is not None else "",
            ("quiet" if off is None or abs(off) < 0.15 else "asking"),
        ),
        (f"  {counted} by the provider's count", "strong" if usage.input_tokens is not None else "quiet"),
        (f"  {number_format.tokens(usage.cached_tokens)} cached" if usage.cached_tokens is not None else "", "quiet"),
    ]
    thought = f" ({number_format.tokens(usage.reasoning_tokens)} reasoning)" if usage.reasoning_tokens else ""
    took = number_format.duration(request.duration_us) if request.duration_us is not None else "?"
    begun = number_format.duration(request.first_token_us) if request.first_token_us is not None else "?"
    third: list[Piece] = [
        (f"{number_format.tokens(usage.output_tokens)} tokens answered{thought}", ""),
        (f"  took {took}", ""),
        (f", first token after {begun}" if request.first_token_us is not None else "", "quiet"),
        (f"  {format_dollars(usage.cost_micros)}" if usage.cost_micros is not None else "  price unknown", "quiet"),
    ]
    return [first, second, third]


def build_request_line(request: StoredRequest) -> list[Piece]:
    """Build one line of the request list."""
    role, _ = _state(request)
    sign = {"errored": Symbols.bad, "waiting": Symbols.run}.get(role, Symbols.ok)
    is_of_turn = request.turn_number is not None and request.purpose == "turn"
    turn = f"t{request.turn_number}.{request.iteration}" if is_of_turn else request.purpose
    actual = request.usage.input_tokens
    tokens = number_format.tokens(actual) if actual is not None else f"~{number_format.tokens(request.planned_tokens)}"
    again = f"x{request.attempt}" if request.attempt > 1 else ""
    return [
        (f"{fit_text(sign, 2)} ", role),
        (fit_text(turn, 9), "" if request.has_plan else "quiet"),
        (fit_text(again, 3), "asking"),
        (fit_text(tokens, TOKENS_WIDTH, right=True), ""),
        (
            fit_text(
                number_format.duration(request.duration_us) if request.duration_us is not None else "", 8, right=True
            ),
            "quiet",
        ),
    ]


def build_plan_lines(inspection: Inspection, width: int, troubles: Sequence[Trouble] = ()) -> list[list[Piece]]:
    """Build the packs as bar and table, usual faults, and the shortened memories. Without a plan, the reason."""
    plan = inspection.plan
    if plan is None:
        return [[(line, "quiet")] for line in wrap_words(inspection.gone, max(10, width))]
    budget = plan.budget
    lines: list[list[Piece]] = [
        [
            (f"~{number_format.tokens(budget.final_tokens)}", "title"),
            (f" of {number_format.tokens(budget.max_tokens)} tokens", ""),
            (f"  ~{number_format.tokens(budget.remaining_tokens)} left", "quiet"),
        ],
        build_pack_bar(plan, max(10, width)),
        *([(line, "quiet")] for line in wrap_words(inspection.limit, max(10, width)) if line),
    ]
    request = inspection.request
    if request.calibration != 1.0:
        before = number_format.tokens(request.estimated_tokens)
        said = f"~{before} estimated from its length, × {request.calibration:.2f} as past counts taught"
        lines += [[(line, "quiet")] for line in wrap_words(said, max(10, width))]
    if budget.over_budget_tokens:
        over = number_format.tokens(budget.over_budget_tokens)
        lines.append([(f"~{over} over: the parts that are always sent exceed the limit", "errored")])
    lines.append([])
    for place, decision in enumerate(plan.decisions):
        lines += _decision_lines(decision, PACK_ROLES[place % len(PACK_ROLES)], plan, width)
    if plan.left_out_tools:
        lines += [[], [("Tools left out in this turn", "title"), ("  its requests would not fit with them", "quiet")]]
        lines += [[(line, "")] for line in wrap_words(", ".join(plan.left_out_tools), max(10, width))]
    for note in plan.notes:
        lines += [[], *([(line, "quiet")] for line in wrap_words(note, max(10, width)))]
    if troubles:
        lines += [[], [("Troubleshooting", "title")]]
        for trouble in troubles:
            words = wrap_words(f"{trouble.symptom}: {trouble.cause}", max(10, width))
            remedy = wrap_words(trouble.remedy, max(10, width - 2))
            lines += [[(line, "asking")] for line in words]
            lines += [[("→ " if not place else "  ", "quiet"), (line, "")] for place, line in enumerate(remedy)]
    if plan.steps:
        lines += [[], [("Not in full", "title")]]
        lines += [line for step in plan.steps for line in _step_lines(step, width)]
    return lines


def build_pack_bar(plan: Plan, width: int) -> list[Piece]:
    """Build the share of each pack as a bar. Every used pack has at least one cell."""
    total = max(1, plan.budget.max_tokens, plan.budget.final_tokens)
    pieces: list[Piece] = []
    left = width
    for place, decision in enumerate(plan.decisions):
        if decision.tokens and left:
            cells = min(left, max(1, round(decision.tokens / total * width)))
            pieces.append(("━" * cells, PACK_ROLES[place % len(PACK_ROLES)]))
            left -= cells
    return [*pieces, ("─" * left, "quiet")]


def _decision_lines(decision: Decision, role: str, plan: Plan, width: int) -> list[list[Piece]]:
    id_width = min(MOST_ID_WIDTH, max(ID_WIDTH, *(len(one.id) + 1 for one in plan.decisions)))
    is_out = decision.status is PackStatus.SKIPPED
    is_empty = decision.reason is Reason.EMPTY
    form = (
        "empty"
        if is_empty
        else "left out"
        if is_out
        else "compact"
        if decision.variant is Variant.COMPACT
        else "in full"
    )
    cut = ", parts of it cut" if decision.truncated else ""
    tokens = number_format.UNKNOWN if is_out else f"~{number_format.tokens(decision.tokens)}"
    form_role = "quiet" if is_empty or (form == "in full" and not decision.truncated) else "asking"
    wanted = f", wants ~{number_format.tokens(decision.wanted_tokens)}" if is_out and decision.wanted_tokens else ""
    why, room = describe_reason(decision.reason) + wanted + cut, width - id_width - TOKENS_WIDTH - 12
    lines: list[list[Piece]] = [
        [
            ("━ " if not is_out else "  ", role),
            (fit_text(name_pack(decision.id), id_width), "quiet" if is_out else ""),
            (fit_text(tokens, TOKENS_WIDTH, right=True), "quiet" if is_out else ""),
            (" ", ""),
            (fit_text(form, 9), form_role),
            (fit_text(why, room).rstrip() if room > 1 else why, "quiet"),
        ]
    ]
    if advice := advise(decision.setting, decision.reason):
        lines += [[("  ", ""), (line, "quiet")] for line in wrap_words(advice, max(10, width - 2))]
    return lines


def _step_lines(step: PlanStep, width: int) -> list[list[Piece]]:
    size = f"{number_format.size(step.before_chars)} → {number_format.size(step.after_chars)}"
    words = f"{describe_step(step.kind)} ({size})"
    first = f"#{step.memory_id}"
    lines = list(wrap_words(words, max(10, width - 10)))
    return [[(fit_text(first if not place else "", 8) + "  ", "quiet"), (line, "")] for place, line in enumerate(lines)]


def build_message_items(sent: Sequence[SentMessage]) -> list[FoldingItem]:
    """Build one item per message as planned: role, form and size, then the text."""
    return [_message(place, each) for place, each in enumerate(sent)]


def _message(place: int, sent: SentMessage) -> FoldingItem:
    message = sent.message
    role = _ROLES[message.role]
    head: list[Piece] = [
        (f"{f'#{place + 1}':>4} ", "quiet"),
        (fit_text(_WHO.get(message.role, str(message.role)), 10), role),
    ]
    if message.role is Role.TOOL:
        head.append((f"{one_line(message.name)} ", "tool"))
        head.append((f"of call {message.call_id} ", "quiet"))
        head.append(("failed ", "errored") if message.is_error else ("", ""))
    if message.calls:
        head.append((f"{len(message.calls)} call{'s' * (len(message.calls) != 1)} ", "tool"))
    head.append((describe_form(sent), "asking" if sent.form not in ("", FormKind.FULL, FormKind.BARE) else "quiet"))
    right: list[Piece] = [
        (f" {number_format.size(len(message.content)) if message.content else number_format.UNKNOWN}", ""),
        (fit_text(f"~{number_format.tokens(sent.tokens)}", TOKENS_WIDTH, right=True), "quiet"),
    ]
    body: list[Piece] = []
    if message.reasoning:
        body.append((message.reasoning, "reasoning"))
    if message.native is not None:
        native = message.native
        kept = f"[{native.provider}'s own blocks for {native.model}, {number_format.size(len(native.blocks))}]"
        body += [(kept, "quiet"), (native.blocks, "reasoning")]
    if message.content:
        body.append((message.content, "" if message.role is not Role.SYSTEM else "quiet"))
    body += [(f"{Symbols.tool} {reveal_call(call.name, call.arguments)}  {call.id}", "tool") for call in message.calls]
    return FoldingItem(head, right, body)


def describe_form(sent: SentMessage) -> str:
    """Describe the form in which a memory was sent."""
    if not sent.form:
        return "" if sent.message.memory_id is None else "cut as a message"
    kind = FormKind(sent.form)
    if kind is FormKind.CUT:
        return f"cut to {number_format.size(sent.kept_chars)}"
    if kind is FormKind.TAIL:
        return f"its last {number_format.size(sent.kept_chars)}"
    if kind is FormKind.RECALL:
        return f"recalled: up to {number_format.size(sent.kept_chars)} of it"
    return _FORMS[kind]


def _state(request: StoredRequest) -> tuple[str, str]:
    """Return role and text of a request's state."""
    if failed := failure_phrase(request.state, request.error_class):
        return "waiting" if is_unsent(request.state, request.error_class) else "errored", failed
    match request.state:
        case RequestState.RESERVED:
            return "waiting", "under way"
        case RequestState.ESTIMATED:
            return "running", f"{_describe_end(request)} (tokens are an estimate)"
    return "running", _describe_end(request)


def _describe_end(request: StoredRequest) -> str:
    return _ENDS.get(request.finish_reason, f"ended: {request.finish_reason or 'the model gave no reason'}")


def _describe_error(off: float) -> str:
    """Say how far an estimate was off, in whole percents."""
    percents = round(100 * off)
    return f"{abs(percents)} % too {'high' if percents > 0 else 'low'}" if percents else "right"


# Times of turns.

_WORK_SIGNS = {TurnWork.MODEL: "█", TurnWork.TOOLS: "▒", TurnWork.WAITING: "─"}
"""Signs that tell apart without colour, also in ASCII."""
_WORK_ROLES = {TurnWork.MODEL: "llm", TurnWork.TOOLS: "tool", TurnWork.WAITING: "waiting"}
WORK_LEGEND = " · ".join(f"{sign} {work}" for work, sign in _WORK_SIGNS.items())
_SUMS_FROM = 100
"""Columns from which a line says how long each kind took."""


def build_turn_line(turn: TurnTime, longest: int, now: int, width: int) -> list[Piece]:
    """Build the line of a turn: its number and time, the bar, how long it took, and how it ended.

    Args:
        longest: µs of the longest turn, whose bar has the whole room.
    """
    head: list[Piece] = [(f"{turn.number:>4} ", "strong"), (f"{number_format.clock(turn.opened_at, now)}  ", "quiet")]
    end: list[Piece] = [(fit_text(number_format.duration(turn.length), 8, right=True), "")]
    if width >= _SUMS_FROM:
        sums = ((work, turn.sum_up(work)) for work in TurnWork)
        said = " · ".join(f"{work} {number_format.duration(time)}" for work, time in sums if time)
        end.append((f"  {fit_text(said, 44)}", "quiet"))
    end.append((f"  {fit_text(turn.outcome.replace('_', ' ') or 'goes on', 10)}", "" if turn.outcome else "working"))
    room = max(1, width - count_cells([*head, *end]))
    bar = _build_bar(turn, max(1, round(room * turn.length / longest)) if longest > 0 else 1)
    return [*head, *bar, (" " * (room - count_cells(bar)), ""), *end]


def _build_bar(turn: TurnTime, cells: int) -> list[Piece]:
    """Build a bar in which each cell shows what most of its time went to."""
    works = [_find_work(turn, at, cells) for at in range(cells)]
    return [(_WORK_SIGNS[work] * len(list(run)), _WORK_ROLES[work]) for work, run in groupby(works)]


def _find_work(turn: TurnTime, at: int, cells: int) -> TurnWork:
    left, right = (turn.opened_at + turn.length * edge / cells for edge in (at, at + 1))
    shares = dict.fromkeys(TurnWork, 0.0)
    for span in turn.spans:
        shares[span.work] += max(0.0, min(span.ended, right) - max(span.began, left))
    return max(shares, key=lambda work: shares[work]) if any(shares.values()) else TurnWork.WAITING
