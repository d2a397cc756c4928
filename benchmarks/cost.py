"""What work costs a process: CPU, time, memory; and how busy the machine was meanwhile.

Standard library alone: the other agent libraries are measured with it in an
environment that has no Zoea.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(slots=True)
class Cost:
    """Filled in when the measured block ends. Seconds; `cpu` is user and system time of all threads."""

    seconds: float = 0.0
    cpu: float = 0.0

    def cpu_ms(self, count: int) -> float:
        """ms of CPU for each of `count` things."""
        return self.cpu / max(1, count) * 1e3


@contextmanager
def measured() -> Iterator[Cost]:
    """Measure this process over the block."""
    cost = Cost()
    begun, cpu = time.perf_counter(), time.process_time()
    try:
        yield cost
    finally:
        cost.cpu = time.process_time() - cpu
        cost.seconds = time.perf_counter() - begun


def judge(found: Mapping[str, float], goals: Mapping[str, float]) -> int:
    """Print which goals, each a most, were met; return 1 if one was missed."""
    missed = [name for name, value in found.items() if value > goals[name]]
    for name, value in found.items():
        print(f"{'missed' if name in missed else 'met':7} {name} {value:g} (the goal: at most {goals[name]:g})")
    return 1 if missed else 0


def resident() -> int:
    """Bytes of memory that this process holds now (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE


def peak() -> int:
    """The most bytes of memory that this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def child_cpu(pid: int) -> float:
    """Seconds of CPU that another process has used so far (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def yardstick() -> float:
    """ms of CPU for a fixed piece of plain Python. Figures of different moments compare as ratios to it."""
    best = float("inf")
    for _ in range(5):
        begun = time.process_time()
        kept: dict[str, object] = {}
        for number in range(2_000):
            kept[str(number)] = json.loads(json.dumps({"number": number, "text": "reef" * 4, "list": [1, 2, 3]}))
        best = min(best, time.process_time() - begun)
    return best * 1e3


def machine() -> dict[str, Any]:
    """What the figures were measured on, and how busy it was with other things."""
    return {
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "yardstick_ms": round(yardstick(), 1),
    }


def quantile(values: list[float], share: float) -> float:
    """The value below which that share of `values` lies; 0 of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0
