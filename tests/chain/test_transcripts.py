"""Transcripts of Claude Code as they are in the field: trees with damage, noise, branches and summaries."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.case_tables import walk_cases
from tests.fakes.claude_transcript import SESSION, Transcript, text, thinking, use
from tests.fakes.memory_store import memory_store
from zoea.chain.chain_reader import ChainReader
from zoea.chain.commit import CommitType, ContextCommit
from zoea.chain.commit_rows import read_refs, walk_chain
from zoea.chain.entries import ContextEntry, answer_open_calls
from zoea.chain.formats import known_formats
from zoea.chain.formats.claude_code import name_project, read_transcript
from zoea.chain.formats.claude_tree import MOST_BRANCHES
from zoea.chain.imports import prepare_import, store_import
from zoea.model.enums import Role
from zoea.model.errors import ContextFormatError
from zoea.store.writer_connection import WriterConnection

RECORDED = Path(__file__).parent / "recorded"
"""Transcripts that the real program wrote; `tests/conformance/claude_code.py` makes them."""
OWN_FIELDS = {"promptId", "promptSource", "permissionMode", "sourceToolAssistantUUID", "message.stop_details"}


@dataclass(frozen=True)
class Case:
    """A transcript and what the conversation is: `user: …`, `note: …`, `answer: …`, `call 0: …` for results."""

    name: str
    source: str
    build: Callable[[Transcript], None]
    shown: tuple[str, ...]
    branches: tuple[str, ...] = ()
    noted: str = ""


CASES: list[Case] = []


def case(
    source: str, *shown: str, branches: tuple[str, ...] = (), noted: str = ""
) -> Callable[[Callable[[Transcript], None]], Callable[[Transcript], None]]:
    """Add a function that builds a transcript to the table; its name is the case's."""

    def add(build: Callable[[Transcript], None]) -> Callable[[Transcript], None]:
        CASES.append(Case(build.__name__, source, build, shown, branches, noted))
        return build

    return add


@case(
    "kenn-io/agentsview#406, kenn-io/agentsview#401",
    "user: Build.",
    "answer:  [make]",
    "call 0: built",
    "user: Lint too.\n[image left out]",
    "note: a task ended",
    "answer: Linted.",
)
def a_prompt_queued_while_a_tool_runs(t: Transcript) -> None:
    t.user("Build.")
    t.answer("m1", use("c1", run="make"))
    t.side("queue-operation", operation="enqueue", content="Lint too.")
    t.result("c1", "built")
    t.queued([text("Lint too."), {"type": "image", "source": {"data": "aGk="}}])
    t.queued("a task ended", mode="task-notification")
    t.put("attachment", attachment={"type": "task_reminder", "content": "not shown"})
    t.answer("m2", text("Linted."))


@case(
    "zenolab124/monet#28, daaain/claude-code-log#300, anthropics/claude-code#58631",
    "user: One.",
    "answer: First.",
    "user: Better.",
    "answer: Second.",
    branches=("rewound-1: user: One. | answer: First. | user: Left. | answer: Gone. [x] | call 0: Late.",),
)
def a_rewind_leaves_a_branch(t: Transcript) -> None:
    t.user("One.")
    first = t.answer("m1", text("First."))
    t.user("Left.")
    t.answer("m2", text("Gone."), use("c9", run="x"))
    t.result("c9", "Late.")
    t.user("Better.", parent=first)
    t.answer("m3", text("Second."))


@case("the same", "user: New.", "answer: Yes.", branches=("rewound-1: user: Old. | answer: No.",))
def a_rewind_to_the_very_beginning(t: Transcript) -> None:
    t.user("Old.")
    t.answer("m1", text("No."))
    t.user("New.", parent=None)
    t.answer("m2", text("Yes."))


