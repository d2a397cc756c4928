"""`make conformance`: public MCP clients against Zoea's server, a round trip through Claude Code, agents over ACP.

Two runs of the suite: what needs no fixtures against `zoea mcp --http` itself, beside
a swarm that runs; and all of it against `tests/conformance/server.py`, which mounts
the suite's fixtures on the same factory, transport and authorization. Then the
Inspector lists and calls each tool. `--clients` runs these two alone: they take a
third of all work, and a tenth of all bytes. A conversation goes through the
real Claude Code and back (`tests/conformance/claude_code.py`). Beside all that, public
agents play myses (`tests/conformance/agents.py`); `--agents` runs that alone, and
`--agent=NAME` plays one of them. `tests/conformance/installation.py` installs what is
wanted. With `--where-possible` a registry that cannot be reached is said, and is no failure.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from tests.conformance import agents, claude_code
from tests.conformance.installation import (
    CLAUDE_CODE,
    FAST_AGENT,
    NODE,
    PROGRAMS,
    environment_with_node,
    install,
    read_agents,
)
from tests.conformance.programs import Refused
from tests.fakes.fork_server import fork_programs, server

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
FREE_OF_FIXTURES = (
    "server-initialize",
    "ping",
    "tools-list",
    "resources-list",
    "server-sse-multiple-streams",
    "dns-rebinding-protection",
)
CALLS: Mapping[str, Mapping[str, str]] = {
    "zoea_list_myses": {},
    "zoea_search_messages": {"query": "ore", "limit": "3"},
    "zoea_search_broadcasts": {"query": "conformance"},
    "zoea_search_reasoning": {"query": "I", "match": "exact"},
    "zoea_read_memory": {"id": "1"},
    "zoea_send_message": {"to": "alpha", "text": "Report to the conformance run"},
    "zoea_broadcast": {"text": "The conformance run is listening"},
    "zoea_wait": {"mysis": "alpha", "seconds": "1"},
    "zoea_publish": {"topic": "CONFORMANCE", "text": "The run has begun"},
    "zoea_read_topic": {"topic": "CONFORMANCE"},
    "zoea_context_log": {"context": "alpha", "limit": "3"},
    "zoea_context_materialize": {"context": "alpha"},
    "zoea_context_show": {"context": "alpha"},
    "zoea_context_resolve": {"mysis": "alpha", "at": "2099-01-01T00:00:00Z"},
    "zoea_context_checkpoint": {"mysis": "alpha"},
    "zoea_context_annotate": {"context": "alpha", "summary": "As the conformance run found it"},
    "zoea_context_ask": {"context": "alpha", "question": "What do you do?", "seconds": "5"},
    "zoea_context_fork": {"context": "alpha"},
}
PATIENCE_S = 60.0


class Failed(Exception):
    """Something did not conform."""


def main(arguments: list[str]) -> int:
    """Run everything; 0 where all conforms."""
    wanted = read_agents(arguments, agents.KINDS)
    if unknown := {*wanted} - agents.KINDS.keys():
        sys.stdout.write(f"there is no agent {', '.join(sorted(unknown))}: name one of {', '.join(agents.KINDS)}\n")
        return 2
    has_clients = "--agents" not in arguments
    has_round_trip = has_clients and "--clients" not in arguments
    is_there, has_fast_agent = install([*wanted, *([CLAUDE_CODE] if has_round_trip else [])])
    kinds = [name for name in wanted if (has_fast_agent if name == "fast-agent" else is_there)]
    for name in sorted({*wanted} - {*kinds}):
        sys.stdout.write(f"{name} WAS NOT RUN: it cannot be installed here (`make conformance` runs it)\n")
    if not is_there:
        sys.stdout.write("CONFORMANCE WAS NOT RUN: the npm registry cannot be reached (`make conformance` runs it)\n")
    parts: list[Callable[[Path], None]] = [partial(play, kinds)] if kinds else []
    parts += [partial(check_clients, has_round_trip)] if is_there and has_clients else []
    # With it, programs whose environment lacks it would not be forked. They are a fifth of all work here.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    fork_programs()
    try:
        with ThreadPoolExecutor(len(parts) or 1) as threads:  # the agents wait more than they work
            for done in [threads.submit(_in_folder, part) for part in parts]:
                done.result()
    except (Failed, Refused, subprocess.TimeoutExpired) as failure:
        sys.stdout.write(f"{failure}\n")
        return 1
    finally:
        server.close()
    is_whole = len(kinds) == len(wanted) and (is_there or not has_clients)
    if not is_whole and "--where-possible" not in arguments:
        return 1
    sys.stdout.write("all of it conforms\n")
    return 0


def _in_folder(part: Callable[[Path], None]) -> None:
    with tempfile.TemporaryDirectory(prefix="zoea-") as folder:
        part(Path(folder))


def check_clients(has_round_trip: bool, folder: Path) -> None:
    """The suite, the Inspector, and the round trip through Claude Code where it is wanted."""
    fixtures()
    for name in ("own", "claude"):
        (folder / name).mkdir()
    own(folder / "own")
    if not has_round_trip:
        return
    for line in asyncio.run(claude_code.run_round_trip([str(bin_of("claude"))], folder / "claude")):
        sys.stdout.write(f"claude code: {line}\n")


def play(kinds: list[str], folder: Path) -> None:
    """Let the agents play myses."""
    programs = (bin_of("x").parent, FAST_AGENT / "bin", NODE.parent)
    for line in asyncio.run(agents.run_trials(kinds, programs, folder)):
        sys.stdout.write(f"{', '.join(kinds)}: {line}\n")


def fixtures() -> None:
    """All scenarios of the suite, on its own fixtures."""
    with program("-m", "tests.conformance.server", "fixtures") as (first, _):
        expected = ["--expected-failures", str(HERE / "expected.yml")]
        suite("fixtures", first, "fixtures", ("--suite", "all", *expected))


def own(folder: Path) -> None:
    """Zoea's own server, beside a swarm that mines in Reef without any model."""
    places = {"ZOEA_DATA_DIR": str(folder / "data"), "ZOEA_CONFIG_DIR": str(folder / "config")}
    token = json.loads(ran("-m", "zoea", "mcp", "token", "new", "suite", "--scope", "command", "--json", env=places))
    swarm = ("-m", "zoea", "run", "--world", "reef", "--myses", "2", "--start-swarm", "--json")
    with program(*swarm, env=places), program("-m", "zoea", "mcp", "--http", "--port", "0", env=places) as (said, _):
        address = said.rpartition(" ")[2]
        suite("zoea", address, token["token"], *(("--scenario", one) for one in FREE_OF_FIXTURES))
        inspect(address, token["token"])


