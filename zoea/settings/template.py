"""Templates: the definition of an agent, with a canonical text and its hash.

The database keeps the text by its hash; `parse_template` restores the same agent from it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from blake3 import blake3
from pydantic import AfterValidator, AliasChoices, Field, PrivateAttr, ValidationError

from zoea.model.errors import TemplateError
from zoea.settings.commit_settings import ChainSettings, InheritedSettings
from zoea.settings.early_defaults import NAME_PATTERN
from zoea.settings.fields import NOVA, Section, Words, lowest_bound, setting
from zoea.settings.schema import (
    BudgetSettings,
    ContextSettings,
    LlmSettings,
    LoopSettings,
    NudgeSettings,
    SessionSettings,
    Settings,
    ToolSettings,
    TurnSettings,
    WaitSettings,
)
from zoea.settings.settings_conflicts import find_conflicts
from zoea.settings.topic_source import ContextStrategy, TopicName
from zoea.text.json_text import parse_object


def _checked_schema(schema: dict[str, Any]) -> dict[str, Any]:
    # Only roles with a schema need the library, which takes a while to load.
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        where = ".".join(map(str, error.absolute_path))
        raise ValueError(f"is not a JSON Schema: {f'{where}: ' if where else ''}{error.message:.200}") from None
    try:
        json.dumps(schema, allow_nan=False)
    except ValueError:
        raise ValueError("contains NaN or infinity, which JSON has not") from None
    if far := next(_far_references(schema), ""):
        raise ValueError(f"refers to {far:.100}; use references within the schema, which begin with '#'")
    return schema


def _far_references(node: Any) -> Iterator[str]:
    """Yield the references of a schema to other places, which nothing may load."""
    match node:
        case dict():
            for key, value in node.items():
                if key in ("$ref", "$dynamicRef") and isinstance(value, str) and not value.startswith("#"):
                    yield value
                yield from _far_references(value)
        case list():
            for value in node:
                yield from _far_references(value)


AGENT_PREFIX = "agent:"
"""Stands before the name of an external agent, where a provider is chosen for a new mysis."""
PARENT = "{{parent}}"
"""Placeholder in a prompt for the prompt of the extended template."""
OVERRIDES = ("nudge", "wait", "loop", "turn", "context", "session", "budget", "llm", "tool", "chain", "inherited")
"""The sections of the settings that a template may set for its own myses."""
CAPS = (
    "token_budget_per_agent",
    "token_budget_per_task",
    "swarm_per_day",
    "mysis",
    "max_output_tokens",
    "background",
    "swarm_money_per_day",
    "mysis_money",
)
"""Budgets that are bounds; `enforcement` is layered like any other key."""
_FOLDER = "zoea_folder"
"""Key of the text that tells from which project's folder the template came, as a hash."""
_VERSION = 1
_LATER = (
    "runtime",
    "acp",
    "workbench",
    "worktree",
    "subscribes",
    "publishes",
    "role",
    "context_strategy",
    "output_schema",
)
_LATER_TOOLS = ("contexts", "ask_commands", "ask_unless_read_only", "commands", "paths")
"""Keys that are stored only where they are set, so that a template without them keeps the hash it always had."""


class ToolPolicySettings(Section):
    """Tools of a template's myses. `deny` wins over `allow`."""

    allow: Words = setting(("*",), "Allowed", "Tools, as globs, that the myses may use.")
    deny: Words = setting((), "Denied", "Tools, as globs, that they may not use.")
    ask: Words = setting((), "Ask first", "Tools, as globs, that need the commander's approval.")
    ask_destructive: bool = setting(
        True, "Ask for destructive tools", "Ask also for tools that their server marks as destructive."
    )
    ask_commands: bool = setting(
        True, "Ask for commands", "Ask also for tools that take a command line, a script or code."
    )
    ask_unless_read_only: bool = setting(
        False,
        "Ask for changes",
        "Ask for every tool of an upstream that its server does not mark as one that only reads. Not set in a template "
        "that works on a folder: for all but the tools of that folder.",
    )
    commands: Words = setting(
        (),
        "Commands that do not ask",
        "Patterns such as `pytest *`: its program and arguments, in which the last * stands for all further ones. They "
        "cover simple commands alone, never a compound line or a program that runs another one.",
    )
    paths: Words = setting(
        (),
        "Files that are written unasked",
        "Globs such as `src/*.py` for write_file and edit_file; * covers folders too.",
    )
    contexts: Literal["none", "use", "command"] = setting(
        "none", "Contexts", "Use: tools that read, make and annotate commits. Command: also those that ask and fork."
    )


