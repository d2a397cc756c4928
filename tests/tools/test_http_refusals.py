"""A refusal over HTTP keeps its status and sentence, at opening and during a session.

Each line names a public report of a client or server that hid them.
"""

from __future__ import annotations

import json

import pytest

from tests.fakes.mcp_wire import McpWire
from tests.fakes.toolboxes import asked, meta, with_catalogue
from tests.fakes.wire_server import Outgoing, Received
from tests.tools.conftest import Opener
from tests.waiting import until
from zoea.tools import UpstreamConfig
from zoea.tools.upstream.http_pool import BROKEN, NOT_SENT, REFUSED
from zoea.tools.upstream.unreadable_answer import MISMATCHED, UNREADABLE
from zoea.tools.upstream.upstream_errors import UNTRUSTED, WRONG

JSON, HTML, TEXT = "application/json", "text/html", "text/plain"
KEY = "canary-key-of-the-header"
LONG = "x" * 5_000

CASES: list[tuple[str, int, dict[str, str], str, str]] = [
    # report, status, headers, body, what the person reads
    (
        "tinyhumansai/openhuman#3733",
        401,
        {"content-type": JSON, "www-authenticate": "Bearer"},
        '{"error":"invalid_token","error_description":"The access token expired"}',
        "HTTP 401 Unauthorized: The access token expired. Check the key or token in its headers",
    ),
    (
        "modelcontextprotocol/java-sdk#713",
        401,
        {"content-type": TEXT, "www-authenticate": 'Bearer error_description="token revoked"'},
        "",
        "HTTP 401 Unauthorized: token revoked. Check the key or token in its headers",
    ),
    ("vellum-ai/vellum-assistant#11693", 401, {}, "", "HTTP 401 Unauthorized. Check the key"),
    (
        "punkpeye/mcp-remote#153",
        403,
        {"content-type": JSON},
        '{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"No permission for customers"}}',
        "HTTP 403 Forbidden: No permission for customers (code -32001)",
    ),
    (
        "obot-platform/obot#3268",
        403,
        {"content-type": JSON},
        '{"message":"Not allowed"}',
        "HTTP 403 Forbidden: Not allowed",
    ),
    (
        "open-webui/mcpo#209",
        404,
        {"content-type": HTML},
        "<title>Not Found</title>",
        "HTTP 404 Not Found. Check its url",
    ),
    (
        "modelcontextprotocol/python-sdk#1212",
        406,
        {"content-type": JSON},
        '{"message":"Accept must contain text/event-stream"}',
        "HTTP 406 Not Acceptable: Accept must contain text/event-stream",
    ),
    (
        "modelcontextprotocol/csharp-sdk#816",
        400,
        {"content-type": TEXT},
        "Missing Mcp-Protocol header",
        "HTTP 400 Bad Request: Missing Mcp-Protocol header",
    ),
    (
        "NousResearch/hermes-agent#113359",
        400,
        {"content-type": TEXT},
        '{"jsonrpc":"2.0","id":1,"error":{"code":-32020,"message":"bad origin"}}',
        "HTTP 400 Bad Request: bad origin (code -32020)",
    ),
    (
        "sirkirby/unifi-mcp#294",
        429,
        {"content-type": JSON, "retry-after": "30"},
        '{"errors":[{"msg":"login limit reached"}]}',
        "HTTP 429 Too Many Requests: login limit reached. It asks to wait 30 s",
    ),
    (
        "modelcontextprotocol/python-sdk#1010",
        500,
        {"content-type": TEXT},
        "database unreachable",
        "HTTP 500 Internal Server Error: database unreachable",
    ),
    (
        "pgEdge/pgedge-postgres-mcp#47",
        502,
        {"content-type": HTML},
        "<html><head><title>502 Bad Gateway</title></head><body><center>nginx</center></body></html>",
        "HTTP 502 Bad Gateway",
    ),
    (
        "anthropics/claude-ai-mcp#279",
        403,
        {"content-type": HTML},
        "<h1>Attention required</h1>",
        "HTTP 403 Forbidden: Attention required",
    ),
    (
        "open-metadata/OpenMetadata#31871",
        401,
        {"content-type": JSON},
        json.dumps({"stackTrace": [{"line": 1}] * 500, "jsonRpcError": {"code": 1}, "message": "No token"}),
        "HTTP 401 Unauthorized: No token",
    ),
    (
        "Agenta-AI/agenta#6908",
        200,
        {"content-type": HTML},
        "<title>Sign in</title>",
        "HTTP 200 OK, but with a web page in place of an MCP message (Sign in). Check its url",
    ),
    ("a status without a name", 599, {"content-type": TEXT}, LONG, "HTTP 599: xxx"),
    ("nothing", 204, {}, "", "HTTP 204 No Content, but with nothing"),
]


