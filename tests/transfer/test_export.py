"""Export: complete JSON lines, safe HTML, redacted documents."""

from __future__ import annotations

import json
import re
import stat
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from tests.case_tables import walk_cases
from tests.swarm.harness import Swarm, call, script, swarm
from tests.text.hidden_characters import is_hidden
from zoea.model.enums import DONE_TOOL, ErrorClass
from zoea.model.errors import MysisMissing, ProviderError, UsageError
from zoea.model.request import Answer, AnswerCall
from zoea.settings.schema import Settings
from zoea.transfer.export import Format, code_block, export_pieces, export_to_file, file_name, swarm_pieces

QUIET = Settings.model_validate({"nudge": {"enabled": False}})
SECRET = "sk-ant-abc123DEF456ghi789"
HOSTILE = f"<script>alert(1)</script>\n``````\n\x1b[31mred [/] & {SECRET} a@b.example \x9devil one\x9c\u202e"


async def make_conversation(folder: Path) -> Path:
    """The database of a conversation with every kind of memory and outcome."""
    asks = Answer(text=HOSTILE, reasoning=HOSTILE, calls=(call("act", HOSTILE),))
    fails = ProviderError("no such model", kind=ErrorClass.MODEL_MISSING)
    async with swarm(folder, script(asks, Answer(text="done"), fails), settings=QUIET) as inner:
        await inner.commander.create("alpha", start=True)
        await inner.commander.send("alpha", HOSTILE)
        await inner.settled()
        await inner.commander.send("alpha", "again")
        await _errored(inner)
        return inner.path


async def _errored(inner: Swarm) -> None:
    await inner.until(lambda: inner.state() == "errored")


def list_parts(folder: Path) -> list[Path]:
    return list(folder.glob(".out*"))


def export_text(path: Path, form: Format, *, is_swarm: bool = False, **more: Any) -> str:
    """The file of the conversation alone, or that of all conversations of the swarm."""
    return "".join(swarm_pieces(path, [1], form, **more) if is_swarm else export_pieces(path, 1, form, **more))


async def test_json_lines_hold_every_row_with_every_column(tmp_path: Path) -> None:
    path = await make_conversation(tmp_path)
    lines = [json.loads(line) for line in export_text(path, Format.JSONL).splitlines()]
    kinds = {line["kind"] for line in lines}
    assert kinds == {
        "conversation",
        "mysis",
        "template",
        "tally",
        "session",
        "spend",
        "catalogue",
        "end",
        "turn",
        "delivery",
        "message",
        "request",
        "memory",
        "tool_call",
    }
    memories = [line for line in lines if line["kind"] == "memory"]
    assert memories[0]["content"] == HOSTILE
    assert {"native", "request_id", "partial", "seq", "redacted_at"} <= set(memories[1])
    assert next(line for line in lines if line["kind"] == "request")["plan"]["decisions"]
    assert next(line for line in lines if line["kind"] == "message")["of"] == "direct"


async def test_json_lines_can_be_redacted_and_stay_json(tmp_path: Path) -> None:
    path = await make_conversation(tmp_path)
    text = export_text(path, Format.JSONL, redact=True)
    assert SECRET not in text
    assert [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("form", Format)
async def test_nothing_between_hidden_characters_is_left_out(tmp_path: Path, form: Format) -> None:
    text = export_text(await make_conversation(tmp_path), form)
    shown = text.replace("\\\\", "\\")
    # The prompt, the answer, its reasoning, its call and the result.
    assert len(re.findall(r"\\u009d;? ?evil one|\x9devil one", shown)) >= 5
    assert form is Format.JSONL or not is_hidden(text)


@pytest.mark.parametrize("form", [Format.MARKDOWN, Format.HTML])
@pytest.mark.parametrize("is_swarm", [False, True])
async def test_markdown_and_html_are_redacted_by_default(tmp_path: Path, form: Format, is_swarm: bool) -> None:
    path = await make_conversation(tmp_path)
    clean = export_text(path, form, is_swarm=is_swarm)
    assert SECRET not in clean
    assert "a@b.example" not in clean
    assert SECRET in export_text(path, form, is_swarm=is_swarm, redact=False)
    assert "\x1b" not in export_text(path, form, is_swarm=is_swarm, redact=False)


async def test_html_escapes_all_texts(tmp_path: Path) -> None:
    text = export_text(await make_conversation(tmp_path), Format.HTML)
    seen: set[str] = set()

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            seen.add(tag)
            assert not {name for name, _ in attrs} & {"src", "href", "onclick"}

    Reader().feed(text)
    assert not seen & {"script", "img", "iframe", "link", "a"}
    assert "&lt;script&gt;" in text
    assert "default-src 'none'" in text


async def test_markdown_has_senders_texts_and_outcomes(tmp_path: Path) -> None:
    text = export_text(await make_conversation(tmp_path), Format.MARKDOWN)
    assert text.startswith("# alpha\n")
    assert "## Turn 1" in text
    assert "**from you**" in text
    assert "⚙ **act**" in text
    assert "no such model" in text


ANSWER = "# Plan\n\n- **one** `a[0]`\n\n```py\nif a < b:\n\treturn [x](y)\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |"


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        (ANSWER, {"h1", "li", "strong", "code", "pre", "table"}),
        ("<script>x</script> ![i](http://a.example/i.png) <http://b.example> [l](http://c.example)", set()),
        ("\\<img src=x> \\![i](http://a.example) \\[l](http://c.example) `\\`<b>", set()),
        ("[a]: http://hidden.example\n\n[a] ![a] [b][a]", set()),
        ("- ```\n  x\n```\n<script>x</script>", set()),
        ("```\n\t```\n<script>x</script>\n~~~\n<b>", set()),
        ("``` a`b\n<script>x</script>\n```\n\n    <i>\n<b>", set()),
    ],
)
async def test_answers_are_rendered_without_tags_links_and_images(tmp_path: Path, text: str, tags: set[str]) -> None:
    async with swarm(tmp_path, script(Answer(text=text)), settings=QUIET) as inner:
        await inner.commander.create("alpha", start=True)
        await inner.commander.send("alpha", "go")
        await inner.settled()
        written = export_text(inner.path, Format.MARKDOWN), export_text(inner.path, Format.HTML).partition("<body>")[2]
    rendered = MarkdownIt("commonmark").enable("table").render(written[0])
    for page in (rendered, written[1]):
        found = set(re.findall(r"<(\w+)", page))
        assert found >= tags
        assert not found & {"script", "img", "a", "b", "i"}
    if tags:
        assert "if a &lt; b:\n\treturn [x](y)" in rendered
        assert "<code>a[0]</code>" in rendered


