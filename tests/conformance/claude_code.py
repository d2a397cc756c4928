"""The round trip of a conversation through the real Claude Code: from there into Zoea, forked, and back.

Claude Code runs with a home of its own and a fake model on the loopback; anything else that it would ask is refused.
`python -m tests.conformance.claude_code --record tests/chain/recorded claude` keeps the transcripts that it wrote,
without texts of Claude Code and paths of the machine.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.conformance.programs import Refused, run_program
from tests.fakes.anthropic_server import Say, Text, Use, events, whole
from tests.fakes.wire_server import Outgoing, Received, WireServer
from zoea.chain.formats.claude_code import name_project

MODEL = "claude-sonnet-4-5-20250929"
_PATIENCE_S = 90.0
_OPTIONS = ("--allowedTools", "Bash,Read,Agent", "--model", MODEL)


class ClaudeCodeModel(WireServer):
    """Answers Claude Code from a script, each answer with an id of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.script: deque[Say] = deque()
        self.asked: list[dict[str, Any]] = []

    async def handle(self, request: Received, out: Outgoing) -> None:
        if not request.path.startswith("/v1/messages") or "count_tokens" in request.path:
            return out.json(404, {"type": "error", "error": {"type": "not_found_error", "message": "Not Found"}})
        body = request.json
        self.asked.append(body)
        step = self.script.popleft() if self.script else Say((Text("Well."),))
        named = {"id": f"msg_{len(self.asked)}"}  # one id for two answers would make Claude Code join them
        if not body.get("stream"):
            return out.json(200, whole(step, body) | named)
        out.begin("text/event-stream; charset=utf-8")
        for event in events(step, body):
            if event["type"] == "message_start":
                event["message"] |= named
            out.piece(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        return out.end()


class RoundTrip:
    """A home, a project and the two programs."""

    def __init__(self, claude: list[str], folder: Path, model: ClaudeCodeModel) -> None:
        self.model = model
        self.project = folder / "project"
        self.home = folder / "home"
        self._claude = claude
        for one in (self.project, self.home):
            one.mkdir()
        (self.project / "a.py").write_text("def a():\n    return 42\n")
        self._environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "ZOEA_DATA_DIR": str(folder / "data"),
            "ZOEA_CONFIG_DIR": str(folder / "config"),
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": "sk-ant-none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "HTTPS_PROXY": "http://127.0.0.1:9",
            "NO_PROXY": "127.0.0.1",
        }

    async def claude(self, prompt: str, *arguments: str, script: tuple[Say, ...] = ()) -> str:
        """Ask Claude Code in the project, and return the id of its session."""
        self.model.script.extend(script)
        said = json.loads(
            await self._run(*self._claude, "-p", prompt, *arguments, *_OPTIONS, "--output-format", "json")
        )
        if said.get("is_error"):
            raise Refused(f"Claude Code failed: {said}")
        return str(said["session_id"])

    async def talk(self, *prompts: str, resumes: str = "", script: tuple[Say, ...] = ()) -> str:
        """Send prompts to one process, which may resume a session, and return the session.

        Each goes out once the one before is answered.
        """
        self.model.script.extend(script)
        process = await asyncio.create_subprocess_exec(
            *(*self._claude, "-p", "--verbose", *(("--resume", resumes) if resumes else ()), *_OPTIONS),
            *("--input-format", "stream-json", "--output-format", "stream-json"),
            env=self._environment,
            cwd=self.project,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=1 << 20,  # bytes of a line
        )
        assert process.stdin is not None
        assert process.stdout is not None
        said: dict[str, Any] = {}
        try:
            async with asyncio.timeout(_PATIENCE_S):
                for prompt in prompts:
                    message = {"type": "user", "message": {"role": "user", "content": prompt}}
                    process.stdin.write(f"{json.dumps(message)}\n".encode())
                    said = {}
                    while said.get("type") != "result":
                        said = json.loads(await process.stdout.readline())  # no JSON: it has ended
                    if said.get("is_error"):
                        raise Refused(f"Claude Code failed: {said}")
                process.stdin.close()
                await process.wait()
        except (TimeoutError, ValueError) as error:
            raise Refused(f"Claude Code did not answer {prompts}: {error!r}") from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return str(said["session_id"])

    async def zoea(self, *arguments: str) -> str:
        return await self._run(sys.executable, "-m", "zoea", "ctx", *arguments)

    async def read(self, revision: str) -> list[dict[str, Any]]:
        """Return the messages of a conversation."""
        messages: list[dict[str, Any]] = json.loads(await self.zoea("cat", revision, "--json"))["messages"]
        return messages

    async def _run(self, *command: str) -> str:
        code, out, err = await run_program(
            *command, environment=self._environment, folder=self.project, within_s=_PATIENCE_S
        )
        if code:
            raise Refused(f"{' '.join(command)[:200]}: {out[-1000:]}{err[-1000:]}")
        return out

    def find_transcript(self, session: str) -> Path:
        return next(self.home.glob(f".claude/projects/*/{session}.jsonl"))


