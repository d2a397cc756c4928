"""Lines around a conversation: header, border status, failure, context panel. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.cells import cell_len

from zoea.context.explain import advise
from zoea.context.plan_values import Reason
from zoea.model.enums import Activity
from zoea.model.status import StatusWord
from zoea.model.values import MysisView
from zoea.queries.error_report import report_error
from zoea.queries.phrases import failure_phrase, is_unsent
from zoea.queries.request_summary import MysisContext, PackSummary, RequestSummary, ToolSnapshot
from zoea.queries.status_phrases import describe_detail
from zoea.text.control_characters import one_line
from zoea.text.sentences import count_of
from zoea.tui import number_format
from zoea.tui.swarm_list.mysis_row import describe_activity
from zoea.tui.text_layout import Piece, count_cells, fit_text

CUT_LEAST = 12
"""A cut piece of the header keeps at least this many cells."""
DETAIL_LEAST = 16
"""What stands behind the status is left out where fewer cells of it would be shown."""

_BEHIND = " · "


def build_status_pieces(
    *,
    unseen: int,
    turns: int,
    turn: int,
    is_empty: bool,
    is_loaded: bool,
    has_failed: bool,
    follows: bool,
    verbose: bool,
) -> list[tuple[str, str]]:
    """Build (text, style) pieces for the lower border.

    Args:
        unseen: Blocks that came while the reader was above.
        turn: Number of the turn under the cursor; 0 for none.
    """
    if unseen:
        said = (f" ↓ {unseen} new ", "bold $role-asking")
    elif is_empty and has_failed:
        said = (" Cannot be read: zoea doctor checks the database ", "bold $role-errored")
    elif is_empty:
        said = (" No message yet: press m " if is_loaded else " Reading… ", "")
    else:
        count = f"{turns} turn{'s' * (turns != 1)}"
        where = f"turn {turn} of {turns}" if turn else count
        said = (f" {count} · follows new lines " if follows else f" {where} · G to the end ", "")
    return [said, ("· verbose ", "")] if verbose else [said]


def build_title_pieces(view: MysisView, place: int, many: int, now: int, glyphs: dict[str, str]) -> list[Piece]:
    """Build the header: name, place in the list (0 if deleted), state, activity."""
    state = str(view.status)
    words = [(f" {glyphs.get(state, '?')} ", state), (one_line(view.name), "strong")]
    words.append((f"  {place} of {many}" if place else "  deleted", "quiet"))
    words.append((f"  {state}", state))
    # The lines below the conversation tell why it failed.
    doing = [] if view.status is StatusWord.ERRORED else build_activity_pieces(view, now)
    return words + [(f"{_BEHIND}{text}", role) for text, role in doing]


def shorten(pieces: Sequence[Piece], width: int) -> list[Piece]:
    """Cut the longest piece so that all fit in `width` cells."""
    found = list(pieces)
    over = count_cells(found) - width
    if over > 0:
        at = max(range(len(found)), key=lambda place: cell_len(found[place][0]))
        text, role = found[at]
        left = cell_len(text) - over
        is_left_out = text.startswith(_BEHIND) and left < DETAIL_LEAST
        found[at] = ("" if is_left_out else fit_text(text, max(CUT_LEAST, left)).rstrip(), role)
    return found


def build_activity_pieces(view: MysisView, now: int) -> list[Piece]:
    """Build the status: cause and time left, or activity and its age."""
    if detail := describe_detail(view, now):
        return [(detail, "quiet" if view.status in (StatusWord.IDLE, StatusWord.STOPPED) else str(view.status))]
    if view.activity is Activity.IDLE or view.status is not StatusWord.WORKING:
        return []
    doing = describe_activity(view) or str(view.activity)
    return [(f"{doing} {number_format.age(view.progress_at, now)}", str(view.activity))]


def build_failure_lines(
    view: MysisView, mark: str, relaunch: str, now: int, *, width: int = 80, is_told: bool = False
) -> list[list[Piece]]:
    """Build the error of a mysis: cause, since when, what Zoea and you can do.

    Args:
        mark: Symbol of an error.
        relaunch: Key that relaunches the mysis.
        now: Time in µs.
        width: Cells of a line.
        is_told: Whether the conversation ends with the same text, so that cause and advice are left out.

    Returns no lines for a mysis that runs or did not fail.
    """
    report = report_error(view, now)
    if report is None:
        return []
    key: list[Piece] = [(relaunch, "key"), (" relaunch", "quiet")]
    plan: Piece = (f"{report.plan}  ", "waiting")
    if is_told:
        since: list[Piece] = [(f"{mark} ", "errored"), (f"{report.since}  ", "quiet")]
        has_room = count_cells([*since, plan, *key]) <= width
        return [[*since, plan, *key]] if has_room else [since, [("  ", ""), plan, *key]]
    first: list[Piece] = [(f"{mark} ", "errored"), (report.what, "errored"), (f"  {report.since}", "quiet")]
    if report.title:
        first.insert(2, (f"  {report.title}", "quiet"))
    advice = [(f"{report.advice}  ", "")] if report.advice else []
    return [first, [("  ", ""), plan, *advice, *key]]


BAR = 12
NAME = 11
SHOWN_FIELDS = 12
TEXT_CHARS = 300
VALUE_CHARS = 40
WIDTH = 46
GAP = "   "
_ROLES = {"history": "llm", "said": "llm", "turn": "running"}
_PACK_NAMES = {"history": "last calls", "said": "last answer", "turn": "this turn", "tools": "tool list"}


def name_pack(pack_id: str) -> str:
    """Return the name of a part of a request, as the cockpit shows it. Other packs have their ids as names."""
    return _PACK_NAMES.get(pack_id, pack_id)


def build_request_lines(sight: MysisContext, turn_limit: int = 0) -> list[list[Piece]]:
    """Build the newest request: size, share of each pack, omissions, failure.

    Without a limit of the turn `turn_limit` is 0.
    """
    seen = sight.seen
    if seen is None:
        return [[("No request yet", "quiet")]]
    lines: list[list[Piece]] = [_size(seen), []]
    lines += [_pack(pack, seen) for pack in seen.packs if pack.reason != Reason.EMPTY]
    lines.append([])
    lines.append([(f"turn {seen.turn_number}", "strong"), (f", request {seen.iteration}", "quiet")])
    limit = f" of {number_format.tokens(turn_limit)}" if turn_limit else ""
    failed = failure_phrase(seen.state, seen.error_class)
    uncounted = "no tokens counted" if failed else "not counted yet"
    counted = f"{number_format.tokens(seen.turn_tokens)}{limit} tokens so far" if seen.turn_tokens else uncounted
    lines[-1].append((f"  {counted}", "quiet"))
    if seen.not_verbatim:
        count = seen.not_verbatim
        lines.append([(f"{count_of(count, 'message')} not sent in full", "waiting")])
    for pack in seen.packs:
        if advice := advise(pack.setting, pack.reason):
            lines.append([(f"{name_pack(pack.id)}: ", ""), (advice, "quiet")])
    if seen.summary_failure:
        lines.append([("no model wrote the summary: ", "waiting"), (seen.summary_failure, "quiet")])
    if failed:
        lines.append([(f"the request {failed}", "waiting" if is_unsent(seen.state, seen.error_class) else "errored")])
    return lines


def _size(seen: RequestSummary) -> list[Piece]:
    line: list[Piece] = [
        ("request ", "quiet"),
        (f"~{number_format.tokens(seen.tokens)}", "title"),
        (f" of {number_format.tokens(seen.max_tokens)} tokens", ""),
    ]
    counted = f" (counted: {number_format.tokens(seen.input_tokens)})" if seen.input_tokens else ""
    return [*line, (counted, "quiet")] if counted else line


def _pack(pack: PackSummary, seen: RequestSummary) -> list[Piece]:
    share = pack.tokens / seen.max_tokens if seen.max_tokens else 0.0
    filled, empty = number_format.bar(share, BAR)
    if not pack.form:
        state, role = "left out", "waiting"
    elif pack.is_cut:
        state, role = "cut", "waiting"
    else:
        state, role = ("in full", "quiet") if pack.form == "full" else (pack.form, "waiting")
    return [
        (fit_text(one_line(name_pack(pack.id)), NAME), ""),
        (" ", ""),
        (filled, _ROLES.get(pack.id, "running")),
        (empty, "quiet"),
        (fit_text(f"~{number_format.tokens(pack.tokens)}" if pack.form else number_format.UNKNOWN, 8, right=True), ""),
        (f" {state}", role),
    ]


def build_snapshot_lines(sight: MysisContext, now: int) -> list[list[Piece]]:
    """Build the newest result of each snapshot tool, with its age."""
    if not sight.snapshots:
        return [[("No tool has read the state of the world yet", "quiet")]]
    lines: list[list[Piece]] = []
    for snapshot in sight.snapshots:
        if lines:
            lines.append([])
        lines.append([(one_line(snapshot.tool), "strong"), (f"  {number_format.age(snapshot.at, now)} ago", "quiet")])
        lines += _fields(snapshot)
    return lines


def _fields(snapshot: ToolSnapshot) -> list[list[Piece]]:
    """Return `fuel 78  hull 100` for an object; sizes of containers; other text unchanged."""
    try:
        value = json.loads(snapshot.content)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        return [[(one_line(snapshot.content[: TEXT_CHARS * 2])[:TEXT_CHARS], "quiet")]]
    lines: list[list[Piece]] = []
    used = WIDTH
    for key, item in list(value.items())[:SHOWN_FIELDS]:
        if isinstance(item, dict | list):
            shown = f"{len(item)} {'field' if isinstance(item, dict) else 'item'}{'s' * (len(item) != 1)}"
        else:
            shown = one_line(json.dumps(item, ensure_ascii=False) if not isinstance(item, str) else item)[:VALUE_CHARS]
        pair: list[Piece] = [(f"{one_line(str(key))[:VALUE_CHARS]} ", "quiet"), (shown, "")]
        size = sum(cell_len(text) for text, _ in pair)
        if not lines or used + len(GAP) + size > WIDTH:
            lines.append(pair)
            used = size
        else:
            lines[-1] += [(GAP, ""), *pair]
            used += len(GAP) + size
    return lines or [[("empty", "quiet")]]
