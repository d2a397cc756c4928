"""`zoea explain`: the packs of a request with reasons, or the difference of two."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from zoea.cli.options import MYSIS
from zoea.cli.output import Output, moment
from zoea.context.explain import describe_advice, explain_data
from zoea.context.explain import explain as explained
from zoea.model.errors import UsageError
from zoea.model.values import MysisView
from zoea.process.command_line import argument, flag, option, row_id
from zoea.queries.phrases import failure_phrase
from zoea.queries.request_difference import RequestDifference, compare_requests
from zoea.queries.request_inspection import Inspection, SentMessage, StoredRequest, inspect_request, read_requests
from zoea.queries.request_log import describe_use
from zoea.queries.request_troubles import find_troubles
from zoea.queries.stored_swarm import read_mysis_view
from zoea.settings.paths import Places
from zoea.text.call_text import reveal_arguments
from zoea.text.control_characters import one_line, split_lines
from zoea.text.sentences import count_of


def explain(
    where: Places,
    name: str = MYSIS,
    request: int | None = argument(
        "REQUEST", "Id of the request; if not given, the newest one whose packs are stored.", None, row_id
    ),
    other: int | None = option("--diff REQUEST", "Compare it with this later request.", None, row_id),
    with_text: bool = flag("--text", "Show also the text of each message, as planned."),
) -> Output:
    """Show the packs of a request: their sizes, why some were cut, and what would keep them.

    A pack is a titled part of a request, such as the newest order or the latest calls. With --diff two requests are
    compared: their packs, messages, tools and budgets.

    Example: zoea explain alpha 41 --diff 42
    """
    database = where.database
    mysis = read_mysis_view(database, name)
    if request is None:
        requests = read_requests(database, mysis.id)
        if not requests:
            name = shlex.quote(mysis.name)
            hint = f"Give it something to do: `zoea send {name} TEXT`."
            if mysis.pending:
                hint = f"A message waits for it: `zoea show {name}` says why it has not begun."
            raise UsageError(f"{mysis.name} has made no request yet", hint=hint)
        request = next((one.id for one in requests if one.has_plan), requests[0].id)
    inspection = _inspect(database, mysis, request)
    if other is not None:
        difference = compare_requests(inspection, _inspect(database, mysis, other))
        return Output(_difference_data(difference), _difference_lines(difference, with_text=with_text))
    troubles = find_troubles(database, inspection)
    lines = [_title(inspection.request), _numbers(inspection.request), *describe_use(database, inspection.request), ""]
    lines.append(explained(inspection.plan, limit=inspection.limit) if inspection.plan is not None else inspection.gone)
    if troubles:
        lines += ["", "Troubleshooting:"]
        lines += [f"  {one.symptom}: {one.cause}. To change it: {one.remedy}." for one in troubles]
    lines += _tool_lines(inspection)
    if with_text:
        lines += _sent_lines(inspection)
    return Output({**_data(inspection, with_text=with_text), "troubles": troubles}, "\n".join(lines))


def _inspect(database: Path, mysis: MysisView, request: int) -> Inspection:
    """Read a request of this mysis. Raises UsageError."""
    inspection = inspect_request(database, request)
    if inspection.request.mysis_id != mysis.id:
        owner = inspection.request.mysis
        raise UsageError(
            f"request {request} belongs to {owner}",
            hint=f"Run `zoea explain {shlex.quote(owner)} {request}`, or leave out the id for the newest request.",
        )
    return inspection


def _difference_lines(found: RequestDifference, *, with_text: bool) -> list[str]:
    """Describe what changed from one request to another."""
    lines = [f"Request {found.second} has {found.tokens:+,} tokens beside request {found.first}."]
    if found.max_tokens[0] != found.max_tokens[1]:
        lines.append("The budget is {:,} tokens instead of {:,}.".format(*reversed(found.max_tokens)))
    lines += [f"{name.replace('_', ' ')}: {before} -> {after}" for name, (before, after) in found.values.items()]
    same, gone, new = found.repeated, len(found.removed), len(found.added)
    lines.append(f"Both begin with the same {count_of(same, 'message')}; {gone} are gone, {new} are new.")
    if found.packs:
        lines += ["", "Packs:"]
    for pack in found.packs:
        advice = f"; {describe_advice(pack.setting)} would have kept it whole" if pack.setting else ""
        lines.append(f"  {pack.id:<12} {pack.before} -> {pack.after} ({pack.tokens:+,} tokens{advice})")
    for sign, messages in (("-", found.removed), ("+", found.added)):
        for sent in messages:
            memory = f" memory {sent.message.memory_id}" if sent.message.memory_id else ""
            lines.append(f"{sign} {sent.message.role}{memory}, {sent.tokens:,} tokens")
            lines += [f"    {line}" for line in split_lines(sent.message.content)] if with_text else []
    for word, names in (("Tools gone", found.tools_removed), ("Tools new", found.tools_added)):
        lines += [f"{word}: {', '.join(names)}"] if names else []
    return lines


def _difference_data(found: RequestDifference) -> dict[str, Any]:
    """Return the difference as plain values, without any text of a message."""

    def rows(messages: tuple[SentMessage, ...]) -> list[dict[str, Any]]:
        return [
            {
                "role": str(sent.message.role),
                "memory_id": sent.message.memory_id,
                "form": sent.form,
                "tokens": sent.tokens,
            }
            for sent in messages
        ]

    return {
        "first": found.first,
        "second": found.second,
        "tokens": found.tokens,
        "max_tokens": list(found.max_tokens),
        "packs": found.packs,
        "repeated": found.repeated,
        "removed": rows(found.removed),
        "added": rows(found.added),
        "tools_removed": list(found.tools_removed),
        "tools_added": list(found.tools_added),
        "values": {name: list(pair) for name, pair in found.values.items()},
    }


def _tool_lines(inspection: Inspection) -> list[str]:
    """List the offered tools by size, because each costs its tokens in every request."""
    tools = sorted(inspection.tools, key=lambda tool: (-tool.tokens, tool.name))
    return ["", "Tools:", *(f"  {tool.name:<28} ~{tool.tokens:,} tokens" for tool in tools)] if tools else []


def _sent_lines(inspection: Inspection) -> list[str]:
    """Return each message as planned, with its calls."""
    lines = ["", "Sent:"]
    for message in inspection.messages:
        lines += ["", f"--- {message.role}", message.content]
        lines += [f"{one_line(call.name)} {reveal_arguments(call.arguments)}" for call in message.calls]
    return lines


def _title(request: StoredRequest) -> str:
    where = f", turn {request.turn_number}, its request {request.iteration}" if request.turn_number else ""
    model = f": {request.model}" if request.model else ""
    return f"Request {request.id} of {request.mysis}{where}, {moment(request.created_at)}{model}"


def _numbers(request: StoredRequest) -> str:
    actual = request.usage.input_tokens
    counted = f"estimated {request.planned_tokens:,} tokens, "
    counted += f"the provider counted {actual:,}" if actual is not None else "the provider did not count"
    off = request.off_by
    counted += f" (estimate {off:+.0%})" if off is not None else ""
    failed = failure_phrase(request.state, request.error_class)
    return counted + (f"; it {failed}" if failed else "")


def _data(inspection: Inspection, *, with_text: bool) -> dict[str, Any]:
    plan = inspection.plan
    return {
        "request": inspection.request,
        "plan": explain_data(plan) if plan is not None else None,
        "gone": inspection.gone,
        "limit": inspection.limit,
        "tools": [tool.name for tool in inspection.tools],
        "tool_tokens": {tool.name: tool.tokens for tool in inspection.tools},
        **({"sent": inspection.messages} if with_text else {}),
    }