async def run_round_trip(claude: list[str], folder: Path, record: Path | None = None) -> list[str]:
    """Do all of it; return what was done, a line each. Raises Refused."""
    async with ClaudeCodeModel() as model:
        trip = RoundTrip(claude, folder, model)
        session, first = await _import_session(trip)
        fork = await _go_on_with_fork(trip, session, first)
        await _translate(trip, first)
        await _compact(trip, fork)
        if record is not None:
            for name, one in (("agent", session), ("compaction", fork)):
                _record(trip.find_transcript(one), record, name, str(folder))
    return [
        "imported two prompts and an agent",
        "forked at the first prompt, resumed by Claude Code, and imported again",
        "translated another conversation, resumed by Claude Code, and imported it",
        "imported a compaction",
    ]


async def _import_session(trip: RoundTrip) -> tuple[str, list[dict[str, Any]]]:
    """Let Claude Code work. Return its session and the messages of the first prompt as Zoea reads them."""
    read = Use("Read", json.dumps({"file_path": str(trip.project / "a.py")}), "toolu_read")
    echo = Use("Bash", json.dumps({"command": "echo hello", "description": "say"}), "toolu_echo")
    answers = (Say((Text("I look."), read, echo)), Say((Text("It returns 42."),)))
    task = json.dumps({"description": "count", "prompt": "Count the lines.", "subagent_type": "general-purpose"})
    work = (Say((Use("Agent", task, "toolu_agent"),)), Say((Text("Two lines."),)), Say((Text("It has two lines."),)))
    session = await trip.talk("What does a.py return?", "How many lines?", script=(*answers, *work))
    await trip.zoea("import", str(trip.find_transcript(session)), "--name", "real")
    log = json.loads(await trip.zoea("log", "import/real", "--json"))
    _expect("messages of its commits", [one["messages"] for one in log], [4, 5])
    first = await trip.read("import/real~1")
    _expect("the first prompt", _shape(first), ["What does a.py return?", "I look.", "*", "hello", "It returns 42."])
    _expect("the agent", _shape(await trip.read("import/real/side-1")), ["Count the lines.", "Two lines."])
    return session, first


async def _go_on_with_fork(trip: RoundTrip, session: str, first: list[dict[str, Any]]) -> str:
    """Resume what was known after the first prompt in Claude Code; return its session."""
    fork: str = json.loads(await trip.zoea("export", "--claude", "import/real~1", "--json"))["session"]
    _expect("the session of a fork is another", fork != session, True)
    await trip.claude("And b.py?", "--resume", fork, script=(Say((Text("There is none."),)),))
    shown = ["What does a.py return?", "I look.", "*", "It returns 42.", "And b.py?"]
    _expect("what the model was shown", _sent(trip.model.asked[-1]), shown)
    await trip.zoea("import", str(trip.find_transcript(fork)), "--name", "fork")
    _expect("the fork", _shape(await trip.read("import/fork")), [*_shape(first), "And b.py?", "There is none."])
    return fork


