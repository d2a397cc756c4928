"""Discovery of models: which sources are tried, their status, and the choice for a first run."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from tests.case_tables import walk_cases
from zoea.llm.discovery import (
    KEYS,
    PORTS,
    Discovery,
    ProbeCandidate,
    ProbeResult,
    ProbeStatus,
    ProviderChoice,
    SourceOrigin,
    UsualPort,
    VendorKey,
    best_of,
    probe,
)
from zoea.llm.provider_config import ProviderConfig, is_loopback
from zoea.llm.providers.scripted import ScriptedProvider
from zoea.model.enums import ErrorClass
from zoea.model.errors import ProviderError, SettingsError
from zoea.model.ports import Provider
from zoea.model.request import ModelInfo
from zoea.settings.endpoints import ProviderType
from zoea.settings.layers import load
from zoea.settings.paths import places

Models = Callable[[], tuple[ModelInfo, ...]]


class Listing(ScriptedProvider):
    """A provider whose list of models a test sets. Asking it for an answer is an error."""

    def __init__(self, models: Models, *, hangs: bool = False) -> None:
        super().__init__(lambda _: ProviderError("a paid request", kind=ErrorClass.BAD_REQUEST))
        self._models = models
        self._hangs = hangs

    async def models(self) -> tuple[ModelInfo, ...]:
        if self._hangs:
            await asyncio.Event().wait()
        return self._models()


def failing(kind: ErrorClass, status: int | None = None) -> Models:
    def models() -> tuple[ModelInfo, ...]:
        raise ProviderError("it failed", kind=kind, hint="Look.", status=status)

    return models


def qwen() -> tuple[ModelInfo, ...]:
    return (ModelInfo("nomic-embed-text"), ModelInfo("qwen3:8b", context_window=40_960, tools=True))


def candidate(provider: Provider, origin: SourceOrigin = SourceOrigin.SETTINGS, **changes: Any) -> ProbeCandidate:
    return replace(ProbeCandidate("mine", "openai", origin, lambda: provider), **changes)


@pytest.fixture
async def listening() -> AsyncIterator[int]:
    """A port that somebody listens on."""
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.fixture
def closed() -> Iterator[int]:
    """A port that nobody listens on, nor can while the test runs."""
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))
        yield kept.getsockname()[1]


async def test_a_provider_that_lists_models_is_ok_with_its_latency() -> None:
    provider = Listing(qwen)
    found = await probe(candidate(provider))
    assert (found.status, found.models) == (ProbeStatus.OK, qwen())
    assert found.latency_ms is not None
    assert provider.is_closed
    assert provider.calls == 0


@walk_cases(
    ("models", "origin", "status"),
    [
        (tuple, SourceOrigin.SETTINGS, ProbeStatus.EMPTY),
        (failing(ErrorClass.AUTH, 401), SourceOrigin.ENVIRONMENT, ProbeStatus.REFUSED),
        (failing(ErrorClass.TRANSIENT), SourceOrigin.SETTINGS, ProbeStatus.DOWN),
        (failing(ErrorClass.BAD_REQUEST, 404), SourceOrigin.PORT, ProbeStatus.FOREIGN),
        (failing(ErrorClass.BAD_REQUEST, 404), SourceOrigin.SETTINGS, ProbeStatus.WRONG),
    ],
)
async def test_a_probe_reports_its_status(models: Models, origin: SourceOrigin, status: ProbeStatus) -> None:
    found = await probe(candidate(Listing(models), origin))
    assert found.status is status
    assert not found.is_usable


async def test_a_provider_that_cannot_be_made_says_why() -> None:
    def broken() -> Provider:
        raise SettingsError("no key is named file:gone", hint="Store it.")

    found = await probe(ProbeCandidate("mine", "openai", SourceOrigin.SETTINGS, broken))
    assert (found.status, found.detail, found.hint) == (ProbeStatus.WRONG, "no key is named file:gone", "Store it.")


async def test_a_provider_that_hangs_is_unreachable_after_its_deadline() -> None:
    provider = Listing(qwen, hangs=True)
    found = await probe(candidate(provider, deadline_s=0.01))
    assert (found.status, found.latency_ms, found.models) == (ProbeStatus.DOWN, None, None)
    assert provider.is_closed


def discovery(provider: Provider, *ports: UsualPort, env: dict[str, str] | None = None, **changes: Any) -> Discovery:
    def opened(name: str, config: ProviderConfig) -> Provider:
        return provider

    return replace(Discovery(opened, env=env or {}, ports=ports), **changes)


async def test_a_closed_port_is_absent_and_gets_no_request(closed: int) -> None:
    provider = Listing(failing(ErrorClass.TRANSIENT))
    found = await discovery(provider, UsualPort("Ollama", closed, "ollama")).all()
    assert [each.status for each in found] == [ProbeStatus.ABSENT]
    assert not provider.is_closed


async def test_an_open_port_is_asked_for_its_models(listening: int) -> None:
    found = await discovery(Listing(qwen), UsualPort("vLLM", listening, "openai", "/v1")).all()
    assert [(each.name, each.status, each.address) for each in found] == [
        ("vLLM", ProbeStatus.OK, f"http://127.0.0.1:{listening}/v1")
    ]


async def test_a_port_that_a_configured_provider_stands_for_is_not_tried_twice(listening: int) -> None:
    configured = candidate(Listing(qwen), address=f"http://localhost:{listening}/v1/")
    found = await discovery(
        Listing(qwen), UsualPort("vLLM", listening, "openai", "/v1"), configured=(configured,)
    ).all()
    assert [each.name for each in found] == ["mine"]


async def test_keys_in_the_environment_are_tried_and_only_their_names_shown() -> None:
    made: list[ProviderConfig] = []

    def opened(name: str, config: ProviderConfig) -> Provider:
        made.append(config)
        return Listing(qwen)

    found = await Discovery(opened, env={"OPENROUTER_API_KEY": "sk-very-secret", "GROQ_API_KEY": ""}, ports=()).all()
    assert [(each.name, each.variable, each.status) for each in found] == [
        ("OpenRouter", "OPENROUTER_API_KEY", ProbeStatus.OK)
    ]
    assert made[0].api_key == "sk-very-secret"
    assert "sk-very-secret" not in repr(found) + repr(found[0].as_dict())


async def test_everything_is_tried_at_the_same_time() -> None:
    both = asyncio.Barrier(2)

    class Meeting(Listing):
        async def models(self) -> tuple[ModelInfo, ...]:
            await both.wait()
            return qwen()

    keys = (VendorKey("A_KEY", "A", "openai"), VendorKey("B_KEY", "B", "openai"))
    found = await discovery(Meeting(qwen), env={"A_KEY": "a", "B_KEY": "b"}, keys=keys).all()
    assert [each.status for each in found] == [ProbeStatus.OK, ProbeStatus.OK]


async def test_one_that_fails_leaves_the_others_alone(listening: int) -> None:
    configured = candidate(Listing(failing(ErrorClass.AUTH)))
    found = await discovery(Listing(qwen), UsualPort("vLLM", listening, "openai"), configured=(configured,)).all()
    assert [each.status for each in found] == [ProbeStatus.REFUSED, ProbeStatus.OK]


async def test_the_best_is_the_configured_default_without_any_request(listening: int) -> None:
    other = candidate(Listing(qwen), name="other")
    default = candidate(Listing(qwen), name="work", model="big", is_default=True)
    made = discovery(Listing(qwen), UsualPort("vLLM", listening, "openai"), configured=(other, default))
    choice = await made.best()
    assert (choice.name, choice.model, choice.origin) == ("work", "big", SourceOrigin.SETTINGS)


async def test_else_a_local_server_with_a_model_that_can_chat(listening: int, closed: int) -> None:
    ports = (UsualPort("Ollama", closed, "ollama"), UsualPort("vLLM", listening, "openai", "/v1"))
    choice = await discovery(Listing(qwen), *ports, env={"OPENAI_API_KEY": "k"}).best()
    assert choice == ProviderChoice(
        "vLLM",
        "openai",
        SourceOrigin.PORT,
        "vLLM runs here and has qwen3:8b",
        f"http://127.0.0.1:{listening}/v1",
        "qwen3:8b",
    )


async def test_a_server_that_loads_its_model_is_said_to_load_it(listening: int) -> None:
    def refuse() -> tuple[ModelInfo, ...]:
        raise ProviderError("no", kind=ErrorClass.TRANSIENT, status=503, said="Loading model")

    (found,) = await discovery(Listing(refuse), UsualPort("llama.cpp", listening, "openai")).all()
    assert (found.status, found.is_usable) == (ProbeStatus.LOADING, False)


@pytest.mark.parametrize("models", [tuple, lambda: (ModelInfo("nomic-embed-text"),), failing(ErrorClass.AUTH)])
async def test_without_a_usable_model_the_autopilot_is_chosen(listening: int, models: Models) -> None:
    choice = await discovery(
        Listing(models), UsualPort("vLLM", listening, "openai"), env={"OPENAI_API_KEY": "k"}
    ).best()
    assert choice.type == "autopilot"


def test_a_choice_says_which_settings_make_a_run_use_it() -> None:
    choice = ProviderChoice("LM Studio", "openai", SourceOrigin.PORT, "it runs", "http://127.0.0.1:1234/v1", "qwen")
    assert choice.overrides() == {
        "provider.lm-studio.type": "openai",
        "provider.lm-studio.base_url": "http://127.0.0.1:1234/v1",
        "provider.lm-studio.model": "qwen",
        "swarm.default_provider": "lm-studio",
    }
    assert best_of([]).overrides() == {}


def test_the_settings_accept_the_overrides_of_a_choice() -> None:
    choice = ProviderChoice("llama.cpp", "openai", SourceOrigin.PORT, "it runs", "http://127.0.0.1:8080/v1", "tiny")
    loaded = load(places(), overrides=choice.overrides())
    assert loaded.settings.provider_name() == "llama-cpp"
    assert loaded.settings.provider["llama-cpp"].model == "tiny"


def test_a_key_without_a_configured_provider_is_not_chosen() -> None:
    found = ProbeResult("OpenAI", "openai", SourceOrigin.ENVIRONMENT, ProbeStatus.OK, models=(ModelInfo("gpt"),))
    assert best_of([found]).type == "autopilot"


def test_with_local_models_the_reason_says_how_to_use_one() -> None:
    shelf = ProbeResult("embedded", "embedded", SourceOrigin.SHELF, ProbeStatus.OK, models=(ModelInfo("qwen"),))
    choice = best_of([shelf])
    assert choice.type == "autopilot"
    assert choice.reason.endswith("To use your local model: zoea run --provider embedded --model qwen")
    assert "To use" not in best_of([]).reason


def test_unknown_values_are_null_in_json() -> None:
    said = ProbeResult("x", "openai", SourceOrigin.PORT, ProbeStatus.DOWN).as_dict()
    assert (said["models"], said["latency_ms"], said["address"], said["key"]) == (None, None, None, None)


def test_known_values_are_in_the_json() -> None:
    found = ProbeResult("x", "openai", SourceOrigin.PORT, ProbeStatus.OK, latency_ms=1.26, models=qwen())
    said = found.as_dict()
    assert said["latency_ms"] == 1.3
    assert said["models"][1] == {"name": "qwen3:8b", "context_window": 40_960, "tools": True, "slots": None}


def test_the_usual_ports_and_keys_are_looked_at() -> None:
    assert {port.title: port.port for port in PORTS} == {
        "Ollama": 11434,
        "llama.cpp": 8080,
        "LM Studio": 1234,
        "vLLM": 8000,
    }
    own = {kind.address for kind in ProviderType if is_loopback(kind.address)}
    assert own <= {f"http://127.0.0.1:{port.port}{port.path}" for port in PORTS}
    assert {"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY"} <= {key.variable for key in KEYS}
