"""Probes sources of models, and chooses one for a first run.

It makes the candidates of model servers' usual ports and of vendors' keys; others are passed in. Each probe is one
request that lists models, which no provider charges for. No key is ever shown.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, field

from zoea.llm.provider_config import ProviderConfig, Timeouts, is_loopback
from zoea.llm.transport.cached_json import is_loading
from zoea.model.enums import ErrorClass
from zoea.model.errors import ProviderError, ZoeaError
from zoea.model.ports import Provider
from zoea.model.request import ModelInfo
from zoea.settings.endpoints import ProviderType

LOCAL_DEADLINE_S = 2.0
REMOTE_DEADLINE_S = 8.0
CONNECT_S = 0.3


class SourceOrigin(StrEnum):
    """Where a source of models was found."""

    SETTINGS = "settings"
    PORT = "port"
    ENVIRONMENT = "environment"
    SHELF = "local models"
    BUILT_IN = "built in"


class ProbeStatus(StrEnum):
    """The result of trying a source."""

    OK = "ok"
    EMPTY = "no models"
    REFUSED = "key refused"
    LOADING = "loading"
    DOWN = "unreachable"
    FOREIGN = "not a model server"
    WRONG = "cannot be used"
    ABSENT = "absent"


class UsualPort(Struct, frozen=True):
    """A port where a model server usually listens. `type` is the provider type that it speaks."""

    title: str
    port: int
    type: str
    path: str = ""


PORTS: tuple[UsualPort, ...] = (
    *(
        UsualPort(kind.vendor, at.port or 0, kind.value, at.path)
        for kind in ProviderType
        if is_loopback(kind.address) and (at := urlsplit(kind.address))
    ),
    UsualPort("llama.cpp", 8080, "openai", "/v1"),
    UsualPort("LM Studio", 1234, "openai", "/v1"),
    UsualPort("vLLM", 8000, "openai", "/v1"),
)


class VendorKey(Struct, frozen=True):
    """An environment variable that holds a vendor's key."""

    variable: str
    title: str
    type: str
    base_url: str = ""


KEYS: tuple[VendorKey, ...] = (
    *(
        VendorKey(kind.key_variable, kind.vendor, kind.value, kind.address)
        for kind in ProviderType
        if kind.key_variable
    ),
    VendorKey("OPENROUTER_API_KEY", "OpenRouter", "openai", "https://openrouter.ai/api/v1"),
    VendorKey("OPENCODE_API_KEY", "OpenCode Zen", "openai", "https://opencode.ai/zen/v1"),
    VendorKey("GROQ_API_KEY", "Groq", "openai", "https://api.groq.com/openai/v1"),
    VendorKey("MISTRAL_API_KEY", "Mistral", "openai", "https://api.mistral.ai/v1"),
    VendorKey("GEMINI_API_KEY", "Gemini", "openai", "https://generativelanguage.googleapis.com/v1beta/openai"),
    VendorKey("DEEPSEEK_API_KEY", "DeepSeek", "openai", "https://api.deepseek.com/v1"),
)


class ProbeCandidate(Struct, frozen=True):
    """A source of models to try.

    `open` makes its provider, which is closed afterwards; it may raise ZoeaError. `port` is set if a closed port means
    that there is no server.
    """

    name: str
    type: str
    origin: SourceOrigin
    open: Callable[[], Provider]
    address: str = ""
    variable: str = ""
    model: str = ""
    is_default: bool = False
    port: int | None = None
    deadline_s: float = REMOTE_DEADLINE_S


