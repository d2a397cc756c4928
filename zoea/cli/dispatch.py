"""Find the command that a command line names, import its module and run it.

Typer is imported only for the commands that use it, because it takes 100 ms.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from msgspec import Struct

from zoea.cli import notices
from zoea.model.errors import UsageError
from zoea.process.command_line import LightCommand
from zoea.settings.paths import find_untrusted_workspace
from zoea.text.control_characters import strip


class Command(Struct, frozen=True):
    """A command: its function, typer app or `LightCommand` as `module:attribute`, and a summary of one line."""

    place: str
    summary: str
    group: str = "The swarm"


_UNKNOWN_COMMAND = re.compile(r"No such command '(.*?)'")
_SETUP = "Setting up"
_SILENT = frozenset({"completion", "config", "trust"})
"""Commands that do not say which workspace they use: they use none, or say more."""
_WORLD = "The sandbox world"

COMMANDS: dict[str, Command] = {
    "run": Command("zoea.cli.commands.run:command", "Run the swarm, or attach to the one that runs"),
    "serve": Command("zoea.cli.commands.serve:command", "Show the cockpit in browsers"),
    "new": Command("zoea.cli.commands.myses:new", "Create a mysis and start it"),
    "fork": Command("zoea.cli.commands.forks:fork", "Make myses that know a conversation up to a commit"),
    "list": Command("zoea.cli.commands.list_myses:command", "List all myses with their status"),
    "show": Command("zoea.cli.commands.myses:show", "Show all fields of one mysis"),
    "send": Command("zoea.cli.commands.messages:send", "Send a message to one mysis"),
    "broadcast": Command("zoea.cli.commands.messages:broadcast", "Send a message to all myses, or to some"),
    "receipt": Command("zoea.cli.commands.messages:receipt", "Show the status of a message for each recipient"),
    "withdraw": Command("zoea.cli.commands.messages:withdraw", "Take back messages that no turn has taken yet"),
    "preserve": Command(
        "zoea.cli.commands.preserve:preserve", "Keep messages word for word, for templates with the strategy window"
    ),
    "preserved": Command(
        "zoea.cli.commands.preserve:preserved", "List the messages of a mysis that are kept word for word"
    ),
    "topic": Command("zoea.cli.commands.topic:app", "List, read, publish and follow messages of topics"),
    "start": Command("zoea.cli.commands.myses:start", "Start or relaunch myses"),
    "stop": Command("zoea.cli.commands.myses:stop", "Stop myses, or end the whole swarm"),
    "configure": Command(
        "zoea.cli.commands.myses:configure", "Change template, provider, model, tags or settings of a mysis"
    ),
    "delete": Command("zoea.cli.commands.myses:delete", "Stop and delete myses; their memories stay"),
    "undelete": Command("zoea.cli.commands.myses:undelete", "Restore deleted myses, or list them"),
    "dismiss": Command("zoea.cli.commands.myses:dismiss", "Clear the error of a mysis, or mark its report as reviewed"),
    "log": Command("zoea.cli.commands.messages:log", "Show the stored conversation of a mysis"),
    "search": Command("zoea.cli.commands.search:command", "Search messages, tool calls, results and reasoning"),
    "export": Command("zoea.cli.commands.export:export", "Write the conversation of a mysis, or of all myses"),
    "import": Command(
        "zoea.cli.commands.imports:import_", "Import myses with their conversations, also from Zoea Nova"
    ),
    "explain": Command("zoea.cli.commands.explain:explain", "Show the packs of a request, and why some were cut"),
    "ctx": Command("zoea.cli.commands.context:app", "Read, compare, name, import and remove commits: what myses knew"),
    "stats": Command("zoea.cli.commands.stats:command", "Show tokens, spending and turns over time"),
    "budgets": Command("zoea.cli.commands.budgets:command", "Show how much of each budget is used, and what to do"),
    "metrics": Command("zoea.cli.commands.metrics:command", "Print the metrics in the text format of Prometheus"),
    "hold": Command("zoea.cli.commands.control:hold", "Hold the swarm, or pause one mysis; --lift resumes"),
    "approvals": Command(
        "zoea.cli.commands.control:approvals",
        "List what waits for your answer: questions, tool calls, requests over a budget",
    ),
    "answer": Command("zoea.cli.commands.control:answer", "Answer a question of a mysis"),
    "approve": Command("zoea.cli.commands.control:approve", "Allow a tool call, or a request over a budget"),
    "deny": Command("zoea.cli.commands.control:deny", "Refuse a tool call, or a request over a budget"),
    "grants": Command(
        "zoea.cli.commands.control:grants", "List the tools that you allowed for all myses of a template"
    ),
    "revoke": Command("zoea.cli.commands.control:revoke", "Revoke a grant: the tool asks for approval again"),
    "config": Command("zoea.cli.commands.config:app", "Write, read and check the settings", _SETUP),
    "trust": Command(
        "zoea.cli.commands.trust:trust",
        "Allow a project's zoea.toml and templates to take effect",
        _SETUP,
    ),
    "credentials": Command(
        "zoea.cli.commands.credentials:app", "Store API keys and other secrets that settings refer to", _SETUP
    ),
    "providers": Command("zoea.cli.commands.providers:app", "List the providers that Zoea finds, and try each", _SETUP),
    "prices": Command("zoea.cli.commands.prices:app", "List the prices of models, set and remove your own", _SETUP),
    "local": Command("zoea.cli.commands.local:app", "Add, fetch, list and remove models that run inside Zoea", _SETUP),
    "upstream": Command(
        "zoea.cli.commands.upstream:app",
        "Add, import, list and test the MCP servers that offer tools to the myses",
        _SETUP,
    ),
    "completion": Command(
        "zoea.cli.commands.completion:completion",
        "Print a script that completes commands and names in bash, zsh or fish",
        _SETUP,
    ),
    "doctor": Command(
        "zoea.cli.commands.maintenance:doctor",
        "Check access rights and the database, or rebuild its search indexes",
        _SETUP,
    ),
    "vacuum": Command("zoea.cli.commands.maintenance:vacuum", "Shrink the database file to its contents", _SETUP),
    "purge": Command("zoea.cli.commands.erase:purge", "Remove deleted myses for good, with all their messages", _SETUP),
    "redact": Command("zoea.cli.commands.erase:redact", "Replace a text everywhere it is stored", _SETUP),
    "mcp": Command(
        "zoea.cli.commands.mcp:app", "Let MCP clients search the swarm's messages and send it new ones", _SETUP
    ),
    "world": Command("zoea.cli.commands.world:app", "Serve the sandbox world Reef, or show its score", _WORLD),
}


def dispatch(arguments: list[str]) -> int:
    """Run the command that the arguments name.

    Raises:
        UsageError: They name no command, or the command does not accept them.
    """
    match arguments:
        case [] | ["--help" | "-h" | "help"]:
            sys.stdout.write(f"{overview()}\n")
            return 0
        case ["--version" | "-V", *_]:
            from zoea import __version__

            sys.stdout.write(f"zoea {__version__}\n")
            return 0
        case ["help", name, *rest]:
            return dispatch([name, *rest, "--help"])
        case [name, *rest]:
            command = load(name)
            if name not in _SILENT and not any(argument.startswith(("-w", "--workspace")) for argument in rest):
                notices.say(strip(find_untrusted_workspace()))
            return _invoke(name, command, rest)
    return 0


def load(name: str) -> Any:
    """Import a command and return its `LightCommand` or typer command object.

    Raises:
        UsageError: There is no command of that name; the hint names the nearest one.
    """
    known = COMMANDS.get(name)
    if known is None and name.startswith("-"):
        raise UsageError(
            f"the option {name} stands before the command",
            hint="Options follow the command, as in `zoea list --json`; `zoea --help` lists the commands.",
        )
    if known is None:
        raise UsageError(f"there is no command {name!r}", hint=_nearest(name))
    module, attribute = known.place.split(":")
    found = getattr(import_module(module), attribute)
    if isinstance(found, LightCommand):
        return found
    import typer

    from zoea.cli.typer_wording import simplify_help

    around = typer.Typer(add_completion=False, rich_markup_mode=None)
    if isinstance(found, typer.Typer):
        around.add_typer(found, name=name)
        return simplify_help(typer.main.get_group(around).commands[name])
    around.command(name)(found)
    return simplify_help(typer.main.get_command(around))


def overview() -> str:
    """Return the text of `zoea --help`."""
    width = max(map(len, COMMANDS)) + 2
    lines = [
        "Zoea: mission control for a swarm of LLM agents.",
        "",
        "  zoea COMMAND [OPTIONS]    zoea COMMAND --help",
        "",
        "Most commands take --json and --workspace NAME (-w). `zoea run` opens the cockpit, the screen",
        "on which you watch and command the swarm.",
        "",
        "A mysis (plural myses) is one agent. A provider serves its model, a template says how it",
        "works, an upstream is a server (MCP) that offers it tools. A turn is its work from a message",
        "to the answer; a nudge tells it to go on with its task. A memory is one stored message; a",
        "commit stores what a mysis knew at a moment. While a hold is set, no new call of a model or",
        "a tool starts. A budget is a limit of tokens or money.",
    ]
    group = ""
    for name, command in COMMANDS.items():
        if command.group != group:
            group = command.group
            lines += ["", group]
        lines.append(f"  {name:<{width}}{command.summary}")
    return "\n".join(lines)


def _invoke(name: str, command: Any, arguments: list[str]) -> int:
    if isinstance(command, LightCommand):
        return command.main(arguments)
    import typer

    from zoea.cli.typer_wording import describe_error

    try:
        code = command.main(args=arguments, prog_name=f"zoea {name}", standalone_mode=False)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except SystemExit as ended:
        # typer turns a broken pipe into exit code 1; `zoea.__main__` has its own exit code for it.
        if isinstance(cause := ended.__context__, BrokenPipeError):
            raise cause from None
        raise
    except typer.TyperException as wrong:
        said = wrong.format_message() if hasattr(wrong, "format_message") else str(wrong)
        context = getattr(wrong, "ctx", None)
        path = context.command_path if context is not None else f"zoea {name}"
        if below := getattr(getattr(context, "command", None), "commands", None):
            if type(wrong).__name__ == "NoArgsIsHelpError":
                sys.stdout.write(f"{said}\n")
                return 0
            if unknown := _UNKNOWN_COMMAND.match(said):
                raise UsageError(
                    f"there is no command `{path} {unknown[1]}`", hint=_nearest(unknown[1], below, path)
                ) from None
        raise UsageError(describe_error(said), hint=f"`{path} --help` shows its arguments and options.") from None
    return code if isinstance(code, int) else 0


def _nearest(name: str, commands: Iterable[str] = COMMANDS, path: str = "zoea") -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, commands, n=1)
    return f"Did you mean `{path} {near[0]}`?" if near else f"`{path} --help` lists the commands."
