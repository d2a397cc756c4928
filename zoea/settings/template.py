"""`Template`: what an agent is, resolved, hashed, and readable years later.

A template's text is its identity: canonical JSON of everything it says, so that the
database can keep it by hash and `parse_template` gives back the same agent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal

from blake3 import blake3
from pydantic import Field, ValidationError

from zoea.model.errors import TemplateError
from zoea.settings.fields import NAME_PATTERN, Section, Words, lowest_bound, setting
from zoea.settings.schema import (
    NOVA,
    BudgetSettings,
    ContextSettings,
    LlmSettings,
    LoopSettings,
    NudgeSettings,
    Settings,
    ToolSettings,
    TurnSettings,
    WaitSettings,
    find_conflicts,
)

PARENT = "{{parent}}"
"""Where a prompt takes in the prompt of the template it extends."""

OVERRIDES = ("nudge", "wait", "loop", "turn", "context", "budget", "llm", "tool")
"""The sections of the settings that a template may set for its own myses."""

_VERSION = 1


class ToolPolicySettings(Section):
    """Which tools the myses of a template have. `deny` wins over `allow`."""

    allow: Words = setting(("*",), "Allowed", "Tools, as globs, that the template's myses may see.")
    deny: Words = setting((), "Denied", "Tools, as globs, that they may not.")
    ask: Words = setting((), "Ask first", "Tools, as globs, that a person must approve.")
    ask_destructive: bool = setting(
        True, "Ask for destructive tools", "Also those that their server marks as destructive."
    )


class Template(Section):
    """What an agent is. The sections below hold only what the template sets; see `effective_settings`."""

    name: str = setting("", "Name", "The file's name without `.toml`; may be left out.", pattern=NAME_PATTERN)
    title: str = setting("", "Title", "One line for lists.")
    prompt: str = setting(
        "",
        "Prompt",
        "The system prompt; `{{parent}}` stands for the prompt of the template it extends.",
        source=NOVA,
    )
    opening: str = setting("", "Opening", "The first prompt of a newly created mysis; empty for none.")
    provider: str = setting("", "Provider", "Empty is the default one.")
    model: str = setting("", "Model", "Empty is the provider's.")
    strategy: Literal["", "turns"] = setting("", "Strategy", "Empty is context.strategy.")
    run: Literal["forever", "once"] = setting(
        "forever", "Run", "Once: after a turn with nothing pending it is idle, without nudges."
    )
    send: Literal["none", "commander", "swarm"] = setting("swarm", "May write to", "Whom its myses may send messages.")
    search: Literal["own", "swarm"] = setting("own", "May search", "Whose memories its myses may search.")
    tools: ToolPolicySettings = Field(ToolPolicySettings(), title="Tools", description="Its policy on tools.")
    upstreams: tuple[str, ...] | Literal["*"] = setting("*", "Upstreams", 'Names of upstreams, or "*" for all.')
    situation: tuple[Literal["broadcast", "snapshot", "time", "swarm"], ...] = setting(
        (), "Situation", "What the situation pack holds.", source=NOVA
    )
    nudge: NudgeSettings = Field(NudgeSettings(), title="Nudges")
    wait: WaitSettings = Field(WaitSettings(), title="Waiting")
    loop: LoopSettings = Field(LoopSettings(), title="Loop guard")
    turn: TurnSettings = Field(TurnSettings(), title="Turns")
    context: ContextSettings = Field(ContextSettings(), title="Context")
    budget: BudgetSettings = Field(BudgetSettings(), title="Budgets")
    llm: LlmSettings = Field(LlmSettings(), title="Model calls")
    tool: ToolSettings = Field(ToolSettings(), title="Tool calls")

    def overrides(self) -> dict[str, dict[str, Any]]:
        """What the template sets of each section of the settings, and nothing else."""
        found = {name: section.model_dump(exclude_unset=True) for name in OVERRIDES if (section := getattr(self, name))}
        return {name: values for name, values in found.items() if values}

    def uses(self, upstream: str) -> bool:
        """Whether its myses have this upstream's tools."""
        return self.upstreams == "*" or upstream in self.upstreams

    @cached_property
    def text(self) -> str:
        """Canonical JSON of all it says: sorted keys, no spaces, UTF-8. What the database keeps."""
        plain = self.model_dump(mode="json", exclude=set(OVERRIDES))
        for name in OVERRIDES:
            if said := getattr(self, name).model_dump(mode="json", exclude_unset=True):
                plain[name] = said
        plain["zoea_template"] = _VERSION
        return json.dumps(plain, ensure_ascii=False, sort_keys=True, separators=(",", ":"))

    @cached_property
    def hash(self) -> bytes:
        """BLAKE3 of the text, 32 bytes."""
        return blake3(self.text.encode("utf-8", "surrogatepass")).digest()

    @property
    def id(self) -> str:
        """`name@` and eight hex digits of the hash: what people see."""
        return f"{self.name}@{self.hash.hex()[:8]}"


