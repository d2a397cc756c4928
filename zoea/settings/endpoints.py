"""Providers and upstreams: what the swarm reaches outside itself.

Keys never stand here, only references to them; header and environment values are
kept out of every `repr`, because people paste keys into them.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, SecretStr

from zoea.settings.fields import Number, Seconds, Section, Whole, Words, parse_table, setting

REFERENCE = re.compile(r"(env|keyring|file):([A-Za-z0-9_][A-Za-z0-9_./@ -]{0,127})")


class ProviderType(StrEnum):
    """What speaks at the other end; a setting, never guessed from an address."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    OLLAMA = "ollama"
    EMBEDDED = "embedded"
    AUTOPILOT = "autopilot"
    SCRIPTED = "scripted"


class ToolMode(StrEnum):
    """How a model is made to call tools."""

    AUTO = "auto"
    NATIVE = "native"
    JSON_SCHEMA = "json_schema"


def check_reference(value: str) -> str:
    """Check that a credential is named, not given. The message never repeats the value."""
    if value and not REFERENCE.fullmatch(value):
        raise ValueError(
            "names no credential. Store a key with `zoea credentials set NAME` and write "
            '"file:NAME", or write "env:VARIABLE" or "keyring:NAME"'
        )
    return value


def check_address(value: str) -> str:
    """Check an http(s) address without a user or password in it."""
    if not value:
        return value
    try:
        parts = urlsplit(value)
        port_is_fine = parts.port is None or parts.port >= 0
    except ValueError:
        raise ValueError("is no http or https address") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_fine:
        raise ValueError("is no http or https address")
    if parts.username is not None or parts.password is not None:
        raise ValueError("holds a user or password; put credentials into headers, by reference")
    return value


Reference = Annotated[str, AfterValidator(check_reference)]
Address = Annotated[str, AfterValidator(check_address)]
Hidden = Annotated[dict[str, SecretStr], BeforeValidator(parse_table, json_schema_input_type=dict[str, str])]


class ProviderSettings(Section):
    """One source of models, `[provider.NAME]`."""

    type: ProviderType = Field(title="Type", description="What speaks at the other end; never guessed from an address.")
    base_url: Address = setting("", "Address", "Where it is served; empty is the type's own address.")
    api_key: Reference = setting(
        "", "Key", 'A reference to the key: "env:VARIABLE", "keyring:NAME" or "file:NAME"; never the key itself.'
    )
    model: str = setting("", "Model", "The model of myses whose template names none.")
    concurrency: Whole = setting(8, "Requests at once", "Requests that run at the same time.", ge=1, le=1000)
    rate: Annotated[Number, Field(gt=0)] | None = setting(
        None, "Requests a second", "The highest rate; unset is no bound."
    )
    context_window: Annotated[Whole, Field(ge=1024)] | None = setting(
        None, "Context window", "Tokens of the model's window, where the provider does not tell."
    )
    max_output_tokens: Annotated[Whole, Field(ge=16)] | None = setting(
        None, "Tokens of an answer", "The most that this provider's models write; unset leaves it to the budget."
    )
    temperature: Annotated[Number, Field(ge=0, le=2)] | None = setting(
        None, "Temperature", "Sent where set; unset is the model's own."
    )
    thinking: bool | Annotated[int, Field(ge=2)] | Literal["low", "medium", "high"] | None = setting(
        None, "Thinking", "true, false, a number of tokens, or low, medium, high; unset is the model's own."
    )
    tool_mode: ToolMode = setting(
        ToolMode.AUTO,
        "Tool calls",
        "The model's own calls (native), answers by JSON Schema, or whichever it can (auto).",
    )
    headers: Hidden = setting(
        {}, "Headers", 'Sent with each request; values may hold references, as in "Bearer {env:TOKEN}".'
    )
    options: Annotated[dict[str, JsonValue], BeforeValidator(parse_table)] = setting(
        {}, "Options", "Passed to the provider as they are."
    )
    tick: Seconds | None = setting(
        None, "Pace", "Seconds that the autopilot takes for an answer; unset is its own pace."
    )


class UpstreamSettings(Section):
    """One MCP server, `[upstream.NAME]`, in the shape that MCP clients share."""

    command: str = setting("", "Command", "The program of a server that speaks over stdio.")
    args: tuple[str, ...] = setting((), "Arguments", "Arguments of the command; may hold references in braces.")
    env: Hidden = setting({}, "Environment", "Variables of the command; values may be references.")
    cwd: str = setting("", "Directory", "Where the command runs; empty is the directory Zoea was started in.")
    url: Address = setting("", "Address", "The address of a server that speaks streamable HTTP.")
    headers: Hidden = setting({}, "Headers", "Sent with each request; values may hold references.")
    session: Literal["shared", "per-mysis"] = setting("shared", "Session", "One session for all myses, or one each.")
    required: bool = setting(False, "Required", "A mysis that loses it is errored instead of getting error results.")
    idempotent: Words = setting(
        (), "Idempotent tools", "Tools, as globs, that may be called again after a lost session."
    )
    inject: dict[str, Literal["account"]] = setting(
        {}, "Arguments Zoea fills", 'Arguments, as `session_id = "account"`, that no model sees and Zoea fills in.'
    )
    start_timeout: Annotated[Seconds, Field(gt=0)] | None = setting(
        None, "Opening within", "Unset is upstream_defaults."
    )
    max_parallel: Annotated[Whole, Field(ge=1, le=1000)] | None = setting(
        None, "Calls at once", "Unset is upstream_defaults."
    )
    max_sessions: Annotated[Whole, Field(ge=1, le=2000)] | None = setting(
        None, "Sessions at most", "Unset is upstream_defaults."
    )
    retries: Annotated[Whole, Field(ge=0, le=20)] | None = setting(None, "Retries", "Unset is upstream_defaults.")
    idle_close: Annotated[Seconds, Field(gt=0)] | None = setting(None, "Close when idle", "Unset is upstream_defaults.")