class AgentSettings(Section):
    """The external agent that plays the myses of a template with `runtime = "acp"`."""

    agent: str = setting("", "Agent", "One of `zoea agents list`; empty where the command is given.", max_length=40)
    command: str = setting(
        "", "Command", "The program that speaks the protocol on stdin and stdout; that of the agent."
    )
    args: Words = setting((), "Arguments", "Its arguments; those of the agent.")
    env: dict[str, str] = setting(
        {}, "Environment", "Variables that it gets besides; `env:NAME` takes the value of one of Zoea's own."
    )
    cwd: str = setting("", "Folder", "Where it works, if the template names no folder to work on.")
    mode: str = setting("", "Mode", "The mode of the agent, set before its first prompt; the one that asks, if empty.")
    model: str = setting("", "Model", "One of the agent's own models, where it offers a choice.")
    gateway: bool = setting(
        True, "Through Zoea", "Its models are those of the provider, called through Zoea's gateway."
    )
    fs: Literal["none", "read", "write"] = setting(
        "none",
        "Files through Zoea",
        "What it may do with the files of its folder through Zoea; it has tools of its own.",
    )
    fence: bool = setting(
        False,
        "Fence",
        "Its process runs in bubblewrap: it writes its folder and its own files alone. Else it does not run.",
    )
    writable: Words = setting((), "Writable", "Folders and files that a fenced agent may write besides.")