def parse_template(text: str) -> Template:
    """A template back from its text. What a later or earlier Zoea knew beyond this one is left out.

    Raises TemplateError where the text is no template.
    """
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        raise TemplateError("the stored text is no template") from None
    if not isinstance(tree, dict) or "zoea_template" not in tree:
        raise TemplateError("the stored text is no template")
    known = {name: value for name, value in tree.items() if name in Template.model_fields}
    for name in (*OVERRIDES, "tools"):
        if isinstance(known.get(name), dict):
            fields = type(getattr(Template(name="x"), name)).model_fields
            known[name] = {key: value for key, value in known[name].items() if key in fields}
    try:
        return Template.model_validate(known)
    except ValidationError as error:
        where = ", ".join(".".join(map(str, one["loc"])) for one in error.errors())
        raise TemplateError(f"the stored template cannot be read: {where}") from None


def change_settings(template: Template, values: Mapping[str, Any]) -> Template:
    """The template with other settings, by dotted key; None takes a key out. Raises TemplateError naming the wrong."""
    tree = json.loads(template.text)
    for path, value in values.items():
        section, _, key = path.partition(".")
        if section not in OVERRIDES or key not in type(getattr(template, section)).model_fields:
            raise TemplateError(f"{path} is no setting of one mysis", hint=f"these are: {', '.join(OVERRIDES)}")
        tree.setdefault(section, {})
        if value is None:
            tree[section].pop(key, None)
        else:
            tree[section][key] = value
    tree = {key: value for key, value in tree.items() if key not in OVERRIDES or value}
    try:
        return Template.model_validate({key: value for key, value in tree.items() if key != "zoea_template"})
    except ValidationError as error:
        said = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise TemplateError(said) from None


CAPS = ("token_budget_per_agent", "token_budget_per_task", "swarm_per_day", "mysis", "max_output_tokens", "background")
"""The budgets that are bounds; `enforcement` is layered like any other key."""


def effective_settings(settings: Settings, template: Template) -> Settings:
    """The settings as they are for the myses of a template.

    What the template says holds over the settings; of a budget that both set, the
    lower. A template's `strategy` is `context.strategy`. Raises TemplateError where
    both together make no sense.
    """
    overrides = template.overrides()
    if template.strategy:
        overrides.setdefault("context", {})["strategy"] = template.strategy
    if "budget" in overrides:
        overrides["budget"] = _budget(settings.budget, overrides["budget"])
    sections = {name: getattr(settings, name).model_copy(update=values) for name, values in overrides.items()}
    result = settings.model_copy(update=sections)
    if template.overrides() and (wrong := find_conflicts(result)):
        lines = "; ".join(f"{'.'.join(path)}: {message}" for path, message in wrong)
        raise TemplateError(f"template {template.name} does not agree with the settings: {lines}")
    return result


def _budget(settings: BudgetSettings, said: dict[str, Any]) -> dict[str, Any]:
    """A default is no bound that anyone set, so a template may go above it."""
    return {
        key: lowest_bound({"settings": getattr(settings, key), "template": value})[1]
        if key in CAPS and key in settings.model_fields_set
        else value
        for key, value in said.items()
    }
