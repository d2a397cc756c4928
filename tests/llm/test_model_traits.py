"""A refusal that names a form is learnt: the next request has another form, and every later one begins with it.

The servers refuse as those of public reports do; the sources stand beside the lessons in `zoea/llm/model_traits.py`.
"""

# ruff: noqa: E501  a refusal stands on one line, as its server sends it

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from tests.case_tables import walk_cases
from tests.fakes.anthropic_server import AnthropicServer, Text
from tests.fakes.anthropic_server import Fail as MessageFail
from tests.fakes.anthropic_server import Say as MessageSay
from tests.fakes.openai_server import Fail, OpenAIServer, Say, Step
from tests.fakes.wire_server import Received
from tests.llm.sample_requests import answer, assistant, call, provider, request, result, system, user
from zoea.llm.messages.request_forms import fold_choices, plain_schema
from zoea.llm.model_traits import WITHOUT_TOOL, Trait
from zoea.model.errors import ProviderError
from zoea.model.request import ModelRequest, RequestCall, ToolSpec

CHOICE = {
    "type": "object",
    "properties": {"url": {"type": "string"}, "file": {"type": "string"}},
    "anyOf": [{"required": ["url"]}, {"required": ["file"]}],
}
ATTACH, PLAIN = ToolSpec("attach", "Attaches.", CHOICE), ToolSpec("plain", "Waits.", {})
SPOKEN = (system("You are a mysis."), user(), assistant("", call(), reasoning="why"), result())
TWO_CALLS = (assistant("Both.", call(id="c2"), call(id="c3")), result(id="c2"), result(id="c3"))
Wrong = Callable[[dict[str, Any]], bool]


def has_system(body: dict[str, Any]) -> bool:
    return any(one["role"] == "system" for one in body["messages"])


def has_odd_ids(body: dict[str, Any]) -> bool:
    ids = [one["id"] for message in body["messages"] for one in message.get("tool_calls") or ()]
    ids += [message["tool_call_id"] for message in body["messages"] if message["role"] == "tool"]
    return not all(re.fullmatch("[a-zA-Z0-9]{9}", id) for id in ids)


def lacks_reasoning(body: dict[str, Any]) -> bool:
    return any(one.get("tool_calls") and not one.get("reasoning_content") for one in body["messages"])


def has_reasoning(body: dict[str, Any]) -> bool:
    return any("reasoning_content" in one for one in body["messages"])


def has_key(*keys: str) -> Wrong:
    return lambda body: any(f'"{key}"' in json.dumps(body.get("tools", [])) for key in keys)


def has_body(key: str) -> Wrong:
    return lambda body: key in body


def has_neighbours(body: dict[str, Any]) -> bool:
    roles = [one["role"] for one in body["messages"]]
    return any(pair == ("user", "user") for pair in pairwise(roles))


def has_user_after_result(body: dict[str, Any]) -> bool:
    return any(pair == ("tool", "user") for pair in pairwise(one["role"] for one in body["messages"]))


def has_several_calls(body: dict[str, Any]) -> bool:
    """Return whether an answer has more than one call, or a call lost its result."""
    roles = [one["role"] + "!" * len(one.get("tool_calls") or ()) for one in body["messages"]]
    calls = sum(len(one.get("tool_calls") or ()) for one in body["messages"])
    paired = sum(pair == ("assistant!", "tool") for pair in pairwise(roles))
    return "assistant!!" in roles or not calls == paired == roles.count("tool")


def lacks_signature(body: dict[str, Any]) -> bool:
    answers = [one["tool_calls"] for one in body["messages"] if one.get("tool_calls")]
    return not all(calls[0].get("extra_content", {}).get("google", {}).get("thought_signature") for calls in answers)


def lacks_properties(body: dict[str, Any]) -> bool:
    return not all("properties" in one["function"]["parameters"] for one in body.get("tools", []))


def named(name: str) -> Wrong:
    return lambda body: any(one["name"] == name for one in body.get("tools", []))


