"""Let public agents play myses over the Agent Client Protocol, with a fake vendor.

The vendor is behind Zoea's gateway. Each agent works in a worktree of its own: a permission and a file, search, a hold,
the agent and Zoea killed in the middle of a turn, a fork into Zoea's own loop and back, and a hard budget that ends a
turn in its middle. OpenCode and Codex come from the npm registry, fast-agent from PyPI, where there is a Python that is
new enough for it.

`make acp` runs it alone.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance.programs import Refused, run_program
from tests.fakes.openai_server import Call, OpenAIServer, Say, stream, whole
from tests.fakes.responses_events import read_messages, stream_response
from tests.fakes.wire_server import Outgoing, Received
from tests.files.repositories import make_repository
from zoea.llm.messages.wire_bodies import list_tools

DEAR_TOKENS = 120_000
"""What the first answer of the last turn costs."""
_BUDGET_TOKENS = 115_000
"""What the fork that has this turn may use."""
_PATIENCE_S = 300.0
_POLL_S = 0.3
_PLAIN = "plain"
_ORDER = re.compile(r"(?P<word>MAKE|DEAR|CALL) (?P<path>\S+) (?P<text>\S+) @\S+\s*$")
_OWN_TOOL = "zoea_list_myses"
_OPEN_QUESTION = "SELECT a.id FROM approval a JOIN mysis m ON m.id = a.mysis_id WHERE m.name = ? AND a.answer IS NULL"
_LAST = (("failure", "turn"), ("content", "memory"))


@dataclass(frozen=True)
class Kind:
    """What a template says of an agent, and how its model writes a file: the tool and its arguments.

    Attributes:
        is_script: The tool takes a script that runs a command.
    """

    template: str
    writes: Callable[[str, str], tuple[str, dict[str, Any]]]
    is_script: bool = False


def _write_by_command(path: str, text: str) -> str:
    return f"printf {shlex.quote(text)} > {path}"


KINDS: Mapping[str, Kind] = {
    "opencode": Kind(
        'agent = "opencode"\nfs = "write"\n'
        # A catalogue of thousands of models, and code made fast as for hours, would be a third of each start.
        'env = {OPENCODE_MODELS_PATH = "{home}/models.json", BUN_JSC_useFTLJIT = "0"}',
        lambda path, text: ("write", {"filePath": path, "content": text}),
    ),
    "codex": Kind(
        'agent = "codex"',
        lambda path, text: (
            "exec",
            {
                "cmd": _write_by_command(path, text),
                "sandbox_permissions": "require_escalated",
                "justification": "To write the file",
            },
        ),
        is_script=True,
    ),
    "fast-agent": Kind(
        'agent = "fast-agent"\nfs = "write"',  # its own shell runs without asking
        lambda path, text: ("write_text_file", {"path": path, "content": text}),
    ),
}


class Vendor(OpenAIServer):
    """Chat completions and responses that do what the last prompt says.

    `MAKE path text` writes a file, then says so; `DEAR path text` does the same for many tokens; `CALL tool -` calls a
    tool by the name that the agent gives it. Requests without tools are for titles. While `gate` is cleared, agents
    wait for their answers.
    """

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()
        self.last: dict[str, str] = {}
        self.results: dict[str, str] = {}

    async def handle(self, request: Received, out: Outgoing) -> None:
        is_chat, is_response = request.path.endswith("/chat/completions"), request.path.endswith("/responses")
        if not is_chat and not is_response:
            return await super().handle(request, out)
        body = request.json
        step = self._choose(body, body["messages"] if is_chat else read_messages(body))
        if step.calls or step.text.startswith("I "):
            await self.gate.wait()
        if is_response:
            return stream_response(out, step, body, len(self.received))
        return await stream(out, step, body) if body.get("stream") else out.json(200, whole(step, body))

    def _choose(self, body: dict[str, Any], messages: list[dict[str, Any]]) -> Say:
        prompts = [place for place, one in enumerate(messages) if one["role"] == "user"]
        all_words = " ".join(_read_text(messages[place]) for place in prompts).split()
        names = [word[1:] for word in all_words if word.startswith("@") and word[1:] in (*KINDS, _PLAIN)]
        if not names or not (has_tools(body) or names[-1] == _PLAIN):
            return Say("A title")
        name = names[-1]
        self.asked[name] += 1
        self.last[name] = "\n".join(map(_read_text, messages))
        order = _ORDER.search(_read_text(messages[prompts[-1]]))
        results = [one for one in messages[prompts[-1] :] if one["role"] == "tool"]
        if results:
            self.results[name] = _read_text(results[-1])
        if order is None or results:
            return Say(f"I did as {name} was told.")
        kind = KINDS[name]
        if order["word"] == "CALL":
            return Say(calls=(self._call_tool(kind, order["path"], body),))
        tool, arguments = kind.writes(order["path"], order["text"])
        text = json.dumps(arguments)
        if kind.is_script:
            text = f"text(JSON.stringify(await tools.exec_command({text})))"
        call = Call(tool, text, id=f"call_{len(self.received)}", extra={"is_script": True} if kind.is_script else None)
        return Say(calls=(call,), answer_tokens=DEAR_TOKENS if order["word"] == "DEAR" else None)

    def _call_tool(self, kind: Kind, tool: str, body: dict[str, Any]) -> Call:
        offered = re.search(rf"[\w-]*{tool}\b", json.dumps(list_tools(body)))
        name, number = offered.group() if offered else tool, f"call_{len(self.received)}"
        if not kind.is_script:
            return Call(name, "{}", id=number)
        # A script finds tools of MCP servers by name, because not all are described to the model.
        find = f"ALL_TOOLS.map(one => one.name).find(name => name.endsWith({tool!r}))"
        script = f"text(JSON.stringify(await tools[{find}]({{}})))"
        return Call("exec", script, id=number, extra={"is_script": True})


def has_tools(body: Mapping[str, Any]) -> bool:
    """Return whether a request offers tools; Codex puts them into the input."""
    return bool(list_tools(body))


def _read_text(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(str(part.get("text", "")) for part in content)


class Workplace:
    """A home, a swarm without a screen, and a repository for each agent."""

    def __init__(self, folder: Path, programs: Iterable[Path], vendor: Vendor, names: Iterable[str]) -> None:
        self.vendor = vendor
        self.folder = folder
        self._config = folder / "config"
        self._owner: asyncio.subprocess.Process | None = None
        self._environment = {
            "PATH": os.pathsep.join([*map(str, programs), "/usr/local/bin:/usr/bin:/bin"]),
            "HOME": str(folder / "home"),
            "LANG": "C.UTF-8",
            "XDG_RUNTIME_DIR": str(folder / "run"),
            "ZOEA_DATA_DIR": str(folder / "data"),
            "ZOEA_CONFIG_DIR": str(self._config),
            "NO_COLOR": "1",
        }
        for name in ("home", "run", "config/templates"):
            (folder / name).mkdir(parents=True)
        (folder / "run").chmod(0o700)
        (self._config / "config.toml").write_text(
            f'[provider.fake]\ntype = "openai"\nbase_url = "{vendor.base_url}"\nmodel = "reef-1"\n'
            'context_window = 200000\n[budget]\nenforcement = "hard"\n[acp]\nmax_processes = 6\n'
            "[recovery]\ndelays = []\n"  # a mysis whose agent was killed goes on when it is told to
        )
        (folder / "home" / "models.json").write_text("{}")
        _write_plugins(folder / "home" / ".config" / "opencode")
        for name in names:
            own = KINDS[name].template.replace("{home}", str(folder / "home"))
            text = f'runtime = "acp"\nrun = "once"\n[acp]\n{own}\n'
            (self._config / "templates" / f"{name}.toml").write_text(text)
            (self._config / "templates" / f"{name}-last.toml").write_text(f"{text}[budget]\nmysis = {_BUDGET_TOKENS}\n")
            make_repository(folder / name)
        (self._config / "templates" / f"{_PLAIN}.toml").write_text('run = "once"\n')

    async def begin(self) -> None:
        """Start the swarm, and wait until it takes commands."""
        command = (sys.executable, "-m", "zoea", "run", "--headless", "--go-on")
        with (self.folder / "owner.log").open("ab") as log:
            self._owner = await asyncio.create_subprocess_exec(
                *command,
                env=self._environment,
                cwd=self.folder,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

        async def answers() -> bool:
            return (await self._zoea("hold", "--lift"))[0] == 0

        await wait_for("the swarm begins", answers)

    async def end(self, sign: signal.Signals = signal.SIGTERM) -> None:
        """End the swarm."""
        if self._owner is not None and self._owner.returncode is None:
            self._owner.send_signal(sign)
            async with asyncio.timeout(_PATIENCE_S):
                await self._owner.wait()

    async def zoea(self, *arguments: str) -> str:
        """Return what a command wrote. Raises Refused."""
        code, out, err = await self._zoea(*arguments)
        if code:
            raise Refused(f"zoea {' '.join(arguments)}: {out[-500:]}{err[-1500:]}")
        return out

    async def _zoea(self, *arguments: str) -> tuple[int, str, str]:
        command = (sys.executable, "-m", "zoea", *arguments)
        return await run_program(*command, environment=self._environment, folder=self.folder, within_s=_PATIENCE_S)

    def ask(self, query: str, *values: object) -> Any:
        """Return the one value of a query to the database; None where there is none."""
        with closing(sqlite3.connect(f"file:{self.folder / 'data' / 'zoea.db'}?mode=ro", uri=True)) as reader:
            row = reader.execute(query, values).fetchone()
        return None if row is None else row[0]

    def read_last(self, name: str) -> str:
        """Return why the last turn of a mysis failed, and what was said in it."""
        last = "FROM {} x JOIN mysis m ON m.id = x.mysis_id WHERE m.name = ? ORDER BY x.id DESC LIMIT 1"
        failure, said = (self.ask(f"SELECT {of} {last.format(table)}", name) for of, table in _LAST)
        return f"{failure} {said!r}"

    def find_tree(self, name: str) -> Path:
        """Return the worktree of a mysis."""
        [found] = (one.parent for one in (self.folder / "data").rglob(f"{name}/.git"))
        return found.resolve()

    def find_processes(self, name: str) -> list[int]:
        """Return the processes that work in the worktree of a mysis."""
        tree, found = self.find_tree(name), []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (process / "cwd").resolve(strict=True) == tree and (process / "stat").read_text().split()[2] != "Z":
                    found.append(int(process.name))
        return found


def _write_plugins(folder: Path) -> None:
    """Tell OpenCode that its package for plugins is installed. Otherwise it fetches it at work, for 5 s of a core."""
    (folder / "node_modules").mkdir(parents=True)
    needs = {"dependencies": {"@opencode-ai/plugin": "*"}}
    (folder / "package.json").write_text(json.dumps(needs))
    (folder / "package-lock.json").write_text(json.dumps({"packages": {"": needs}}))


async def wait_for(what: str, condition: Callable[[], Awaitable[Any]]) -> Any:
    """Wait until a condition holds, and return its value. Raises Refused after five minutes."""
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        if found := await condition():
            return found
        await asyncio.sleep(_POLL_S)
    raise Refused(f"waited in vain until {what}")


class Trial:
    """One mysis that an agent plays. Each method is a step of what it must be able to do."""

    def __init__(self, place: Workplace, name: str, agent: str = "") -> None:
        self._place = place
        self._name = name
        self._agent = agent or name
        self._turns = 0

    async def write_file(self) -> None:
        """Let the agent write a file in its worktree after a permission. Search finds the transcript."""
        place, name = self._place, self._name
        await place.zoea("new", name, "--template", name, "--on", str(place.folder / name), "--worktree")
        await self._send("MAKE made.txt iron")
        await self._approve()
        await self._check_end("answered")
        self._expect("iron", (place.find_tree(name) / "made.txt").read_text().strip(), "the file")
        added = {one.name for one in place.find_tree(name).iterdir()} - {
            one.name for one in (place.folder / name).iterdir()
        }
        self._expect({"made.txt"}, added, "what is new in the worktree")
        self._expect(False, (place.folder / name / "made.txt").exists(), "the file in the checkout of the person")
        found = await place.zoea("search", f"I did as {name} was told", "--json")
        self._expect(True, name in found, "the answer is found")

    async def call_tool(self) -> None:
        """Call a tool of Zoea's own, which the agent was given as an MCP server."""
        await self._send(f"CALL {_OWN_TOOL} -")
        await self._await_question_or_end()
        if self._find_end() is None:
            await self._place.zoea("approve", self._name)
        await self._check_end("answered")
        calls = (
            "SELECT group_concat(k.name || ' ' || k.state) FROM tool_call k JOIN memory m ON m.id = k.memory_id"
            " JOIN mysis y ON y.id = m.mysis_id JOIN turn t ON t.id = m.turn_id WHERE y.name = ? AND t.number = ?"
        )
        self._expect(f"{_OWN_TOOL} done", self._place.ask(calls, self._name, self._turns), "its calls, each once")
        told = re.search(rf"\byou\W+{self._name}\b", self._place.vendor.results[self._name])
        self._expect(True, told is not None, f"the result of {_OWN_TOOL}")

    async def wait_held(self) -> None:
        """Send a prompt to a swarm on hold, which asks no model."""
        self._asked = self._place.vendor.asked[self._name]
        await self._send("Look around.")

    async def go_on(self) -> None:
        """Answer the prompt of the hold, now that it is lifted."""
        await self._check_end("answered")

    def expect_none_asked(self) -> None:
        self._expect(self._asked, self._place.vendor.asked[self._name], "requests during the hold")

    async def begin_turn(self) -> None:
        """Begin a turn whose answer waits for the vendor's gate."""
        asked = self._place.vendor.asked[self._name]
        await self._send("Look again.")

        async def is_asked() -> bool:
            return self._place.vendor.asked[self._name] > asked

        await wait_for(f"{self._name} asks its model", is_asked)

    async def kill_agent(self) -> None:
        """Kill the agent while a call of it waits for a permission. The mysis says so."""
        await self._send("MAKE more.txt gold")
        await self._await_question()
        processes = self._place.find_processes(self._name)
        self._expect(True, bool(processes), "it has processes")
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

        async def is_errored() -> bool:
            state = "SELECT state FROM mysis WHERE name = ?"
            return bool(self._place.ask(state, self._name) == "errored")

        await wait_for(f"{self._name} is errored", is_errored)

    async def start_again(self) -> None:
        await self._place.zoea("start", self._name)
        await self._check_end("answered")

    async def lose_owner(self) -> None:
        """Wait until the agent has ended after its owner was killed."""

        async def is_gone() -> bool:
            return not self._place.find_processes(self._name)

        await wait_for(f"the processes of {self._name} have ended", is_gone)

    async def fork_and_spend(self) -> None:
        """Fork the conversation into Zoea's own loop. Fork that one into an agent again, with a smaller budget."""
        place, name = self._place, self._name
        own = await self._fork(name, f"{name}-own", _PLAIN)
        await place.zoea("stop", own._name)
        await (await self._fork(own._name, f"{name}-back", name, "-last"))._spend()

    async def _fork(self, origin: str, made: str, agent: str, template: str = "") -> Trial:
        """Return a fork that has answered a question, for which it was shown the conversation."""
        ask = ("--template", f"{agent}{template}", "-m", f"What was made? @{agent}")
        await self._place.zoea("fork", origin, "--name", made, *ask)
        turn = Trial(self._place, made, agent)
        turn._turns = 1
        await turn._check_end("answered")
        self._expect(True, "MAKE made.txt iron" in self._place.vendor.last[agent], f"{made} knows the conversation")
        return turn

    async def _spend(self) -> None:
        """Spend a hard budget in the middle of a turn, which ends then."""
        place, name = self._place, self._name
        await self._send("DEAR dear.txt gold")
        await self._approve()
        await self._check_end("budget")
        state = "SELECT state || ' ' || state_reason FROM mysis WHERE name = ?"
        self._expect("stopped budget", place.ask(state, name), "its state")
        refused = (
            "SELECT count(*) FROM request r JOIN mysis m ON m.id = r.mysis_id WHERE m.name = ? AND r.state = 'refused'"
        )
        self._expect(True, place.ask(refused, name) > 0, "a request was refused")

    async def _send(self, text: str) -> None:
        self._turns += 1
        await self._place.zoea("send", self._name, f"{text} @{self._agent}")

    async def _await_question_or_end(self) -> None:
        async def asks() -> Any:
            self._expect_no_error()
            return self._place.ask(_OPEN_QUESTION, self._name) or self._find_end()

        await wait_for(f"{self._name} asks for a permission", asks)

    async def _await_question(self) -> None:
        await self._await_question_or_end()
        if self._place.ask(_OPEN_QUESTION, self._name) is None:
            ended = f"{self._find_end()}: {self._place.read_last(self._name)}"
            raise Refused(f"{self._name} ended its turn {self._turns} without asking: {ended}")

    async def _approve(self) -> None:
        await self._await_question()
        await self._place.zoea("approve", self._name)

    def _find_end(self) -> str | None:
        end = "SELECT t.outcome FROM turn t JOIN mysis m ON m.id = t.mysis_id"
        found: str | None = self._place.ask(f"{end} WHERE m.name = ? AND t.number = ?", self._name, self._turns)
        return found

    async def _check_end(self, outcome: str) -> None:
        async def has_ended() -> str | None:
            self._expect_no_error()
            return self._find_end()

        found = await wait_for(f"the turn of {self._name} ends", has_ended)
        self._expect(outcome, found, f"how turn {self._turns} ended: {self._place.read_last(self._name)}")

    def _expect_no_error(self) -> None:
        """Raise Refused where the mysis waits for a person, because nothing comes then."""
        error = "SELECT error FROM mysis WHERE name = ? AND state = 'errored'"
        self._expect(None, self._place.ask(error, self._name), "its error")

    def _expect(self, wanted: object, found: object, what: str) -> None:
        if wanted != found:
            raise Refused(f"{self._name}: {what}: {found!r}, not {wanted!r}")