@case("the same, by `last-prompt`", "user: One.", "user: Two.", branches=("rewound-1: user: One. | user: Three.",))
def a_rewind_without_a_new_prompt(t: Transcript) -> None:
    first = t.user("One.")
    second = t.user("Two.")
    t.user("Three.", parent=first)
    t.side("last-prompt", leafUuid=second)


@case(
    "anthropics/claude-code#49876, #53821, #76059, neilberkman/ccrider#11, alibaba/open-code-review#1312",
    "user: One.",
    "answer: First.",
    "user: Two.",
    noted="line 3 of the transcript holds only NUL bytes; it was left out | line 5 of the transcript is no JSON object;"
    " it was left out | line 6 of the transcript is a message without readable content; it was left out"
    " | line 7 of the transcript is cut off after 17 bytes; it was left out",
)
def a_crash_damages_lines(t: Transcript) -> None:
    t.user("One.")
    t.answer("m1", text("First."))
    t.lines[-1] += b"\0" * 200
    t.lines.append(b"\0" * 300)
    t.user("Two.")
    t.lines.append(b"[1]")
    t.side("user", message={"content": 7})
    t.lines.append(b'{"message": "caf\xc3')


@case(
    "anthropics/claude-code#81843, anthropics/claude-code#52387, codemie-ai/codemie-code#67",
    "user: One.",
    "answer: First.",
    "user: Two.",
    noted="line 1 of the transcript has 52 bytes of a record that was cut off before the next one began;"
    " it was left out",
)
def records_without_the_end_of_a_line_between_them(t: Transcript) -> None:
    t.user("One.")
    t.answer("m1", text("First."))
    t.user("Two.")
    t.lines = [t.lines[0] + t.lines[1] + b'{"message":{"type":"message","content":[]},"parentUu' + t.lines[2]]


@case(
    "siteboon/claudecodeui#1002, Arize-ai/coding-harness-tracing#148", "user: One\u2028and two\u0085.", "answer: First."
)
def a_separator_of_lines_inside_a_text(t: Transcript) -> None:
    t.user("One\u2028and two\u0085.")
    t.answer("m1", text("First."))


@case("codemie-ai/codemie-code#350, victorGPT/vibeusage#152", "user: Hi.", "answer:  [a]", "call 0: A", "user: Hi.")
def a_line_that_stands_twice(t: Transcript) -> None:
    t.user("Hi.")
    t.answer("m1", use("c1", run="a"))
    t.lines += t.lines[-2:]
    t.result("c1", "A")
    t.lines.append(t.lines[-1])
    t.user("Hi.")


@case(
    "wecode-ai/Wegent#2657, anthropics/claude-code#63966, anthropics/claude-code#87303",
    "user: All.",
    "answer:  [a] [b] [c]",
    "call 1: B",
    "call 0: A",
    "call 2: C",
    "answer: Read.",
)
def results_between_the_blocks_of_an_answer(t: Transcript) -> None:
    t.user("All.")
    a = t.answer("m1", use("ca", run="a"))
    b = t.answer("m1", use("cb", run="b"))
    t.result("cb", "B", parent=b)
    t.answer("m1", use("cc", run="c"), parent=b)
    t.result("ca", "A", parent=a)
    t.result("cc", "C")
    t.answer("m2", text("Read."))


@case(
    "diegosouzapw/OmniRoute#4882",
    "user: All.",
    "answer:  [a] [b]",
    "call 0: A",
    "call 1: B",
    "user: By the way.",
    "answer: Read.",
)
def a_prompt_between_two_results(t: Transcript) -> None:
    t.user("All.")
    t.answer("m1", use("ca", run="a"), use("cb", run="b"))
    t.user([{"type": "tool_result", "tool_use_id": "ca", "content": "A"}, text("By the way.")])
    t.result("cb", "B")
    t.answer("m2", text("Read."))