def has_empty_text(body: dict[str, Any]) -> bool:
    return any(one["content"] == "" for one in body["messages"])


def has_tool(name: str) -> Wrong:
    return lambda body: any(one["function"]["name"] == name for one in body.get("tools", []))


FORMS: tuple[tuple[int, str, Wrong, str, tuple[str, ...]], ...] = (
    # The shared cases: templates without a system role, ids of Mistral, reasoning under another name.
    (400, "System role not supported", has_system, "reef", (Trait.NO_SYSTEM,)),
    (500, "Jinja Exception: System role not supported", has_system, "reef", (Trait.NO_SYSTEM,)),
    (400, "Unsupported value: 'messages[0].role' does not support 'system' with this model.", has_system, "reef", (Trait.NO_SYSTEM,)),
    (400, "Developer instruction is not enabled for models/reef", has_system, "reef", (Trait.NO_SYSTEM,)),
    (400, "Message of 'system' type not supported by this model", has_system, "reef", (Trait.NO_SYSTEM,)),
    (400, "Only user and assistant roles are supported!", has_system, "reef", (Trait.NO_SYSTEM,)),
    (500, "Conversation roles must alternate user/assistant/user/assistant/...", has_system, "reef", (Trait.NO_SYSTEM,)),
    (400, "Tool call id was c1 but must be a-z, A-Z, 0-9, with a length of 9.", has_odd_ids, "reef", (Trait.SHORT_CALL_IDS,)),
    (400, "The `reasoning_content` in the thinking mode must be passed back to the API.", lacks_reasoning, "work-thinker", (Trait.REASONING_BACK,)),
    (400, "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2", lacks_reasoning, "ep-20260401-abcde", (Trait.REASONING_BACK,)),
    (400, "Missing `reasoning_content` field in the assistant message at message index 2.", lacks_reasoning, "reef", (Trait.REASONING_BACK,)),
    (400, "'messages.2' : property 'reasoning_content' is unsupported", has_reasoning, "deepseek-chat", (Trait.NO_REASONING,)),
    # Schemas: the shared case of a choice at the top, and Gemini's.
    (400, "tools.0.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level", has_key("anyOf"), "reef", (Trait.FOLDED_SCHEMAS,)),
    (400, "Invalid schema for function 'attach': schema must have type 'object' and not have 'oneOf'/'anyOf' at the top level.", has_key("anyOf"), "reef", (Trait.FOLDED_SCHEMAS,)),
    (400, "Invalid JSON payload received. Unknown name \"anyOf\" at 'tools[0].function_declarations[0].parameters': Cannot find field.", has_key("anyOf"), "reef", (Trait.FOLDED_SCHEMAS,)),
    (400, "Invalid schema for function 'attach': the tool is not wanted here", has_tool("attach"), "reef", (WITHOUT_TOOL + "attach",)),
    (400, "GenerateContentRequest.tools[0].function_declarations[0].parameters.properties: should be non-empty", has_tool("attach"), "reef", (WITHOUT_TOOL + "attach",)),
    # ogx-ai/ogx#5982, CherryHQ/cherry-studio#4973
    (422, "Input should be 'user' or 'assistant'", has_system, "reef", (Trait.NO_SYSTEM,)),
    # eclipse-theia/theia#17104, mistralai/mistral-vibe#1006, SWE-agent/mini-swe-agent#759, sterlp/eclipse-peon-ai#75
    (500, "Error: Jinja Exception: After the optional system message, conversation roles must alternate user and assistant roles except for tool calls and results.", has_neighbours, "reef", (Trait.MERGED_USERS,)),
    # the-open-agent/openagent#2206, openclaw/openclaw#83135, can1357/oh-my-pi#787
    (400, "Param Incorrect: The reasoning_content in the thinking mode must be passed back to the API.", lacks_reasoning, "work-mi", (Trait.REASONING_BACK,)),
    # router-for-me/CLIProxyAPI#4893: of every answer, also of one without calls
    (400, "[invalid_request_error] The reasoning_content in the thinking mode must be passed back to the API.", lacks_reasoning, "ep-1", (Trait.REASONING_BACK,)),
    # Gemini: anomalyco/opencode#11889, google-gemini/gemini-cli#4400, sbroenne/mcp-server-excel#674, taylorwilsdon/google_workspace_mcp#1099
    (400, "* GenerateContentRequest.tools[0].function_declarations[0].parameters.properties[data].properties: only allowed for OBJECT type", has_key("anyOf"), "reef", (Trait.FOLDED_SCHEMAS,)),
    (400, "Unable to submit request because attach functionDeclaration parameters.url schema didn't specify the schema type field.", has_key("anyOf"), "reef", (Trait.FOLDED_SCHEMAS,)),
    (400, "GenerateContentRequest...parameters.properties[formulas].items: field predicate failed: == Type.ARRAY", has_key("anyOf"), "reef", (Trait.FOLDED_SCHEMAS,)),
    (400, "Proto field is not repeating, cannot start list", has_key("anyOf"), "reef", (Trait.FOLDED_SCHEMAS,)),
    (400, "tool parameters array type must have items", has_key("anyOf"), "reef", (Trait.FOLDED_SCHEMAS,)),  # SoftInstigate/restheart#593
    # evalstate/fast-agent#279, langchain-ai/open-swe#628
    (400, "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported.", has_body("temperature"), "reef", (Trait.NO_TEMPERATURE,)),
    (400, "Unsupported parameter: 'reasoning_effort' is not supported with this model.", has_body("reasoning_effort"), "reef", (Trait.NO_THINKING,)),
    (422, "stream_options: Extra inputs are not permitted", has_body("stream_options"), "reef", (Trait.NO_STREAM_OPTIONS,)),
    (400, "Function calling is not enabled for models/gemma-3-27b-it", has_body("tools"), "reef", (Trait.NO_TOOLS,)),
    (400, '"qwen2.5:14b" does not support thinking', has_body("reasoning_effort"), "reef", (Trait.NO_THINKING,)),  # musistudio/claude-code-router#1046, atomantic/PortOS#6130
    # NousResearch/hermes-agent#20154, aaif-goose/goose#5998, zed-industries/zed#37021, mistralai/mistral-vibe#578
    (400, "Unexpected role 'user' after role 'tool'", has_user_after_result, "reef", (Trait.BRIDGED_USERS,)),
    # OpenHands/OpenHands#5350
    (400, 'litellm.BadRequestError: BedrockException - {"message":"messages.32.content: Conversation blocks and tool result blocks cannot be provided in the same turn."}', has_user_after_result, "reef", (Trait.BRIDGED_USERS,)),
    (400, "This model only supports single tool-calls at once!", has_several_calls, "reef", (Trait.SINGLE_CALLS,)),  # openclaw/openclaw#37516
    # lbjlaq/Antigravity-Manager#3202, dify-official-plugins#2088; QwenLM/qwen-code#1187, GewoonJaap/gemini-cli-openai#156
    (400, "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly.", lacks_signature, "reef", (Trait.SIGNED_CALLS,)),
    (400, "Unable to submit request because function call `default_api:read_file` in the 4. content block is missing a `thought_signature`.", lacks_signature, "reef", (Trait.SIGNED_CALLS,)),
    # chattermate/chattermate.chat#303, camel-ai/camel#2629
    (400, "Invalid schema for function 'attach': In context=('properties','queryBody','additionalProperties'), schema must have a 'type' key.", has_key("anyOf"), "reef", (Trait.FOLDED_SCHEMAS,)),
    # reportportal/reportportal-mcp-server#25
    (400, "Unable to submit request because attach functionDeclaration parameters.modes schema specified incorrect schema type field. For schema with enum values, schema type should not be OBJECT or ARRAY.", has_key("anyOf"), "reef", (Trait.FOLDED_SCHEMAS,)),
    # cline/cline#7339: one of all tools, by its place inside the only one
    (400, "* GenerateContentRequest.tools[0].function_declarations[1].name: Invalid function name. Must start with a letter or an underscore.", has_tool("plain"), "reef", (WITHOUT_TOOL + "plain",)),
    # langchain-ai/langmem#113
    (400, "Invalid schema for function 'attach': In context=(), 'required' is required to be supplied and to be an array including every key in properties. Missing 'file'.", has_tool("attach"), "reef", (WITHOUT_TOOL + "attach",)),
    # the same as reportportal/reportportal-mcp-server#25, for a schema that nothing mends
    (400, "Unable to submit request because `plain` functionDeclaration `parameters.modes` schema specified other fields alongside any_of.", has_tool("plain"), "reef", (WITHOUT_TOOL + "plain",)),
    # nanbingxyz/5ire#403
    (400, "Invalid 'tools[1].function.name': string too long. Expected a string with maximum length 64, but got a string with length 65 instead.", has_tool("plain"), "reef", (WITHOUT_TOOL + "plain",)),
    # Joakimpalm-Zen/xyntetik-runner#4, anomalyco/opencode#43371, BuilderIO/agent-native#3085, nicobailon/pi-subagents#248, llm-d/llm-d-inference-sim#609
    (400, "unsupported tool schema: additionalProperties is only supported as false alongside declared properties, or as an open schema without them", has_key("anyOf"), "reef", (Trait.FOLDED_SCHEMAS,)),
    (400, "Error from provider (Console Go): Upstream request failed: [unsupported_tool_schema] The tool schema is not supported (unsupported_keyword).", has_key("anyOf"), "reef", (Trait.FOLDED_SCHEMAS,)),
    (400, "Invalid schema for function 'attach': In context=('properties','url','type','0'), 'uri' is not a valid format", has_key("anyOf"), "reef", (Trait.FOLDED_SCHEMAS,)),
    (400, "Error from provider: JSON Schema not supported: could not understand the instance {required: [criteria]}", has_key("anyOf"), "reef", (Trait.FOLDED_SCHEMAS,)),
    (400, "Tool validation failed: jsonschema: '/parameters/properties/unit' does not validate with file:///schema.json#/properties/parameters: additionalProperties 'default' not allowed", has_key("anyOf"), "reef", (Trait.FOLDED_SCHEMAS,)),
    # Right from the first request on: NousResearch/hermes-agent#31583, aliasrobotics/cai#182, dirge-code/dirge#757
    (400, "messages: text content blocks must be non-empty", has_empty_text, "reef", ()),
    (400, "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", has_body("max_tokens"), "reef", (Trait.COMPLETION_TOKENS,)),
)  # fmt: skip