async def _translate(trip: RoundTrip, first: list[dict[str, Any]]) -> None:
    """Resume a conversation of another program, with reasoning and a call that has no result."""
    calls = [{"id": f"c{n}", "function": call} for n, call in enumerate(first[1]["calls"])]
    talk = [
        {"role": "user", "content": first[0]["content"]},
        {"role": "assistant", "content": "I look.", "tool_calls": calls, "reasoning_content": "Two tools."},
        {"role": "tool", "tool_call_id": "c0", "content": "42"},
        {"role": "assistant", "content": "It returns 42."},
    ]
    (trip.project / "talk.json").write_text(json.dumps(talk))
    await trip.zoea("import", "talk.json", "--name", "other")
    other = json.loads(await trip.zoea("export", "--claude", "import/other", "--json"))["session"]
    await trip.claude("Go on.", "--resume", other, script=(Say((Text("Gone on."),)),))
    shown = ["What does a.py return?", "I look.", "42 not executed: resumed here", "It returns 42.", "Go on."]
    _expect("a translated conversation", _sent(trip.model.asked[-1]), shown)
    await trip.zoea("import", str(trip.find_transcript(other)), "--name", "again")
    again = _shape(await trip.read("import/again"))[-3:]
    _expect("a translated conversation, imported", again, ["It returns 42.", "Go on.", "Gone on."])


async def _compact(trip: RoundTrip, session: str) -> None:
    """Let Claude Code replace a conversation by a summary. It does so only with some messages."""
    questions = [f"Question {number}." for number in range(4)]
    answers = (*[Say((Text("Well."),))] * len(questions), Say((Text("<summary>All is well.</summary>"),)))
    await trip.talk(*questions, "/compact", "After.", resumes=session, script=answers)
    await trip.zoea("import", str(trip.find_transcript(session)), "--name", "short")
    kinds = [one["type"] for one in json.loads(await trip.zoea("log", "import/short", "--json"))]
    _expect("a compaction", kinds.count("compaction"), 1)


def _expect(what: str, seen: object, expected: object) -> None:
    if isinstance(seen, list) and isinstance(expected, list) and len(seen) == len(expected):
        seen = ["*" if wanted == "*" else one for one, wanted in zip(seen, expected, strict=True)]
    if seen != expected:
        raise Refused(f"{what}: {seen} instead of {expected}")


def _shape(messages: list[dict[str, Any]]) -> list[str]:
    return [one["content"] for one in messages]


def _sent(body: Mapping[str, Any]) -> list[str]:
    """Return the texts of a request, a line a message. What Claude Code adds by itself is left out."""
    shown = []
    for message in body["messages"]:
        content = message["content"]
        blocks = [{"text": content}] if isinstance(content, str) else content
        texts = [str(block.get("text") or block.get("content") or "") for block in blocks]
        texts = [one for one in texts if one and not one.startswith("<system-reminder>")]
        if texts and message["role"] != "system":
            shown.append(" ".join(texts))
    return shown


def _record(file: Path, folder: Path, name: str, scratch: str) -> None:
    """Keep a transcript and those of its agents. They look as if made in /srv."""
    folder.mkdir(exist_ok=True)
    for one in (file, *sorted(file.with_suffix("").glob("subagents/*.jsonl"))):
        target = folder / (f"{name}.jsonl" if one == file else f"{name}/subagents/{one.name}")
        target.parent.mkdir(parents=True, exist_ok=True)
        lines = []
        for raw in one.read_text().splitlines():
            line = json.loads(raw.replace(scratch, "/srv").replace(name_project(scratch), "-srv"))
            if line["type"] == "attachment":
                line["attachment"] = {"type": line["attachment"]["type"]}
            lines.append(json.dumps(line, ensure_ascii=False))
        target.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    record_in = Path(sys.argv.pop(2)) if sys.argv[1:2] == ["--record"] else None
    with tempfile.TemporaryDirectory(prefix="zoea-") as scratch:
        steps_done = asyncio.run(run_round_trip(sys.argv[1 + (record_in is not None) :], Path(scratch), record_in))
    sys.stdout.write("\n".join(steps_done) + "\n")
