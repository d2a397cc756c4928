"""Traits of models: forms of a request that a provider's model refuses or demands.

Some are known beforehand (`model_table.preset_traits`). All others are learnt from the refusal that names the form,
kept with their date, shown by `zoea providers`, and undone by `zoea providers --forget`.
"""

# ruff: noqa: E501  a sentence of a vendor stands on one line

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from enum import StrEnum

from msgspec import Struct

from zoea.llm.transport.provider_errors import clean, shorten
from zoea.text.lazy_pattern import compile_lazily


class Trait(StrEnum):
    """A form that a model refuses or demands. Names are stored."""

    NO_STREAM_OPTIONS = "no_stream_options"
    COMPLETION_TOKENS = "completion_tokens"
    NO_TEMPERATURE = "no_temperature"
    NO_TOOLS = "no_tools"
    NO_THINKING = "no_thinking"
    NO_SYSTEM = "no_system"
    MERGED_USERS = "merged_users"
    USER_FIRST = "user_first"
    USER_BEFORE_CALLS = "user_before_calls"
    BRIDGED_USERS = "bridged_users"
    SINGLE_CALLS = "single_calls"
    SIGNED_CALLS = "signed_calls"
    SHORT_CALL_IDS = "short_call_ids"
    OWN_CALL_IDS = "own_call_ids"
    REASONING_BACK = "reasoning_back"
    REASONING_FILLED = "reasoning_filled"
    NO_REASONING = "no_reasoning"
    FOLDED_SCHEMAS = "folded_schemas"
    PLAIN_SCHEMAS = "plain_schemas"
    NO_CACHE_MARKS = "no_cache_marks"


WITHOUT_TOOL = "without_tool "
"""Begins the trait of a model whose provider refuses the schema of the tool that follows."""
Traits = frozenset[str]

MEANINGS: dict[str, str] = {
    Trait.NO_STREAM_OPTIONS: "gets no stream_options",
    Trait.COMPLETION_TOKENS: "gets its output limit as max_completion_tokens",
    Trait.NO_TEMPERATURE: "gets no temperature",
    Trait.NO_TOOLS: "calls tools by a JSON schema, because it takes none",
    Trait.NO_THINKING: "gets no setting for thinking",
    Trait.NO_SYSTEM: "gets its instructions in the first user message",
    Trait.MERGED_USERS: "gets neighbouring messages of one role as one",
    Trait.USER_FIRST: "gets a user message first",
    Trait.USER_BEFORE_CALLS: "gets a user message before the first call",
    Trait.BRIDGED_USERS: "gets an answer between a tool's result and a user message",
    Trait.SINGLE_CALLS: "gets each call in a message of its own",
    Trait.SIGNED_CALLS: "gets a mark in place of a signature that its calls lack",
    Trait.SHORT_CALL_IDS: "gets ids of calls of nine letters or digits",
    Trait.OWN_CALL_IDS: "gets its own ids of calls back",
    Trait.REASONING_BACK: "gets its reasoning back with its calls",
    Trait.REASONING_FILLED: "gets its reasoning back with every answer",
    Trait.NO_REASONING: "gets no reasoning back",
    Trait.FOLDED_SCHEMAS: "gets schemas of tools without a choice at their top",
    Trait.PLAIN_SCHEMAS: "gets schemas of tools in their plainest form",
    Trait.NO_CACHE_MARKS: "gets no marks for its cache",
}


class _Lesson(Struct, frozen=True):
    """A refusal that names a form: the traits that it teaches, the first that is new; and what must have been sent."""

    traits: tuple[Trait, ...]
    pattern: re.Pattern[str]
    sent: str
    statuses: tuple[int, ...] = (400, 422)


def _lesson(pattern: str, sent: str, *traits: Trait, statuses: tuple[int, ...] = (400, 422)) -> _Lesson:
    return _Lesson(traits, compile_lazily(pattern, re.IGNORECASE), sent, statuses)


