"""Settings of the swarm that made the released database, and of the one after it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

SERVER = Path(__file__).with_name("server.py")

TEMPLATE = """
title = "Works with the tools of the peer"
prompt = "You work with tools. Say what you did."
upstreams = ["peer"]
situation = ["time", "swarm", "broadcast"]

[tools]
ask = ["act"]

[nudge]
idle_interval = 3600
"""


def write_swarm_settings(folder: Path, *, pace_s: float) -> None:
    """Write `config.toml` and a template; `pace_s` is the time between deltas of the provider `paced`."""
    (folder / "templates").mkdir(parents=True, exist_ok=True)
    (folder / "templates" / "worker.toml").write_text(TEMPLATE, encoding="utf-8")
    (folder / "config.toml").write_text(
        f"""
[swarm]
max_myses = 30
default_provider = "scripted"
default_template = "worker"

[recovery]
delays = [1000000, 2000000]

[llm]
retries = 0

[budget]
enforcement = "approve"

[world]
tick = 0.05
systems = 10

[provider.autopilot]
type = "autopilot"

[provider.scripted]
type = "scripted"
model = "tools"
context_window = 32768
options = {{ metered = true }}

[provider.paced]
type = "scripted"
model = "echo"
context_window = 32768
options = {{ pace = {pace_s} }}

[upstream.peer]
command = {json.dumps(sys.executable)}
args = [{json.dumps(str(SERVER))}]
""",
        encoding="utf-8",
    )