@case("the same, one by one", "user: All.", "answer:  [a]", "call 0: A", "answer:  [b]", "call 0: B", "answer: Read.")
def an_id_that_a_gateway_gives_to_every_answer(t: Transcript) -> None:
    t.user("All.")
    for name in "ab":
        t.answer("m1", use(f"c{name}", run=name))
        t.result(f"c{name}", name.upper())
    t.answer("m1", text("Read."))


@case(
    "the same, while the answer still streams",
    "user: All.",
    "answer:  [a] [b]",
    "call 0: A",
    "call 1: B",
    "answer: Read.",
)
def a_result_before_the_next_block(t: Transcript) -> None:
    t.user("All.")
    a = t.answer("m1", use("ca", run="a"))
    t.result("ca", "A", parent=a)
    b = t.answer("m1", use("cb", run="b"), parent=a)
    t.result("cb", "B", parent=b)
    t.answer("m1", text("Read."))


@case("the same, in the next answer", "user: All.", "answer:  [a]", "call 0: A", "answer:  [b]", "call 0: B")
def results_after_the_next_answer(t: Transcript) -> None:
    t.user("All.")
    t.answer("m1", use("ca", run="a"))
    t.answer("m2", use("cb", run="b"))
    t.result("ca", "A")
    t.result("cb", "B")


@case("anthropics/claude-code#22526, #58554, #61188", "user: One.", "answer: First.", "user: Two.", "answer: Second.")
def a_parent_that_was_never_written(t: Transcript) -> None:
    t.user("One.")
    t.answer("m1", text("First."))
    t.user("Two.", parent="20000000-0000-4000-8000-000000000000")
    t.answer("m2", text("Second."))


@case("anthropics/claude-code#46603, #43053", "note: What was said.", "user: Two.", "answer: Second.")
def a_parent_that_a_compaction_lost(t: Transcript) -> None:
    t.user("One.")
    t.boundary(t.newest)
    t.summary("What was said.")
    t.user("Two.", parent="20000000-0000-4000-8000-000000000000")
    t.answer("m2", text("Second."))


@case("anthropics/claude-code#40027", "note: What was said.", "user: Two.")
def a_summary_of_a_deleted_session(t: Transcript) -> None:
    t.boundary("20000000-0000-4000-8000-000000000000")
    t.summary("What was said.")
    t.user("Two.")


@case(
    "anthropics/claude-agent-sdk-typescript#431",
    "note: What was said.",
    "user: Two.",
    "answer: Second.",
    "user: Three.",
)
def messages_kept_beside_a_summary(t: Transcript) -> None:
    t.user("One.")
    t.answer("m1", text("First."))
    kept = [t.user("Two."), t.answer("m2", text("Second."))]
    boundary = t.boundary(t.newest, preservedMessages={"anchorUuid": "x", "uuids": kept, "allUuids": kept})
    t.summary("What was said.", parent=boundary)
    t.user("Three.", parent=kept[-1])


@case(
    "delexw/claude-code-trace#40",
    "user: One.",
    "answer: Live.",
    branches=("rewound-1: user: One. | answer: Dead end.",),
)
def an_attempt_that_was_made_again(t: Transcript) -> None:
    prompt = t.user("One.")
    t.answer("m1", text("Dead end."))
    t.answer("m2", text("Live."), parent=prompt)


@case("anthropics/claude-code#34362", "user: One.", "answer:  [a]", "call 0: A", "user: Two.")
def lines_of_progress_in_the_chain(t: Transcript) -> None:
    t.user("One.")
    t.answer("m1", use("c1", run="a"))
    t.put("progress", data={"type": "bash_progress", "output": "50 %"})
    t.result("c1", "A")
    t.put("system", subtype="turn_duration", durationMs=3)
    t.user("Two.")