def refusing(status: int, sentence: str, is_wrong: Wrong) -> Callable[[Received], Step]:
    return lambda received: Fail.error(status, sentence) if is_wrong(received.json) else Say("done")


@walk_cases(("status", "sentence", "is_wrong", "model", "traits"), FORMS)
async def test_a_refused_form_is_changed_at_once_and_kept(
    status: int, sentence: str, is_wrong: Wrong, model: str, traits: tuple[str, ...]
) -> None:
    asked = request(*SPOKEN, *TWO_CALLS, user("Go on."), user("Now."), tools=(ATTACH, PLAIN), model=model)
    async with OpenAIServer(otherwise=refusing(status, sentence, is_wrong)) as server:
        source = provider("openai", server.base_url, thinking="low", temperature=0.0)
        first = await answer(source, asked)
        tried = len(server.chats)
        again = await answer(source, asked)
        bodies = [chat.body for chat in server.chats]
        await source.close()
    assert (first.text, again.text) == ("done", "done")
    assert len(set(bodies[:tried])) == tried, "each retry differs from what was refused"
    assert len(bodies) == tried + 1, "the next request begins with the form that was learnt"
    assert set(traits) <= {name for name, _ in first.traits}
    assert {name for name, _ in first.traits if name.startswith(WITHOUT_TOOL)} <= set(traits), "the others are offered"
    assert all(sentence[:60] in said for name, said in first.traits if name in traits)
    assert not again.traits


