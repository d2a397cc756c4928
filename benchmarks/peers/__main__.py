"""Zoea and four other agent libraries do the same work against the same fake model server.

    python -m benchmarks.peers [--agents 100] [--turns 5] [--rounds 3] [--only zoea,autogen]

100 agents take 5 turns each: a prompt, a call of the agent's tool, an answer. The server
is a process of its own, each contestant another, all in one order and then again; the
figure is the best round of each, because what disturbs a round only adds to it. The
peers live in `.venv-peers`, made here when it is missing; nothing else installs them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

from benchmarks.cost import machine
from benchmarks.model_server import ModelServer, model_server
from zoea import __version__

ROOT = Path(__file__).parents[2]
HOME = ROOT / ".venv-peers"
PACKAGES = (
    "langgraph>=1.2,<2",
    "langchain-openai>=1.7,<2",
    "openai-agents>=0.24,<1",
    "pydantic-ai-slim[openai]>=2.68,<3",
    "autogen-agentchat>=0.7,<0.8",
    "autogen-ext[openai]>=0.7,<0.8",
)
CONTESTANTS = {
    "zoea": ("on_zoea", "zoea"),
    "autogen-agentchat": ("on_autogen", "autogen-agentchat"),
    "langgraph": ("on_langgraph", "langgraph"),
    "openai-agents": ("on_openai_agents", "openai-agents"),
    "pydantic-ai": ("on_pydantic_ai", "pydantic-ai-slim"),
}
AHEAD = 2.0
REQUESTS_A_TURN = 2


def environment() -> Path:
    """The interpreter of `.venv-peers`, made and filled where it is missing or older than this list."""
    python = HOME / "bin" / "python"
    stamp = HOME / ".filled"
    wanted = "\n".join(PACKAGES)
    if not stamp.exists() or stamp.read_text() != wanted:
        print("Making .venv-peers (a minute or two)", flush=True)
        venv.create(HOME, with_pip=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES]
        subprocess.run(pip, check=True)
        stamp.write_text(wanted)
    return python


def compete(name: str, server: ModelServer, agents: int, turns: int) -> dict[str, Any]:
    """Run one contestant in a process of its own; its figures. Raises SystemExit where it did other work."""
    module, _ = CONTESTANTS[name]
    python = Path(sys.executable) if name == "zoea" else environment()
    arguments = [server.base_url, "--agents", str(agents), "--turns", str(turns)]
    command = [str(python), "-W", "ignore", "-m", f"benchmarks.peers.{module}", *arguments]
    server.ask("report")
    ran = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=600)
    asked = len(server.ask("report")["times"])
    wanted = (agents * turns + 1) * REQUESTS_A_TURN
    if asked != wanted:
        raise SystemExit(f"{name} made {asked} requests, not {wanted}: it did other work than the rest")
    figures: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return figures


def version_of(name: str) -> str:
    if name == "zoea":
        return __version__
    _, package = CONTESTANTS[name]
    python = str(environment())
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def show(best: dict[str, dict[str, Any]]) -> None:
    zoea = best.get("zoea", {}).get("cpu_ms_per_turn")
    print(f"{'':26} {'CPU ms/turn':>12} {'turns/s':>9} {'peak MB':>8} {'x Zoea':>8}")
    for name, figures in sorted(best.items(), key=lambda pair: float(pair[1]["cpu_ms_per_turn"])):
        ratio = f"{figures['cpu_ms_per_turn'] / zoea:.1f}" if zoea else "-"
        print(
            f"{name + ' ' + version_of(name):26} {figures['cpu_ms_per_turn']:>12.2f}"
            f" {figures['turns_per_second']:>9.1f} {figures['peak_mb']:>8} {ratio:>8}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description="CPU per turn of Zoea and of other agent libraries.")
    parser.add_argument("--agents", type=int, default=100)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="names of contestants, with commas between")
    asked = parser.parse_args()
    names = asked.only.split(",") if asked.only else list(CONTESTANTS)
    print(f"machine before: {json.dumps(machine())}", flush=True)
    best: dict[str, dict[str, Any]] = {}
    with model_server() as server:
        for _ in range(asked.rounds):
            for name in names:
                figures = compete(name, server, asked.agents, asked.turns)
                print(f"  {name}: {json.dumps(figures)}", flush=True)
                if name not in best or figures["cpu_ms_per_turn"] < best[name]["cpu_ms_per_turn"]:
                    best[name] = figures
    print(f"machine after: {json.dumps(machine())}")
    show(best)
    others = [figures["cpu_ms_per_turn"] for name, figures in best.items() if name != "zoea"]
    if "zoea" not in best or not others:
        return 0
    ahead = min(others) / best["zoea"]["cpu_ms_per_turn"]
    print(f"Zoea is {ahead:.1f}x ahead of the fastest in CPU per turn (the goal: {AHEAD:g}x)")
    return 0 if ahead >= AHEAD else 1


if __name__ == "__main__":
    sys.exit(main())