@case(
    "anthropics/claude-code#35024",
    "user: One.",
    "answer: Both.  [a] [b]",
    "call 0: A",
    "call 1: B",
    "answer: Done.",
    "user: Two.",
)
def hooks_that_fork_the_chain_at_each_call(t: Transcript) -> None:
    t.user("One.")
    t.answer("m1", text("Both. "))
    a = t.answer("m1", use("ca", run="a"))
    b = t.answer("m1", use("cb", run="b"))
    for call, name in ((a, "ca"), (b, "cb")):
        t.put("progress", parent=call, data={"type": "hook_progress", "hookEvent": "PreToolUse"})
        t.put("progress", data={"type": "hook_progress", "hookEvent": "PostToolUse"})
        t.result(name, name[1:].upper(), parent=call)
        t.put("progress", data={"type": "hook_progress", "hookEvent": "PostToolUse"})
    t.answer("m2", text("Done."))
    t.put("progress", data={"type": "hook_progress", "hookEvent": "Stop"})
    t.user("Two.", parent=t.newest)


@case("anthropics/claude-code#40319", "user: One.", "answer: First.", "user: Two.")
def a_line_before_the_progress_that_it_follows(t: Transcript) -> None:
    t.user("One.")
    t.answer("m1", text("First."))
    progress = t.put("progress", data={"type": "hook_progress"})
    t.put("system", parent=progress, subtype="turn_duration", durationMs=3)
    t.user("Two.")
    t.lines[2:4] = t.lines[3:1:-1]


@case("anthropics/claude-code#36583", "user: One.", "answer: First.", "user: Two.")
def snapshots_with_ids_of_earlier_messages(t: Transcript) -> None:
    one = t.user("One.")
    first = t.answer("m1", text("First."))
    for uuid in (one, first):
        t.side("file-history-snapshot", messageId=uuid, snapshot={"messageId": uuid}, isSnapshotUpdate=True)
    t.user("Two.")


@case("anthropics/claude-code#21617, anthropics/claude-code#22107", "user: One.", "answer: First.", "user: Two.")
def a_lost_parent_behind_a_snapshot(t: Transcript) -> None:
    t.user("One.")
    t.answer("m1", text("First."))
    t.side("file-history-snapshot", messageId="30000000-0000-4000-8000-000000000000", snapshot={})
    t.user("Two.", parent="30000000-0000-4000-8000-000000000001")


@case("anthropics/claude-code#5034", "user: One.", "answer: First.", "user: Two.", "answer: Second.")
def a_conversation_that_is_written_again_before_each_prompt(t: Transcript) -> None:
    t.user("One.")
    t.answer("m1", text("First."))
    t.lines += t.lines[:2]
    t.user("Two.")
    t.lines += t.lines[:2]
    t.answer("m2", text("Second."))


@case("vibe-cafe/vibe-usage#63, apache/maka#3435", "user: One.", "answer: Seen.  [a]", "call 0: A")
def an_answer_whose_first_line_holds_only_thinking(t: Transcript) -> None:
    t.user("One.")
    t.answer("m1", thinking("hm"))
    t.answer("m1", text("Seen. "))
    t.answer("m1", use("c1", run="a"))
    t.result("c1", "A")


@case("delexw/claude-code-trace#273", "user: One.", "answer:  [a]", "call 0: A", "answer:  [b]", "call 0: B")
def calls_of_a_client_without_ids_of_messages(t: Transcript) -> None:
    t.user("One.")
    for name in "ab":
        block = use(f"c{name}", run=name)
        t.put("assistant", message={"role": "assistant", "content": [block]})
        t.result(f"c{name}", name.upper())


@case(
    "anthropics/claude-code#14150", "user: Look.", "answer:  [a]", "call 0: A chart.\n[image left out]", "answer: Seen."
)
def a_result_with_a_picture(t: Transcript) -> None:
    t.user("Look.")
    t.answer("m1", use("c1", run="a"))
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    t.user([{"type": "tool_result", "tool_use_id": "c1", "content": [text("A chart."), picture]}])
    t.answer("m2", text("Seen."))