async def test_every_tool_has_properties_from_the_first_request_on() -> None:
    # Azure/azure-mcp#197, janhq/jan#7017, evalstate/fast-agent#143, mark3labs/mcphost#88
    bare = ToolSpec("list", "Lists.", {"type": "object"})
    async with OpenAIServer(otherwise=lambda _: Say("done")) as server:
        source = provider("openai", server.base_url)
        await answer(source, request(*SPOKEN, tools=(bare, PLAIN)))
        await source.close()
        assert not lacks_properties(server.chats[-1].json)


async def test_a_refusal_of_a_form_inside_the_stream_is_learnt_too() -> None:
    def reply(received: Received) -> Step:
        error = {"error": {"code": 400, "message": "System role not supported"}}
        return Say(raw=(f"data: {json.dumps(error)}\n\n".encode(),)) if has_system(received.json) else Say("done")

    async with OpenAIServer(otherwise=reply) as server:
        source = provider("openai", server.base_url)
        assert (await answer(source, request(*SPOKEN))).text == "done"
        await source.close()


async def test_a_form_that_cannot_be_changed_is_sent_once() -> None:
    async with OpenAIServer(otherwise=refusing(400, "System role not supported", lambda _: True)) as server:
        source = provider("openai", server.base_url)
        with pytest.raises(ProviderError):
            await answer(source, request(user()))
        await source.close()
        assert len(server.chats) == 1


