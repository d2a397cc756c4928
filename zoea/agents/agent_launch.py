"""How agents are started: their data files, and what a template says of one."""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from zoea.model.errors import AgentError
from zoea.model.ports import GatewayAccess
from zoea.settings.template import AgentSettings

KNOWN = Path(__file__).parent / "known"
HIDDEN = (
    "~/.ssh", "~/.gnupg", "~/.aws", "~/.azure", "~/.kube", "~/.docker", "~/.password-store", "~/.mozilla", "~/.netrc",
    "~/.npmrc", "~/.pypirc", "~/.pgpass", "~/.git-credentials", "{data}/keyrings", "{config}/gcloud", "{config}/gh",
    "{config}/google-chrome", "{config}/chromium", "{config}/rclone", "{config}/BraveSoftware",
    "{config}/microsoft-edge", "{config}/opera", "{config}/vivaldi", "{config}/git/credentials", "{config}/glab-cli",
    "{config}/containers", "{config}/op", "{config}/sops", "{data}/python_keyring", "~/snap/firefox", "~/snap/chromium",
    "~/.var/app", "~/.thunderbird", "~/.cargo/credentials", "~/.cargo/credentials.toml", "~/.vault-token", "~/.my.cnf",
    "~/.s3cfg", "~/.boto", "~/.databrickscfg", "~/.terraform.d", "~/.Xauthority", "{cache}/huggingface/token",
)  # fmt: skip
"""Keys and logins in the home folder that no fenced agent sees."""
_XDG = {"data": ".local/share", "config": ".config", "state": ".local/state", "cache": ".cache"}
_ENV = "env:"


class GatewayProvider(Struct, frozen=True, forbid_unknown_fields=True):
    """A provider that is set over the protocol (`providers/set`)."""

    provider_id: str
    api_type: str
    base_url: str
    headers: dict[str, str] = {}


class GatewayUse(Struct, frozen=True, forbid_unknown_fields=True):
    """How an agent is pointed at the gateway.

    Its texts hold `{openai_url}`, `{anthropic_url}`, `{token}` and `{model}`; in JSON they are escaped.

    Attributes:
        wire: What it speaks to models: `chat`, `responses` or `messages`.
    """

    wire: str
    env: dict[str, str] = {}
    args: tuple[str, ...] = ()
    provider: GatewayProvider | None = None


class KnownAgent(Struct, frozen=True, forbid_unknown_fields=True):
    """A data file of an agent.

    Attributes:
        install: The command line that installs it.
        mode: The mode that asks before it changes anything; empty where it always asks or has no modes.
        env: Variables that it gets; `{home}` is the home folder.
        tried: The version that was tried with Zoea; empty where none was.
        home: What it keeps in the home folder, with its login and its sessions; `{data}` and others as XDG names them.
        moves_forks: Whether a fork of its session works in another folder where that is asked for.
    """

    name: str
    title: str
    help: str
    install: str
    command: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    mode: str = ""
    tried: str = ""
    home: tuple[str, ...] = ()
    moves_forks: bool = False
    gateway: GatewayUse | None = None

    @property
    def program(self) -> str | None:
        """The path of its program; None where it is not installed."""
        return shutil.which(self.command)


class AgentFence(Struct, frozen=True):
    """What a fenced agent can write besides its folder, and what it cannot see."""

    writable: tuple[Path, ...]
    hidden: tuple[Path, ...]


class AgentLaunch(Struct, frozen=True):
    """All that starts the agent of one mysis.

    Attributes:
        fs: What it may do with files through Zoea: `none`, `read` or `write`.
        provider: The gateway as a provider to set over the protocol.
        moves_forks: See `KnownAgent`.
        chooses_model: Whether `model` is one that the agent itself has to offer.
        fence: What it can see and write; None where it is not fenced.
    """

    name: str
    command: tuple[str, ...]
    env: dict[str, str]
    cwd: Path
    mode: str = ""
    model: str = ""
    fs: str = "none"
    provider: GatewayProvider | None = None
    chooses_model: bool = True
    uses_gateway: bool = False
    moves_forks: bool = False
    fence: AgentFence | None = None


@cache
def known_agents() -> dict[str, KnownAgent]:
    """Return the shipped data files by name."""
    found = [
        msgspec.convert(tomllib.loads(file.read_text("utf-8")), KnownAgent) for file in sorted(KNOWN.glob("*.toml"))
    ]
    return {one.name: one for one in found}