async def test_a_report_as_done_is_an_answer(tmp_path: Path) -> None:
    report = AnswerCall(DONE_TOOL, json.dumps({"summary": "**All** sold"}))
    async with swarm(tmp_path, script(Answer(calls=(report,))), settings=QUIET) as inner:
        await inner.commander.create("alpha", task="Sell all")
        await inner.settled()
        assert "> **All** sold" in export_text(inner.path, Format.MARKDOWN)
        assert "<strong>All</strong> sold" in export_text(inner.path, Format.HTML)


async def test_the_export_of_a_fork_says_whose_it_is(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="yes")), settings=QUIET) as inner:
        await inner.commander.create("alpha", start=True)
        await inner.commander.send("alpha", "Mine the belt")
        await inner.settled()
        commit = await inner.value("SELECT lower(hex(hash)) FROM ctx_commit ORDER BY seq DESC")
        fork = await inner.commander.create("other", commit=commit)
        assert " of alpha" not in export_text(inner.path, Format.MARKDOWN)
        for form in (Format.MARKDOWN, Format.HTML):
            text = "".join(export_pieces(inner.path, fork.id, form))
            assert f"made from ctx-{commit[:12]} of alpha" in text


def test_a_text_cannot_close_its_code_block() -> None:
    assert code_block("a\n`````\nb", "json") == "``````json\na\n`````\nb\n``````"


async def test_an_exported_file_is_private_and_its_turns_are_counted(tmp_path: Path) -> None:
    path = await make_conversation(tmp_path)
    target = tmp_path / "out.md"
    assert export_to_file(path, 1, target, Format.MARKDOWN) == 2
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert not list_parts(tmp_path)


async def test_an_existing_file_is_replaced_only_on_request(tmp_path: Path) -> None:
    path = await make_conversation(tmp_path)
    target = tmp_path / "out.md"
    target.write_text("mine")
    with pytest.raises(UsageError, match="exists"):
        export_to_file(path, 1, target, Format.MARKDOWN)
    assert target.read_text() == "mine"
    export_to_file(path, 1, target, Format.MARKDOWN, replace=True)
    assert target.read_text().startswith("# alpha")


async def test_an_unwritable_path_is_reported(tmp_path: Path) -> None:
    path = await make_conversation(tmp_path)
    with pytest.raises(UsageError, match="cannot be written"):
        export_to_file(path, 1, tmp_path / "none" / "out.md", Format.MARKDOWN)


async def test_an_unknown_mysis_cannot_be_exported(tmp_path: Path) -> None:
    path = await make_conversation(tmp_path)
    target = tmp_path / "out.md"
    with pytest.raises(MysisMissing):
        export_to_file(path, 77, target, Format.MARKDOWN)
    assert not target.exists()


@walk_cases(("name", "stem"), [("alpha", "alpha"), ("../../etc", "etc"), ("a b/c", "a-b-c"), ("///", "mysis")])
def test_a_file_name_has_no_path_separators(name: str, stem: str) -> None:
    made = file_name(name, Format.HTML, 1_700_000_000_000_000)
    assert made.startswith(f"{stem}-2023")
    assert made.endswith(".html")