async def run_trials(names: Iterable[str], programs: Iterable[Path], folder: Path) -> list[str]:
    """Carry out every step for each agent, all agents at once; return what was done. Raises Refused."""
    lines: list[str] = []
    async with Vendor() as vendor:
        place = Workplace(folder, programs, vendor, names)
        trials = [Trial(place, name) for name in names]

        async def each(what: str, step: Callable[[Trial], Awaitable[None]]) -> None:
            began = time.monotonic()
            await asyncio.gather(*(step(trial) for trial in trials))
            lines.append(f"{what}: {time.monotonic() - began:.0f} s")

        await place.begin()
        try:
            await each("a permission, a file, search", Trial.write_file)
            await each("a tool of Zoea's own", Trial.call_tool)
            await place.zoea("hold")
            await each("a prompt during a hold", Trial.wait_held)
            for trial in trials:
                trial.expect_none_asked()
            await place.zoea("hold", "--lift")
            await each("the lift", Trial.go_on)
            await each("the agent killed in a turn", Trial.kill_agent)
            await each("going on", Trial.start_again)
            vendor.gate.clear()
            await each("another turn", Trial.begin_turn)
            await place.end(signal.SIGKILL)
            await each("Zoea killed in it", Trial.lose_owner)
            vendor.gate.set()
            await place.begin()
            await each("going on", Trial.go_on)
            await each("forks into Zoea's loop and back, and a budget spent in a turn", Trial.fork_and_spend)
        finally:
            vendor.gate.set()
            await place.end()
    return lines
