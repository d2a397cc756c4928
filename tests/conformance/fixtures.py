"""Tools and resources that the public MCP conformance suite expects from a server.

Names, texts and shapes are the suite's: its scenarios call them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import mcp_types as types
from mcp.server import Server
from mcp.shared.message import ServerMessageMetadata

from zoea.mcp_server.factory import Context, ServerTool
from zoea.mcp_server.resources import MissingResource
from zoea.mcp_server.tokens import McpClient

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="
PAUSE_S = 0.05
_ANYTHING: dict[str, Any] = {"type": "object", "properties": {}}

Result = types.CallToolResult
Body = Callable[[Context, Mapping[str, Any]], Awaitable[Result]]


def text(words: str) -> types.TextContent:
    return types.TextContent(type="text", text=words)


def embedded(uri: str, kind: str, words: str) -> types.EmbeddedResource:
    return types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, mime_type=kind, text=words))


IMAGE = types.ImageContent(data=PNG, mime_type="image/png")
MIXED = embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
ALWAYS: dict[str, Result] = {
    "test_simple_text": Result(content=[text("This is a simple text response for testing.")]),
    "test_image_content": Result(content=[IMAGE]),
    "test_audio_content": Result(content=[types.AudioContent(data=WAV, mime_type="audio/wav")]),
    "test_embedded_resource": Result(
        content=[embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")]
    ),
    "test_multiple_content_types": Result(content=[text("Multiple content types test:"), IMAGE, MIXED]),
    "test_error_handling": Result(
        content=[text("This tool intentionally returns an error for testing")], is_error=True
    ),
    "json_schema_2020_12_tool": Result(content=[text("done")]),
}
SCHEMA_2020 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}


async def with_logging(context: Context, _: Mapping[str, Any]) -> Result:
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        params = types.LoggingMessageNotificationParams(level="info", data=words)
        await context.session.send_notification(types.LoggingMessageNotification(params=params), context.request_id)
        await asyncio.sleep(PAUSE_S)
    return Result(content=[text("logged")])


async def with_progress(context: Context, _: Mapping[str, Any]) -> Result:
    for done in (0, 50, 100):
        await context.session.report_progress(done, 100)
        await asyncio.sleep(PAUSE_S)
    return Result(content=[text("progressed")])


async def sampling(context: Context, arguments: Mapping[str, Any]) -> Result:
    message = types.SamplingMessage(role="user", content=text(str(arguments.get("prompt", ""))))
    request = types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], max_tokens=100))
    answer = await context.session.send_request(
        request, types.CreateMessageResult, metadata=ServerMessageMetadata(related_request_id=context.request_id)
    )
    said = answer.content.text if isinstance(answer.content, types.TextContent) else ""
    return Result(content=[text(f"LLM response: {said}")])


async def elicitation(context: Context, arguments: Mapping[str, Any]) -> Result:
    properties = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    schema = {"type": "object", "properties": properties, "required": ["username", "email"]}
    return await _elicited(context, str(arguments.get("message", "")), schema, "User response")


async def elicitation_defaults(context: Context, _: Mapping[str, Any]) -> Result:
    properties = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return await _elicited(context, "Check these", {"type": "object", "properties": properties})


async def elicitation_enums(context: Context, _: Mapping[str, Any]) -> Result:
    options = ["option1", "option2", "option3"]
    titled = [{"const": f"value{place}", "title": f"Option {place}"} for place in (1, 2, 3)]
    properties = {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return await _elicited(context, "Choose", {"type": "object", "properties": properties})


async def _elicited(
    context: Context, message: str, schema: dict[str, Any], said: str = "Elicitation completed"
) -> Result:
    answer = await context.session.elicit_form(message, schema, related_request_id=context.request_id)
    return Result(content=[text(f"{said}: action={answer.action}, content={json.dumps(answer.content)}")])


async def reconnection(context: Context, _: Mapping[str, Any]) -> Result:
    if context.close_sse_stream is not None:
        await context.close_sse_stream()
    await asyncio.sleep(PAUSE_S)
    return Result(content=[text("reconnected")])


ACTING: dict[str, Body] = {
    "test_tool_with_logging": with_logging,
    "test_tool_with_progress": with_progress,
    "test_sampling": sampling,
    "test_elicitation": elicitation,
    "test_elicitation_sep1034_defaults": elicitation_defaults,
    "test_elicitation_sep1330_enums": elicitation_enums,
    "test_reconnection": reconnection,
}


def tools() -> list[ServerTool]:
    """The suite's tools."""

    def always(result: Result) -> Body:
        async def body(_: Context, __: Mapping[str, Any]) -> Result:
            return result

        return body

    bodies = {**{name: always(result) for name, result in ALWAYS.items()}, **ACTING}
    return [_offered(name, body) for name, body in bodies.items()]


