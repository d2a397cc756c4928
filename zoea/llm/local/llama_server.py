"""A llama.cpp server for one model file, in a child process."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import secrets
import sys
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from zoea.model.enums import ErrorClass
from zoea.model.errors import ProviderError
from zoea.process.group_guard import guard, start_child

CLOSE_S = 0.7
CHILD_PROGRAM = Path(__file__).with_name("llama_child.py")
_POLICY = "OMP_WAIT_POLICY"
_MOST = {"context": 10_000_000, "threads": 1024, "parallel": 64}
_LONGEST_LINE = 4096


class LlamaServerOptions(Struct, frozen=True):
    """Options of a llama.cpp server.

    `context` in tokens, per parallel answer, capped at the model's training length; 0 is the model's own. `threads`
    None is one less than the cores, at least one.
    """

    context: int = 8192
    threads: int | None = None
    parallel: int = 1
    start_timeout_s: float = 300.0

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> LlamaServerOptions:
        """Read a provider's `options` table. Raises ProviderError for an implausible number."""
        known = {name: options[name] for name in _MOST if name in options}
        for name, value in known.items():
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST[name]:
                raise ProviderError(
                    f"the embedded provider's option {name} is {value!r}, not a whole number up to {_MOST[name]}",
                    kind=ErrorClass.BAD_REQUEST,
                    hint=f"Correct options.{name} in the settings.",
                )
        return cls(**known)


class LlamaServer:
    """One model, served to this process only, on a loopback port with a key."""

    def __init__(self, model: Path, alias: str, options: LlamaServerOptions = LlamaServerOptions()) -> None:
        self.alias = alias
        self.address = ""
        self.has_gpu = False
        """Whether it computes on more than the processor; known once it has started."""
        self.key = secrets.token_urlsafe(24)
        self._model = model
        self._options = options
        self._process: asyncio.subprocess.Process | None = None
        self._stderr: asyncio.Task[None] | None = None
        self._log: deque[str] = deque(maxlen=200)

    @property
    def pid(self) -> int | None:
        """The id of the process; None before `start` and after `close`."""
        return self._process.pid if self._process is not None else None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def log(self) -> str:
        """The newest lines that llama.cpp printed."""
        return "\n".join(self._log)

    async def start(self) -> None:
        """Load the model and wait until it is served.

        Raises:
            ProviderError: model_missing if the extra is not installed; bad_request if llama.cpp refuses the file;
                transient if loading takes too long.
        """
        if not engine_is_installed():
            raise missing_extra()
        environment = {**os.environ, _POLICY: os.environ.get(_POLICY, "PASSIVE")}
        self._process = await start_child(
            *(sys.executable, "-P", str(CHILD_PROGRAM)),  # -P: the modules beside it are not its own
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
        )
        self._stderr = asyncio.create_task(self._keep_log(self._process))
        try:
            async with asyncio.timeout(self._options.start_timeout_s):
                answer = await self._ask(self._process, self._wanted())
        except TimeoutError:
            await self.close()
            raise ProviderError(
                f"loading {self.alias} took over {self._options.start_timeout_s:g} s",
                kind=ErrorClass.TRANSIENT,
                title="The local model did not load",
            ) from None
        except BaseException:
            await self.close()
            raise
        if "address" not in answer:
            await self.close()
            raise self._refused()
        self.address = answer["address"]
        self.has_gpu = bool(answer.get("gpu"))

    async def close(self) -> None:
        """End the process within a second; kill it if it does not end."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            async with asyncio.timeout(CLOSE_S):
                await process.wait()
        except TimeoutError:
            guard.end(process.pid)
            await process.wait()
        finally:
            guard.end(process.pid)
        if self._stderr is not None:
            await self._stderr

    def lost(self) -> ProviderError:
        """Build the error for a process that ended by itself."""
        code = self._process.returncode if self._process is not None else None
        return ProviderError(
            f"the process that holds {self.alias} ended (code {code}): {self._first_errors()}",
            kind=ErrorClass.TRANSIENT,
            title="The local model's process ended",
            hint="It is started again by itself. If it ends each time, use a smaller model or context.",
        )

    def _wanted(self) -> dict[str, Any]:
        options = self._options
        return {
            "model": str(self._model),
            "alias": self.alias,
            "key": self.key,
            "context": options.context * max(options.parallel, 1),
            "parallel": max(options.parallel, 1),
            "threads": options.threads or default_threads(),
        }

    async def _ask(self, process: asyncio.subprocess.Process, wanted: dict[str, Any]) -> dict[str, Any]:
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(ConnectionError):  # an ended child gives no answer, below
            process.stdin.write(json.dumps(wanted).encode() + b"\n")
            await process.stdin.drain()
        line = await process.stdout.readline()
        return dict(json.loads(line)) if line else {}

    async def _keep_log(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        rest = b""
        while piece := await process.stderr.read(1 << 16):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                self._log.append(line[:_LONGEST_LINE].decode("utf-8", "replace").rstrip())
            rest = rest[:_LONGEST_LINE]

    def _refused(self) -> ProviderError:
        return ProviderError(
            f"llama.cpp could not load {self.alias} ({self._model}): {self._first_errors()}",
            kind=ErrorClass.BAD_REQUEST,
            title="The local model did not load",
            hint="The file may be damaged, of a kind this llama.cpp does not know, or larger than the memory.",
        )

    def _first_errors(self) -> str:
        errors = [line.split(" E ", 1)[1].strip() for line in self._log if " E " in line]
        return "; ".join(errors[:2]) or " ".join(list(self._log)[-1:]) or "no output"


def engine_is_installed() -> bool:
    return importlib.util.find_spec("xllamacpp") is not None


def missing_extra() -> ProviderError:
    return ProviderError(
        "the embedded provider needs llama.cpp, which is not installed",
        kind=ErrorClass.MODEL_MISSING,
        title="The embedded engine is not installed",
        hint=f"Run: {sys.executable} -m pip install 'zoea[local]'",
    )


def default_threads() -> int:
    """Return one thread if OpenMP is set to spin, which starves other processes. Else leave one core free."""
    if os.environ.get(_POLICY, "").upper() == "ACTIVE":
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores - 1)