class Template(Section):
    """The definition of an agent; sections hold only what the template sets, see `effective_settings`."""

    name: str = setting(
        "", "Name", "The file's name without `.toml`; may be left out.", pattern=NAME_PATTERN, inert=True
    )
    title: str = setting("", "Title", "One line for lists.", inert=True)
    prompt: str = setting(
        "",
        "Prompt",
        "The system prompt; `{{parent}}` is replaced by the prompt of the extended template.",
        source=NOVA,
        inert=True,
    )
    opening: str = setting("", "Opening", "The first prompt of a newly created mysis; empty for none.", inert=True)
    goal: str = setting(
        "",
        "Goal",
        "What its myses work towards, so that they are nudged from the start; empty where only a task is a goal.",
    )
    provider: str = setting("", "Provider", "Empty is the default provider.")
    model: str = setting("", "Model", "Empty is the provider's model.")
    strategy: Literal["", "turns", "window", "topics"] = setting(
        "", "Strategy", "Empty is context.strategy; topics where context_strategy is given."
    )
    run: Literal["forever", "once"] = setting(
        "forever", "Run", "Once: idle without nudges after a turn with nothing pending."
    )
    send: Literal["none", "commander", "swarm"] = setting(
        "swarm", "May write to", "The recipients its myses may write to."
    )
    search: Literal["own", "swarm"] = setting("own", "May search", "The memories its myses may search.")
    tools: ToolPolicySettings = Field(ToolPolicySettings(), title="Tools", description="The tool policy.")
    upstreams: tuple[str, ...] | Literal["*"] = setting("*", "Upstreams", 'Names of upstreams, or "*" for all.')
    runtime: Literal["zoea", "acp"] = setting(
        "zoea", "Played by", "Zoea's own loop, or an external agent over the Agent Client Protocol."
    )
    acp: AgentSettings = Field(AgentSettings(), title="External agent", description="The agent, with runtime acp.")
    workbench: str = setting(
        "", "Works on", "The folder in which its myses read and change files and run commands; empty for none."
    )
    worktree: bool = setting(False, "Own worktree", "Each of them has its own git worktree of that folder.")
    subscribes: tuple[TopicName, ...] = setting(
        (), "Subscribes to", "Topics of which its myses get each message as the prompt of a turn."
    )
    publishes: Literal[""] | TopicName = setting(
        "", "Publishes on", "The topic on which its myses publish results, with their tool for it."
    )
    role: str = setting(
        "", "Role", "Its part in the work, like planner, worker or validator.", max_length=40, inert=True
    )
    context_strategy: ContextStrategy | None = setting(
        None,
        "Sources of the strategy topics",
        "The ledger messages that each request shows, as a table with sources and max_tokens.",
        validation_alias=AliasChoices("context_strategy", "contextStrategy"),
    )
    output_schema: Annotated[dict[str, Any], AfterValidator(_checked_schema)] | None = setting(
        None,
        "Output schema",
        "The JSON Schema of the last answer of a turn, which is then published as data.",
        validation_alias=AliasChoices("output_schema", "outputSchema"),
    )
    situation: tuple[Literal["broadcast", "snapshot", "time", "swarm"], ...] = setting(
        (), "Situation", "The content of the situation pack.", source=NOVA
    )
    nudge: NudgeSettings = Field(NudgeSettings(), title="Nudges")
    wait: WaitSettings = Field(WaitSettings(), title="Waiting")
    loop: LoopSettings = Field(LoopSettings(), title="Loop guard")
    turn: TurnSettings = Field(TurnSettings(), title="Turns")
    context: ContextSettings = Field(ContextSettings(), title="Context")
    session: SessionSettings = Field(SessionSettings(), title="Conversation window")
    budget: BudgetSettings = Field(BudgetSettings(), title="Budgets")
    llm: LlmSettings = Field(LlmSettings(), title="Model calls")
    tool: ToolSettings = Field(ToolSettings(), title="Tool calls")
    chain: ChainSettings = Field(ChainSettings(), title="Contexts")
    inherited: InheritedSettings = Field(InheritedSettings(), title="Forks")
    _folder: str = PrivateAttr("")

    def of_folder(self, folder: Path) -> Template:
        """Return the template as one of a project, which other templates' grants do not cover."""
        mine = self.model_copy()
        mine._folder = blake3(os.fsencode(os.path.realpath(folder))).hexdigest(length=4)
        return mine

    @property
    def grantee(self) -> str:
        """Return the template that a grant covers: name and folder, as in `approval_ops.GRANTEE`."""
        return f"{self.name} (folder {self._folder})" if self._folder else self.name

    @property
    def chosen_strategy(self) -> str:
        """The strategy that it names or implies; empty is `context.strategy`."""
        return self.strategy or ("topics" if self.context_strategy is not None else "")

    def overrides(self) -> dict[str, dict[str, Any]]:
        """Return the values that the template sets in each section of the settings."""
        sections = {
            name: section.model_dump(exclude_unset=True) for name in OVERRIDES if (section := getattr(self, name))
        }
        return {name: values for name, values in sections.items() if values}

    def uses_upstream(self, upstream: str) -> bool:
        """Return whether its myses have this upstream's tools."""
        return self.upstreams == "*" or upstream in self.upstreams

    @cached_property
    def text(self) -> str:
        """The stored form: canonical JSON with sorted keys, without spaces, in UTF-8."""
        plain = self.model_dump(mode="json", exclude=set(OVERRIDES))
        for name in OVERRIDES:
            if said := getattr(self, name).model_dump(mode="json", exclude_unset=True):
                plain[name] = said
        if not self.goal:
            del plain["goal"]  # so that a template without one keeps the hash it always had
        for name in _LATER:
            if name not in self.model_fields_set:
                del plain[name]
        for name in _LATER_TOOLS:
            if name not in self.tools.model_fields_set:
                del plain["tools"][name]
        if self.context_strategy is not None and "context_strategy" in plain:
            plain["context_strategy"] = self.context_strategy.model_dump(mode="json", exclude_unset=True)
        plain["zoea_template"] = _VERSION
        if self._folder:
            plain[_FOLDER] = self._folder
        return json.dumps(plain, ensure_ascii=False, sort_keys=True, separators=(",", ":"))

    @cached_property
    def hash(self) -> bytes:
        """The BLAKE3 hash of the text, 32 bytes."""
        return blake3(self.text.encode("utf-8", "surrogatepass")).digest()

    @property
    def asks_unmarked(self) -> bool:
        """Whether servers' tools ask that do not only read. True for a workbench without that setting."""
        return bool(self.workbench) and "ask_unless_read_only" not in self.tools.model_fields_set

    @property
    def id(self) -> str:
        """`name@` and eight hex digits of the hash, for display."""
        return f"{self.name}@{self.hash.hex()[:8]}"


