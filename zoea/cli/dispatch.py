"""Find the command that a command line names, import its module and run it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any

from msgspec import Struct

from zoea.cli import output
from zoea.model.errors import UsageError
from zoea.process.command_line import AS_JSON, WIDEST, WORKSPACE, CommandLine, Parameter, read_parameters
from zoea.settings.paths import Places, find_untrusted_workspace, places
from zoea.text.control_characters import reveal


class Command(Struct, frozen=True):
    """A command, a group of commands, or both.

    Attributes:
        summary: One line for the help; of a command below another, its docstring begins with it.
        place: Its function, or a tuple of its options and its function, as `module:attribute` in `zoea.cli.commands`.
            The name in the module may end with an underscore.
        below: The commands below it, by their places or as groups.
    """

    summary: str
    place: str = ""
    group: str = "The swarm"
    below: Mapping[str, str | Command] = {}


def _below(module: str, names: str) -> dict[str, str | Command]:
    return {name: f"{module}:{name}" for name in names.split()}


_SETUP = "Setting up"
_SILENT = frozenset({"completion", "config", "trust"})
"""Commands that do not say which workspace they use: they use none, or say more."""
_WORLD = "The sandbox world"
_FILES = "Work on files"

COMMANDS: dict[str, Command] = {
    "run": Command("Run the swarm, or attach to the one that runs", "run:command"),
    "serve": Command("Show the cockpit in browsers", "serve:command"),
    "acp": Command("Let an editor talk to myses as its agent", "acp:acp"),
    "new": Command("Create a mysis and start it", "myses:new"),
    "fork": Command("Make myses that know a conversation up to a commit", "forks:fork"),
    "list": Command("List all myses with their status", "list_myses:list_myses"),
    "show": Command("Show all fields of one mysis", "myses:show"),
    "send": Command("Send a message to one mysis, show its receipt, or take it back", "messages:send"),
    "broadcast": Command("Send a message to all myses, or to some", "messages:broadcast"),
    "keep": Command("Keep messages word for word, for templates with the strategy window", "messages:keep"),
    "topic": Command(
        "List, read, publish and follow messages of topics", below=_below("topic", "list read publish tail")
    ),
    "start": Command("Start or relaunch myses", "myses:start"),
    "stop": Command("Stop myses, or end the whole swarm", "myses:stop"),
    "configure": Command("Change template, provider, model, tags or settings of a mysis", "myses:configure"),
    "delete": Command("Stop and delete myses; their memories stay", "myses:delete"),
    "undelete": Command("Restore deleted myses, or list them", "myses:undelete"),
    "dismiss": Command("Clear the error of a mysis, or mark its report as reviewed", "myses:dismiss"),
    "log": Command("Show the stored conversation of a mysis", "messages:log"),
    "search": Command("Search messages, tool calls, results and reasoning", "search:search"),
    "export": Command("Write the conversation of a mysis, or of all myses", "export:export"),
    "import": Command("Import myses with their conversations, also from Zoea Nova", "imports:import_"),
    "explain": Command("Show the packs of a request, and why some were cut", "explain:explain"),
    "ctx": Command(
        "Read, compare, name, import and remove commits: what myses knew",
        below={
            **_below("context", "show cat refs resolve diff"),
            **_below("context_actions", "commit pick"),
            **_below("context_bundles", "export import"),
            **_below("context_search", "grep blame at"),
            **_below("context_sessions", "resume ask"),
            **_below("context_upkeep", "gc fetch fsck"),
            "log": "context_log:log",
            "note": "context_notes:note",
        },
    ),
    "stats": Command("Show tokens, spending and turns over time, and each budget", "stats:stats"),
    "metrics": Command("Print the metrics in the text format of Prometheus", "stats:metrics"),
    "hold": Command("Hold the swarm, or pause one mysis; --lift resumes", "control:hold"),
    "approvals": Command(
        "List what waits for your answer: questions, tool calls, requests over a budget", "control:approvals"
    ),
    "answer": Command("Answer what a mysis asks: a question, a tool call, a request over a budget", "control:answer"),
    "approve": Command("Allow a tool call, or a request over a budget", "control:approve"),
    "deny": Command("Refuse a tool call, or a request over a budget", "control:deny"),
    "grants": Command("List the tools that you allowed for all myses of a template, or revoke one", "control:grants"),
    "workbench": Command("Serve files and commands of one folder to an MCP client", "files:workbench", _FILES),
    "diff": Command("Show what a mysis changed in its worktree", "files:diff", _FILES),
    "merge": Command("Merge the worktrees of myses into the branches they came from", "files:merge", _FILES),
    "drop": Command("Remove the worktree of a mysis and its branch", "files:drop", _FILES),
    "config": Command(
        "Write, read and check the settings",
        group=_SETUP,
        below=_below("config", "init import show check apply path schema"),
    ),
    "trust": Command("Allow a project's zoea.toml and templates to take effect", "trust:trust", _SETUP),
    "credentials": Command(
        "Store API keys and other secrets that settings refer to",
        group=_SETUP,
        below=_below("credentials", "set list delete"),
    ),
    "providers": Command("List the providers that Zoea finds, and try each", "providers:providers", _SETUP),
    "agents": Command(
        "List the external agents that can play myses, and try one",
        group=_SETUP,
        below=_below("agents", "list") | {"test": "agents:try_out"},
    ),
    "prices": Command(
        "List the prices of models, set and remove your own",
        "prices:prices",
        _SETUP,
        below=_below("prices", "set remove"),
    ),
    "local": Command(
        "Add, list and remove models that run inside Zoea", group=_SETUP, below=_below("local", "add list remove")
    ),
    "upstream": Command(
        "Add, import, list and test the MCP servers that offer tools to the myses",
        group=_SETUP,
        below=_below("upstream", "import add remove enable disable list call") | {"test": "upstream:try_out"},
    ),
    "completion": Command(
        "Print a script that completes commands and names in bash, zsh or fish", "completion:completion", _SETUP
    ),
    "doctor": Command(
        "Check access rights and the database, rebuild its indexes, shrink it", "maintenance:doctor", _SETUP
    ),
    "purge": Command("Remove deleted myses for good, with all their messages", "erase:purge", _SETUP),
    "redact": Command("Replace a text everywhere it is stored", "erase:redact", _SETUP),
    "mcp": Command(
        "Let MCP clients search the swarm's messages and send it new ones",
        "mcp:serve",
        _SETUP,
        below={
            "install": "mcp:install",
            "token": Command("Manage the tokens of HTTP clients", below=_below("mcp", "new list revoke")),
        },
    ),
    "world": Command(
        "Serve the sandbox world Reef, or show its score", "world:serve", _WORLD, below=_below("world", "score")
    ),
}

PROMPTED = {
    name: command
    for name, command in COMMANDS.items()
    if command.group == "The swarm" and not command.below and name not in ("run", "serve", "acp", "export", "import")
}
"""The commands that can also be typed beside `zoea run --plain`."""


class LoadedCommand:
    """A command with its function imported.

    Args:
        is_prompted: It was typed beside `zoea run --plain`, in the workspace of that and for a person.

    Attributes:
        function: What it runs; None for a group that only holds other commands.
        line: Its options, words and help.
        below: The commands below it.
    """

    def __init__(self, path: str, command: Command, *, is_prompted: bool = False) -> None:
        self.below = command.below
        self.function: Callable[..., Any] | None = None
        self._options: type | None = None
        self._has_where = False
        parameters: dict[str, Parameter] = {}
        if command.place:
            module, attribute = command.place.split(":")
            defined = vars(import_module(f"zoea.cli.commands.{module}"))
            described = defined.get(f"{attribute}_") or defined[attribute]
            self._options, function = described if isinstance(described, tuple) else (None, described)
            self.function = function
            self._has_where = function.__code__.co_varnames[:1] == ("where",)
            parameters = read_parameters(self._options or function)
            if not is_prompted and "Output" in function.__annotations__["return"]:
                parameters["as_json"] = AS_JSON
            if not is_prompted and self._has_where:
                parameters["workspace"] = WORKSPACE
        about = (self.function and self.function.__doc__) or f"{command.summary}."  # None has a text of its own
        self.line = CommandLine(path, parameters, about, self._summarize if self.below else None)

    def run(self, typed: list[str]) -> int:
        """Run a command line, or write the help, and return the exit code.

        Raises:
            UsageError: The command does not accept an argument.
        """
        path = self.line.path
        if self.below and typed and not typed[0].startswith("-"):
            hint = _nearest(typed[0], self.below, path)
            raise UsageError(f"there is no command `{path} {typed[0]}`", hint=hint)
        values = self.line.parse(typed)
        if values is None or self.function is None:
            import shutil  # only the help needs it

            sys.stdout.write(self.line.help_text(min(shutil.get_terminal_size().columns, WIDEST)) + "\n")
            return 0
        if path.split()[1] not in _SILENT and not values.get("workspace"):
            output.say(reveal(find_untrusted_workspace()))
        if self._options is not None:
            return output.write(self.function(self._options(**values)))
        values.pop("as_json", None)
        where = [places(values.pop("workspace"))] if self._has_where else []
        return output.write(self.function(*where, **values))

    def answer(self, typed: list[str], where: Places) -> str:
        """Run a line typed at a front's prompt; return its result or its help.

        Raises:
            UsageError: The command does not accept an argument.
        """
        values = self.line.parse(typed, is_prompt=True)
        if values is None or self.function is None:
            return self.line.help_text(WIDEST)
        return output.as_text(self.function(*([where] if self._has_where else []), **values))

    def _summarize(self) -> dict[str, str]:
        """Return the first sentence of each command below."""
        names = self.line.path.split()[1:]
        abouts = {name: load([*names, name])[0].line.about for name in self.below}
        return {name: about.split("\n\n")[0].partition(". ")[0].rstrip(".") + "." for name, about in abouts.items()}


def dispatch(arguments: list[str]) -> int:
    """Run the command that the arguments name.

    Raises:
        UsageError: They name no command, or the command does not accept them.
    """
    output.is_json = "--json" in arguments
    match arguments:
        case [] | ["--help" | "-h" | "help"]:
            sys.stdout.write(f"{overview()}\n")
            return 0
        case ["--version" | "-V", *_]:
            from zoea import __version__

            sys.stdout.write(f"zoea {__version__}\n")
            return 0
        case ["help", *words]:
            return dispatch([*words, "--help"])
    command, rest = load(arguments)
    return command.run(rest)


def load(words: Sequence[str]) -> tuple[LoadedCommand, list[str]]:
    """Import the command that the first words name, and return it with the other words.

    Raises:
        UsageError: There is no command of that name; the hint names the nearest one.
    """
    name, *rest = words
    command = COMMANDS.get(name)
    if command is None and name.startswith("-"):
        raise UsageError(
            f"the option {name} stands before the command",
            hint="Options follow the command, as in `zoea list --json`; `zoea --help` lists the commands.",
        )
    if command is None:
        raise UsageError(f"there is no command {name!r}", hint=_nearest(name, COMMANDS, "zoea"))
    path = ["zoea", name]
    while rest and rest[0] in command.below:
        path.append(rest.pop(0))
        below = command.below[path[-1]]
        command = below if isinstance(below, Command) else Command("", below)
    return LoadedCommand(" ".join(path), command), rest


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


_MEANT = {
    "hold": "pause freeze suspend",
    "hold --lift": "resume unpause continue",
    "start": "relaunch restart",
    "stop": "kill end",
    "new": "create add spawn",
    "delete": "remove rm",
    "send": "message tell ask",
    "list": "status ps",
    "log": "history conversation",
    "config": "settings setting set theme",
    "stats": "budgets charts",
    "providers": "models model provider",
    "run": "attach cockpit",
}
"""Words of people and of the cockpit for commands; by its letters `pause` would be taken for `purge`."""


def _nearest(name: str, commands: Iterable[str], path: str) -> str:
    from difflib import get_close_matches

    meant = [command for command, words in _MEANT.items() if commands is COMMANDS and name in words.split()]
    near = meant or get_close_matches(name, commands, n=1)
    return f"Did you mean `{path} {near[0]}`?" if near else f"`{path} --help` lists the commands."