class RefusingWire(McpWire):
    """Answers every POST, or with `only_calls` those that call a tool, with one refusal."""

    def __init__(self, status: int, headers: dict[str, str], body: str, *, only_calls: bool) -> None:
        super().__init__(b"")
        self._refusal = status, body.encode(), {"content-type": "", **headers}
        self._only_calls = only_calls

    async def handle(self, request: Received, out: Outgoing) -> None:
        if request.method == "POST" and (not self._only_calls or b'"tools/call"' in request.body):
            out.whole(*self._refusal)
        else:
            await super().handle(request, out)


@pytest.mark.parametrize("only_calls", [False, True], ids=["opening", "call"])
@pytest.mark.parametrize(
    ("status", "headers", "body", "shown"), [one[1:] for one in CASES], ids=[one[0] for one in CASES]
)
async def test_status_and_sentence_of_a_refusal_are_kept(
    open_box: Opener, status: int, headers: dict[str, str], body: str, shown: str, only_calls: bool
) -> None:
    async with RefusingWire(status, headers, body, only_calls=only_calls) as server:
        box = open_box(UpstreamConfig("web", url=f"{server.url}/mcp", retries=0, backoff=30.0))
        session = await with_catalogue(box.session(1, "alpha", ""))
        text = (await session.call(asked("write"), meta=meta())).content if only_calls else box.status()[0].last_error
        await box.close()
    assert shown.removesuffix(" (code -32001)").removesuffix(" (code -32020)") in text
    assert len(text) < 400
    assert "<" not in text


class Elsewhere(McpWire):
    """A server that another one names, and the requests that came to it."""

    def __init__(self) -> None:
        super().__init__(b"")
        self.came: list[Received] = []

    async def handle(self, request: Received, out: Outgoing) -> None:
        self.came.append(request)
        await super().handle(request, out)


@pytest.mark.parametrize("only_calls", [False, True], ids=["opening", "call"])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_carries_no_key_elsewhere(open_box: Opener, status: int, only_calls: bool) -> None:
    async with (
        Elsewhere() as elsewhere,
        RefusingWire(status, {"location": f"{elsewhere.url}/mcp"}, "", only_calls=only_calls) as server,
    ):
        config = UpstreamConfig("web", url=f"{server.url}/mcp", headers={"authorization": KEY}, retries=0)
        box = open_box(config)
        session = box.session(1, "alpha", "")
        if only_calls:
            await with_catalogue(session)
            assert (await session.call(asked("write"), meta=meta())).is_error
        else:
            await until(lambda: box.status()[0].state == "down")
        await box.close()
    assert elsewhere.came == []


@pytest.mark.parametrize(
    ("status", "kind", "body", "state"),
    [
        (401, JSON, '{"message":"no key"}', "down"),
        (404, HTML, "<title>Not Found</title>", "down"),
        (200, HTML, "<title>Sign in</title>", "down"),
        (200, JSON, '{"jsonrpc":"2.0","id":1234567,"result":{}}', "down"),
        (200, JSON, '{"jsonrpc":"2.0",', "down"),
        (429, JSON, '{"message":"slow down"}', "lost"),
        (503, TEXT, "starting", "lost"),
    ],
)
async def test_the_first_turn_waits_for_no_retry_of_an_answer_that_stays(
    open_box: Opener, status: int, kind: str, body: str, state: str
) -> None:
    async with RefusingWire(status, {"content-type": kind}, body, only_calls=False) as server:
        box = open_box(UpstreamConfig("web", url=f"{server.url}/mcp", backoff=60.0, backoff_max=60.0))
        await until(lambda: box.status()[0].last_error)
        assert box.status()[0].state == state


def test_each_error_that_takes_the_place_of_an_answer_has_a_code_of_its_own() -> None:
    codes = [NOT_SENT, BROKEN, REFUSED, UNTRUSTED, WRONG, UNREADABLE, MISMATCHED]
    assert len(set(codes)) == len(codes)


async def test_a_key_that_the_server_repeats_is_hidden(open_box: Opener) -> None:
    body = json.dumps({"message": f"the key {KEY} is not valid"})
    for only_calls in (False, True):
        async with RefusingWire(401, {"content-type": JSON}, body, only_calls=only_calls) as server:
            config = UpstreamConfig("web", url=f"{server.url}/mcp", headers={"x-key": KEY}, retries=0, backoff=30.0)
            box = open_box(config)
            session = await with_catalogue(box.session(1, "alpha", ""))
            result = await session.call(asked("write"), meta=meta())
            shown = f"{result.content} {box.status()[0].last_error}"
            await box.close()
        assert "‹hidden›" in shown
        assert KEY not in shown


@pytest.mark.parametrize("kind", ["", TEXT, "application/json; charset=utf-8", "application/octet-stream"])
async def test_a_message_under_another_content_type_is_read(open_box: Opener, kind: str) -> None:
    answer = b'{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"written"}]}}'
    async with McpWire(answer, headers={"content-type": kind}) as server:
        session = await with_catalogue(open_box(UpstreamConfig("web", url=f"{server.url}/mcp")).session(1, "alpha", ""))
        assert (await session.call(asked("write"), meta=meta())).content == "written"
