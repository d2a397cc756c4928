"""From the first word of a command line to the one module that carries it out."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer

from zoea.model.errors import UsageError


@dataclass(frozen=True, slots=True)
class Command:
    """A command: where it lives (`module:attribute`), and what it does in one line."""

    place: str
    summary: str
    group: str = "The swarm"


_SETUP = "Setting up"
_WORLD = "The sandbox world"

COMMANDS: dict[str, Command] = {
    "run": Command("zoea.cli.commands.run:run", "Run the swarm here, or attach to the one that runs"),
    "serve": Command("zoea.cli.commands.serve:serve", "The cockpit in browsers, over the swarm that runs here"),
    "new": Command("zoea.cli.commands.myses:new", "Create a mysis and start it"),
    "list": Command("zoea.cli.commands.myses:list_", "All myses and their states"),
    "show": Command("zoea.cli.commands.myses:show", "One mysis in full"),
    "send": Command("zoea.cli.commands.messages:send", "Say something to one mysis"),
    "broadcast": Command("zoea.cli.commands.messages:broadcast", "Say something to all myses, or to some"),
    "receipt": Command("zoea.cli.commands.messages:receipt", "What became of a message, for each who should get it"),
    "withdraw": Command("zoea.cli.commands.messages:withdraw", "Take back what waits for a mysis's next turn"),
    "start": Command("zoea.cli.commands.myses:start", "Start or relaunch myses"),
    "stop": Command("zoea.cli.commands.myses:stop", "Stop myses, or the whole swarm and its owner"),
    "configure": Command("zoea.cli.commands.myses:configure", "Change what a mysis is: model, tags, budgets"),
    "delete": Command("zoea.cli.commands.myses:delete", "Archive a mysis; its memories stay"),
    "undelete": Command("zoea.cli.commands.myses:undelete", "Bring a deleted mysis back, or list those that can be"),
    "dismiss": Command("zoea.cli.commands.myses:dismiss", "Take the error off a mysis"),
    "log": Command("zoea.cli.commands.messages:log", "The stored conversation of a mysis"),
    "search": Command("zoea.cli.commands.search:search", "Find what was ever said in the swarm"),
    "export": Command("zoea.cli.commands.export:export", "The conversation of a mysis, or of all, as a file"),
    "import": Command("zoea.cli.commands.imports:import_", "Bring in an export, or the memories of Zoea Nova"),
    "explain": Command("zoea.cli.commands.export:explain", "What a request held, what was left out, and why"),
    "hold": Command("zoea.cli.commands.control:hold", "Hold the swarm or one mysis; lift it again"),
    "approvals": Command(
        "zoea.cli.commands.control:approvals", "What waits for your answer: questions, tool calls, budgets"
    ),
    "answer": Command("zoea.cli.commands.control:answer", "Answer the question of a mysis"),
    "approve": Command("zoea.cli.commands.control:approve", "Allow a tool call, or going on beyond a budget"),
    "deny": Command("zoea.cli.commands.control:deny", "Refuse what a mysis asks for"),
    "grants": Command("zoea.cli.commands.control:grants", "Tools that you allowed for a whole template"),
    "revoke": Command("zoea.cli.commands.control:revoke", "Take such a grant back"),
    "config": Command("zoea.cli.commands.config:app", "Make, show and check the settings", _SETUP),
    "trust": Command("zoea.cli.commands.trust:trust", "Trust what a project's zoea.toml asks for", _SETUP),
    "credentials": Command("zoea.cli.commands.credentials:app", "Keep keys out of files and prompts", _SETUP),
    "providers": Command("zoea.cli.commands.providers:app", "Which models can be reached, and how fast", _SETUP),
    "local": Command("zoea.cli.commands.local:app", "Models that run inside Zoea", _SETUP),
    "upstream": Command("zoea.cli.commands.upstream:app", "MCP servers whose tools the myses use", _SETUP),
    "doctor": Command("zoea.cli.commands.maintenance:doctor", "Check the database; rebuild its search indexes", _SETUP),
    "vacuum": Command("zoea.cli.commands.maintenance:vacuum", "Make the database as small as what it holds", _SETUP),
    "mcp": Command("zoea.cli.commands.mcp:app", "Zoea as an MCP server for other clients", _SETUP),
    "world": Command("zoea.cli.commands.world:app", "Serve Reef, or show its score", _WORLD),
}


def dispatch(arguments: list[str]) -> int:
    """Run the command that the arguments name.

    Raises:
        UsageError: where they name none, or it does not take them.
    """
    match arguments:
        case [] | ["--help" | "-h" | "help"]:
            typer.echo(overview())
            return 0
        case ["--version" | "-V", *_]:
            from zoea import __version__

            typer.echo(f"zoea {__version__}")
            return 0
        case ["help", name, *rest]:
            return dispatch([name, *rest, "--help"])
        case [name, *rest]:
            return _invoke(name, load(name), rest)
    return 0


def load(name: str) -> Any:
    """The command object of typer's, of one command.

    Raises:
        UsageError: where there is none of that name, with the nearest.
    """
    known = COMMANDS.get(name)
    if known is None:
        raise UsageError(f"there is no command {name!r}", hint=_nearest(name))
    module, attribute = known.place.split(":")
    found = getattr(import_module(module), attribute)
    around = typer.Typer(add_completion=False, rich_markup_mode=None)
    if isinstance(found, typer.Typer):
        around.add_typer(found, name=name)
        return typer.main.get_group(around).commands[name]
    around.command(name)(found)
    return typer.main.get_command(around)


def overview() -> str:
    """What `zoea --help` says."""
    width = max(map(len, COMMANDS)) + 2
    lines = ["Zoea: mission control for a swarm of LLM agents.", "", "  zoea COMMAND [OPTIONS]    zoea COMMAND --help"]
    group = ""
    for name, command in COMMANDS.items():
        if command.group != group:
            group = command.group
            lines += ["", group]
        lines.append(f"  {name:<{width}}{command.summary}")
    return "\n".join(lines)


def _invoke(name: str, command: Any, arguments: list[str]) -> int:
    try:
        code = command.main(args=arguments, prog_name=f"zoea {name}", standalone_mode=False)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except SystemExit as ended:
        # The parser makes a 1 of it when whoever read the output is gone; what that means is known one level up.
        if isinstance(gone := ended.__context__, BrokenPipeError):
            raise gone from None
        raise
    except typer.TyperException as wrong:
        said = wrong.format_message() if hasattr(wrong, "format_message") else str(wrong)
        raise UsageError(said.rstrip("."), hint=f"`zoea {name} --help` shows what it takes.") from None
    return code if isinstance(code, int) else 0


def _nearest(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, COMMANDS, n=1)
    return f"did you mean `zoea {near[0]}`?" if near else "`zoea --help` lists the commands"