@case("anthropics/claude-code#37437", "user: One.", "answer: First.", "user: Two.", branches=("side-1: user: Look.",))
def a_parent_in_the_chain_of_an_agent(t: Transcript) -> None:
    t.user("One.")
    first = t.answer("m1", text("First."))
    t.user("Look.", parent=None, isSidechain=True, agentId="a1")
    at_work = t.put("progress", isSidechain=True, agentId="a1")
    assert first != at_work
    t.user("Two.", parent=at_work)


@case("anthropics/claude-code#24304", "user: One.", "answer: First.")
def a_snapshot_with_the_id_of_a_message(t: Transcript) -> None:
    t.side("file-history-snapshot", messageId="10000000-0000-4000-8000-000000000001", snapshot={})
    t.user("One.")
    t.answer("m1", text("First."))


@case(
    "d-kimuson/claude-code-viewer#150, kamp-us/phoenix#8640, anthropics/claude-code#7621",
    "note: <bash-input>ls</bash-input>\n<bash-stdout>a.py</bash-stdout>",
    "user: <local-command-stdout> is what?",
    "note: [Request interrupted by user]",
    "note: <system-reminder>be brief</system-reminder>",
    "user: Go on.",
    "user: /review the parser",
    "user: /init",
    "answer: A tag.",
    noted="left out, because neither person nor model said it: 5 local commands",
)
def commands_that_are_not_the_words_of_the_user(t: Transcript) -> None:
    t.user("Caveat: The messages below were generated by the user while running local commands.", isMeta=True)
    t.user("<local-command-caveat>Caveat: no words</local-command-caveat>", isMeta=True)
    t.user(
        "<command-name>/model</command-name>\n<command-message>model</command-message>\n<command-args>x</command-args>"
    )
    t.user("<local-command-stdout>Set model to x</local-command-stdout>")
    t.user([text("<bash-input>ls</bash-input>"), text("<bash-stdout>a.py</bash-stdout>")])
    t.user("<local-command-stdout> is what?")
    t.user([text("[Request interrupted by user]")])
    t.user([text("<system-reminder>be brief</system-reminder>"), text("Go on.")])
    t.user(
        "<command-message>review is running…</command-message>\n<command-name>/review</command-name>\n"
        "<command-args>the parser</command-args>"
    )
    t.user("<command-message>init</command-message>\n<command-name>/init</command-name>")
    t.user("<command-message>clear</command-message>\n<command-name>/clear</command-name>")
    t.answer("m1", text("A tag."))


@case(
    "tuo-lei/vibe-replay#289",
    "user: One.",
    "answer: First.",
    noted="left out, because neither person nor model said it: 2 synthetic answers",
)
def failed_requests_that_the_model_did_not_say(t: Transcript) -> None:
    t.user("One.")
    t.answer("e1", text("API Error: 529 overloaded"), model="<synthetic>")
    t.answer("e2", text("API Error: 500"), isApiErrorMessage=True)
    t.answer("m1", text("First."))


@case(
    "d-kimuson/claude-code-viewer#76",
    "user: One.",
    "answer:  [a]",
    "call 0: Seen.",
    branches=("side-1: user: Look. | answer: I saw.", "side-2: user: Count."),
)
def agents_of_its_own_in_the_file(t: Transcript) -> None:
    t.user("One.")
    call = t.answer("m1", use("c1", run="a"))
    t.user("Look.", parent=None, isSidechain=True, agentId="a1")
    t.answer("s1", text("I saw."), isSidechain=True, agentId="a1")
    t.user("Count.", parent=None, isSidechain=True, agentId="a2")
    t.result("c1", "Seen.", parent=call)


@case("siteboon/claudecodeui#1022", "user: One.", "answer: First.", "user: Two.", "answer: Second.")
def a_session_that_was_resumed_under_another_id(t: Transcript) -> None:
    t.user("One.")
    t.answer("m1", text("First."))
    t.user("Two.", sessionId="7b1c7a52-3f0e-4c11-9d55-7a0e5c2f9b01")
    t.answer("m2", text("Second."), sessionId="7b1c7a52-3f0e-4c11-9d55-7a0e5c2f9b01")


