"""`zoea ctx`: contexts of other programs are imported, read, compared, checked and collected."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.case_tables import walk_cases
from tests.chain.test_formats import TALK
from tests.cli.conftest import Zoea
from tests.fakes.claude_transcript import Transcript, text, thinking, use
from tests.fakes.owner import OwnerThread
from zoea.chain.entries import ContextEntry
from zoea.chain.formats import known_formats
from zoea.cli.commands import context_bundles
from zoea.model.enums import Role
from zoea.settings.paths import places

CLAUDE, OPENAI = known_formats()["claude-code-v1"], known_formats()["openai-chat-v1"]


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    file = tmp_path / "shop.jsonl"
    file.write_bytes(CLAUDE.write(TALK))
    return file


@pytest.fixture
def imported(zoea: Zoea, transcript: Path) -> None:
    """Import the transcript, as import/shop."""
    zoea("ctx", "import", str(transcript))


def test_a_transcript_is_imported_and_written_back_as_it_was(zoea: Zoea, transcript: Path) -> None:
    noted = b'{"type": "file-history-snapshot",   "of": "no message"}\n' + transcript.read_bytes()
    transcript.write_bytes(noted)
    assert zoea("ctx", "import", str(transcript)).code == 0
    assert zoea("ctx", "cat", "import/shop", "--as", "claude").out.encode() == noted


def test_an_import_names_what_it_left_out_and_its_branches_and_is_read_whole(zoea: Zoea, tmp_path: Path) -> None:
    made = Transcript()
    made.user("Before.")
    first = made.answer("m1", text("Said before."))
    made.user("Left.")
    made.boundary(first)
    made.summary("All is well.")
    made.answer("m2", text("Said after."))
    file = tmp_path / "shop.jsonl"
    file.write_bytes(made.data() + b'{"type": "user", "mess')
    done = zoea("ctx", "import", str(file))
    assert (done.code, "3 commits, 3 messages" in done.out) == (0, True)
    assert "line 7 of the transcript is cut off after 22 bytes; it was left out" in done.err
    assert "1 branch beside it: import/shop/rewound-1" in done.err
    read = zoea("ctx", "cat", "import/shop")
    assert [read.out.index(one) for one in ("Before.", "Said before.", "All is well.", "Said after.")]
    assert ("Left." in read.out, "first 2 messages" in read.err) == (False, True)
    assert "Left." in zoea("ctx", "cat", "import/shop/rewound-1").out
    assert "Before." not in zoea("ctx", "cat", "import/shop", "--as", "openai").out
    assert zoea("ctx", "show", "import/shop^^", "--json").json["type"] == "compaction"
    assert "Said after." in zoea("ctx", "show", "shop@{2025-09-21T13:00:06Z}").out
    assert "Said before." in zoea("ctx", "show", "shop@{2025-09-21T13:00:03Z}").out, "before it was imported"
    assert zoea("ctx", "resolve", "claude-code", "--at", "2025-09-21T13:00:02Z", "--json").json["messages"] == 2


@pytest.mark.parametrize(
    ("time", "said"),
    [
        ("2025-09-21T13:00:02Z", "First."),
        ("2025-09-21T13:00:03Z", "First."),
        ("2025-09-21T13:00:04Z", "Second."),
        ("2025-09-21T13:00:04.250Z", "First."),
        ("2025-09-21T13:00:04.300Z", "Second."),
    ],
)
def test_the_time_that_is_shown_of_a_commit_names_it(zoea: Zoea, tmp_path: Path, time: str, said: str) -> None:
    made = Transcript()
    for name, prompt, answer in (("m1", "One", "First."), ("m2", "Two", "Second.")):
        made.user(prompt)
        made.answer(name, text(answer), timestamp=f"2025-09-21T13:00:{len(made.lines) + 1:02d}.300Z")
    file = tmp_path / "shop.jsonl"
    file.write_bytes(made.data())
    assert zoea("ctx", "import", str(file)).code == 0
    shown = zoea("ctx", "log", "import/shop~1" if said == "First." else "import/shop", "-n", "1").out
    for command in (("resolve", "claude-code", "--at", time), ("at", time)):
        assert zoea("ctx", *command).out.split()[command[0] == "at"] == shown.split()[0]
    assert said in zoea("ctx", "cat", f"import/shop@{{{time}}}").out.splitlines()
    listed = zoea("ctx", "log", "--since", "2025-09-21T13:00:04Z", "--oneline").out
    assert ("Second." in listed, "First." in listed) == (True, False), "a bound from below holds its whole second too"


def test_a_session_is_written_where_claude_code_looks_for_it(
    zoea: Zoea, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = tmp_path / "my_shop"
    shop.mkdir()
    monkeypatch.chdir(shop)
    made = Transcript(cwd="/nowhere")
    made.user("One.")
    made.answer("m1", thinking("hm"), text("First."))
    made.user("Two.")
    file = tmp_path / "shop.jsonl"
    file.write_bytes(made.data())
    zoea("ctx", "import", str(file))
    done = zoea("ctx", "export", "--claude", "import/shop~1", "--json").json
    session, folder = done["session"], re.sub("[^a-zA-Z0-9]", "-", str(shop.resolve()))
    assert Path(done["file"]) == Path.home() / ".claude" / "projects" / folder / f"{session}.jsonl"
    assert done["command"] == f"cd {shop.resolve()} && claude --resume {session}"
    lines = [json.loads(line) for line in Path(done["file"]).read_bytes().splitlines()]
    assert [(one["sessionId"], one["cwd"], one["type"]) for one in lines] == [
        (session, str(shop.resolve()), kind) for kind in ("user", "assistant")
    ]
    assert lines[1]["message"]["content"][0]["signature"], "signed reasoning stays as it is"
    again = zoea("ctx", "export", "--claude", "import/shop~1", "--json").json
    assert again["session"] != session, "Claude Code may have gone on with the first one"
    talk = tmp_path / "talk.json"
    talk.write_bytes(OPENAI.write(CLAUDE.read(made.data(), bytes)))
    zoea("ctx", "import", str(talk))
    elsewhere = zoea("ctx", "export", "--claude", "import/talk", "--folder", str(tmp_path))
    assert "left out: the reasoning of 1 answer" in elsewhere.err
    assert "left out: the reasoning of 1 answer" in zoea("ctx", "cat", "import/talk", "--as", "claude").err
    assert f"cd {tmp_path} && claude --resume " in elsewhere.out


@walk_cases(
    ("arguments", "says"),
    [
        (("--claude", "import/shop", "shop.bundle"), "has one conversation"),
        (("--claude", "import/shop", "--folder", "/nowhere/at/all"), "/nowhere/at/all is no folder"),
        (("--claude", "import/shop", "--folder", "/" + "x" * 5_000), "x is no folder"),
        (("import/shop", "x.bundle", "--folder", "/"), "--folder goes with --claude"),
        (("import/shop",), "a commit or the file is missing"),
    ],
)
@pytest.mark.usefixtures("imported")
def test_an_export_that_makes_no_sense_is_refused(zoea: Zoea, arguments: tuple[str, ...], says: str) -> None:
    refused = zoea("ctx", "export", *arguments)
    assert (refused.code, says in refused.err) == (2, True)


def test_an_import_is_found_by_its_name_its_id_and_in_the_log(zoea: Zoea, transcript: Path) -> None:
    made = zoea("ctx", "import", str(transcript), "--json").json
    assert (made["refs"], made["messages"], made["format"]) == (["import/shop"], 5, "claude-code-v1")
    short = made["short_id"]
    for revision in (made["id"], short, short.removeprefix("ctx-"), short[:5], short.upper()[4:], "import/shop"):
        shown = zoea("ctx", "show", revision, "--json").json
        assert {name: shown.pop(name) for name in made} == made
        assert shown == {"children": [], "kept": {"policy": "default", "until": None, "is_released": False}}
    assert zoea("ctx", "log", "--json").json == [made]
    line = zoea("ctx", "log").out
    assert all(part in line for part in (made["short_id"], "(import/shop)", "Where is the bug? … In a.py."))
    assert zoea("ctx", "refs", "--json").json == {"import/shop": made["id"]}
    assert zoea("ctx", "resolve", "claude-code", "--at", "2099-01-01", "--json").json == made


def test_a_conversation_is_translated_for_another_program(zoea: Zoea, transcript: Path) -> None:
    zoea("ctx", "import", str(transcript))
    messages = json.loads(zoea("ctx", "cat", "import/shop", "--as", "openai").out)
    assert [one["role"] for one in messages] == ["user", "assistant", "tool", "tool", "assistant"]
    assert [one["tool_call_id"] for one in messages[2:4]] == [one["id"] for one in messages[1]["tool_calls"]]
    whole = zoea("ctx", "cat", "import/shop", "--json").json
    assert [one["role"] for one in whole["messages"]] == [one["role"] for one in messages]
    assert (whole["tier"], whole["repaired"], whole["tokens"] > 0) == (2, 0, True)
    assert "exclude each other" in zoea("ctx", "cat", "import/shop", "--json", "--as", "openai").err
    text = zoea("ctx", "cat", "import/shop").out
    assert text.index("Where is the bug?") < text.index('read({"path": "a.py"})') < text.index("In a.py.")


def test_two_contexts_are_compared_and_searched(zoea: Zoea, transcript: Path, tmp_path: Path) -> None:
    zoea("ctx", "import", str(transcript))
    other = tmp_path / "other.json"
    other.write_bytes(OPENAI.write(TALK[:1]))
    zoea("ctx", "import", str(other), "--name", "talk")
    compared = zoea("ctx", "diff", "import/shop", "import/talk", "--json").json
    assert (compared["common"], len(compared["one"]), len(compared["other"])) == (None, 5, 1)
    assert "common  none" in zoea("ctx", "diff", "import/shop", "import/talk").out
    assert len(zoea("ctx", "grep", "Where is").out.splitlines()) == 2
    assert "def a(): ..." in zoea("ctx", "grep", "def a", "import/shop").out
    assert zoea("ctx", "grep", "nowhere").code == 1


def test_agents_beside_a_transcript_are_its_branches(zoea: Zoea, tmp_path: Path) -> None:
    file = tmp_path / "shop.jsonl"
    made = Transcript()
    made.user("One.")
    file.write_bytes(made.data())
    folder = tmp_path / "shop" / "subagents"
    folder.mkdir(parents=True)
    agent = Transcript(isSidechain=True, agentId="a1")
    agent.user("Look.", uuid="30000000-0000-4000-8000-000000000000")
    (folder / "agent-a1.jsonl").write_bytes(agent.data() + b"{")
    (folder / "agent-a2.jsonl").mkdir()
    done = zoea("ctx", "import", str(file))
    assert "line 2 of agent-a1.jsonl is cut off after 1 byte" in done.err
    assert "agent-a2.jsonl" in done.err, "what cannot be read is named"
    assert zoea("ctx", "cat", "import/shop/side-1").out == "## direct\n\nLook.\n"


def test_a_search_finds_arguments_and_shows_the_line_that_has_the_text(zoea: Zoea, tmp_path: Path) -> None:
    made = Transcript()
    made.user("first line\nsecond line with port 8443\nthird line")
    made.answer("m1", thinking("hm\nthe drill"), use("c1", path='a "b".py'))
    made.result("c1", "x" * 500 + " tail of port 8443 " + "y" * 500)
    file = tmp_path / "shop.jsonl"
    file.write_bytes(made.data())
    zoea("ctx", "import", str(file))
    line, result = [one.partition("  ")[2] for one in zoea("ctx", "grep", "port 8443").out.splitlines()]
    assert line == "user  second line with port 8443"
    assert (result.startswith("tool  … x"), result.endswith("y …"), "tail of port 8443" in result) == (True, True, True)
    assert "assistant  Read(" in zoea("ctx", "grep", 'a "b".py').out
    assert zoea("ctx", "grep", "drill").out.endswith("assistant  the drill\n")
    hidden = tmp_path / "hidden.json"
    hidden.write_bytes(OPENAI.write((ContextEntry(Role.USER, "port 22\u202ehidden"),)))
    zoea("ctx", "import", str(hidden))
    assert "\\u202ehidden" in zoea("ctx", "grep", "port 22").out
    refused = zoea("ctx", "grep", "")
    assert (refused.code, "the text is empty" in refused.err) == (2, True)


def test_blame_names_the_oldest_message_with_a_text_and_who_inherited_it(zoea: Zoea, tmp_path: Path) -> None:
    made = Transcript()
    made.user("One.")
    first = made.answer("m1", text("The port is 8443."))
    made.user("Left.")
    made.user("Is it 8443?", parent=first)
    file = tmp_path / "shop.jsonl"
    file.write_bytes(made.data())
    zoea("ctx", "import", str(file), "--name", "b")
    later = Transcript()
    later.user("Nothing.")
    later.user("8443 again.")
    file.write_bytes(later.data())
    zoea("ctx", "import", str(file), "--name", "a")
    shown = zoea("ctx", "blame", "8443").out
    assert ("assistant by claude-code" in shown, "The port is 8443." in shown) == (True, True)
    assert shown.endswith("inherited by  import/b, import/b/rewound-1\n")
    file.write_bytes(made.data())
    zoea("ctx", "import", str(file), "--name", "c")
    heirs = zoea("ctx", "blame", "8443", "--json").json["inherited_by"]
    assert heirs == ["import/b", "import/b/rewound-1", "import/c", "import/c/rewound-1"], "copies of it too"
    found = zoea("ctx", "blame", "8443", "--json").json
    assert (found["commit"]["id"], found["message"]["role"]) == (
        zoea("ctx", "show", "import/b~1", "--json").json["id"],
        "assistant",
    )
    assert zoea("ctx", "blame", "nowhere").code == 1


def test_the_log_chooses_commits_by_time_maker_and_text(zoea: Zoea, transcript: Path, tmp_path: Path) -> None:
    made = Transcript()
    for number in range(4):
        made.user(f"Question {number}.")
    file = tmp_path / "talk.jsonl"
    file.write_bytes(made.data())
    zoea("ctx", "import", str(file))
    other = tmp_path / "other.json"
    other.write_bytes(OPENAI.write(TALK))
    zoea("ctx", "import", str(other))
    zoea("ctx", "note", "talk~2", "--tag", "Parser")

    def summaries(*arguments: str) -> list[str]:
        return [one["summary"] for one in zoea("ctx", "log", *arguments, "--json").json]

    assert summaries("--by", "openai-chat") == ["Where is the bug? … In a.py. … called read()"]
    assert summaries("--by", "CLAUDE-code", "--since", "2025-09-21T13:00:03Z") == ["Question 3.", "Question 2."]
    assert summaries("--grep", "parser", "-n", "1") == summaries("talk", "--grep", "QUESTION 1") == ["Question 1."]
    assert len(summaries("talk", "-n", "2")) == 2
    short = zoea("ctx", "log", "talk", "--oneline", "-n", "1").out
    assert short == f"{zoea('ctx', 'show', 'talk', '--json').json['short_id']}  (import/talk)  Question 3.\n"
    assert zoea("ctx", "log", "--by", "gamma").out == "There is no such commit.\n"
    refused = zoea("ctx", "log", "--graph", "--by", "alpha")
    assert (refused.code, "--graph shows all commits" in refused.err) == (2, True)


def test_what_each_knew_at_a_moment_is_shown(zoea: Zoea, transcript: Path, tmp_path: Path) -> None:
    made = Transcript()
    made.user("One.")
    made.user("Two.")
    file = tmp_path / "talk.jsonl"
    file.write_bytes(made.data())
    zoea("ctx", "import", str(file))
    shown = zoea("ctx", "at", "2025-09-21T13:00:01Z").out
    assert (shown.startswith("claude-code  ctx-"), shown.endswith("One.\n")) == (True, True)
    assert [one["summary"] for one in zoea("ctx", "at", "2025-09-21T13:00:02Z", "--json").json] == ["Two."]
    refused = zoea("ctx", "at", "2020-01-01")
    assert (refused.code, "no mysis has a commit at 2020-01-01" in refused.err) == (2, True)


def test_an_empty_summary_is_refused_and_the_present_one_stays(zoea: Zoea, transcript: Path) -> None:
    made = zoea("ctx", "import", str(transcript), "--json").json
    for empty in ("", "  "):
        refused = zoea("ctx", "note", "import/shop", "--summary", empty)
        assert (refused.code, "a summary cannot be empty" in refused.err) == (2, True)
    assert zoea("ctx", "show", "import/shop", "--json").json["summary"] == made["summary"]


def test_a_tag_and_an_import_are_named_without_what_is_before_the_slash(zoea: Zoea, transcript: Path) -> None:
    made = zoea("ctx", "import", str(transcript), "--json").json
    zoea("ctx", "note", "shop", "--name", "before-the-storm")
    assert zoea("ctx", "show", "before-the-storm", "--json").json["id"] == made["id"]
    assert zoea("ctx", "show", "shop@{2099-01-01}", "--json").json["id"] == made["id"]


def test_an_import_again_moves_the_name_and_the_old_one_is_collected_after_its_time(
    zoea: Zoea, transcript: Path
) -> None:
    first = zoea("ctx", "import", str(transcript), "--json").json
    transcript.write_bytes(CLAUDE.write(TALK[:3]))
    second = zoea("ctx", "import", str(transcript), "--json").json
    assert first["id"] != second["id"]
    assert zoea("ctx", "gc", "--dry-run", "--json").json["commits"] == 0
    done = zoea("ctx", "gc", "--days", "0", "--json").json
    assert (done["commits"], done["blobs"]) == (1, 1)
    assert zoea("ctx", "show", first["id"]).code == 2
    assert zoea("ctx", "show", "import/shop", "--json").json["id"] == second["id"]


def test_a_damaged_commit_is_found_and_named(zoea: Zoea, transcript: Path) -> None:
    made = zoea("ctx", "import", str(transcript), "--json").json
    assert "1 commit, all good" in zoea("ctx", "fsck").out
    with closing(sqlite3.connect(places("").database)) as database, database:
        database.execute("UPDATE blob SET data = zeroblob(10)")
    found = zoea("ctx", "fsck")
    assert found.code == 4
    assert made["id"][:20] in found.out
    assert made["blob"][:16] in found.out


@walk_cases(
    ("arguments", "says"),
    [
        (("show", "import/shp"), "Did you mean import/shop?"),
        (("show", "ctx-00000000"), "there is no commit ctx-00000000"),
        (("show", "import/shop~2"), "there are only 0 commits before"),
        (("show", "import/shop^^"), "there is no compaction before"),
        (("show", "import/shop@{1999-01-01}"), "named no commit at 1999-01-01"),
        (("show", "import/shop@{soon}"), "'soon' is no time"),
        (("show", "import/shop!"), "no commit has the name"),
        (("show", "~3"), "names no commit"),
        (("cat", "import/shop", "--as", "pdf"), "there is no format 'pdf'"),
        (("resolve", "alpha", "--at", "10:30"), "alpha has no commit at 10:30"),
        (("import", "/nowhere/at/all"), "cannot read /nowhere/at/all"),
    ],
)
@pytest.mark.usefixtures("imported")
def test_what_cannot_be_found_is_said_with_what_to_do(zoea: Zoea, arguments: tuple[str, ...], says: str) -> None:
    refused = zoea("ctx", *arguments)
    assert refused.code in (2, 4)
    assert says in refused.err


def test_a_file_of_another_kind_is_refused_and_nothing_is_stored(zoea: Zoea, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("only notes")
    refused = zoea("ctx", "import", str(file))
    assert (refused.code, "no known format" in refused.err) == (4, True)
    assert zoea("ctx", "log").code == 4, "no database was made"


def test_a_conversation_that_is_too_large_is_refused_with_the_limit(
    zoea: Zoea, transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = transcript.stat().st_size
    monkeypatch.setattr(context_bundles, "MOST_BLOB", size - 1)
    refused = zoea("ctx", "import", str(transcript))
    assert refused.code == 2
    assert f"it is larger than {size - 1:,} bytes" in refused.err
    monkeypatch.setattr(context_bundles, "MOST_BLOB", size)
    assert zoea("ctx", "import", str(transcript)).code == 0


def test_a_pipe_is_no_conversation(zoea: Zoea, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "talk")
    refused = zoea("ctx", "import", str(tmp_path / "talk"))
    assert (refused.code, "it is not a file" in refused.err) == (2, True)


def test_an_import_beside_a_running_swarm_is_refused(zoea: Zoea, other_owner: OwnerThread, transcript: Path) -> None:
    refused = zoea("ctx", "import", str(transcript))
    assert refused.code == 5
    assert "zoea stop --swarm" in refused.err


def test_a_text_is_redacted_in_commits_and_their_summaries(zoea: Zoea, transcript: Path) -> None:
    zoea("ctx", "import", str(transcript))
    assert zoea("redact", "Where is the bug?", "--yes").code == 0
    assert "Where is the bug" not in zoea("ctx", "show", "import/shop").out
    shown = zoea("ctx", "cat", "import/shop")
    assert (shown.code, "[REDACTED]" in shown.out, "Where is the bug" in shown.out) == (0, True, False)
    assert "1 part was redacted" in zoea("ctx", "fsck").out
    assert zoea("ctx", "log").code == 0


def test_a_tag_keeps_a_commit_until_it_is_removed(zoea: Zoea, transcript: Path) -> None:
    made = zoea("ctx", "import", str(transcript), "--json").json
    assert zoea("ctx", "note", "import/shop", "--name", "storm").out == "tag/storm names import/shop\n"
    assert zoea("ctx", "show", "tag/storm", "--json").json["id"] == made["id"]
    assert zoea("ctx", "note", "--remove-name", "storm").code == 0
    gone = zoea("ctx", "note", "--remove-name", "storm")
    assert (gone.code != 0, "no commit has the name tag/storm" in gone.err) == (True, True)
    assert zoea("ctx", "refs", "--json").json == {"import/shop": made["id"]}


@walk_cases("name", ["@beta", "x~3", "a^^", "a@{10:30}", " ", "", "a\x1b[31mb", "\udcff", "-x", "a" * 81])
@pytest.mark.usefixtures("imported")
def test_a_tag_that_no_revision_could_name_is_refused(zoea: Zoea, name: str) -> None:
    refused = zoea("ctx", "note", "import/shop", "--name", name)
    assert refused.code == 2
    assert "cannot be the name of a commit" in refused.err
    assert list(zoea("ctx", "refs", "--json").json) == ["import/shop"]


@pytest.mark.parametrize(
    ("stem", "ref"),
    [("a~3", "import/a-3"), ("x@{y}", "import/x--y-"), ("\udcff", "import/\ufffd"), (" ", "import/unnamed")],
)
def test_an_import_gets_a_name_that_a_revision_can_say(zoea: Zoea, transcript: Path, stem: str, ref: str) -> None:
    file = transcript.rename(transcript.with_name(f"{stem}.jsonl"))
    assert zoea("ctx", "import", str(file)).code == 0
    assert list(zoea("ctx", "refs", "--json").json) == [ref]
    assert zoea("ctx", "show", ref).code == 0


@walk_cases("name", ["x~3", "@beta", "a\x1b[31mb", "\udcff", " ", "a" * 201])
def test_an_import_under_a_name_that_no_revision_could_say_is_refused(zoea: Zoea, transcript: Path, name: str) -> None:
    refused = zoea("ctx", "import", str(transcript), "--name", name)
    assert refused.code == 2
    assert "cannot be the name of a commit" in refused.err


def test_a_name_of_bytes_that_are_no_text_names_no_commit(zoea: Zoea, transcript: Path) -> None:
    zoea("ctx", "import", str(transcript))
    for command in (("ctx", "show", "\udcff"), ("ctx", "cat", "import/shop\udcff"), ("fork", "\udcff\udcfe")):
        refused = zoea(*command)
        assert (refused.code, "No such commit" in refused.err) == (2, True)
    assert "no commit has the name" in zoea("ctx", "note", "--remove-name", "\udcff").err


def test_a_bundle_goes_to_another_workspace_and_back_without_a_change(
    zoea: Zoea, transcript: Path, tmp_path: Path
) -> None:
    made = zoea("ctx", "import", str(transcript), "--json").json
    file = tmp_path / "shop.bundle"
    written = zoea("ctx", "export", "import/shop", str(file), "--json").json
    assert (written["commits"], written["blobs"], written["refs"]) == (1, 1, {"import/shop": made["id"]})
    again = zoea("ctx", "export", "import/shop", str(file))
    assert (again.code, "--force" in again.err) == (2, True)
    assert zoea("ctx", "export", made["short_id"], str(file), "--force").code == 0
    elsewhere = zoea("ctx", "import", str(file), "--workspace", "elsewhere", "--json").json
    assert (elsewhere["commits"], elsewhere["refs"]) == (1, {f"import/{made['short_id']}": made["id"]})
    assert "1 commit was here already" in zoea("ctx", "import", str(file), "--workspace", "elsewhere").out
    assert "all good" in zoea("ctx", "fsck", "--workspace", "elsewhere").out
    name = f"import/{made['short_id']}"
    told = zoea("ctx", "cat", name, "--as", "claude", "--workspace", "elsewhere").out
    assert told.encode() == transcript.read_bytes()


def test_a_damaged_bundle_is_refused_and_makes_no_database(zoea: Zoea, transcript: Path, tmp_path: Path) -> None:
    zoea("ctx", "import", str(transcript))
    file = tmp_path / "shop.bundle"
    zoea("ctx", "export", "import/shop", str(file))
    file.write_bytes(file.read_bytes()[:-5])
    refused = zoea("ctx", "import", str(file), "--workspace", "elsewhere")
    assert (refused.code, "cut off" in refused.err) == (4, True)
    assert not places("elsewhere").database.exists()


def test_only_the_given_parts_of_a_note_change_and_the_earlier_ones_stay(zoea: Zoea, transcript: Path) -> None:
    made = zoea("ctx", "import", str(transcript), "--json").json
    zoea("ctx", "note", "import/shop", "--tag", "shop", "--tag", "bug")
    tagged = zoea("ctx", "show", "import/shop", "--json").json
    assert (tagged["summary"], tagged["tags"]) == (made["summary"], ["bug", "shop"])
    zoea("ctx", "note", "import/shop", "--summary", "Knows the bug")
    zoea("ctx", "note", "import/shop", "--untag", "bug")
    found = zoea("ctx", "note", "import/shop", "--json").json
    assert (found["summary"], found["tags"]) == ("Knows the bug", ["shop"])
    assert [(one["summary"], one["tags"]) for one in found["history"]] == [
        (made["summary"], []),
        (made["summary"], ["bug", "shop"]),
        ("Knows the bug", ["bug", "shop"]),
        ("Knows the bug", ["shop"]),
    ]
    assert {one["id"] for one in zoea("ctx", "log", "--json").json} == {made["id"]}, "the commit itself is the same"
    refused = zoea("ctx", "note", "import/shop", "--untag", "nothing")
    assert (refused.code, "Its tags: shop." in refused.err) == (2, True)
    assert "Knows the bug" in zoea("ctx", "note", "import/shop").out


def test_the_log_draws_branches_as_lanes(zoea: Zoea, transcript: Path) -> None:
    zoea("ctx", "import", str(transcript))
    with closing(sqlite3.connect(places().database)) as con, con:
        for seq, parent, ref in ((2, 1, "import/shop"), (3, 1, "tag/other"), (4, 2, "import/shop")):
            con.execute(
                "INSERT INTO ctx_commit SELECT ?, randomblob(32), ?, 'delta', blob_id, format, template_hash,"
                " principal, mysis_id, machine, session_id, checkpoint, ticket_id, thread_id, NULL, NULL, 1, 1,"
                " created_at"
                " FROM ctx_commit WHERE seq = 1",
                (seq, parent),
            )
            con.execute("INSERT OR REPLACE INTO ctx_ref VALUES (?, ?, 0)", (ref, seq))
    lines = zoea("ctx", "log", "--graph").out.splitlines()
    assert [line.split("  ctx-")[0].rstrip() for line in lines] == ["*", "│ *", "* │", "*─╯"]
    chain = zoea("ctx", "log", "import/shop", "--graph").out.splitlines()
    assert [line[0] for line in chain] == ["*", "*", "*"]
    found = zoea("ctx", "log", "--graph", "--json").json
    assert [(one["lane"], one["joined"]) for one in found] == [(0, []), (1, []), (0, []), (0, [1])]


def test_a_lost_text_comes_back_from_the_mirror_and_a_redacted_one_leaves_it(
    zoea: Zoea, transcript: Path, tmp_path: Path
) -> None:
    refused = zoea("ctx", "fetch")
    assert (refused.code, "chain.mirror" in refused.err) == (2, True)
    folder = tmp_path / "disk"
    folder.mkdir()
    config = places("").config_file
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(f'[chain]\nmirror = "{folder}"\n')
    zoea("ctx", "import", str(transcript))
    assert zoea("ctx", "fetch", "--json").json == {"restored": 0, "copied": 1, "missing": []}
    with closing(sqlite3.connect(places("").database)) as database, database:
        database.execute("UPDATE blob SET data = zeroblob(10)")
    assert "zoea ctx fetch" in zoea("ctx", "fsck").err
    assert "In a.py." in zoea("ctx", "cat", "import/shop").out
    assert zoea("ctx", "fetch", "import/shop", "--json").json == {"restored": 1, "copied": 0, "missing": []}
    assert "all good" in zoea("ctx", "fsck").out
    assert zoea("redact", "Where is the bug?", "--yes").code == 0
    assert list(folder.rglob("*.zst")) == []
    assert "Where is the bug" not in zoea("ctx", "cat", "import/shop").out


def test_a_redacted_text_leaves_the_mirror_also_where_it_was_collected_or_let_go_here(
    zoea: Zoea, transcript: Path, tmp_path: Path
) -> None:
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    config = places("").config_file
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(f'[chain]\nmirror = "{mirror}"\n')
    for name in ("gone", "kept"):
        assert zoea("ctx", "import", str(transcript), "--name", name).code == 0
        transcript.write_text(transcript.read_text().replace("In a.py.", "In b.py."))
    assert zoea("ctx", "fetch").code == 0
    assert len(list(mirror.rglob("*.zst"))) == 2
    assert zoea("ctx", "note", "--remove-name", "import/gone").code == 0
    assert zoea("ctx", "note", "import/kept", "--days", "0.000000001").code == 0
    done = zoea("ctx", "gc", "--days", "0", "--json").json
    assert (done["commits"], done["released"]) == (1, 1)
    assert len(list(mirror.rglob("*.zst"))) == 2, "neither leaves the mirror"
    assert "In b.py." in zoea("ctx", "cat", "import/kept").out, "which is read instead"
    assert zoea("redact", "Where is the bug?", "--yes").code == 0
    assert not list(mirror.rglob("*.zst"))
    assert "1 part was redacted" in zoea("ctx", "fsck").out


def test_how_long_a_commit_stays_is_set_and_shown(zoea: Zoea, transcript: Path) -> None:
    zoea("ctx", "import", str(transcript))
    assert zoea("ctx", "show", "import/shop", "--json").json["kept"]["policy"] == "default"
    shown = zoea("ctx", "note", "import/shop", "--default").out
    assert shown == "import/shop stays while a name stands for it or for a later commit\n"
    assert zoea("ctx", "note", "import/shop", "--pin").out == "import/shop is pinned, with all before it\n"
    assert "pin" in zoea("ctx", "show", "import/shop").out
    assert "keeps its texts until" in zoea("ctx", "note", "import/shop", "--days", "7").out
    again = zoea("ctx", "note", "import/shop", "--default", "--whole", "--json").json
    assert (again["policy"], again["until"], again["commits"]) == ("default", None, 1)
    both = zoea("ctx", "note", "import/shop", "--pin", "--days", "7")
    assert (both.code, "exclude each other" in both.err) == (2, True)
    none = zoea("ctx", "note", "import/shop", "--days", "0")
    assert (none.code, "0 days are out of range" in none.err) == (2, True)
    zoea("ctx", "note", "import/shop", "--days", "0.000000001")
    dry = zoea("ctx", "gc", "--dry-run").out
    assert "1 text of ephemeral commits" in dry
    assert "Let go of 1 text" in zoea("ctx", "gc").out
    gone = zoea("ctx", "cat", "import/shop")
    assert (gone.code != 0, "was let go" in gone.err, "bundle" in gone.err) == (True, True, True)
    assert "import/shop" in zoea("ctx", "log").out
    assert "without its texts" in zoea("ctx", "show", "import/shop").out
    assert zoea("ctx", "grep", "bug").code == 1
    assert "all good" in zoea("ctx", "fsck").out


def test_the_cost_of_summaries_is_said_before_a_model_is_asked(zoea: Zoea, transcript: Path) -> None:
    made = zoea("ctx", "import", str(transcript), "--json").json
    said = zoea("ctx", "note", "--write", "--missing", "--dry-run", "--json").json
    assert (said["commits"], said["tokens"], said["summaries"]) == (1, made["tokens"], {})
    assert "1 commit, about" in zoea("ctx", "note", "--write", "import/shop", "--dry-run").out
    refused = zoea("ctx", "note", "--write")
    assert (refused.code, "--missing" in refused.err) == (2, True)
    assert zoea("ctx", "note", "--write", "--missing").code == 5, "no swarm runs"
    assert zoea("ctx", "note", "import/shop", "--json").json["summary"] == made["summary"]
