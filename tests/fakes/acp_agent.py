"""Plays an agent of the Agent Client Protocol by the steps in its prompts. It misbehaves on demand.

It needs no library, and few modules of Python, so that it starts fast and can break any rule. A prompt whose last
text is a JSON list is a list of steps, each a method `do_…` with its arguments; any other prompt is echoed. Its only
argument is a JSON object, whose `log` is a file that gets one line for each message that it receives.
"""

from __future__ import annotations

import json
import os
import sys
import time

TYPE_CHECKING = False  # `typing` takes as long to load as the rest of a start
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from typing import Any

OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


class Agent:
    """One agent, in one thread: while it waits for an answer it takes what else comes."""

    def __init__(self, behaviour: dict[str, Any]) -> None:
        self.behaviour = behaviour
        self.session = "s1"
        self.answers: dict[int, Any] = {}
        self.sent = 0
        self.is_cancelled = False
        self.mode = "auto"
        self.prompt_id: Any = None
        self.asked: list[int] = []
        self.servers: list[dict[str, Any]] = []
        self.listed: list[str] = []
        self.bridge: subprocess.Popen[str] | None = None
        self.given_up = ""

    # The wire.

    def write(self, message: Any) -> None:
        text = message if isinstance(message, str) else json.dumps({"jsonrpc": "2.0", **message})
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def update(self, **update: Any) -> None:
        self.write({"method": "session/update", "params": {"sessionId": self.session, "update": update}})

    def say(self, text: str) -> None:
        self.update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})

    def request(self, method: str, params: Any) -> int:
        self.sent += 1
        self.write({"id": self.sent, "method": method, "params": params})
        return self.sent

    def answer(self, number: int) -> Any:
        """Wait for the answer to a request, and return its result or error."""
        self.read(lambda: number in self.answers)
        return self.answers.pop(number)

    def read(self, until: Callable[[], bool]) -> None:
        """Take messages until something is true."""
        while not until():
            line = sys.stdin.readline()
            if not line:
                if self.behaviour.get("stays"):
                    time.sleep(600)
                sys.exit(0)
            self.take(json.loads(line))

    def take(self, message: dict[str, Any]) -> None:
        if path := self.behaviour.get("log"):
            with open(path, "a") as log:
                log.write(json.dumps(message) + "\n")
        method = message.get("method")
        if method is None:
            self.answers[message["id"]] = message.get("result", message.get("error"))
        elif method == "session/cancel":
            self.is_cancelled = not self.behaviour.get("deaf")
        else:
            result = getattr(self, "on_" + method.replace("/", "_"))(message["params"], message["id"])
            if result is not None:
                self.write({"id": message["id"], "result": result})

    # Requests of the client.

    def on_initialize(self, params: dict[str, Any], number: Any) -> dict[str, Any] | None:
        if params["protocolVersion"] > self.behaviour.get("newest", 9):
            self.write({"id": number, "error": {"code": -32602, "message": "unknown version"}})
            return None
        can: dict[str, Any] = {name: {} for name in ("resume", "close", "fork") if self.behaviour.get(name)}
        return {
            "protocolVersion": self.behaviour.get("version", params["protocolVersion"]),
            "agentCapabilities": {
                "loadSession": bool(self.behaviour.get("load")),
                "sessionCapabilities": can,
                "mcpCapabilities": {"http": bool(self.behaviour.get("http"))},
            },
            "agentInfo": {"name": "fake", "version": "1"},
            "authMethods": self.behaviour.get("auth_methods", []),
        }

    def on_session_new(self, params: dict[str, Any], number: Any) -> dict[str, Any] | None:
        self.servers = params["mcpServers"]
        while (file := self.behaviour.get("begins_with")) and not os.access(file, os.F_OK):
            time.sleep(0.01)
        if self.behaviour.get("never_begins"):
            return None
        if self.behaviour.get("stops_reading"):
            self.write({"id": number, "result": {"sessionId": self.session}})
            time.sleep(600)
        if (mark := self.behaviour.get("fails_once")) and not os.access(mark, os.F_OK):
            open(mark, "w").close()
            self.write({"id": number, "error": {"code": -32603, "message": "not now"}})
            return None
        if self.behaviour.get("wants_login"):
            self.write({"id": number, "error": {"code": -32000, "message": "Authentication required"}})
            return None
        self.session = f"s{os.getpid()}"
        if early := self.behaviour.get("early"):
            self.say(early)
        return {"sessionId": self.session, **self.modes()}

    def modes(self) -> dict[str, Any]:
        if not (modes := self.behaviour.get("modes")):
            return {}
        self.mode = modes[0]
        return {"modes": {"currentModeId": self.mode, "availableModes": [{"id": m, "name": m} for m in modes]}}

    def on_session_fork(self, params: dict[str, Any], number: Any) -> dict[str, Any] | None:
        self.servers = params["mcpServers"]
        if self.behaviour.get("forgets"):
            self.write({"id": number, "error": {"code": -32002, "message": "no such session"}})
            return None
        self.session = f"fork of {params['sessionId']}"
        self.say("old answer")
        return {"sessionId": self.session, **self.modes()}

    def on_session_resume(self, params: dict[str, Any], _: Any) -> dict[str, Any]:
        self.servers = params["mcpServers"]
        self.session = params["sessionId"]
        return self.modes()

    def on_session_load(self, params: dict[str, Any], number: Any) -> dict[str, Any] | None:
        """Replay the conversation; `load` may be another way than that of the protocol."""
        self.session = params["sessionId"]
        match self.behaviour["load"]:
            case "late" | "twice" as way:
                if way == "twice":
                    self.say("old answer")
                self.write({"id": number, "result": self.modes()})
                for piece in ("old", " ", "answer"):
                    self.say(piece)
                return None
            case "refused":
                self.write({"id": number, "error": {"code": -32603, "message": "not now"}})
                self.given_up = self.session
                return None
            case "elsewhere":
                self.session += " again"
                return {**self.modes(), "sessionId": self.session}
        self.update(sessionUpdate="user_message_chunk", content={"type": "text", "text": "old prompt"})
        self.say("old answer")
        return self.modes()

    def on_session_close(self, *_: Any) -> dict[str, Any] | None:
        return None if self.behaviour.get("keeps_session") else {}

    def on_session_set_mode(self, params: dict[str, Any], _: Any) -> dict[str, Any]:
        if self.behaviour.get("keeps_mode"):
            self.update(sessionUpdate="current_mode_update", currentModeId=self.mode)
        else:
            self.mode = params["modeId"]
        return {}

    def on_session_prompt(self, params: dict[str, Any], number: Any) -> None:
        self.is_cancelled, self.prompt_id = False, number
        if self.given_up:
            known, self.session, self.given_up = self.session, self.given_up, ""
            self.say("old answer")
            self.session = known
        text = params["prompt"][-1]["text"]
        try:
            steps = json.loads(text)
        except ValueError:
            steps = [["say", f"echo: {text}"]]
        for step in steps:
            if getattr(self, "do_" + step[0])(*step[1:]):
                return
        self.do_end("cancelled" if self.is_cancelled else "end_turn")

    # Steps. One that returns True was the last.

    def do_say(self, text: str) -> None:
        self.say(text)

    def do_think(self, text: str) -> None:
        self.update(sessionUpdate="agent_thought_chunk", content={"type": "text", "text": text})

    def do_update(self, update: dict[str, Any]) -> None:
        self.update(**update)

    def do_call(self, call_id: str, kind: str, arguments: Any, status: str = "pending", **more: Any) -> None:
        self.update(
            sessionUpdate="tool_call", toolCallId=call_id, title=f"do {call_id}", kind=kind, status=status,
            rawInput=arguments, **more,
        )  # fmt: skip

    def do_told(self, call_id: str, status: str, text: str = "") -> None:
        content = [{"type": "content", "content": {"type": "text", "text": text}}] if text else []
        self.update(sessionUpdate="tool_call_update", toolCallId=call_id, status=status, content=content)

    def do_ask(self, call: dict[str, Any], options: list[dict[str, str]] = OPTIONS) -> None:
        """Ask for a permission, and say how it was answered."""
        self.do_ask_open(call, options)
        self.do_await_answers()

    def do_ask_open(self, call: dict[str, Any], options: list[dict[str, str]] = OPTIONS) -> None:
        params = {"sessionId": self.session, "toolCall": call, "options": options}
        self.asked.append(self.request("session/request_permission", params))

    def do_await_answers(self) -> None:
        for number in self.asked:
            outcome = self.answer(number)["outcome"]
            self.say(f"[{outcome.get('optionId', outcome['outcome'])}]")
        self.asked.clear()

    def do_await_file(self, path: str) -> None:
        while not os.access(path, os.F_OK):
            time.sleep(0.01)

    def do_touch(self, path: str) -> None:
        try:
            with open(path, "w") as file:
                file.write("x")
            self.say("written; ")
        except OSError:
            self.say("refused; ")

    def do_look(self, path: str) -> None:
        self.say("seen; " if os.access(path, os.F_OK) else "refused; ")

    def do_list_tools(self) -> None:
        """List the tools of the MCP server of the session, and say their names."""
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "fake", "version": "1"}}
        assert self.ask_server("initialize", about)["result"]["serverInfo"]["name"] == "zoea"
        self.listed = [tool["name"] for tool in self.ask_server("tools/list", {})["result"]["tools"]]

    def do_tell_tools(self) -> None:
        self.do_list_tools()
        self.say(" ".join(self.listed))

    def do_tool(self, name: str, arguments: Any, told_as: str = "", kind: str = "other") -> None:
        """Call a tool of the client's own MCP server, and say the result. Tell of the call as agents do."""
        if not self.listed:
            self.do_list_tools()
        call_id = f"mcp-{name}"
        if told_as:
            in_codex = {"server": "zoea", "tool": name, "arguments": arguments}
            self.update(sessionUpdate="tool_call", toolCallId=call_id, title=told_as, kind=kind, status="pending",
                        rawInput=in_codex if kind == "execute" else {})  # fmt: skip
            if kind != "execute":
                self.update(
                    sessionUpdate="tool_call_update", toolCallId=call_id, status="in_progress", rawInput=arguments
                )
        answer = self.ask_server("tools/call", {"name": name, "arguments": arguments})
        if "error" in answer:
            self.say(f"[error {answer['error']['message']}]")
            return
        text, is_error = answer["result"]["content"][0]["text"], answer["result"]["isError"]
        if told_as:
            self.do_told(call_id, "failed" if is_error else "completed", text)
        self.say(f"[{'refused' if is_error else 'result'} {text}]")

    def ask_server(self, method: str, params: Any) -> dict[str, Any]:
        [server] = self.servers
        self.sent += 1
        line = json.dumps({"jsonrpc": "2.0", "id": self.sent, "method": method, "params": params})
        if "url" in server:
            heads = {one["name"]: one["value"] for one in server["headers"]}
            return post(server["url"], line, heads)
        if self.bridge is None:
            import subprocess

            env = {**os.environ, **{one["name"]: one["value"] for one in server["env"]}}
            self.bridge = subprocess.Popen(
                [server["command"], *server["args"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True
            )
        assert self.bridge.stdin is not None
        assert self.bridge.stdout is not None
        self.bridge.stdin.write(line + "\n")
        self.bridge.stdin.flush()
        found: dict[str, Any] = json.loads(self.bridge.stdout.readline())
        return found

    def do_give_up(self, name: str, arguments: Any) -> None:
        """Call a tool, and stop waiting for its result, as agents do after a minute."""
        if not self.listed:
            self.do_list_tools()
        [server] = self.servers
        if "url" in server:
            self.sent += 1
            line = json.dumps({"jsonrpc": "2.0", "id": self.sent, "method": "tools/call",
                               "params": {"name": name, "arguments": arguments}})  # fmt: skip
            from contextlib import suppress

            with suppress(TimeoutError):
                post(server["url"], line, {one["name"]: one["value"] for one in server["headers"]}, timeout=0.5)
        else:
            call = {
                "jsonrpc": "2.0",
                "id": 77,
                "method": "tools/call",
                "params": {"name": name, "arguments": arguments},
            }
            note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}}
            assert self.bridge is not None
            assert self.bridge.stdin is not None
            for message, pause in ((call, 0.5), (note, 0.0)):
                self.bridge.stdin.write(json.dumps(message) + "\n")
                self.bridge.stdin.flush()
                time.sleep(pause)
            assert self.bridge.stdout is not None
            self.bridge.stdout.readline()  # the error of the call: Zoea knows now that nobody waits for it
        self.say("[gave up]")

    def do_read(self, path: str) -> None:
        answer = self.answer(self.request("fs/read_text_file", {"sessionId": self.session, "path": path}))
        self.say(f"read: {answer}")

    def do_write(self, path: str, content: str) -> None:
        params = {"sessionId": self.session, "path": path, "content": content}
        self.say(f"wrote: {self.answer(self.request('fs/write_text_file', params))}")

    def do_request(self, method: str, params: Any) -> None:
        self.say(f"answered: {self.answer(self.request(method, params))}")

    def do_raw(self, text: str) -> None:
        self.write(text)

    def do_close_output(self) -> None:
        """Close the output, and stay."""
        os.close(1)
        time.sleep(600)

    def do_ask_after(self, call: dict[str, Any]) -> bool:
        """End the turn, then ask for a permission. Say at the next prompt how that was answered."""
        self.do_end("end_turn")
        self.do_ask_open(call)
        return True

    def do_long_line(self, size: int) -> None:
        self.say("x" * size)

    def do_env(self, name: str) -> None:
        self.say(f"{name}={os.environ.get(name)}")

    def do_stderr(self, text: str) -> None:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def do_exit(self, code: int) -> None:
        sys.exit(code)

    def do_hang(self) -> bool:
        """Wait for the cancellation; open permissions have to be answered first."""
        self.read(lambda: self.is_cancelled and all(number in self.answers for number in self.asked))
        return False

    def do_never_end(self) -> bool:
        self.read(lambda: self.is_cancelled)
        return True

    def do_child(self, path: str, is_detached: bool = False) -> None:
        """Start a process that outlives the agent, and write its id to a file. On demand it gets its own session."""
        import subprocess

        child = subprocess.Popen(["sleep", "600"], start_new_session=is_detached)
        with open(path, "w") as file:
            file.write(str(child.pid))

    def do_flood(self, count: int) -> None:
        for number in range(count):
            self.say(f"{number} ")

    def do_stream(self, per_second: int, seconds: float) -> None:
        """Tell so many pieces of text a second."""
        began = time.monotonic()
        for number in range(int(per_second * seconds)):
            time.sleep(max(0.0, began + number / per_second - time.monotonic()))
            self.say(f"{number} ")

    def do_end(self, reason: str, **more: Any) -> bool:
        self.write({"id": self.prompt_id, "result": {"stopReason": reason, **more}})
        return True

    def do_answer(self, result: Any) -> bool:
        """End the turn with any result."""
        self.write({"id": self.prompt_id, "result": result})
        return True

    def do_end_with(self, usage: dict[str, Any]) -> bool:
        return self.do_end("end_turn", usage=usage)

    def do_end_before(self, text: str, after: float = 0.0) -> bool:
        """End the turn, and only some seconds later tell the last of its text."""
        self.do_end("end_turn")
        time.sleep(after)
        self.say(text)
        return True

    def do_error(self, code: int, message: str) -> bool:
        self.write({"id": self.prompt_id, "error": {"code": code, "message": message}})
        return True


def post(url: str, body: str, heads: dict[str, str], *, timeout: float = 30) -> dict[str, Any]:
    """Send a message to an MCP server over HTTP. An answer that is no JSON-RPC is an error."""
    import http.client
    from urllib.parse import urlsplit

    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=timeout)
    accept = "application/json, text/event-stream"
    connection.request("POST", address.path, body, {"Content-Type": "application/json", "Accept": accept, **heads})
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    found: dict[str, Any] = json.loads(text)
    return found if response.status == 200 else {"error": {"message": f"{response.status} {text}"}}


def main() -> None:
    """Play the agent that the first argument describes."""
    agent = Agent(json.loads(sys.argv[1]) if len(sys.argv) > 1 else {})
    for noise in agent.behaviour.get("noise", ()):
        agent.write(noise)
    agent.read(lambda: False)


if __name__ == "__main__":
    main()