@case(
    "Nwflower/dsh-chat-import#21, #26",
    "user: One.\nAnd more.",
    "answer:  [a]",
    "call 0: A",
    "user: Two.",
    "answer: Second.",
)
def prompts_that_are_lists_of_texts(t: Transcript) -> None:
    t.user([text("One."), text("And more.")])
    t.answer("m1", thinking("hm"), use("c1", run="a"))
    t.result("c1", "A")
    t.side("ai-title", aiTitle="Work")
    t.side("atis-latch", on=True)
    t.user([text("Two.")])
    t.answer("m2", text("Second."))


@case(
    "d-kimuson/claude-code-viewer#218, basicmachines-co/basic-memory#1527",
    "user: One.",
    "answer: First.  [a]",
    "call 0: A",
)
def an_answer_of_another_vendor_that_says_tool_use_before_its_call(t: Transcript) -> None:
    t.user("One.")
    t.answer("msg_0620d517", text("First. "), model="deepseek-v4-flash", entrypoint="cli")
    t.answer("msg_0620d517", use("call_00_x", run="a"), model="deepseek-v4-flash")
    t.result("call_00_x", "A")
    t.side("continued-in", continuedIn="7b1c7a52-3f0e-4c11-9d55-7a0e5c2f9b01")


@case("anthropics/claude-agent-sdk-typescript#242", "user: Look.", "answer: I saw.")
def the_file_of_an_agent(t: Transcript) -> None:
    t.user("Look.", isSidechain=True, agentId="a1")
    t.answer("s1", text("I saw."), isSidechain=True, agentId="a1")


def describe(entry: ContextEntry) -> str:
    if entry.role is Role.TOOL:
        return f"call {entry.position}: {entry.content}"
    who = "answer" if entry.role is Role.ASSISTANT else "note" if entry.is_synthetic else "user"
    calls = [(call.name, json.loads(call.arguments)) for call in entry.calls]
    return f"{who}: {entry.content}" + "".join(f" [{about.get('run', name)}]" for name, about in calls)


@pytest.fixture
def conn() -> Iterator[WriterConnection]:
    with closing(memory_store()) as opened:
        yield opened


def fields_of(data: bytes) -> dict[str, set[str]]:
    """Return the fields that all lines of a kind have: of answers, results and prompts, and of their messages."""
    fields: dict[str, set[str]] = {}
    for line in map(json.loads, data.splitlines()):
        if line["type"] in ("user", "assistant"):
            message = line["message"]
            kind = line["type"] if line["type"] == "assistant" or isinstance(message["content"], str) else "result"
            names = {*line, *(f"message.{name}" for name in message)} - OWN_FIELDS
            fields[kind] = fields.get(kind, names) & names
    return fields


def read(conn: sqlite3.Connection, commit: ContextCommit) -> list[str]:
    return [describe(one) for one in ChainReader(conn).materialize(commit).entries]


def keep(conn: WriterConnection, data: bytes, name: str = "talk") -> tuple[ContextCommit, tuple[str, ...]]:
    imported = prepare_import(data, name)
    conn.execute("BEGIN")
    stored = store_import(conn, imported)
    conn.execute("COMMIT")
    return stored, imported.notes


@pytest.mark.parametrize("case", CASES, ids=[one.name for one in CASES])
def test_the_conversation_is_what_was_said_in_it(case: Case, conn: WriterConnection) -> None:
    made = Transcript()
    case.build(made)
    data = made.data()[:-1] if case.name.startswith("a_crash") else made.data()
    stored, notes = keep(conn, data)
    assert read(conn, stored) == list(case.shown), case.source
    branches = {name.removeprefix("import/talk/"): seq for name, seq in read_refs(conn).items() if name.count("/") > 1}
    shown = {name: " | ".join(read(conn, walk_chain(conn, seq)[-1])) for name, seq in branches.items()}
    assert tuple(f"{name}: {said}" for name, said in sorted(shown.items())) == case.branches
    assert [one for one in notes if "beside it" not in one] == [one for one in case.noted.split(" | ") if one]