def installed_agents() -> list[KnownAgent]:
    """Return the known agents with a program on this machine, and start none."""
    return [agent for agent in known_agents().values() if agent.program is not None]


def find_agent(name: str) -> KnownAgent:
    """Return an agent by its name. Raises AgentError."""
    agents = known_agents()
    if name not in agents:
        raise AgentError(
            f"there is no agent {name!r}", hint=f"There are: {', '.join(agents)}. `zoea agents list` shows them."
        )
    return agents[name]


def agent_name(settings: AgentSettings) -> str:
    """Return what fronts call the agent of a template."""
    return settings.agent or Path(settings.command).name or "agent"


def build_launch(
    settings: AgentSettings,
    cwd: Path,
    access: GatewayAccess | None,
    model: str = "",
    environ: Mapping[str, str] = os.environ,
) -> AgentLaunch:
    """Join a template with the data file of its agent.

    Args:
        access: Of the gateway; None where it is not used.
        model: The mysis's model, which an agent behind the gateway asks for.

    Raises:
        AgentError: The agent is unknown, has no command, or its environment names a variable that is not set.
    """
    agent = find_agent(settings.agent) if settings.agent else None
    command = settings.command or (agent.command if agent is not None else "")
    if not command:
        raise AgentError(
            "the template names neither an agent nor a command", hint="Set `agent` or `command` of `[acp]`."
        )
    args = settings.args or (agent.args if agent is not None else ())
    home = environ.get("HOME") or str(Path.home())
    env = {name: text.replace("{home}", home) for name, text in agent.env.items()} if agent is not None else {}
    use = agent.gateway if agent is not None and access is not None else None
    provider = None
    if use is not None and access is not None:
        values = {
            "openai_url": access.openai_url,
            "anthropic_url": access.anthropic_url,
            "token": access.token,
            "model": model or "zoea",
        }
        env |= {name: _fill(text, values) for name, text in use.env.items()}
        args = (*args, *(_fill(text, values) for text in use.args))
        if (given := use.provider) is not None:
            headers = {name: _fill(text, values) for name, text in given.headers.items()}
            provider = GatewayProvider(given.provider_id, given.api_type, _fill(given.base_url, values), headers)
    env |= {name: _resolve(name, text, environ) for name, text in settings.env.items()}
    return AgentLaunch(
        name=agent_name(settings),
        command=(command, *args),
        env=env,
        cwd=cwd,
        mode=settings.mode or (agent.mode if agent is not None else ""),
        model=settings.model,
        fs=settings.fs,
        provider=provider,
        chooses_model=bool(settings.model),
        uses_gateway=use is not None,
        moves_forks=agent is not None and agent.moves_forks,
        fence=_build_fence(settings, agent, environ) if settings.fence else None,
    )


def _build_fence(settings: AgentSettings, agent: KnownAgent | None, environ: Mapping[str, str]) -> AgentFence:
    """Return the fence of an agent. It hides keys and the logins of other agents."""
    home = Path(environ.get("HOME") or Path.home())
    own = (*(agent.home if agent is not None else ()), *settings.writable)
    others = (path for one in known_agents().values() for path in one.home)
    writable = tuple(dict.fromkeys(_find_place(path, home, environ) for path in own))
    hidden = (_find_place(path, home, environ) for path in (*HIDDEN, *others))
    return AgentFence(writable, tuple(path for path in dict.fromkeys(hidden) if path not in writable))


def _find_place(text: str, home: Path, environ: Mapping[str, str]) -> Path:
    for name, usual in _XDG.items():
        text = text.replace(f"{{{name}}}", environ.get(f"XDG_{name.upper()}_HOME") or f"~/{usual}")
    return home if text == "~" else home / text.removeprefix("~/")


def _fill(text: str, values: Mapping[str, str]) -> str:
    """Put values into a text; within JSON they are escaped."""
    is_json = text.lstrip().startswith("{") and not text.startswith(
        ("{openai_url}", "{anthropic_url}", "{token}", "{model}")
    )
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", json.dumps(value)[1:-1] if is_json else value)
    return text


def _resolve(name: str, text: str, environ: Mapping[str, str]) -> str:
    """Return a value of the template's environment; `env:NAME` is taken from Zoea's own."""
    if not text.startswith(_ENV):
        return text
    wanted = text.removeprefix(_ENV)
    if wanted not in environ:
        raise AgentError(f"the variable {wanted} is not set, which the template gives its agent as {name}")
    return environ[wanted]