class ProbeResult(Struct, frozen=True):
    """A source after it was tried.

    `latency_ms` is the time to list its models; `models` is None if it did not list them. `variable` is the name of the
    variable that holds its key.
    """

    name: str
    type: str
    origin: SourceOrigin
    status: ProbeStatus
    address: str = ""
    variable: str = ""
    latency_ms: float | None = None
    models: tuple[ModelInfo, ...] | None = None
    detail: str = ""
    hint: str = ""
    model: str = ""
    is_default: bool = False

    @property
    def is_usable(self) -> bool:
        return self.status is ProbeStatus.OK

    def as_dict(self) -> dict[str, Any]:
        """Return the values that `--json` prints; unknown is null."""
        models = None
        if self.models is not None:
            models = [
                {"name": m.name, "context_window": m.context_window, "tools": m.tools, "slots": m.slots}
                for m in self.models
            ]
        return {
            "name": self.name,
            "type": self.type,
            "origin": str(self.origin),
            "status": str(self.status),
            "address": self.address or None,
            "key": self.variable or None,
            "latency_ms": None if self.latency_ms is None else round(self.latency_ms, 1),
            "models": models,
            "default": self.is_default,
            "detail": self.detail or None,
            "hint": self.hint or None,
        }


class ProviderChoice(Struct, frozen=True):
    """The provider that a run uses by default, and why.

    `name` is its name in the settings if `origin` is `SETTINGS`; otherwise `type` and `address` say what to make. An
    empty `model` is the provider's own.
    """

    name: str
    type: str
    origin: SourceOrigin
    reason: str
    address: str = ""
    model: str = ""

    def overrides(self) -> dict[str, str]:
        """Return the settings, by dotted key, for a server found on a port. Empty for other origins."""
        if self.origin is not SourceOrigin.PORT:
            return {}
        name = re.sub(r"[^a-z0-9]+", "-", self.name.lower())
        return {
            f"provider.{name}.type": self.type,
            f"provider.{name}.base_url": self.address,
            f"provider.{name}.model": self.model,
            "swarm.default_provider": name,
        }


Open = Callable[[str, ProviderConfig], Provider]


class Discovery(Struct, frozen=True):
    """The sources to look at. Tests pass their own ports, environment and candidates."""

    open: Open
    configured: Sequence[ProbeCandidate] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    ports: Sequence[UsualPort] = PORTS
    keys: Sequence[VendorKey] = KEYS
    host: str = "127.0.0.1"

    def servers(self) -> tuple[ProbeCandidate, ...]:
        """List the usual local ports, without those of configured providers."""
        taken = {_place(candidate.address) for candidate in self.configured}
        offered = ((port, f"http://{self.host}:{port.port}{port.path}") for port in self.ports)
        return tuple(self._server(port, address) for port, address in offered if _place(address) not in taken)

    def keyed(self) -> tuple[ProbeCandidate, ...]:
        """List the vendors with a key in the environment."""
        return tuple(self._keyed(key, self.env[key.variable]) for key in self.keys if self.env.get(key.variable))

    async def all(self) -> tuple[ProbeResult, ...]:
        """Try all sources at the same time. Does not raise for those that cannot be reached."""
        return await probe_all((*self.configured, *self.servers(), *self.keyed()))

    async def best(self) -> ProviderChoice:
        """Return the provider for a first run, without a request to another machine.

        The configured default, else a local model server that has a model, else the autopilot.
        """
        if any(candidate.is_default for candidate in self.configured):
            return self.choice(())
        return self.choice(await probe_all(self.servers()))

    def choice(self, found: Iterable[ProbeResult]) -> ProviderChoice:
        """Return the provider that `best` would choose, from results that are there already."""
        default = next((candidate for candidate in self.configured if candidate.is_default), None)
        if default is None:
            return best_of(found)
        reason = "the default provider of your settings"
        return ProviderChoice(default.name, default.type, default.origin, reason, default.address, default.model)

    def _server(self, port: UsualPort, address: str) -> ProbeCandidate:
        timeouts = Timeouts(connect=CONNECT_S, first=LOCAL_DEADLINE_S, between=LOCAL_DEADLINE_S)
        config = ProviderConfig(type=port.type, base_url=address, label=port.title, timeouts=timeouts)
        return ProbeCandidate(
            name=port.title,
            type=port.type,
            origin=SourceOrigin.PORT,
            open=lambda: self.open(port.title, config),
            address=address,
            port=port.port,
            deadline_s=LOCAL_DEADLINE_S,
        )

    def _keyed(self, key: VendorKey, secret: str) -> ProbeCandidate:
        config = ProviderConfig(type=key.type, base_url=key.base_url, api_key=secret, label=key.title)
        return ProbeCandidate(
            name=key.title,
            type=key.type,
            origin=SourceOrigin.ENVIRONMENT,
            open=lambda: self.open(key.title, config),
            address=key.base_url,
            variable=key.variable,
        )