@pytest.mark.parametrize("case", CASES, ids=[one.name for one in CASES])
def test_the_commits_of_a_conversation_say_the_same_as_the_file(case: Case, conn: WriterConnection) -> None:
    made = Transcript()
    case.build(made)
    if case.name in ("a_crash_damages_lines", "records_without_the_end_of_a_line_between_them"):
        with pytest.raises(ContextFormatError, match=r"line \d"):
            read_transcript(made.data())
        return
    stored, _ = keep(conn, made.data())
    whole = [describe(one) for one in read_transcript(made.data())]
    parts = [describe(one) for one in ChainReader(conn).materialize(stored, to_root=True).entries]
    begins = [one.parent for one in walk_chain(conn, stored.seq) if one.kind is CommitType.COMPACTION]
    assert parts == [one for one in whole if one != "note: What was said." or begins == [None]]


def test_each_prompt_is_a_commit_with_the_time_of_its_last_line(conn: WriterConnection) -> None:
    made = Transcript()
    for number in range(3):
        made.user(f"Question {number}.")
        made.answer(f"m{number}", text(f"Answer {number}."))
    stored, _ = keep(conn, made.data())
    chain = walk_chain(conn, stored.seq)
    first = chain[0].created_at
    assert [one.created_at - first for one in chain] == [0, 2_000_000, 4_000_000]
    assert [one.note.summary for one in chain] == [f"Question {n}. … Answer {n}." for n in range(3)]
    assert {one.checkpoint for one in chain} == {"turn_boundary"}
    assert first == ChainReader(conn).read_messages(chain[0])[-1].at, "the moment at which the answer was known"


def test_a_compaction_is_a_commit_that_replaces_what_was_before(conn: WriterConnection) -> None:
    made = Transcript()
    made.user("Before.")
    made.answer("m1", text("Said before."))
    made.boundary(made.newest)
    made.summary("All is well.")
    made.user("After.")
    stored, _ = keep(conn, made.data())
    assert [one.kind for one in walk_chain(conn, stored.seq)] == ["delta", "compaction", "delta"]
    assert read(conn, stored) == ["note: All is well.", "user: After."]
    whole = ChainReader(conn).materialize(stored, to_root=True).entries
    assert [describe(one) for one in whole] == ["user: Before.", "answer: Said before.", "user: After."]


def test_what_claude_code_itself_wrote_is_read(conn: WriterConnection) -> None:
    agents = {one.name: one.read_bytes() for one in RECORDED.glob("agent/subagents/*.jsonl")}
    imported = prepare_import((RECORDED / "agent.jsonl").read_bytes(), "talk", agents=agents)
    conn.execute("BEGIN")
    stored = store_import(conn, imported)
    shown = [one.partition("\n")[0] for one in read(conn, stored)]
    assert shown[:2] == ["user: What does a.py return?", "answer: I look. [Read] [Bash]"]
    assert shown[3:7] == ["call 1: hello", "answer: It returns 42.", "user: How many lines?", "answer:  [Agent]"]
    assert read(conn, walk_chain(conn, read_refs(conn)["import/talk/side-1"])[-1]) == [
        "user: Count the lines.",
        "answer: Two lines.",
    ]


