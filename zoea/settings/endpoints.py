"""The settings of providers and upstreams.

Keys are given as references. Header and environment values are `SecretStr`, because people paste
keys into them.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, SecretStr

from zoea.model.enums import ToolMode
from zoea.settings.fields import (
    HOUR_S,
    MOST_TOKENS,
    MOST_WINDOW,
    NOVA,
    Number,
    Seconds,
    Section,
    Whole,
    Words,
    parse_table,
    setting,
)

_NO_ADDRESS = "is not an http or https address, such as http://127.0.0.1:8080/v1"
REFERENCE = re.compile(r"(env|keyring|file):([A-Za-z0-9_][A-Za-z0-9_./@ -]{0,127})")


class ProviderType(StrEnum):
    """The API at the other end; set explicitly, never guessed from an address. `llm/registry.py` says what makes it.

    Attributes:
        vendor: The name of its vendor or server, for lists.
        description: Its line in the form that connects a model; empty where no model answers.
        address: Used where the settings name none; empty where there is no server.
        key_variable: The variable that usually holds its key.
    """

    vendor: str
    description: str
    address: str
    key_variable: str

    OPENAI = (
        *("openai", "OpenAI", "OpenAI-compatible: OpenAI and most servers"),
        *("https://api.openai.com/v1", "OPENAI_API_KEY"),
    )
    ANTHROPIC = ("anthropic", "Anthropic", "Anthropic", "https://api.anthropic.com", "ANTHROPIC_API_KEY")
    OLLAMA = ("ollama", "Ollama", "Ollama", "http://127.0.0.1:11434")
    EMBEDDED = ("embedded", "", "a model file, run by Zoea")
    AUTOPILOT = ("autopilot",)
    SCRIPTED = ("scripted",)

    def __new__(
        cls, value: str, vendor: str = "", description: str = "", address: str = "", key_variable: str = ""
    ) -> ProviderType:
        kind = str.__new__(cls, value)
        kind._value_ = value
        kind.vendor, kind.description, kind.address, kind.key_variable = vendor, description, address, key_variable
        return kind


class Sharing(StrEnum):
    """Whether all myses share a session of an upstream."""

    SHARED = "shared"
    PER_MYSIS = "per-mysis"


def check_reference(value: str) -> str:
    """Check that a text is a credential reference; the message never repeats it."""
    if value and not REFERENCE.fullmatch(value):
        raise ValueError(
            "is not a credential reference. Store a key with `zoea credentials set NAME` and write "
            '"file:NAME", or write "env:VARIABLE" or "keyring:NAME"'
        )
    return value


def check_address(value: str) -> str:
    """Check an http(s) address without user and password."""
    if not value:
        return value
    try:
        parts = urlsplit(value)
        port_is_fine = parts.port is None or parts.port >= 0
    except ValueError:
        raise ValueError(_NO_ADDRESS) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_fine:
        raise ValueError(_NO_ADDRESS)
    if parts.username is not None or parts.password is not None:
        raise ValueError("contains a user or password; put credentials into headers, by reference")
    return value


def check_source(value: str) -> str:
    """Check where an argument that Zoea fills takes its value from."""
    if not re.fullmatch(r"account(\.[A-Za-z0-9_.-]{1,100})?", value):
        raise ValueError('must be "account", or "account." and the name of a field')
    return value


Reference = Annotated[str, AfterValidator(check_reference)]
Address = Annotated[str, AfterValidator(check_address)]
Hidden = Annotated[dict[str, SecretStr], BeforeValidator(parse_table, json_schema_input_type=dict[str, str])]


class ProviderSettings(Section):
    """One source of models, `[provider.NAME]`."""

    type: ProviderType = Field(title="Type", description="The API of the provider; never guessed from an address.")
    base_url: Address = setting("", "Address", "The address of the API; empty is the type's default.")
    api_key: Reference = setting(
        "", "Key", 'A reference to the key: "env:VARIABLE", "keyring:NAME" or "file:NAME"; never the key itself.'
    )
    model: str = setting("", "Model", "The model of myses with a template that names none.")
    concurrency: Annotated[Whole, Field(ge=1, le=1000)] | Literal["auto"] = setting(
        8,
        "Requests at once",
        'Parallel requests. "auto", and where it is not set: the slots of a llama.cpp server, 1 where it reads under '
        "200 tokens a second or is embedded without a GPU, 8 elsewhere.",
    )
    rate: Annotated[Number, Field(ge=0.001, le=10_000)] | None = setting(
        None, "Requests a second", "The highest rate; unset is no limit."
    )
    context_window: Annotated[Whole, Field(ge=1024, le=MOST_WINDOW)] | None = setting(
        None,
        "Context window",
        "Tokens of the model's window, instead of what the provider reports; for ollama at most the model's own.",
    )
    max_output_tokens: Annotated[Whole, Field(ge=16, le=MOST_TOKENS)] | None = setting(
        None, "Tokens of an answer", "The maximum tokens of an answer, if lower than budget.max_output_tokens."
    )
    temperature: Annotated[Number, Field(ge=0, le=2)] | None = setting(
        None, "Temperature", "Sent if set; unset is the model's default."
    )
    thinking: bool | Annotated[int, Field(ge=2, le=MOST_TOKENS)] | Literal["low", "medium", "high"] | None = setting(
        None, "Thinking", "true, false, a number of tokens, or low, medium, high; unset is the model's default."
    )
    tool_mode: ToolMode = setting(
        ToolMode.AUTO,
        "Tool calls",
        "The model's own calls (native), answers by JSON Schema, or the best it supports (auto).",
    )
    headers: Hidden = setting(
        {}, "Headers", 'Sent with each request; values may hold references, as in "Bearer {env:TOKEN}".'
    )
    options: Annotated[dict[str, JsonValue], BeforeValidator(parse_table)] = setting(
        {}, "Options", "Merged into the body of every request; examples is Zoea's own and is not sent."
    )
    tick: Annotated[Seconds, Field(le=HOUR_S)] | None = setting(
        None, "Pace", "Seconds the autopilot takes for an answer; unset is its default."
    )

    @property
    def is_concurrency_automatic(self) -> bool:
        """True where the provider finds out how many requests it takes at once."""
        return self.concurrency == "auto" or "concurrency" not in self.model_fields_set


class LoginSettings(Section):
    """The tools of an MCP server for accounts, `[upstream.NAME.login]`."""

    login: str = setting("login", "Login", "The tool that opens a session with an account.")
    register_: str = Field(
        "register",
        alias="register",
        title="Register",
        description="The tool that creates an account; empty if accounts are created elsewhere.",
        json_schema_extra={"source": "Zoea"},
    )
    name: str = setting("name", "Name", "The argument of register for the account's name.")
    secret: str = setting(
        "password", "Secret", "The field of the account's secret; Zoea makes one up where register takes it."
    )
    mapping: Annotated[dict[str, str], BeforeValidator(parse_table)] = setting(
        {}, "Other names", 'Fields of the account, by arguments of login with another name: `user = "name"`.'
    )
    fixed: Annotated[dict[str, bool | int | float | str], BeforeValidator(parse_table)] = setting(
        {}, "Fixed arguments", 'Arguments that are the same for all accounts, as in `empire = "solarian"`.', repr=False
    )
    lost: Words = setting(("session_lost",), "Session lost", "Texts of an error that mean: log in again.")
    unknown: Words = setting(("unknown_account",), "Account unknown", "Texts that mean: register a new account.")
    taken: Words = setting(
        ("name_taken", "already taken", "already exists", "already in use"),
        "Name taken",
        "Texts that mean: register under another name.",
    )


class UpstreamSettings(Section):
    """One MCP server, `[upstream.NAME]`, in the shape that MCP clients share."""

    enabled: bool = setting(True, "Enabled", "If off, it is not opened and its tools are not offered.")
    command: str = setting("", "Command", "The program of a server over stdio.")
    args: tuple[str, ...] = setting((), "Arguments", "Arguments of the command; may hold references in braces.")
    env: Hidden = setting({}, "Environment", "Variables of the command; values may be references.")
    cwd: str = setting(
        "", "Directory", "The working directory of the command; empty is the directory Zoea was started in."
    )
    url: Address = setting("", "Address", "The address of a server over streamable HTTP.")
    headers: Hidden = setting({}, "Headers", "Sent with each request; values may hold references.")
    session: Sharing = setting(Sharing.SHARED, "Session", "One session for all myses, or one each.")
    required: bool = setting(
        False, "Required", "If lost, put its myses in the errored state instead of returning error results."
    )
    idempotent: Words = setting(
        (), "Idempotent tools", "Tools, as globs, that may be called again after a session was lost."
    )
    inject: dict[str, Annotated[str, AfterValidator(check_source)]] = setting(
        {},
        "Arguments Zoea fills",
        'Arguments, such as `session_id = "account"`, that Zoea fills in and no model sees; "account.FIELD" is a field '
        "of another name.",
    )
    login: LoginSettings | None = setting(
        None, "Accounts", "The tools for accounts: a table of its own; unset with `inject` is login and register."
    )
    start_timeout: Seconds = setting(
        20, "Opening within", "Seconds it may take to open and list its tools.", source=NOVA, ge=0.1, le=HOUR_S
    )
    max_parallel: Whole = setting(32, "Calls at once", "Parallel calls, over all sessions.", ge=1, le=1000)
    max_sessions: Whole = setting(
        16, "Sessions at most", "Sessions open at once where each mysis has its own.", ge=1, le=2000
    )
    retries: Whole = setting(
        3,
        "Retries",
        "Attempts to reopen a lost session before calls fail; Zoea still tries, slowly.",
        source=NOVA,
        ge=0,
        le=20,
    )
    max_tools: Whole = setting(
        128, "Tools at most", "Tools that it may offer; those above it are left out.", ge=1, le=10_000
    )
    max_schemas: Whole = setting(
        32_000,
        "Schemas",
        "Bytes of its input schemas together; tools that do not fit are left out.",
        ge=1_000,
        le=10_000_000,
    )
    wait: dict[Literal["tick_fields", "until_fields", "for_fields"], Words] = setting(
        {}, "Other names of ticks", 'Result fields that tell of ticks, over `[wait]`: `tick_fields = ["turn"]`.'
    )