_ANY = (400, 404, 422, 500, 501)
_TEMPLATE = (400, 422, 500)
_LESSONS = (
    _lesson("function call turn comes immediately after a user turn", "opening calls", Trait.USER_BEFORE_CALLS, statuses=_TEMPLATE),
    _lesson(r"must alternate|(first|start|begin)[^.]{0,60}\buser\b", "opening answer", Trait.USER_FIRST, statuses=_TEMPLATE),
    # Gemma and others: huggingface/chat-ui#1386, sgl-project/sglang#892, vllm-project/guidellm#67, arcee-ai/fastmlx#22;
    # o1: tailcallhq/forgecode#1177; servers of the Messages API: ogx-ai/ogx#5982; Gemini: QuantumNous/new-api#989, langchain-ai/langchain#14710
    _lesson(
        r"(?:system|developer)['`\"]? ?(?:role|message|prompt|instruction|type)s?\b[^.\n]{0,40}(?:not supported|unsupported|not (?:been )?(?:allowed|enabled)|not support)"
        r"|(?:not support|unsupported|unexpected|invalid|unknown)[^.\n]{0,40}['`\"]?system['`\"]?(?: role| messages?| prompts?| with|\b)"
        r"|'system' type not supported|only (?:the )?user and assistant roles|input should be 'user' or 'assistant'|roles? (?:must|should) be (?:one of |in |either )?[^.\n]{0,10}user['`\"]?(?:,| or| and| /)[^.\n]{0,10}assistant['`\"\]]*(?![^.\n]*system)",
        "system", Trait.NO_SYSTEM, statuses=_ANY,
    ),
    # An alternation that a system message breaks too: EricLBuehler/mistral.rs#45
    _Lesson((Trait.MERGED_USERS,), compile_lazily(r"must alternate|consecutive (?:user|assistant)", re.IGNORECASE), "", ()),
    _lesson(r"^(?![^\n]*(?:after|optional)[^\n]{0,20}system)[^\n]*must alternate", "system", Trait.NO_SYSTEM, statuses=_TEMPLATE),
    # Mistral: NousResearch/hermes-agent#20154, aaif-goose/goose#5998, zed-industries/zed#37021, mistralai/mistral-vibe#578;
    # Bedrock behind a gateway: OpenHands/OpenHands#5350
    _lesson(r"unexpected role ['`\"]?user['`\"]? after role ['`\"]?tool|tool result blocks cannot be provided in the same turn", "user after result", Trait.BRIDGED_USERS, statuses=_TEMPLATE),
    # Llama's template: openclaw/openclaw#37516
    _lesson(r"only supports? single tool[- ]calls?|(?:multiple|parallel) tool[- ]calls? (?:is |are )?not supported", "several calls", Trait.SINGLE_CALLS, statuses=_TEMPLATE),
    # Gemini 3, for calls of another model: QwenLM/qwen-code#1187, AstrBotDevs/AstrBot#9217, securo-finance/securo#884
    _lesson(r"missing (?:a |an |its )?[`'\"]?thought_?signature", "calls", Trait.SIGNED_CALLS, statuses=_TEMPLATE),
    # Mistral: anomalyco/opencode#1680, nearai/ironclaw#1241, jundot/omlx#1995, karthink/gptel#1203, jackmpcollins/magentic#276
    _lesson(
        r"tool[ _]?call[ _]ids?\b[^\n]{0,120}(?:length of 9|a-z, ?A-Z, ?0-9|9 (?:characters|alphanumeric)|alphanumeric)"
        r"|tool_calls?[^\n]{0,60}\bid\b[^\n]{0,60}(?:too long|pattern|alphanumeric)",
        "calls", Trait.SHORT_CALL_IDS, statuses=_TEMPLATE,
    ),
    _lesson(r"tool[ _]?call[ _]id[^\n]{0,60}(?:not found|unknown|mismatch|is invalid)", "calls", Trait.OWN_CALL_IDS),
    # DeepSeek, Kimi: earendil-works/pi#3636, AgentiLoop/Agent#22, bytedance/deer-flow#3043, anomalyco/opencode#16318,
    # abhigyanpatwari/GitNexus#43, charmbracelet/crush#2696
    _lesson(
        r"(?:reasoning_content|reasoning|thinking)[`'\" ][^\n]{0,60}(?:must be (?:passed|sent|provided|included)|is (?:missing|required)|cannot be empty|passed back)"
        r"|missing [`'\"]?reasoning|reasoning_content[^\n]{0,30}必须",
        "answers", Trait.REASONING_BACK, Trait.REASONING_FILLED,
    ),
    # Groq, Cerebras, Mistral
    _lesson(
        r"(?:reasoning_content|reasoning_details|\breasoning\b)['`\"]?[^\n]{0,60}(?:is unsupported|not supported|unrecogni[sz]ed|extra inputs|not permitted)"
        r"|(?:extra|unknown|unrecogni[sz]ed|additional)[^\n]{0,60}(?:reasoning_content|reasoning_details)",
        "reasoning", Trait.NO_REASONING,
    ),
    # Gateways with older models of the Messages API: earendil-works/pi#7938, cg-dot/vertexai-cf-workers#21
    _lesson(r"cache_control", "cache_control", Trait.NO_CACHE_MARKS),
    # Anthropic: anomalyco/opencode#46628, langchain-ai/langchain#39271, Kilo-Org/kilocode#12905; OpenAI says the same
    _lesson(r"(?:oneOf|anyOf|allOf)[^\n]{0,120}top[- ]level|top[- ]level[^\n]{0,120}(?:oneOf|anyOf|allOf)", "tools", Trait.FOLDED_SCHEMAS, Trait.PLAIN_SCHEMAS),
    # Gemini: router-for-me/CLIProxyAPI#97, zed-industries/zed#44875, #53919, cline/cline#7339, nanbingxyz/5ire#42,
    # sbroenne/mcp-server-excel#674, google-gemini/gemini-cli#4400, taylorwilsdon/google_workspace_mcp#1099;
    # Copilot: SoftInstigate/restheart#593
    _lesson(
        r"function_?declarations?\b|field predicate failed|proto field is not repeating|array (?:type must have|schema missing) items"
        r"|(?:invalid|unsupported|bad)[^\n]{0,30}(?:schema|parameters)\b[^\n]{0,40}(?:function|tool)|invalid_function_parameters"
        # Joakimpalm-Zen/xyntetik-runner#4
        r"|(?:invalid|unsupported|bad)[^\n]{0,30}(?:function|tool)[^\n]{0,20}(?:schema|parameters)\b"
        r"|(?:input_schema|json schema|schema)\b[^\n]{0,80}(?:invalid|not supported|unsupported|does not support|not valid|not permitted)"
        # Names of tools and of their arguments: home-assistant/core#147760, nanbingxyz/5ire#403, ComposioHQ/composio#2330
        r"|tools(?:\.|\[)\d+[^\n]{0,60}(?:should match|too long|should have at most)|tool name too long|工具名称过长"
        r"|(?:failed to|unable to|cannot|can't) (?:parse|compile|convert|build)[^\n]{0,30}(?:grammar|schema)|schema (?:compilation|conversion)",
        "tools", Trait.FOLDED_SCHEMAS, Trait.PLAIN_SCHEMAS, statuses=_ANY,
    ),
    _lesson(
        r"does not support (?:tools|function)|function calling is not enabled|tools? (?:is|are) not supported|tool use is not supported|requires? --jinja"
        r"|no endpoints found that support tool|auto.? tool choice requires",
        "free tools", Trait.NO_TOOLS, statuses=_ANY,
    ),
    _lesson(r"stream_options|include_usage", "stream_options", Trait.NO_STREAM_OPTIONS),
    _lesson(r"max_completion_tokens", "max_tokens", Trait.COMPLETION_TOKENS),
    _lesson(r"temperature", "temperature", Trait.NO_TEMPERATURE),
    _lesson(
        r"reasoning[_ ]effort[^\n]{0,60}(?:not supported|unsupported|not permitted|extra inputs)|(?:unsupported|unknown|unrecogni[sz]ed)[^\n]{0,40}reasoning[_ ]effort|does not support thinking",  # Ollama: musistudio/claude-code-router#1046
        "reasoning_effort", Trait.NO_THINKING,
    ),
)  # fmt: skip
"""In the order in which they are tried; each with public reports of what it answers to (repository and number)."""