def test_messages_that_claude_code_kept_beside_its_summary_are_known_with_it(conn: WriterConnection) -> None:
    stored, _ = keep(conn, (RECORDED / "compaction.jsonl").read_bytes())
    assert [one.kind for one in walk_chain(conn, stored.seq)][-2:] == ["compaction", "delta"]
    summary, kept, *later = read(conn, stored)
    assert ("All is well." in summary, kept, later[-2:]) == (True, "answer: Well.", ["user: After.", "answer: Well."])
    whole = [describe(one) for one in ChainReader(conn).materialize(stored, to_root=True).entries]
    assert [one for one in whole if one.startswith("user: ")][-2:] == ["user: Question 3.", "user: After."]


def test_what_zoea_writes_has_the_fields_that_claude_code_writes() -> None:
    written = known_formats()["claude-code-v1"].write(read_transcript((RECORDED / "agent.jsonl").read_bytes()))
    fields = fields_of(written)
    for kind, names in fields_of((RECORDED / "agent.jsonl").read_bytes()).items():
        assert names <= fields[kind], kind
    times = [json.loads(line)["timestamp"] for line in written.splitlines()]
    assert (times == sorted(times), times[0][:4]) == (True, "2026")


def test_a_result_that_zoea_adds_has_the_time_of_what_is_before_it() -> None:
    made = Transcript()
    made.user("One.")
    made.answer("m1", use("c1", run="a"))
    entries, added = answer_open_calls(read_transcript(made.data()))
    lines = [json.loads(line) for line in known_formats()["claude-code-v1"].write(entries).splitlines()]
    assert (added, lines[2]["timestamp"]) == (1, lines[1]["timestamp"])


def test_a_longer_version_adds_only_what_is_new(conn: WriterConnection) -> None:
    made = Transcript()
    made.user("One.")
    made.answer("m1", text("First."))
    first, _ = keep(conn, made.data())
    again, _ = keep(conn, made.data())
    assert again.id == first.id
    made.user("Two.")
    longer, _ = keep(conn, made.data())
    assert [one.id for one in walk_chain(conn, longer.seq)] == [first.id, longer.id]


def test_more_branches_than_are_kept_are_counted(conn: WriterConnection) -> None:
    made = Transcript()
    for number in range(MOST_BRANCHES + 5):
        made.user(f"Try {number}.", parent=None)
    _, notes = keep(conn, made.data())
    assert notes[0].startswith(f"{MOST_BRANCHES} branches beside it: import/talk/rewound-1, ")
    assert notes[1] == "4 more lines of other branches were left out"


def test_reasoning_is_kept_where_a_format_has_a_place_for_it() -> None:
    made = Transcript()
    made.user("One.")
    made.answer("m1", thinking("hm"))
    made.answer("m1", text("First."))
    entries = read_transcript(made.data())
    written = json.loads(known_formats()["openai-chat-v1"].write(entries))
    assert [one.get("reasoning_content") for one in written] == [None, "hm"]
    assert known_formats()["openai-chat-v1"].read(known_formats()["openai-chat-v1"].write(entries), bytes)[1].reasoning


@walk_cases(
    ("folder", "name"),
    [
        ("/srv/shop", "-srv-shop"),
        ("/srv/my_shop.d/a b", "-srv-my-shop-d-a-b"),
        ("/srv/épée\U0001f41a", "-srv--p-e--"),
        ("/" + "a" * 199, "-" + "a" * 199),
        ("/" + "a" * 230, "-" + "a" * 199 + "-sajx69"),
    ],
)
def test_the_folder_of_transcripts_has_the_name_that_claude_code_gives_it(folder: str, name: str) -> None:
    assert name_project(folder) == name


def test_sessions_of_forks_have_different_ids() -> None:
    one, other = Transcript(), Transcript()
    for made, words in ((one, "This way."), (other, "That way.")):
        made.user("One.")
        made.answer("m1", text("First."))
        made.user(words)
    claude = known_formats()["claude-code-v1"]
    sessions = {
        json.loads(claude.write(read_transcript(made.data())).splitlines()[0])["sessionId"] for made in (one, other)
    }
    assert len(sessions | {SESSION}) == 3
