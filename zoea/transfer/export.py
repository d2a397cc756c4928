"""Exports conversations as Markdown, HTML or JSON lines.

Markdown and HTML redact secrets and personal data by default; JSON lines keep every column
of every row. Existing files are replaced only on request. Synchronous; fronts call it in a
thread.
"""

from __future__ import annotations

import contextlib
import html
import os
import re
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from zoea.model.enums import CallState, OpenedBy, Outcome, Role, SenderKind
from zoea.model.errors import MysisMissing, UsageError
from zoea.model.values import ToolCall
from zoea.queries.conversation import ConversationEntry, ConversationTurn, iterate_turns
from zoea.queries.phrases import read_report
from zoea.queries.stored_swarm import open_database
from zoea.queries.topic_ledger import describe_origin
from zoea.settings.private_file import open_private
from zoea.store.retention import ONLY_A_SENDER
from zoea.swarm.persistence import row_values
from zoea.text.call_text import reveal_arguments
from zoea.text.control_characters import one_line, reveal
from zoea.text.redact import redact_all
from zoea.text.sentences import count_of
from zoea.transfer.jsonl_export import conversation_lines, swarm_line

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

Clean = Callable[[str], str]

_MARKUP = re.compile(r"[\\`*_\[\]<>&#|~!:@]|/(?=/)")
_AT_START = re.compile(r"^(\d*)([-+=.)])")
"""Characters with a meaning in Markdown: anywhere (`//` begins a link), and at the start of a line (lists)."""


class Format(StrEnum):
    """A file format; the value is the file's extension."""

    MARKDOWN = "md"
    HTML = "html"
    JSONL = "jsonl"

    @property
    def redacts(self) -> bool:
        """Return whether secrets and personal data are redacted by default."""
        return self is not Format.JSONL


def file_name(mysis: str, form: Format, at: int) -> str:
    """Return a file name from the mysis's name, the local time and the format."""
    return f"{_safe(mysis)}-{datetime.fromtimestamp(at / 1_000_000):%Y%m%d-%H%M}.{form}"


def file_stem(mysis_id: int, name: str) -> str:
    """Return a file name without extension that is unique to the mysis."""
    return f"{_safe(name)}-{mysis_id}"


def _safe(name: str) -> str:
    return re.sub(r"\W+", "-", name).strip("-") or "mysis"


def read_exportable(database: Path, *, archived: bool = False) -> dict[int, str]:
    """Read id and name of all myses with a conversation, oldest first. Raises StoreError."""
    with open_database(database) as reader:
        rows = reader.execute(
            "SELECT id, name FROM mysis WHERE (deleted_at IS NULL OR ?) AND state_reason <> ? ORDER BY id",
            (archived, ONLY_A_SENDER),
        ).fetchall()
    return {row["id"]: row["name"] for row in rows}


def export_to_file(
    database: Path, mysis_id: int, path: Path, form: Format, *, redact: bool | None = None, replace: bool = False
) -> int:
    """Write the whole conversation to `path` (mode 0600) and return its number of turns.

    Args:
        redact: Redact secrets and personal data; None means the format's default.
        replace: Replace an existing file.

    Raises:
        UsageError: if the file exists or cannot be written.
        MysisMissing, StoreError: if the conversation cannot be read.
    """
    return write_pieces(export_pieces(database, mysis_id, form, redact=redact), path, replace=replace)