async def test_the_instructions_stand_in_the_first_user_message() -> None:
    async with OpenAIServer(otherwise=refusing(400, "System role not supported", has_system)) as server:
        source = provider("openai", server.base_url)
        await answer(source, request(system("You are a mysis."), user("Report.")))
        await source.close()
        assert server.chats[-1].json["messages"] == [{"role": "user", "content": "You are a mysis.\n\nReport."}]


def ids_of(body: dict[str, Any]) -> list[str]:
    return [
        *(one["id"] for message in body["messages"] for one in message.get("tool_calls") or ()),
        *(message["tool_call_id"] for message in body["messages"] if message["role"] == "tool"),
    ]


def spoken(*own: str) -> ModelRequest:
    calls = [RequestCall(f"c{place}", "scan", "{}", id) for place, id in enumerate(own)]
    return request(user(), assistant("", *calls), *(result(id=one.id) for one in calls), model="mistral-large")


async def test_ids_of_nine_signs_are_the_vendors_own_where_it_gave_them() -> None:
    async with OpenAIServer(otherwise=lambda _: Say("done")) as server:
        source = provider("openai", server.base_url)
        await answer(source, spoken("D681PevKs", "toolu_1", "D681PevKs"))
        await source.close()
        ids = ids_of(server.chats[-1].json)
    assert ids[0] == "D681PevKs"
    assert all(re.fullmatch("[a-zA-Z0-9]{9}", one) for one in ids)
    assert ids[:3] == ids[3:]
    assert len(set(ids)) == 3