_REFUSED_TOOL = (
    # Gemini puts all tools into one: cline/cline#7339
    compile_lazily(r"function_declarations(?:\.|\[)(\d+)"),
    compile_lazily(r"tools(?:\.|\[)(\d+)"),
    compile_lazily(r"(?:function|tool)s?:? ['`\"]([\w.\-]+)['`\"]"),
    compile_lazily(
        r"(?:tool name too long|工具名称过长)[^:]{0,40}:\s*([\w.\-]+)", re.IGNORECASE
    ),  # hanlulong/stata-mcp#48
    compile_lazily(r"because [`'\"]?([\w.\-]+)[`'\"]? functionDeclaration"),
)


def trait_in(status: int, said: str, sent: Collection[str], traits: Traits, tools: Collection[str] = ()) -> str | None:
    """Return the trait that a refusal teaches, unless the request respected it already.

    Args:
        sent: What the request held of the forms that lessons name.
        tools: Names of the tools of the request, in their order.
    """
    for lesson in _LESSONS:
        if (lesson.statuses and status not in lesson.statuses) or (lesson.sent and lesson.sent not in sent):
            continue
        if lesson.pattern.search(said):
            new = next((trait for trait in lesson.traits if trait not in traits), None)
            if new is not None:
                return new
    is_about_schemas = "tools" in sent and Trait.PLAIN_SCHEMAS in traits and status in _ANY
    return _refused_tool(said, tuple(tools)) if is_about_schemas else None


