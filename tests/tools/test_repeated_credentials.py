"""What a server repeats of the credentials in its settings is hidden.

That holds in results and in its list of tools.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.mcp_wire import McpWire
from tests.fakes.toolboxes import asked, meta, with_catalogue
from tests.tools.conftest import Opener
from zoea.settings.credentials import Credentials
from zoea.settings.endpoints import UpstreamSettings
from zoea.tools import resolve_upstream

SECRET = "canary-8Xq2"
TOLD = f"you came with {SECRET}"
RESULTS: dict[str, dict[str, Any]] = {
    "a text": {"content": [{"type": "text", "text": TOLD}]},
    "an error": {"content": [{"type": "text", "text": TOLD}], "isError": True},
    "structured content": {"structuredContent": {"headers": {"Authorization": f"Bearer {SECRET}"}}},
    "a resource": {"content": [{"type": "resource", "resource": {"uri": f"a:{SECRET}", "text": TOLD}}]},
    "a file": {
        "content": [{"type": "resource", "resource": {"uri": "a:b", "blob": base64.b64encode(TOLD.encode()).decode()}}]
    },
    "a link": {"content": [{"type": "resource_link", "uri": f"https://a/?k={SECRET}", "name": "n"}]},
    "JSON in a text": {"content": [{"type": "text", "text": json.dumps({"env": {"MODE": TOLD}})}]},
}


@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("reference", ["Bearer {file:key}", f"Bearer {SECRET}"])
async def test_a_result_that_repeats_a_credential_is_hidden_there(
    tmp_path: Path, open_box: Opener, result: str, reference: str
) -> None:
    credentials = Credentials(tmp_path / "credentials.toml")
    credentials.set_many({"key": SECRET, "word": "postgres"})
    body = b'{"jsonrpc": "2.0", "id": ID, "result": ' + json.dumps(RESULTS[result]).encode() + b"}"
    async with McpWire(body) as server:
        server.pages = [
            {
                "tools": [
                    {
                        "name": "write",
                        "description": TOLD,
                        "inputSchema": {"type": "object", "properties": {"a": {"description": TOLD}}},
                    }
                ]
            }
        ]
        settings = UpstreamSettings.model_validate(
            {"url": f"{server.url}/mcp", "headers": {"Authorization": reference, "X-User": "file:word"}}
        )
        box = open_box(resolve_upstream("wire", settings, credentials))
        session = box.session(1, "alpha", "")
        (tool,) = [one for one in (await session.catalogue()).tools if one.origin == "write"]
        assert SECRET not in f"{tool.description}{tool.input_schema}"
        assert "you came with ‹hidden›" in tool.description
        answer = await session.call(asked("write"), meta=meta())
        await box.close()
    assert SECRET not in f"{answer.content}{answer.blobs}"
    assert "‹hidden›" in f"{answer.content}{[blob.data.decode() for blob in answer.blobs]}"


async def test_a_word_that_is_a_password_stays_in_a_result(tmp_path: Path, open_box: Opener) -> None:
    """A server of a database would otherwise hide the database `postgres`."""
    credentials = Credentials(tmp_path / "credentials.toml")
    credentials.set_many({"word": "postgres"})
    body = b'{"jsonrpc": "2.0", "id": ID, "result": {"content": [{"type": "text", "text": "postgres, text/html2"}]}}'
    async with McpWire(body) as server:
        headers = {"Authorization": "file:word", "Accept-Patch": "text/plain, text/html2"}
        settings = UpstreamSettings.model_validate({"url": f"{server.url}/mcp", "headers": headers})
        session = await with_catalogue(
            open_box(resolve_upstream("wire", settings, credentials)).session(1, "alpha", "")
        )
        answer = await session.call(asked("write"), meta=meta())
    assert answer.content == "postgres, text/html2"


@pytest.mark.parametrize(
    ("secret", "is_hidden"), [("a1b2c3", True), ("words-without-any", True), ("a1b2c", False), ("words-short", False)]
)
async def test_a_credential_counts_from_6_characters_with_a_digit_or_16(
    tmp_path: Path, open_box: Opener, secret: str, is_hidden: bool
) -> None:
    credentials = Credentials(tmp_path / "credentials.toml")
    credentials.set_many({"key": secret})
    result = json.dumps({"content": [{"type": "text", "text": f"you came with {secret}"}]})
    async with McpWire(b'{"jsonrpc": "2.0", "id": ID, "result": ' + result.encode() + b"}") as server:
        settings = UpstreamSettings.model_validate({"url": f"{server.url}/mcp", "headers": {"X-Api-Key": "file:key"}})
        box = open_box(resolve_upstream("wire", settings, credentials))
        session = await with_catalogue(box.session(1, "alpha", ""))
        answer = await session.call(asked("write"), meta=meta())
    assert answer.content == f"you came with {'‹hidden›' if is_hidden else secret}"
