"""An MCP server over stdio that misbehaves on demand. Speaks the 2025-11-25 protocol by hand.

Run as a script. What it saw is appended to the file `FAULTY_JOURNAL`, a JSON line each,
so that a test can read it after the process is gone. `FAULTY_MODE`, comma-separated:
`deaf` ignores SIGTERM and the end of stdin, `mute` never answers anything,
`deny` exits at once, `noisy` writes to stderr without end, `pages` lists its tools in pages of 5,
`slow` takes its time to register, `parent` leaves a deaf process behind in its group,
`crowd` offers 400 more tools with descriptions of 800 characters, `logins` offers tools for accounts that go wrong,
`stubborn` refuses each login, `forgetful` knows no session. SIGUSR1 lets it send 6,000 notifications.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

Json = dict[str, Any]

PASSWORD = "canary-password-7f3a"
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (640).to_bytes(4, "big") + (480).to_bytes(4, "big") + b"\x08\x02\0\0\0"


def _tool(
    name: str, /, *, reads: bool = False, destroys: bool = False, idempotent: bool = False, **fields: str
) -> Json:
    schema = {
        "type": "object",
        "properties": {key: {"type": kind} for key, kind in fields.items()},
        "required": list(fields),
    }
    hints = {"readOnlyHint": reads, "destructiveHint": destroys, "idempotentHint": idempotent}
    return {"name": name, "description": f"{name} of the faulty server", "inputSchema": schema, "annotations": hints}


TOOLS = [
    _tool("echo", reads=True, text="string"),
    _tool("whoami", reads=True),
    _tool("sleep", reads=True, seconds="number"),
    _tool("hang", reads=True),
    _tool("note", text="string"),
    _tool("put", idempotent=True, text="string"),
    _tool("drop", destroys=True, text="string"),
    _tool("die", reads=True),
    _tool("die_writing"),
    _tool("garbage", reads=True),
    _tool("nonsense", reads=True),
    _tool("answer", line="string"),
    _tool("notify", count="integer"),
    _tool("ask", line="string"),
    _tool("refuse", reads=True),
    _tool("fail", reads=True),
    _tool("flood", reads=True, count="integer"),
    _tool("change", reads=True),
    _tool("image", reads=True),
    _tool("pid", reads=True),
    _tool("register", name="string"),
    _tool("login", account="string", password="string"),
    _tool("balance", reads=True, session_id="string"),
    _tool("spill", reads=True, session_id="string"),
    _tool("spill_bytes", reads=True, session_id="string"),
    _tool("lose_sessions"),
    _tool("unlock", user="string", password="string"),
]


_CHOSEN = {"name": {"type": "string"}, "password": {"type": "string", "minLength": 10**12}}
LOGINS = [
    _tool("refuse_aloud", name="string", password="string"),
    _tool("fail_aloud", name="string", password="string"),
    _tool("die_aloud", name="string", password="string"),
    _tool("swamp", name="string"),
    {"name": "register_vast", "inputSchema": {"type": "object", "properties": _CHOSEN, "required": [*_CHOSEN]}},
]


class Server:
    def __init__(self) -> None:
        self.out = threading.Lock()
        self.journal_path = os.environ.get("FAULTY_JOURNAL", "")
        self.modes = set(os.environ.get("FAULTY_MODE", "").split(","))
        self.cancelled: dict[Any, threading.Event] = {}
        self.tools = list(TOOLS)
        if "crowd" in self.modes:
            self.tools += [{**_tool(f"extra_{number}"), "description": "x" * 800} for number in range(400)]
        if "logins" in self.modes:
            self.tools += LOGINS
        self.accounts: dict[str, str] = {}
        self.sessions: dict[str, str] = {}
        self.logins = 0

    def journal(self, what: str, **more: Any) -> None:
        if self.journal_path:
            with open(self.journal_path, "a", encoding="utf-8") as file:
                file.write(json.dumps({"what": what, "pid": os.getpid(), **more}) + "\n")

    def write(self, message: Json) -> None:
        if "mute" in self.modes:
            return
        line = json.dumps({"jsonrpc": "2.0", **message}) + "\n"
        with self.out:
            sys.stdout.write(line)
            sys.stdout.flush()

    def serve(self) -> None:
        self.journal("start", cwd=str(Path.cwd()), arguments=sys.argv[1:])
        if "deny" in self.modes:
            sys.stderr.write("this server refuses to run\n")
            os._exit(3)
        if "deaf" in self.modes:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if "parent" in self.modes:
            deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
            child = subprocess.Popen([sys.executable, "-c", deaf], stdin=subprocess.DEVNULL)
            self.journal("child", child=child.pid)
        if "noisy" in self.modes:
            threading.Thread(target=self.shout, daemon=True).start()
        for line in sys.stdin:
            self.handle(json.loads(line))
        self.journal("eof")
        while "deaf" in self.modes:
            time.sleep(60)

    def shout(self) -> None:
        while True:
            sys.stderr.write("noise " * 2_000 + "\n")

    def handle(self, message: Json) -> None:
        method, call = message.get("method"), message.get("id")
        if method == "initialize":
            info = {"name": "faulty", "version": "1"}
            capabilities = {"tools": {"listChanged": True}}
            version = message["params"]["protocolVersion"]
            self.write(
                {"id": call, "result": {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}}
            )
        elif method == "tools/list":
            self.write({"id": call, "result": self.page(message.get("params") or {})})
        elif method == "notifications/cancelled":
            request = message["params"]["requestId"]
            self.journal("cancelled", request=request)
            self.cancelled.setdefault(request, threading.Event()).set()
        elif method == "tools/call":
            threading.Thread(target=self.call, args=(call, message["params"]), daemon=True).start()
        elif method is None:
            self.journal("answered", message=message)
        elif call is not None:
            self.write({"id": call, "error": {"code": -32601, "message": "Method not found"}})

    def page(self, params: Json) -> Json:
        if "pages" not in self.modes:
            return {"tools": self.tools}
        start = int(params.get("cursor") or 0)
        more = {"nextCursor": str(start + 5)} if start + 5 < len(self.tools) else {}
        return {"tools": self.tools[start : start + 5], **more}

    def call(self, call: Any, params: Json) -> None:
        name, arguments = params["name"], params.get("arguments") or {}
        self.journal("call", tool=name, arguments=arguments, request=call, meta=params.get("_meta"))
        answer = getattr(self, f"do_{name}", None)
        if answer is None:
            self.write({"id": call, "error": {"code": -32602, "message": f"Unknown tool: {name}"}})
            return
        result = answer(arguments, params, call)
        if result is not None:
            self.write({"id": call, "result": result})

    def text(self, text: str, *, error: bool = False) -> Json:
        return {"content": [{"type": "text", "text": text}], "isError": error}

    def fields(self, fields: Json) -> Json:
        return {"content": [], "structuredContent": fields}

    def do_echo(self, arguments: Json, params: Json, call: Any) -> Json:
        return self.text(arguments["text"])

    def do_note(self, arguments: Json, params: Json, call: Any) -> Json:
        return self.text("noted")

    do_put = do_drop = do_note

    def do_whoami(self, arguments: Json, params: Json, call: Any) -> Json:
        return self.fields({"mysis": params["_meta"]["zoea/mysis"]})

    def do_pid(self, arguments: Json, params: Json, call: Any) -> Json:
        return self.text(str(os.getpid()))

    def do_sleep(self, arguments: Json, params: Json, call: Any) -> Json:
        begun = time.monotonic()
        self.cancelled.setdefault(call, threading.Event()).wait(arguments["seconds"])
        return self.fields({"begun": begun, "ended": time.monotonic()})

    def do_hang(self, arguments: Json, params: Json, call: Any) -> None:
        self.cancelled.setdefault(call, threading.Event()).wait()

    def do_die(self, arguments: Json, params: Json, call: Any) -> None:
        os._exit(9)

    do_die_writing = do_die

    def do_garbage(self, arguments: Json, params: Json, call: Any) -> Json:
        with self.out:
            sys.stdout.write("Listening on port 80\n{{{\n\n")
            sys.stdout.flush()
        return self.text("after the garbage")

    def do_nonsense(self, arguments: Json, params: Json, call: Any) -> Json:
        return {"answer": 42}

    def do_answer(self, arguments: Json, params: Json, call: Any) -> None:
        """Write a line as it is; ID stands for the id of the request."""
        with self.out:
            sys.stdout.buffer.write(arguments["line"].replace("ID", str(call)).encode("latin-1") + b"\n")
            sys.stdout.buffer.flush()

    def do_ask(self, arguments: Json, params: Json, call: Any) -> Json:
        with self.out:
            sys.stdout.write(arguments["line"] + "\n")
        return self.text("asked")

    def do_notify(self, arguments: Json, params: Json, call: Any) -> Json:
        note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "noise"}}
        for _ in range(int(arguments["count"])):
            with self.out:
                sys.stdout.write(json.dumps(note) + "\n")
        return self.text("notified")

    def do_refuse(self, arguments: Json, params: Json, call: Any) -> None:
        self.write({"id": call, "error": {"code": -32000, "message": "out of order"}})

    def do_fail(self, arguments: Json, params: Json, call: Any) -> Json:
        return self.text(f"cannot do {json.dumps(arguments)}", error=True)

    def do_flood(self, arguments: Json, params: Json, call: Any) -> Json:
        sys.stderr.write("x" * int(arguments["count"]) + "\n")
        sys.stderr.flush()
        return self.text("flooded")

    def do_change(self, arguments: Json, params: Json, call: Any) -> Json | None:
        """Offer a new tool, and another `drop`; then answer, or hang."""
        kept = [tool for tool in self.tools if tool["name"] != "drop"]
        self.tools = [*kept, _tool("brand_new", reads=True), _tool("drop", destroys=True, text="string", all="boolean")]
        self.write({"method": "notifications/tools/list_changed"})
        if arguments.get("hangs"):
            self.do_hang(arguments, params, call)
            return None
        return self.text("changed")

    def do_image(self, arguments: Json, params: Json, call: Any) -> Json:
        picture = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(PNG).decode()}
        return {"content": [{"type": "text", "text": "look:"}, picture]}

    def do_register(self, arguments: Json, params: Json, call: Any) -> Json:
        name = arguments["name"]
        if "slow" in self.modes:
            time.sleep(0.3)
        if name in self.accounts:
            return self.text(f"name_taken: {name} is taken", error=True)
        self.accounts[name] = f"{PASSWORD}-{name}"
        return self.fields({"account": name, "password": self.accounts[name]})

    def do_login(self, arguments: Json, params: Json, call: Any) -> Json:
        account, password = arguments["account"], arguments["password"]
        if "stubborn" in self.modes:
            return self.text(f"wrong_password: {password}", error=True)
        if account not in self.accounts:
            return self.text(f"unknown_account: {account} with {password}", error=True)
        if self.accounts[account] != password:
            return self.text(f"wrong_password: {password}", error=True)
        self.logins += 1
        session = f"canary-session-{os.getpid()}-{self.logins}"
        self.sessions[session] = account
        return self.fields({"session_id": session})

    def do_balance(self, arguments: Json, params: Json, call: Any) -> Json:
        session = arguments["session_id"]
        if session not in self.sessions or "forgetful" in self.modes:
            return self.text(f"session_lost: {session} is not known; log in", error=True)
        return self.fields({"account": self.sessions[session], "credits": 7, "session_id": session})

    def do_spill(self, arguments: Json, params: Json, call: Any) -> Json:
        session = arguments["session_id"]
        account = self.sessions.get(session, "")
        secrets = {"session": session, "password": self.accounts.get(account, "")}
        return self.text(f"broken with {json.dumps(secrets)}", error=True)

    def do_spill_bytes(self, arguments: Json, params: Json, call: Any) -> Json:
        session = arguments["session_id"]
        data = base64.b64encode(f'session {session} of "{self.sessions.get(session)}"'.encode()).decode()
        return {"content": [{"type": "resource", "resource": {"uri": "u:1", "mimeType": "text/plain", "blob": data}}]}

    def do_unlock(self, arguments: Json, params: Json, call: Any) -> Json:
        password = arguments["password"]
        return self.text(f"unlocked with {password}, in JSON {json.dumps({'key': password})}")

    def do_refuse_aloud(self, arguments: Json, params: Json, call: Any) -> None:
        said = f"\x1b]0;owned\x07 refused {json.dumps(arguments)} " + "\u202e" + "x" * 100_000
        self.write({"id": call, "error": {"code": -32000, "message": said}})

    def do_fail_aloud(self, arguments: Json, params: Json, call: Any) -> Json:
        return self.text(f"\x1b[2J failed {json.dumps(arguments)} {arguments.get('password')}", error=True)

    def do_die_aloud(self, arguments: Json, params: Json, call: Any) -> None:
        password = arguments.get("password")
        sys.stderr.write(f"dying of password={password} {json.dumps(arguments)}, it was {password}\n")
        sys.stderr.flush()
        os._exit(9)

    def do_swamp(self, arguments: Json, params: Json, call: Any) -> Json:
        return self.fields({f"key {number}": "x" * 1_000 for number in range(5_000)})

    def do_register_vast(self, arguments: Json, params: Json, call: Any) -> Json:
        return self.do_register(arguments, params, call)

    def do_lose_sessions(self, arguments: Json, params: Json, call: Any) -> Json:
        self.sessions.clear()
        return self.text("forgotten")


if __name__ == "__main__":
    server = Server()
    flood = {"count": 6_000}
    # In a thread, because this one may hold the lock of the output.
    signal.signal(
        signal.SIGUSR1,
        lambda *_: threading.Thread(target=server.do_notify, args=(flood, {}, None), daemon=True).start(),
    )
    server.serve()