def _refused_tool(said: str, tools: tuple[str, ...]) -> str | None:
    """Return the trait that leaves out the tool a refusal names by place or name."""
    for pattern in _REFUSED_TOOL:
        for named in pattern.findall(said):
            if named.isdecimal() and int(named) < len(tools):
                return WITHOUT_TOOL + tools[int(named)]
            if named in tools:
                return str(WITHOUT_TOOL + named)
    return None


def describe_trait(trait: str) -> str:
    """Return what a model gets because of a trait, as the end of a sentence."""
    if trait.startswith(WITHOUT_TOOL):
        return f"is offered without the tool {trait.removeprefix(WITHOUT_TOOL)}, whose schema its provider refuses"
    return MEANINGS.get(trait, trait)


def is_trait(name: str) -> bool:
    return name.startswith(WITHOUT_TOOL) or name in MEANINGS


class TraitBook:
    """The traits that one provider's models showed, and those that are not stored yet."""

    def __init__(self, secrets: tuple[str, ...] = ()) -> None:
        self._secrets = secrets
        self._known: dict[str, dict[str, str]] = {}
        self._news: dict[str, dict[str, str]] = {}

    def of(self, model: str) -> Traits:
        return frozenset(self._known.get(model, ()))

    def learn(self, model: str, trait: str, said: str) -> None:
        """Keep a trait with the sentence that taught it."""
        sentence = clean(shorten(said), self._secrets)
        self._known.setdefault(model, {})[trait] = sentence
        self._news.setdefault(model, {})[trait] = sentence

    def unlearn(self, model: str, trait: str) -> None:
        """Drop a trait that changed nothing."""
        self._known.get(model, {}).pop(trait, None)
        self._news.get(model, {}).pop(trait, None)

    def take_news(self, model: str) -> tuple[tuple[str, str], ...]:
        """Return the traits to store, each with its sentence, once."""
        return tuple(self._news.pop(model, {}).items())

    def remember(self, model: str, stored: Mapping[str, str]) -> None:
        """Use the stored traits of a model from now on."""
        self._known.setdefault(model, {}).update(stored)

    def forget(self, model: str = "") -> None:
        """Forget the traits of a model, or of all."""
        for traits in (self._known, self._news):
            if model:
                traits.pop(model, None)
            else:
                traits.clear()
