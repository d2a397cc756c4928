"""Settings of the swarms that left open turns, and of the present one."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path

SERVER = Path(__file__).with_name("server.py")
STRATEGIES = ("turns", "window", "topics")
TOPIC = "ISSUE_OPENED"
HISTORY = ("The harbour of ticket ZX-4711 is closed.", "Decision: we sail to the north.", "What did we decide?")

_WORKER = """
prompt = "You work with tools. Say what you did."
strategy = "{strategy}"
send = "none"
upstreams = ["peer"]

[tools]
ask = ["act"]

[nudge]
enabled = false
"""
_MORE = {
    "turns": "",
    "window": """
[session]
context_window_default = 5
primers_count = 2
recents_count = 4
""",
    "topics": f"""
[context_strategy]
max_tokens = 50000

[[context_strategy.sources]]
topic = "{TOPIC}"
strategy = "latest"
amount = 1
priority = "required"

[[context_strategy.sources]]
topic = "STATE_SNAPSHOT"
strategy = "latest"
amount = 1
priority = "required"
""",
}


def write_settings(folder: Path, strategies: Iterable[str], *, pace_s: float, timeout_s: int) -> None:
    """Write `config.toml` and a template for each strategy.

    Args:
        pace_s: Seconds between deltas of the provider `paced`.
        timeout_s: Seconds that a call of a tool or a model may take.
    """
    (folder / "templates").mkdir(parents=True, exist_ok=True)
    for strategy in strategies:
        first = f'subscribes = ["{TOPIC}"]\n' if strategy == "topics" else ""
        text = first + _WORKER.format(strategy=strategy) + _MORE[strategy]
        (folder / "templates" / f"{strategy}.toml").write_text(text, encoding="utf-8")
    (folder / "config.toml").write_text(
        f"""
[swarm]
default_provider = "scripted"
default_template = "turns"

[llm]
retries = 0
timeout = {timeout_s}
between_tokens = {timeout_s}

[tool]
timeout = {timeout_s}

[turn]
timeout = {timeout_s}

[nudge]
enabled = false

[provider.scripted]
type = "scripted"
model = "tools"
context_window = 32768

[provider.paced]
type = "scripted"
model = "echo"
context_window = 32768
options = {{ pace = {pace_s} }}

[upstream.peer]
command = {json.dumps(sys.executable)}
args = [{json.dumps(str(SERVER))}]
start_timeout = 300
""",
        encoding="utf-8",
    )
