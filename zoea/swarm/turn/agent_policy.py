"""Decides by the template whether an external agent may make a call. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from zoea.agents.updates import CHANGE_KINDS, READ_KINDS, SERVER, MergedCall, PermissionOption
from zoea.files.safe_folder import is_git
from zoea.model.enums import ApprovalAnswer
from zoea.model.request import ToolSpec
from zoea.settings.template import ToolPolicySettings
from zoea.text.command_lines import covers_call, find_grant_scope
from zoea.tools.policy import ToolPolicy, apply_policy

SCHEMA_HASH = "acp"
"""Stands in grants for the schema of a tool, which the kinds of an agent's calls do not have."""

_OUTSIDE = CHANGE_KINDS | {"fetch", "switch_mode"}
"""Kinds that no tool of Zoea's own is of."""
_CODEX_TITLE, _WRAPPED = f"mcp.{SERVER}.", {"server", "tool", "arguments"}
_TITLE = r"(?:\w+: )?(?:[\w-]+[/:.])?[\w-]*(?<![a-z]){}(?![a-z_])"
"""A title that begins with the name of a tool, behind that of its server. Models choose what else titles hold."""


def describe_tool(call: MergedCall, agent: str, folder: str) -> ToolSpec:
    """Return a call's kind as a tool. One that only reads does so within the folder."""
    paths, takes_command = call.places, call.takes_command
    only_reads = call.name in READ_KINDS and not takes_command
    return ToolSpec(
        name=call.name,
        description="",
        input_schema={},
        upstream=agent,
        origin=call.name,
        read_only=only_reads and all(relative_path(path, folder) is not None for path in paths),
        destructive=not only_reads or bool(paths),
        schema_hash=SCHEMA_HASH,
        takes_command=takes_command,
    )


def apply_template(spec: ToolSpec, tools: ToolPolicySettings) -> ToolSpec | None:
    """Return the tool with `asks` as the template says; None where it forbids it."""
    policy = ToolPolicy(
        allow=tools.allow,
        deny=tools.deny,
        ask=tools.ask,
        ask_destructive=tools.ask_destructive,
        ask_commands=tools.ask_commands,
        ask_unless_read_only=tools.ask_unless_read_only,
    )
    return apply_policy(spec, policy)


def is_covered(call: MergedCall, folder: str, tools: ToolPolicySettings) -> bool:
    """Return whether a template allows a command, or the files of a change, unasked."""
    if call.takes_command:
        return covers_call(call.write_scope(), tools.commands, (), takes_command=True)
    if call.name not in CHANGE_KINDS or not call.files:
        return False
    inner = [relative_path(path, folder) for path in call.places]
    return all(
        path is not None
        and not any(map(is_git, PurePosixPath(path).parts))
        and covers_call(json.dumps({"path": path}), (), tools.paths, takes_command=False)
        for path in inner
    )


def find_own(call: MergedCall, tools: Iterable[ToolSpec]) -> ToolSpec | None:
    """Return the tool of Zoea's own that a call names, such as `zoea_zoea_done` or `mcp__zoea__zoea_done`.

    Codex tells such calls as commands: with server, tool and arguments, and `mcp.zoea.zoea_done` as their title.
    """
    arguments = call.told.arguments if call.has_arguments else {}
    if not isinstance(arguments, dict) or call.files or call.name in _OUTSIDE:
        return None
    named = call.title.removeprefix(_CODEX_TITLE)
    if is_wrapped := arguments.keys() == _WRAPPED and named != call.title:
        if (arguments["server"], arguments["tool"]) != (SERVER, named) or not isinstance(arguments["arguments"], dict):
            return None
        arguments = arguments["arguments"]
    elif call.takes_command:
        return None
    for tool in tools:
        if tool.name == named if is_wrapped else re.match(_TITLE.format(tool.name), call.title):
            return tool if arguments.keys() <= tool.input_schema.get("properties", {}).keys() else None
    return None


def find_scope(call: MergedCall) -> str:
    """Return the simple command that a grant for a call would cover. "" where it is none."""
    return find_grant_scope(call.write_scope())


def relative_path(path: str, folder: str) -> str | None:
    """Return a path relative to a folder. None where a file system, shell or address may leave it."""
    if path.startswith(("~", "$")) or "://" in path:
        return None
    relative = PurePosixPath(path)
    if relative.is_absolute():
        if not relative.is_relative_to(folder):
            return None
        relative = relative.relative_to(folder)
    return None if ".." in relative.parts else str(relative)


def choose_option(answer: ApprovalAnswer, options: Iterable[PermissionOption]) -> str | None:
    """Return the option of an agent that grants no more than the answer. None cancels the call.

    Grants are kept by Zoea, so that they can be revoked: "always" is chosen only where the agent offers nothing else.
    """
    # Of several of one kind the first, because the later ones allow more.
    kinds = {one.kind: one.option_id for one in reversed(tuple(options))}
    if answer is ApprovalAnswer.ONCE:
        wanted: tuple[str, ...] = ("allow_once",)
    elif answer.allows:
        wanted = ("allow_once", "allow_always")
    else:
        wanted = ("reject_once", "reject_always")
    option = next((kinds[kind] for kind in wanted if kind in kinds), None)
    if option is None and answer.allows:
        return kinds.get("reject_once")
    return option