MESSAGES: tuple[tuple[str, Wrong, tuple[str, ...]], ...] = (
    ("tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level", has_key("anyOf"), (Trait.FOLDED_SCHEMAS,)),
    ("tools.1.cache_control: Extra inputs are not permitted", lambda body: "cache_control" in json.dumps(body), (Trait.NO_CACHE_MARKS,)),  # earendil-works/pi#7938
    ("*.cache_control: Extra inputs are not permitted", lambda body: "cache_control" in json.dumps(body), (Trait.NO_CACHE_MARKS,)),  # cg-dot/vertexai-cf-workers#21
    # ComposioHQ/composio#2330
    ("tools.0.custom.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'", named("attach"), (WITHOUT_TOOL + "attach",)),
    # home-assistant/core#147760
    ("tools.1.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'", named("plain"), (WITHOUT_TOOL + "plain",)),
    ("tools.1.custom.name: String should have at most 128 characters", named("plain"), (WITHOUT_TOOL + "plain",)),  # anthropics/claude-code#96152
    ("tools.1.FrontendRemoteMcpToolDefinition.name: String should have at most 64 characters", named("plain"), (WITHOUT_TOOL + "plain",)),  # mims-harvard/ToolUniverse#3
    ("Tool name too long, please check:\nplain", named("plain"), (WITHOUT_TOOL + "plain",)),  # hanlulong/stata-mcp#48
    ("工具名称过长，请检查:\nplain", named("plain"), (WITHOUT_TOOL + "plain",)),  # mcp-router/mcp-router#100
)  # fmt: skip


class RefusingServer(AnthropicServer):
    """Refuses what a test calls wrong."""

    def __init__(self, sentence: str, is_wrong: Wrong) -> None:
        super().__init__()
        self._refusal, self._is_wrong = MessageFail(400, "invalid_request_error", sentence), is_wrong

    def next_step(self, request: Received) -> MessageFail | MessageSay:
        return self._refusal if self._is_wrong(request.json) else MessageSay((Text("done"),))


@walk_cases(("sentence", "is_wrong", "traits"), MESSAGES)
async def test_the_messages_api_learns_forms_too(sentence: str, is_wrong: Wrong, traits: tuple[str, ...]) -> None:
    async with RefusingServer(sentence, is_wrong) as server:
        source = provider("anthropic", server.url)
        first = await answer(source, request(*SPOKEN, tools=(ATTACH, PLAIN)))
        tried = len(server.chats)
        again = await answer(source, request(*SPOKEN, tools=(ATTACH, PLAIN)))
        await source.close()
    assert (first.text, again.text, len(server.chats)) == ("done", "done", tried + 1)
    learnt = {name for name, _ in first.traits}
    assert set(traits) <= learnt
    assert {name for name in learnt if name.startswith(WITHOUT_TOOL)} <= set(traits), "the others are offered"
    if traits == (Trait.FOLDED_SCHEMAS,):
        schema = server.chats[-1].json["tools"][0]["input_schema"]
        assert schema == {"type": "object", "properties": CHOICE["properties"]}


def test_a_choice_is_folded_with_all_arguments_and_what_each_requires() -> None:
    url, file = (
        {"type": "object", "properties": {key: {"type": "string"}, "n": {}}, "required": [key, "n"]}
        for key in ("url", "file")
    )
    anyof = fold_choices({"type": "object", "anyOf": [url, file]})
    assert (sorted(anyof["properties"]), anyof["required"]) == (["file", "n", "url"], ["n"])
    allof = fold_choices({"type": "object", "allOf": [url, file]})
    assert allof["required"] == ["file", "n", "url"]


def test_a_plain_schema_has_types_and_nothing_that_a_strict_vendor_refuses() -> None:
    schema = {
        "$schema": "x",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "a": {"anyOf": [{"type": "null"}, {"type": "integer", "exclusiveMinimum": 0}], "default": 1},
            "b": {"type": ["string", "null"], "const": "x", "pattern": "^x"},
            "c": {"type": "array"},
            "d": {"enum": [1, 2]},
            "e": {"type": "array", "items": {"$ref": "#/$defs/e"}},
        },
        "required": ["a", "gone"],
        "$defs": {"e": {"type": "object", "properties": {"f": {"type": "number"}}}},
    }
    assert plain_schema(schema) == {
        "type": "object",
        "properties": {
            "a": {"type": "integer"},
            "b": {"type": "string", "enum": ["x"]},
            "c": {"type": "array", "items": {"type": "string"}},
            "d": {"type": "string"},
            "e": {"type": "array", "items": {"type": "object", "properties": {"f": {"type": "number"}}}},
        },
        "required": ["a"],
    }