def suite(title: str, address: str, token: str, *runs: tuple[str, ...]) -> None:
    """Runs of the suite with arguments of each. Raises Failed with what it said."""
    options = {"ZOEA_TOKEN": token, "NODE_OPTIONS": f"--import {HERE / 'bearer.mjs'}"}
    words = [("server", "--url", address, *run) for run in runs]
    with tempfile.TemporaryDirectory() as results:
        answers = call_each(bin_of("conformance"), "", words, results, options)
    for run, said in zip(runs, answers, strict=True):
        sys.stdout.write(f"{title}: {' '.join(run[:2])}: {_summary(said)}\n")


def inspect(address: str, token: str) -> None:
    """The Inspector's command line lists the tools strictly and calls each. Raises Failed."""
    server = (address, "--transport", "http", "--header", f"Authorization: Bearer {token}")
    runs: list[tuple[str, ...]] = [(*server, "--method", "tools/list", "--strict")]
    for name, arguments in CALLS.items():
        pairs = [part for key, value in arguments.items() for part in ("--tool-arg", f"{key}={value}")]
        runs.append((*server, "--method", "tools/call", "--tool-name", name, *pairs))
    clients = PROGRAMS / "node_modules" / "@modelcontextprotocol" / "inspector" / "clients"
    # Its command `mcp-inspector --cli` loads this, and calls it with the arguments.
    listed, *results = map(json.loads, call_each(clients / "cli" / "build" / "index.js", "runCli", runs, PROGRAMS))
    names = {tool["name"] for tool in listed["tools"]}
    if names != set(CALLS):
        raise Failed(f"the Inspector was shown {sorted(names)}, not {sorted(CALLS)}")
    for name, result in zip(CALLS, results, strict=True):
        if result.get("isError") or "structuredContent" not in result:
            raise Failed(f"the Inspector called {name} and got {result}")
    sys.stdout.write(f"inspector: listed and called {len(names)} tools\n")


def call_each(
    module: Path, entry: str, runs: list[tuple[str, ...]], folder: Path | str, options: Mapping[str, str] | None = None
) -> list[str]:
    """Run a program of Node with each of the arguments in one process. Return what it wrote. Raises Failed."""
    done = subprocess.run(
        [str(NODE), str(HERE / "calls.mjs"), str(module.resolve()), *([entry] if entry else [])],
        env=environment(options),
        cwd=folder,
        input="".join(f"{json.dumps(run)}\n" for run in runs),
        capture_output=True,
        text=True,
        timeout=180,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    for run, (code, out, err) in zip(runs, answers, strict=False):
        if code != 0:
            raise Failed(f"{module.name} failed at {' '.join(run[-6:])}\n{out[-6000:]}{err[-2000:]}")
    if done.returncode != 0 or len(answers) < len(runs):
        raise Failed(f"{module} ended after {len(answers)} of {len(runs)} runs\n{done.stderr[-2000:]}")
    return [out for _, out, _ in answers]


@contextlib.contextmanager
def program(*arguments: str, env: Mapping[str, str] | None = None) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A Python program while the block runs, with the first line that it said."""
    command = [sys.executable, *arguments]
    running = subprocess.Popen(
        command, cwd=ROOT, env=environment(env), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert running.stdout is not None
    try:
        said = running.stdout.readline().strip()
        if not said:
            raise Failed(f"{' '.join(arguments)} ended without a word")
        yield said, running
    finally:
        running.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.communicate(timeout=15)
        running.kill()
        running.communicate()


def ran(*arguments: str, env: Mapping[str, str]) -> str:
    """What a Python program wrote to stdout. Raises Failed."""
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environment(env), capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(done.stderr)
    return done.stdout


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment with the given Node first, and additions."""
    return {**environment_with_node(), **(more or {})}


def bin_of(name: str) -> Path:
    return PROGRAMS / "node_modules" / ".bin" / name


def _summary(said: str) -> str:
    totals: Any = [line for line in said.splitlines() if line.startswith(("Total", "Passed"))]
    return totals[-1] if totals else "passed"


if __name__ == "__main__":
    began = time.monotonic()
    code = main(sys.argv[1:])
    sys.stdout.write(f"{time.monotonic() - began:.0f} s\n")
    sys.exit(code)