def parse_template(text: str) -> Template:
    """Restore a template from its text, ignoring keys unknown to this version.

    Raises:
        TemplateError: The text is not a template.
    """
    tree = parse_object(text)
    if tree is None or "zoea_template" not in tree:
        raise TemplateError("the stored text is not a template")
    known = {name: value for name, value in tree.items() if name in Template.model_fields}
    for name in (*OVERRIDES, "tools"):
        if isinstance(known.get(name), dict):
            fields = type(Template.model_fields[name].default).model_fields
            known[name] = {key: value for key, value in known[name].items() if key in fields}
    try:
        template = Template.model_validate(known)
        template._folder = str(tree.get(_FOLDER, ""))
        return template
    except ValidationError as error:
        where = ", ".join(".".join(map(str, one["loc"])) for one in error.errors())
        raise TemplateError(f"the stored template cannot be read: {where}") from None


def change_settings(template: Template, values: Mapping[str, Any]) -> Template:
    """Return the template with changed settings, by dotted key; None removes a key.

    Raises:
        TemplateError: A key or value is invalid.
    """
    tree = json.loads(template.text)
    for path, value in values.items():
        section, _, key = path.partition(".")
        if section not in OVERRIDES or key not in type(getattr(template, section)).model_fields:
            raise TemplateError(f"{path} is not a setting of one mysis", hint=f"these are: {', '.join(OVERRIDES)}")
        tree.setdefault(section, {})
        if value is None:
            tree[section].pop(key, None)
        else:
            tree[section][key] = value
    tree = {key: value for key, value in tree.items() if key not in OVERRIDES or value}
    try:
        changed = Template.model_validate({key: value for key, value in tree.items() if key in Template.model_fields})
        changed._folder = template._folder
        return changed
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise TemplateError(problems) from None


def work_on(template: Template, folder: str, *, worktree: bool) -> Template:
    """Return the template with another folder to work on."""
    changed = template.model_copy(update={"workbench": folder, "worktree": worktree})
    changed = Template.model_validate(
        {name: getattr(changed, name) for name in template.model_fields_set | {"workbench", "worktree"}}
    )
    changed._folder = template._folder
    return changed


def play_by(template: Template, agent: str) -> Template:
    """Return the template with an external agent, which keeps the other keys of `[acp]`."""
    acp = template.acp.model_copy(update={"agent": agent, "command": "", "args": ()})
    changed = template.model_copy(update={"runtime": "acp", "acp": acp})
    names = template.model_fields_set | {"runtime", "acp"}
    changed = Template.model_validate({name: getattr(changed, name) for name in names})
    changed._folder = template._folder
    return changed


def effective_settings(settings: Settings, template: Template) -> Settings:
    """Return the settings for the myses of a template.

    The template's values override the settings; of a budget set in both, the lower applies. A
    template's `strategy` sets `context.strategy`.

    Raises:
        TemplateError: Template and settings conflict.
    """
    overrides = template.overrides()
    if template.chosen_strategy:
        overrides.setdefault("context", {})["strategy"] = template.chosen_strategy
    if "budget" in overrides:
        overrides["budget"] = _merge_budget(settings.budget, overrides["budget"])
    sections = {name: getattr(settings, name).model_copy(update=values) for name, values in overrides.items()}
    result = settings.model_copy(update=sections)
    if template.overrides() and (wrong := find_conflicts(result)):
        lines = "; ".join(f"{'.'.join(path)}: {message}" for path, message in wrong)
        raise TemplateError(f"template {template.name} conflicts with the settings: {lines}")
    return result


def _merge_budget(settings: BudgetSettings, said: dict[str, Any]) -> dict[str, Any]:
    """Merge budgets; a default is not a set bound, so a template may exceed it."""
    return {
        key: lowest_bound({"settings": getattr(settings, key), "template": value})[1]
        if key in CAPS and key in settings.model_fields_set
        else value
        for key, value in said.items()
    }