def write_pieces(texts: Iterator[ExportPiece], path: Path, *, replace: bool = False) -> int:
    """Write a file as `export_to_file` does and return its number of turns. Raises what `texts` raises too."""
    if not path.name:
        raise UsageError(f"{path} is a folder", hint="Name a file in it.")
    beside = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
    count = 0
    try:
        with os.fdopen(open_private(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "w", encoding="utf-8") as file:
            for text in texts:
                count += text.is_turn
                file.write(text)
        if replace:
            beside.replace(path)
        else:
            os.link(beside, path)  # fails if the file exists, even if it was created just now
    except FileExistsError as problem:
        raise UsageError(f"{path} exists", hint="Choose another name, or replace it (--force).") from problem
    except OSError as problem:
        raise UsageError(f"{path} cannot be written: {problem.strerror}", hint="Choose another place.") from problem
    finally:
        with contextlib.suppress(OSError):  # the first error is the one to report
            beside.unlink()
    return count


class ExportPiece(str):
    """A piece of the file; `is_turn` is True if it is one turn."""

    __slots__ = ("is_turn",)
    is_turn: bool

    @classmethod
    def of(cls, text: str, *, is_turn: bool = False) -> ExportPiece:
        made = cls(text)
        made.is_turn = is_turn
        return made


def export_pieces(database: Path, mysis_id: int, form: Format, *, redact: bool | None = None) -> Iterator[ExportPiece]:
    """Yield the file of one conversation in pieces, oldest turn first.

    Raises:
        MysisMissing, StoreError: if the conversation cannot be read.
    """
    takes_out = form.redacts if redact is None else redact
    with open_database(database) as reader:
        row, clean = _row(reader, mysis_id), _cleaned if takes_out else reveal
        match form:
            case Format.JSONL:
                for lines, is_turn in conversation_lines(reader, mysis_id, redact_all if takes_out else None):
                    yield ExportPiece.of(lines, is_turn=is_turn)
            case Format.MARKDOWN:
                about = escape_line(_about(reader, row, clean))
                yield ExportPiece.of(f"# {escape_line(clean(row['name']))}\n\n{about}\n")
                for turn in iterate_turns(reader, mysis_id):
                    yield ExportPiece.of("".join(markdown_turn(turn, clean, quote_answer)), is_turn=True)
            case Format.HTML:
                yield _html_head(clean(row["name"]), html.escape(_about(reader, row, clean)))
                yield from _html(reader, row, clean)
                yield ExportPiece.of("</body></html>\n")


def swarm_pieces(
    database: Path, myses: Sequence[int], form: Format, *, redact: bool | None = None
) -> Iterator[ExportPiece]:
    """Yield one file of several conversations in pieces, in the given order.

    Raises:
        MysisMissing, StoreError: if a conversation cannot be read.
    """
    takes_out = form.redacts if redact is None else redact
    clean = _cleaned if takes_out else reveal
    if form is not Format.HTML:
        if form is Format.JSONL:
            with open_database(database) as reader:
                yield ExportPiece.of(swarm_line([_row(reader, mysis_id)["uid"] for mysis_id in myses]))
        for place, mysis_id in enumerate(myses):
            if place and form is Format.MARKDOWN:
                yield ExportPiece.of("\n")
            yield from export_pieces(database, mysis_id, form, redact=redact)
        return
    yield _html_head("swarm", count_of(len(myses), "mysis"))
    with open_database(database) as reader:
        for mysis_id in myses:
            row = _row(reader, mysis_id)
            yield ExportPiece.of(f"<h1>{html.escape(clean(row['name']))}</h1>")
            yield ExportPiece.of(f'<p class="quiet">{html.escape(_about(reader, row, clean))}</p>\n')
            yield from _html(reader, row, clean)
    yield ExportPiece.of("</body></html>\n")


def _row(reader: sqlite3.Connection, mysis_id: int) -> sqlite3.Row:
    row: sqlite3.Row | None = reader.execute(f"{row_values.MYSIS} WHERE y.id = ?", (mysis_id,)).fetchone()
    if row is None:
        raise MysisMissing(f"there is no mysis #{mysis_id}", hint="`zoea list` shows them.")
    return row


def _cleaned(text: str) -> str:
    return redact_all(reveal(text))


# Phrases of both Markdown and HTML.


def _by(entry: ConversationEntry) -> str:
    sender = entry.sender
    name = "you" if sender is None or sender.kind is SenderKind.COMMANDER else f"{sender.kind} {sender.name}"
    return f"{describe_origin(entry.kind, entry.topic)} {name}"


def _ended(turn: ConversationTurn) -> str:
    """Describe the end of a turn that has no answer, with its failure."""
    if turn.outcome is None:
        is_closed = turn.broke_off == Outcome.CRASHED
        words = (
            "cut off: Zoea ended" if is_closed else f"broke off: {turn.broke_off}" if turn.broke_off else "still open"
        )
    else:
        words = "" if turn.outcome is Outcome.ANSWERED else str(turn.outcome).replace("_", " ")
    if turn.failure is not None:
        words = f"{words}: {turn.failure.title}. {turn.failure.what}".strip(": ")
    return words


def _numbers(turn: ConversationTurn) -> str:
    about = "~" if turn.is_estimate else ""
    # Without separators, as in the files of every release: an export is compared with an older one.
    return f"{count_of(turn.requests, 'request')}, {about}{turn.tokens} token{'' if turn.tokens == 1 else 's'}"


def _title(turn: ConversationTurn) -> str:
    nudge = ", nudge" if turn.opened_by is OpenedBy.NUDGE else ""
    return f"Turn {turn.number}, {datetime.fromtimestamp(turn.opened_at / 1_000_000):%Y-%m-%d %H:%M:%S}{nudge}"


def _results(turn: ConversationTurn) -> dict[int | None, ConversationEntry]:
    return {entry.memory.call_id: entry for entry in turn.entries if entry.memory.role is Role.TOOL}


def _call_state(call: ToolCall) -> str:
    return "" if call.state is CallState.DONE else f" ({call.state})"


# Markdown. Texts stand in code blocks, which show them as they are: no tag, link or heading in them takes effect.
# Answers are quotations that are rendered, without tags, links and images.

_RENDERED_CHARS = 100_000
_ACTIVE = re.compile(r"<|!\[|\](?=[(\[:])")


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # takes 30 ms, which few commands need

    parser = MarkdownIt("commonmark", {"html": False, "breaks": True})
    return parser.enable(["strikethrough", "table"]).disable(["image", "link", "autolink", "reference", "entity"])


def quote_answer(text: str) -> str:
    """Return an answer as a quotation in Markdown. Tags, links and images take no effect."""
    if len(text) > _RENDERED_CHARS:
        return code_block(text)
    lines = [f"> {line}" for line in text.split("\n")]
    blocks = (token for token in _parser().parse("\n".join(lines)) if token.type in ("fence", "code_block"))
    code = {at for token in blocks for at in range(*(token.map or ()))}
    return "\n".join(line if at in code else _ACTIVE.sub(_write_entities, line) for at, line in enumerate(lines))


def _write_entities(match: re.Match[str]) -> str:
    return "".join(f"&#{ord(char)};" for char in match[0])


def markdown_turn(turn: ConversationTurn, clean: Clean, answer: Clean | None = None) -> Iterator[str]:
    """Yield one turn as Markdown in pieces; `clean` is applied to every text.

    Args:
        answer: Formats the answers; without it they are code blocks too.
    """
    answer = answer or code_block
    yield f"\n---\n\n## {_title(turn)}\n\n_{_numbers(turn)}_\n"
    results = _results(turn)
    for entry in turn.entries:
        memory = entry.memory
        if memory.role is Role.USER:
            yield f"\n**{escape_line(clean(_by(entry)))}**\n\n{code_block(clean(memory.content))}\n"
        elif memory.role is Role.ASSISTANT:
            if memory.reasoning.strip():
                yield f"\n<details><summary>thinking</summary>\n\n{code_block(clean(memory.reasoning))}\n\n</details>\n"
            if memory.partial:
                yield "\n_cut off before it was an answer_\n"
            if memory.content.strip():
                yield f"\n{answer(clean(memory.content))}\n"
            for call in memory.calls:
                if report := read_report(call):
                    yield f"\n✓ **reports its task as done**\n\n{answer(clean(report))}\n"
                    continue
                arguments = code_block(clean(reveal_arguments(call.arguments)), "json")
                yield f"\n⚙ **{escape_line(clean(one_line(call.name)))}**{_call_state(call)}\n\n{arguments}\n"
                if (result := results.get(call.id)) is not None:
                    yield f"\n{code_block(clean(result.memory.content))}\n"
    for note in turn.notes:
        yield f"\n_Zoea noted ({escape_line(clean(note.kind))}):_\n\n{code_block(clean(note.content))}\n"
    if ended := escape_line(clean(_ended(turn))):
        yield f"\n**{ended}**\n"


def escape_line(text: str) -> str:
    """Return a text on one line in which no character has a meaning in Markdown."""
    return _AT_START.sub(r"\1\\\2", _MARKUP.sub(r"\\\g<0>", " ".join(text.split())))


def code_block(text: str, kind: str = "") -> str:
    """Format a code block with a fence longer than any in the text."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{kind}\n{text}\n{fence}"


# HTML: one file, no scripts, nothing fetched.

_HEAD = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>
<style>
body{{background:#0A0A12;color:#E8E6F0;font:15px/1.5 ui-monospace,monospace}}
body{{max-width:60rem;margin:2rem auto;padding:0 1rem}}
h1,h2{{color:#C77DFF;font-size:1.1rem}} h2{{border-top:1px solid #9D00FF;padding-top:1rem;margin-top:2rem}}
pre{{white-space:pre-wrap;overflow-wrap:anywhere;margin:.5rem 0;font:inherit}} .quiet,summary{{color:#9A97AD}}
.answer{{border-left:3px solid #00FFCC;padding-left:1rem}}
.answer h1,.answer h2{{border:0;margin:.5rem 0;padding:0}} td,th{{padding:0 1rem 0 0;text-align:left}}
.prompt{{border-left:3px solid #FF00CC;padding-left:1rem}} .call{{color:#00FFCC}} .bad{{color:#FF5C7A}}
details pre{{background:#12121E;padding:.5rem 1rem}}
@media print{{body{{background:#fff;color:#000}}}}
</style></head><body>
<h1>{title}</h1><p class="quiet">{about}</p>
"""


def _html_head(title: str, about: str) -> ExportPiece:
    return ExportPiece.of(_HEAD.format(title=html.escape(title), about=about))


def _about(reader: sqlite3.Connection, row: sqlite3.Row, clean: Clean) -> str:
    origin = reader.execute(
        "SELECT c.principal, o.after_turn, lower(substr(hex(c.hash), 1, 12)) AS id FROM ctx_origin o"
        " JOIN ctx_commit c ON c.seq = coalesce(o.birth_seq, o.commit_seq) WHERE o.mysis_id = ?",
        (row["id"],),
    ).fetchone()
    whose = f" · made from ctx-{origin['id']} of {clean(origin['principal'])}" if origin is not None else ""
    return f"{clean(row['template_name'])} · {clean(row['model'] or row['provider'])}{whose}"


def _html(reader: sqlite3.Connection, row: sqlite3.Row, clean: Clean) -> Iterator[ExportPiece]:
    for turn in iterate_turns(reader, row["id"]):
        yield ExportPiece.of("".join(_html_turn(turn, clean)), is_turn=True)


def _render(text: str) -> str:
    """Return an answer as HTML in which Markdown takes effect, except tags, links and images."""
    if len(text) > _RENDERED_CHARS:
        return f"<pre>{html.escape(text)}</pre>\n"
    return f'<div class="answer">{_parser().render(text)}</div>\n'


def _html_turn(turn: ConversationTurn, clean: Clean) -> Iterator[str]:
    def safe(text: str) -> str:
        return html.escape(clean(text))

    yield f'<h2 id="turn-{turn.number}">{safe(_title(turn))}</h2>\n<p class="quiet">{safe(_numbers(turn))}</p>\n'
    results = _results(turn)
    for entry in turn.entries:
        memory = entry.memory
        if memory.role is Role.USER:
            words = f'<p class="quiet">{safe(_by(entry))}</p><pre>{safe(memory.content)}</pre>'
            yield f'<div class="prompt">{words}</div>\n'
        elif memory.role is Role.ASSISTANT:
            if memory.reasoning.strip():
                yield f"<details><summary>thinking</summary><pre>{safe(memory.reasoning)}</pre></details>\n"
            if memory.partial:
                yield '<p class="bad">cut off before it was an answer</p>\n'
            if memory.content.strip():
                yield _render(clean(memory.content))
            for call in memory.calls:
                if report := read_report(call):
                    yield f'<p class="call">✓ reports its task as done</p>{_render(clean(report))}'
                    continue
                kind = "call" if call.state is CallState.DONE else "bad"
                result = results.get(call.id)
                body = f"<pre>{safe(result.memory.content)}</pre>" if result is not None else ""
                name = safe(one_line(call.name))
                head = f'<summary><span class="{kind}">⚙ {name}{_call_state(call)}</span></summary>'
                yield f"<details>{head}<pre>{safe(reveal_arguments(call.arguments))}</pre>{body}</details>\n"
    for note in turn.notes:
        yield f'<p class="quiet">Zoea noted ({safe(note.kind)}): {safe(note.content)}</p>\n'
    if turn.outcome is not Outcome.ANSWERED:
        yield f'<p class="bad">{safe(_ended(turn))}</p>\n'
