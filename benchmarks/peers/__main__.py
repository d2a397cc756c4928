"""Compare the CPU per turn of Zoea and of four other agent libraries. All call the same fake model server.

    python -m benchmarks.peers [--agents 100] [--turns 5] [--rounds 3] [--only zoea,autogen-agentchat]

After the imports and a warm-up turn, which are not measured, 100 agents take 5 turns
each: a prompt, a call of the agent's tool, an answer. The server and each contestant run
in processes of their own. A round runs every contestant once; figures are medians over
the rounds. A multiple of Zoea is taken within a round, because both runs then see a
similar load. The peers' libraries are installed in `.venv-peers` only, which is created
if it is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.cost import machine
from benchmarks.model_server import ModelServer, model_server
from benchmarks.peers.task import WARM_UP_TURNS
from zoea import __version__

ROOT = Path(__file__).parents[2]
ENVIRONMENT = ROOT / ".venv-peers"
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
    "zoea-plain": ("on_zoea_plain", "zoea"),
    "zoea-first": ("on_zoea_first", "zoea"),
    "autogen-agentchat": ("on_autogen", "autogen-agentchat"),
    "langgraph": ("on_langgraph", "langgraph"),
    "openai-agents": ("on_openai_agents", "openai-agents"),
    "pydantic-ai": ("on_pydantic_ai", "pydantic-ai-slim"),
}
OURS = ("zoea", "zoea-plain", "zoea-first")
"""As installed; without recall and commits, which the peers do not have; and without earlier turns too."""
GOAL = 2.0
"""The fastest peer's CPU per turn, as a multiple of Zoea's, that the benchmark asks for."""
REQUESTS_A_TURN = 2


Figures = dict[str, Any]


def prepare_environment() -> Path:
    """Create or refill `.venv-peers` if its packages differ from `PACKAGES`; return its interpreter."""
    python = ENVIRONMENT / "bin" / "python"
    stamp = ENVIRONMENT / ".filled"
    wanted = "\n".join(PACKAGES)
    if not stamp.exists() or stamp.read_text() != wanted:
        print("Making .venv-peers (a minute or two)", flush=True)
        venv.create(ENVIRONMENT, with_pip=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES]
        subprocess.run(pip, check=True)
        stamp.write_text(wanted)
    return python


def run_contestant(name: str, server: ModelServer, agents: int, turns: int) -> Figures:
    """Run one contestant in its own process and return its figures.

    `load` is the machine's load average over the minute before. Raises SystemExit
    if the contestant made another number of requests than its turns need.
    """
    module, _ = CONTESTANTS[name]
    python = Path(sys.executable) if name in OURS else prepare_environment()
    arguments = [server.base_url, "--agents", str(agents), "--turns", str(turns)]
    command = [str(python), "-W", "ignore", "-m", f"benchmarks.peers.{module}", *arguments]
    server.ask("report")
    load = round(os.getloadavg()[0], 1)
    process = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=600)
    requests = len(server.ask("report")["times"])
    wanted = (agents * turns + WARM_UP_TURNS) * REQUESTS_A_TURN
    if requests != wanted:
        raise SystemExit(f"{name} made {requests} requests, not {wanted}: it did other work than the others")
    figures: Figures = json.loads(process.stdout.splitlines()[-1])
    return {**figures, "load": load}


def read_version(name: str) -> str:
    if name in OURS:
        return __version__
    _, package = CONTESTANTS[name]
    python = str(prepare_environment())
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def ratios_to_zoea(rounds: list[dict[str, Figures]], name: str) -> list[float]:
    """Return a contestant's CPU per turn as multiples of Zoea's. One for each round, ascending; empty without Zoea."""
    return sorted(
        figures[name]["cpu_ms_per_turn"] / figures["zoea"]["cpu_ms_per_turn"] for figures in rounds if "zoea" in figures
    )


def print_table(rounds: list[dict[str, Figures]]) -> None:
    """Print the medians of each contestant, cheapest first."""

    def middle(name: str, figure: str) -> float:
        return median(float(figures[name][figure]) for figures in rounds)

    print(
        f"{'':26} {'CPU ms/turn':>12} {'turns/s':>9} {'peak MB':>8} {'load':>5}"
        f" {'imports':>8} {'x Zoea (lowest-highest)':>24}"
    )
    for name in sorted(rounds[0], key=lambda name: middle(name, "cpu_ms_per_turn")):
        ratios = ratios_to_zoea(rounds, name)
        multiple = f"{median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})" if ratios else "-"
        print(
            f"{name + ' ' + read_version(name):26} {middle(name, 'cpu_ms_per_turn'):>12.2f}"
            f" {middle(name, 'turns_per_second'):>9.1f} {middle(name, 'peak_mb'):>8.0f} {middle(name, 'load'):>5.1f}"
            f" {max(figures[name]['modules_loaded'] for figures in rounds):>8} {multiple:>24}"
        )


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="CPU per turn of Zoea and of other agent libraries.")
    parser.add_argument("--agents", type=int, default=100)
    parser.add_argument("--turns", type=int, default=5, help="measured turns of each agent")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(CONTESTANTS), help="names of contestants, with commas between")
    options = parser.parse_args()
    options.names = options.only.split(",")
    if unknown := [name for name in options.names if name not in CONTESTANTS]:
        parser.error(f"no contestant {', '.join(unknown)}: choose from {', '.join(CONTESTANTS)}")
    if min(options.agents, options.turns, options.rounds) < 1:
        parser.error("--agents, --turns and --rounds must be at least 1")
    return options


def main() -> int:
    options = parse_arguments()
    print(f"machine before: {json.dumps(machine())}", flush=True)
    rounds: list[dict[str, Figures]] = []
    with model_server() as server:
        for _ in range(options.rounds):
            rounds.append({})
            for name in options.names:
                rounds[-1][name] = run_contestant(name, server, options.agents, options.turns)
                print(f"  {name}: {json.dumps(rounds[-1][name])}", flush=True)
    print(f"machine after: {json.dumps(machine())}")
    print_table(rounds)
    peers = [name for name in options.names if name not in OURS]
    if "zoea" not in options.names or not peers:
        return 0
    ahead = min(median(ratios_to_zoea(rounds, name)) for name in peers)
    print(f"The fastest peer needs {ahead:.2f} times Zoea's CPU per turn (goal: {GOAL:g} times)")
    return 0 if ahead >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