def best_of(found: Iterable[ProbeResult]) -> ProviderChoice:
    """Choose the first server with a chat model, in the given order; else the autopilot.

    Local models are not chosen, because loading one takes memory; the reason says how to use them.
    """
    reason = "no provider is configured and no model server runs on this machine"
    for each in found:
        names = [model.name for model in each.models or ()]
        model = next((name for name in names if "embed" not in name.lower() and "rerank" not in name.lower()), "")
        if each.origin is SourceOrigin.PORT and each.is_usable and model:
            return ProviderChoice(
                each.name, each.type, each.origin, f"{each.name} runs here and has {model}", each.address, model
            )
        if each.origin is SourceOrigin.SHELF and names:
            reason += f". To use your local model: zoea run --provider {each.name} --model {names[0]}"
    return ProviderChoice("autopilot", "autopilot", SourceOrigin.BUILT_IN, reason)


async def probe_all(candidates: Sequence[ProbeCandidate]) -> tuple[ProbeResult, ...]:
    """Try all candidates at the same time; results in the same order."""
    return tuple(await asyncio.gather(*(probe(candidate) for candidate in candidates)))


async def probe(candidate: ProbeCandidate) -> ProbeResult:
    """Try one source by listing its models. Raises only CancelledError."""
    if candidate.port is not None and not await _listens(candidate.address, candidate.port):
        return _found(candidate, ProbeStatus.ABSENT)
    started = time.perf_counter()
    try:
        provider = candidate.open()
        try:
            async with asyncio.timeout(candidate.deadline_s):
                models = await provider.models()
        finally:
            await provider.close()
    except TimeoutError:
        return _found(candidate, ProbeStatus.DOWN, detail=f"no answer within {candidate.deadline_s:g} s")
    except ZoeaError as error:
        return _found(candidate, _status_of(candidate, error), detail=error.what, hint=error.hint)
    latency = (time.perf_counter() - started) * 1000
    status = ProbeStatus.OK if models else ProbeStatus.EMPTY
    return _found(candidate, status, latency_ms=latency, models=models)


async def _listens(address: str, port: int) -> bool:
    host = address.removeprefix("http://").partition(":")[0]
    try:
        async with asyncio.timeout(CONNECT_S):
            _, writer = await asyncio.open_connection(host, port)
    except OSError:  # a TimeoutError is one
        return False
    writer.close()
    return True


def _status_of(candidate: ProbeCandidate, error: ZoeaError) -> ProbeStatus:
    if not isinstance(error, ProviderError):
        return ProbeStatus.WRONG
    match error.kind:
        case ErrorClass.AUTH | ErrorClass.QUOTA:
            return ProbeStatus.REFUSED
        case ErrorClass.TRANSIENT:
            return ProbeStatus.LOADING if is_loading(error) else ProbeStatus.DOWN
        case _:
            return ProbeStatus.FOREIGN if candidate.origin is SourceOrigin.PORT else ProbeStatus.WRONG


def _found(
    candidate: ProbeCandidate,
    status: ProbeStatus,
    *,
    latency_ms: float | None = None,
    models: tuple[ModelInfo, ...] | None = None,
    detail: str = "",
    hint: str = "",
) -> ProbeResult:
    return ProbeResult(
        name=candidate.name,
        type=candidate.type,
        origin=candidate.origin,
        status=status,
        address=candidate.address,
        variable=candidate.variable,
        latency_ms=latency_ms,
        models=models,
        detail=detail,
        hint=hint,
        model=candidate.model,
        is_default=candidate.is_default,
    )


def _place(address: str) -> str:
    """Return host and port of an address, equal for two spellings of one server."""
    rest = address.partition("://")[2] or address
    return rest.partition("/")[0].replace("localhost", "127.0.0.1").lower()