def _offered(name: str, body: Body) -> ServerTool:
    async def call(context: Context, _: McpClient, arguments: Mapping[str, Any]) -> Result:
        return await body(context, arguments)

    schema = SCHEMA_2020 if name == "json_schema_2020_12_tool" else _ANYTHING
    return ServerTool(types.Tool(name=name, description=f"The suite calls {name}.", input_schema=schema), call)


class Shelf:
    """The suite's resources."""

    async def list_page(self, client: McpClient, cursor: str) -> types.ListResourcesResult:
        kinds = {
            "test://static-text": "text/plain",
            "test://static-binary": "image/png",
            "test://watched-resource": "text/plain",
        }
        return types.ListResourcesResult(
            resources=[
                types.Resource(uri=uri, name=uri, description="The suite reads it.", mime_type=kind)
                for uri, kind in kinds.items()
            ]
        )

    def templates(self) -> types.ListResourceTemplatesResult:
        template = types.ResourceTemplate(uri_template="test://template/{id}/data", name="template")
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def read(self, client: McpClient, uri: str) -> types.ReadResourceResult:
        content: types.TextResourceContents | types.BlobResourceContents
        match uri.split("/"):
            case ["test:", "", "static-binary"]:
                content = types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)
            case ["test:", "", "template", number, "data"]:
                data = {"id": number, "templateTest": True, "data": f"Data for ID: {number}"}
                content = types.TextResourceContents(uri=uri, mime_type="application/json", text=json.dumps(data))
            case ["test:", "", "static-text" | "watched-resource"]:
                words = "This is the content of the static text resource."
                content = types.TextResourceContents(uri=uri, mime_type="text/plain", text=words)
            case _:
                raise MissingResource(f"Resource not found: {uri}")
        return types.ReadResourceResult(contents=[content])


_ARGUMENTS = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
}


def add_the_rest(server: Server[Any]) -> None:
    """Prompts, completion, logging level and subscriptions, which Zoea's own server does not offer."""

    async def nothing(_: Context, __: Any) -> types.EmptyResult:
        return types.EmptyResult()

    async def prompts(_: Context, __: Any) -> types.ListPromptsResult:
        def prompt(name: str, arguments: tuple[str, ...]) -> types.Prompt:
            taken = [types.PromptArgument(name=one, description="The suite's.", required=True) for one in arguments]
            return types.Prompt(name=name, description="The suite gets it.", arguments=taken or None)

        return types.ListPromptsResult(prompts=[prompt(*one) for one in _ARGUMENTS.items()])

    async def prompt(_: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        given = params.arguments or {}
        contents: dict[str, list[types.ContentBlock]] = {
            "test_simple_prompt": [text("This is a simple prompt for testing.")],
            "test_prompt_with_arguments": [
                text(f"Prompt with arguments: arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'")
            ],
            "test_prompt_with_embedded_resource": [
                embedded(given.get("resourceUri", ""), "text/plain", "Embedded resource content for testing."),
                text("Please process the embedded resource above."),
            ],
            "test_prompt_with_image": [IMAGE, text("Please analyze the image above.")],
        }
        messages = [types.PromptMessage(role="user", content=content) for content in contents[params.name]]
        return types.GetPromptResult(messages=messages)

    async def complete(_: Context, __: Any) -> types.CompleteResult:
        return types.CompleteResult(completion=types.Completion(values=["paris", "park"], total=2, has_more=False))

    server.add_request_handler("prompts/list", types.PaginatedRequestParams, prompts)
    server.add_request_handler("prompts/get", types.GetPromptRequestParams, prompt)
    server.add_request_handler("completion/complete", types.CompleteRequestParams, complete)
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, nothing)
    server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, nothing)
    server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, nothing)
