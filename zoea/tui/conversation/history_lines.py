"""Lines of the history: commits as a graph, and one commit with origin and messages. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from zoea.chain.commit import Checkpoint, CommitType, ContextCommit
from zoea.chain.commit_lanes import GraphRow, draw_row
from zoea.chain.entries import ContextEntry
from zoea.chain.materialize import MaterializedContext, Tier
from zoea.chain.ref_names import BRANCH
from zoea.model.enums import Role
from zoea.queries.commit_details import CommitDetails
from zoea.queries.commit_history import COUNTED, ContextHistory, LiveWork
from zoea.text.call_text import reveal_call
from zoea.text.control_characters import one_line, prose_line
from zoea.text.sentences import count_of
from zoea.tui import number_format
from zoea.tui.conversation.argument_lines import has_lines, iterate_argument_lines
from zoea.tui.conversation.blocks import Symbols
from zoea.tui.text_layout import Piece, fit_text, spread_pieces, strip_emphasis, wrap_words
from zoea.tui.widgets.folding_list import FoldingItem

LANE_ROLES = ("running", "commander", "waiting", "llm", "tool", "asking", "reasoning")
"""Theme roles of the lanes, by column."""
SIGNS = {
    Checkpoint.TURN_BOUNDARY: ("●", "after a request"),
    Checkpoint.TOOL_CALL: ("◆", "after tools"),
    Checkpoint.COMPACTION: ("▣", "summary"),
    Checkpoint.SESSION_END: ("■", "session end"),
    Checkpoint.EXPLICIT: ("★", "by hand"),
}
"""The sign and the word of what made a commit."""
LIVE_SIGN = "○"
SNAPSHOT_SIGN = "▤"
ID_DIGITS = 8
_AGE, _TOKENS, _NAME = 4, 7, 16
_MOST_LANES = {True: 5, False: 12}
_TIERS = {
    Tier.NATIVE: "as it was stored",
    Tier.MAPPED: "message by message from another format",
    Tier.NARRATIVE: "told as one text, because its format is unknown",
    Tier.RAW: "a part is only described, because its format is unknown",
}
_ROLES = {Role.USER: "commander", Role.ASSISTANT: "llm", Role.TOOL: "tool", Role.SYSTEM: "quiet"}


def sign_of(commit: ContextCommit) -> str:
    """Return the sign of what made a commit."""
    if commit.kind is CommitType.COMPACTION:
        return SIGNS[Checkpoint.COMPACTION][0]
    return SNAPSHOT_SIGN if commit.kind is CommitType.SNAPSHOT else SIGNS[commit.checkpoint][0]


def build_legend(commits: Sequence[ContextCommit], *, has_live: bool) -> str:
    """Return the signs that these commits have, with their words."""
    used = {sign_of(commit) for commit in commits}
    words = {**dict(SIGNS.values()), SNAPSHOT_SIGN: "snapshot"}
    shown = [f"{sign} {word}" for sign, word in words.items() if sign in used]
    return "  ".join([*shown, f"{LIVE_SIGN} now"] if has_live else shown)


def count_lanes(rows: Sequence[GraphRow], *, is_narrow: bool) -> int:
    """Return how many columns of the graph are drawn."""
    widest = max((max((row.column, *row.joined, *row.passing)) for row in rows), default=0)
    return min(widest + 1, _MOST_LANES[is_narrow])


def build_commit_line(
    commit: ContextCommit, row: GraphRow, refs: Sequence[str], width: int, *, now: int, lanes: int, is_marked: bool
) -> list[Piece]:
    """Build the line of a commit: lanes, id, age, tokens, summary and names."""
    colour = LANE_ROLES[row.column % len(LANE_ROLES)]
    drawn = [(text, LANE_ROLES[column % len(LANE_ROLES)]) for text, column in draw_row(row, sign_of(commit), lanes)]
    sign = "+" if commit.kind is CommitType.DELTA else ""
    digits = commit.digest.hex()[:ID_DIGITS]
    left: list[Piece] = [
        ("▌" if is_marked else " ", "asking"),
        *drawn,
        (" " * (2 * lanes - len(drawn)), ""),
        (digits, colour),
        (fit_text(number_format.age(commit.created_at, now), _AGE, right=True), "quiet"),
        (fit_text(f"{sign}~{number_format.tokens(commit.token_count)}", _TOKENS + 1, right=True) + " ", "quiet"),
        (strip_emphasis(prose_line(commit.note.summary)), ""),
    ]
    names = [*refs, *(f"#{tag}" for tag in commit.note.tags)]
    shown = fit_text(" ".join(map(one_line, names)), min(max(12, width // 3), sum(len(n) + 1 for n in names))).rstrip()
    return spread_pieces(left, [(f" {shown}", "commander")] if names else [], width)


def build_live_line(live: LiveWork, width: int, *, now: int, lanes: int) -> list[Piece]:
    """Build the line of the work that no commit holds yet."""
    return spread_pieces(
        [
            (f" {LIVE_SIGN}", "quiet"),
            (" " * (2 * lanes - 1), ""),
            ("now     ", "quiet"),
            (fit_text(number_format.age(live.at, now), _AGE, right=True), "quiet"),
            (fit_text(f"+~{number_format.tokens(live.tokens)}", _TOKENS + 1, right=True) + " ", "quiet"),
            (describe_live(live), "quiet"),
        ],
        [],
        width,
    )


def build_moment_line(commit: ContextCommit, width: int, *, at: int) -> list[Piece]:
    """Build the line of a commit: mysis, id, age, tokens and summary."""
    return spread_pieces(
        [
            (f" {sign_of(commit)} ", "running"),
            (fit_text(one_line(commit.provenance.principal), _NAME) + " ", "mysis"),
            (commit.digest.hex()[:ID_DIGITS], "quiet"),
            (fit_text(number_format.age(commit.created_at, at), _AGE + 1, right=True), "quiet"),
            (fit_text(f"+~{number_format.tokens(commit.token_count)}", _TOKENS + 1, right=True) + " ", "quiet"),
            (strip_emphasis(prose_line(commit.note.summary)), ""),
        ],
        [],
        width,
    )


def describe_live(live: LiveWork) -> str:
    """Return how many messages no commit holds yet."""
    more = "+" if live.messages >= COUNTED else ""
    return f"{live.messages:,}{more} message{'s' * (live.messages != 1)} not committed yet"


def build_about_lines(details: CommitDetails, history: ContextHistory, width: int, *, now: int) -> list[list[Piece]]:
    """Build the lines about a commit: its summary, what it knew, and where it comes from."""
    commit, about = details.commit, details.commit.provenance
    what = commit.kind.value if commit.kind is not CommitType.DELTA else SIGNS[commit.checkpoint][1]
    lines: list[list[Piece]] = [
        [
            (details.short_id, "title"),
            (f"  {sign_of(commit)} {what}", ""),
            (f"  {number_format.clock(commit.created_at, now, seconds=True)}", "quiet"),
        ]
    ]
    names = [
        f"{ref} (newest of {ref[1:]})" if ref.startswith(BRANCH) else ref for ref in history.refs.get(commit.seq, ())
    ]
    lines += [[(one_line("  ".join(names)), "commander")]] if names else []
    lines += [[(one_line("  ".join(f"#{tag}" for tag in commit.note.tags)), "asking")]] if commit.note.tags else []
    said = commit.note.summary or "none"
    lines += [[], [("Summary", "title"), (f"  by {one_line(commit.note.model)}" if commit.note.model else "", "quiet")]]
    lines += [[(line, "")] for line in wrap_words(prose_line(said), width)]
    messages, tokens = details.known
    own = f"{count_of(commit.message_count, 'message')}, ~{number_format.tokens(commit.token_count)} tokens"
    lines += [[], [("What it knew", "title"), (f"  {count_of(messages, 'message')}", ""),
                   (f"  ~{number_format.tokens(tokens)} tokens", "")],
              [("new in it     ", "quiet"), (own, "")]]  # fmt: skip
    lines += [[], [("Where it comes from", "title")]]
    for name, value in (
        ("parent", details.parent),
        ("followed by", ", ".join(details.children)),
        ("mysis", about.principal),
        ("template", details.template),
        ("model", details.model),
        ("session", f"#{about.session_id}" if about.session_id else ""),
        ("machine", about.machine),
        ("ticket", about.ticket_id or ""),
        ("thread", about.thread_id or ""),
        ("format", commit.format),
    ):
        if value:
            wrapped = list(wrap_words(one_line(value), max(10, width - 13)))
            lines += [[(fit_text(name if not at else "", 13), "quiet"), (line, "")] for at, line in enumerate(wrapped)]
    if details.missing:
        lines += [[], *([(line, "errored")] for line in wrap_words(one_line(details.missing), width))]
    return lines


def describe_context(context: MaterializedContext) -> str:
    """Return how many messages a conversation has, and how faithful they are."""
    repaired = f" and {count_of(context.repaired, 'added result')}" if context.repaired else ""
    messages = f"{count_of(len(context.entries) - context.repaired, 'message')}{repaired}"
    return f"{messages}, ~{number_format.tokens(context.token_count)} tokens, {_TIERS[context.tier]}"


def build_entry_items(entries: Sequence[ContextEntry], first: int = 1) -> list[FoldingItem]:
    """Build one item per message: who said it and its size, then its text and calls."""
    return [_item(number, entry) for number, entry in enumerate(entries, first)]


DIFFERS = "*"
"""The mark of a message that only one of two compared commits has."""
_BRIEF, _CALLS_SHOWN = 2, 4
"""Lines of a folded message, and so many more for its calls."""


def build_compared_items(
    entries: Sequence[ContextEntry], other: Sequence[ContextEntry], first: int
) -> tuple[list[FoldingItem], int]:
    """Build one item per message, its calls first. A mark means that the other commit has no such message.

    Return the items, and how many are marked.
    """
    known, marked, items = {_said(entry) for entry in other}, 0, []
    for number, entry in enumerate(entries, first):
        differs = _said(entry) not in known
        marked += differs
        item = _item(number, entry)
        calls = _list_calls(entry)
        body = [*calls, *item.body[: len(item.body) - len(calls)]]
        head = [(DIFFERS if differs else " ", "asking"), *item.head]
        items.append(FoldingItem(head, item.right, body, _BRIEF + min(len(calls), _CALLS_SHOWN)))
    return items, marked


def _said(entry: ContextEntry) -> tuple[object, ...]:
    return entry.role, entry.content, tuple((call.name, call.arguments) for call in entry.calls)


def _item(number: int, entry: ContextEntry) -> FoldingItem:
    who = {Role.USER: entry.sender or entry.source or "user", Role.ASSISTANT: "answer", Role.TOOL: "result"}
    head: list[Piece] = [
        (f"{number:>3} ", "quiet"),
        (fit_text(one_line(who.get(entry.role, entry.role.value)), 10) + " ", _ROLES[entry.role]),
    ]
    if entry.calls:
        head.append((", ".join(one_line(call.name) for call in entry.calls) + " ", "tool"))
    for is_so, word, role in (
        (entry.is_error, "failed ", "errored"),
        (entry.is_partial, "cut off ", "waiting"),
        (entry.is_synthetic, "by Zoea ", "quiet"),
    ):
        head += [(word, role)] if is_so else []
    body: list[Piece] = [(entry.reasoning, "reasoning")] if entry.reasoning else []
    body += [(entry.content, "")] if entry.content else []
    body += [(f"[{one.media_type}] {one.note}", "quiet") for one in entry.media]
    calls = _list_calls(entry)
    brief = _BRIEF + min(len(calls) - len(entry.calls), _CALLS_SHOWN)
    size = [(f" ~{number_format.tokens(entry.token_count)} tokens", "quiet")]
    return FoldingItem(head, size, [*body, *calls], brief)


def _list_calls(entry: ContextEntry) -> list[Piece]:
    """Return the lines of calls: arguments that hold texts as texts, others as JSON."""
    lines: list[Piece] = []
    for call in entry.calls:
        if not has_lines(call.arguments):
            lines.append((f"{Symbols.tool} {reveal_call(call.name, call.arguments)}", "tool"))
            continue
        lines.append((f"{Symbols.tool} {one_line(call.name)}", "tool"))
        for pieces in iterate_argument_lines(call.arguments):
            lines.append(("  " + "".join(text for text, _ in pieces), pieces[-1][1]))
    return lines
