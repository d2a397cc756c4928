"""Fills the arguments of a server's tools for accounts as `[upstream.NAME.login]` declares them. Pure."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from typing import Any

from zoea.model.errors import ToolError
from zoea.settings.endpoints import LoginSettings
from zoea.text.tool_signature import properties_of
from zoea.tools.secret_arguments import is_secret_name, plain_name
from zoea.tools.upstream.upstream_config import UpstreamConfig

_NAME_KEYS = (
    *("username", "user_name", "user", "name", "account", "account_name", "player", "player_name"),
    *("handle", "nickname", "nick", "character", "character_name", "agent", "agent_name", "login", "email", "id"),
)
"""Fields that hold the name of an account, so that they may be shown."""
_SECRET_BYTES = 18
_LONGEST_SECRET = 1_024
MOST_FIELDS, LONGEST_FIELD = 100, 4_000
"""Fields of an account, and characters of one, because all are kept in the credentials file."""
_MAX_DEPTH = 4

Json = Mapping[str, Any]


def register_arguments(config: UpstreamConfig, schema: Json, name: str) -> dict[str, Any]:
    """Return the arguments that create an account. A secret that the settings name is made up.

    Raises:
        ToolError: Nothing fills a required argument.
    """
    login = config.login
    assert login is not None
    properties = properties_of(schema)
    values = {login.name: name, **login.fixed}
    if login.secret in properties:
        values.setdefault(login.secret, _new_secret(properties[login.secret]))
    arguments = _fill(values, properties, schema)
    _check(config, login.register_, schema, arguments, name)
    return arguments


def login_arguments(config: UpstreamConfig, schema: Json, fields: Mapping[str, str], name: str) -> dict[str, Any]:
    """Return the arguments that open a session with the fields of an account.

    Raises:
        ToolError: Nothing fills a required argument.
    """
    login = config.login
    assert login is not None
    arguments = _fill_login(login, schema, fields)
    _check(config, login.login, schema, arguments, name)
    return arguments


def _fill_login(login: LoginSettings, schema: Json, fields: Mapping[str, str]) -> dict[str, Any]:
    mapped = {argument: fields[field] for argument, field in login.mapping.items() if field in fields}
    return _fill({**fields, **mapped, **login.fixed}, properties_of(schema), schema)


def _fill(values: Mapping[str, Any], properties: Json, schema: Json) -> dict[str, Any]:
    """Return the values that a tool takes. Required arguments with one value or a default are added."""
    if not properties:
        return dict(values)
    arguments = {key: _typed(values[key], one) for key, one in properties.items() if key in values}
    for key in _required(schema):
        one = properties.get(key)
        if key in arguments or not isinstance(one, Mapping):
            continue
        choices = one.get("enum")
        if "const" in one:
            arguments[key] = one["const"]
        elif "default" in one:
            arguments[key] = one["default"]
        elif isinstance(choices, list) and len(choices) == 1:
            arguments[key] = choices[0]
    return arguments


def holds_login(config: UpstreamConfig, schema: Json, fields: Mapping[str, str]) -> bool:
    """Return whether fields have a secret and all that a login needs."""
    login = config.login
    if login is None or not any(key == login.secret or is_secret_name(key) for key in fields.keys() - config.inject):
        return False
    return _find_missing(schema, _fill_login(login, schema, fields)) is None


def find_login_secrets(config: UpstreamConfig, arguments: Mapping[str, Any]) -> list[str]:
    """Return the secret texts among arguments that make an account or open a session."""
    return [value for key, value in arguments.items() if isinstance(value, str) and is_secret_field(config, key, {})]


def account_fields(sent: Mapping[str, Any], config: UpstreamConfig, answered: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields of a new account: name and secret as sent, then the server's answer, without long texts.

    Raises:
        ToolError: The server answered more fields than an account can have.
    """
    fixed = config.login.fixed if config.login is not None else {}
    fields = {key: str(value) for key, value in sent.items() if key not in fixed}
    for key, value in flatten(answered):
        if len(key) + len(value) <= LONGEST_FIELD:
            fields[key] = value
    if len(fields) > MOST_FIELDS:
        raise ToolError(
            f"{config.name} made an account of {len(fields):,} fields; at most {MOST_FIELDS} are kept",
            hint="Store the account in the credentials yourself.",
        )
    return fields


def flatten(values: Mapping[str, Any], depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the texts and numbers of nested objects. Outer ones come last, so that they win."""
    if depth < _MAX_DEPTH:
        for value in values.values():
            if isinstance(value, Mapping):
                yield from flatten(value, depth + 1)
    for key, value in values.items():
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            yield key, str(value)


def is_secret_field(config: UpstreamConfig, key: str, schema: Json) -> bool:
    """Return whether a field of an account must not be shown. `schema` is that of the login."""
    login = config.login
    if key in config.inject or is_secret_name(key) or (login is not None and key == login.secret):
        return True
    if plain_name(key) in _NAME_KEYS or (login is not None and (key == login.name or key in login.fixed)):
        return False
    properties = properties_of(schema)
    return not properties or key in properties


def _new_secret(schema: Any) -> str:
    limits = schema if isinstance(schema, Mapping) else {}
    shortest, longest = limits.get("minLength"), limits.get("maxLength")
    size = min(max(_SECRET_BYTES, shortest if isinstance(shortest, int) else 0), _LONGEST_SECRET)
    made = secrets.token_urlsafe(size)
    return made[:longest] if isinstance(longest, int) and longest > 0 else made


def _required(schema: Json) -> tuple[str, ...]:
    required = schema.get("required")
    return tuple(key for key in required if isinstance(key, str)) if isinstance(required, list) else ()


def _find_missing(schema: Json, given: Mapping[str, Any]) -> str | None:
    return next((key for key in _required(schema) if key not in given), None)


def _check(config: UpstreamConfig, tool: str, schema: Json, given: Mapping[str, Any], name: str) -> None:
    missing = _find_missing(schema, given)
    if missing is None:
        return
    one = properties_of(schema).get(missing)
    choices = one.get("enum") if isinstance(one, Mapping) else None
    options = f" (one of {', '.join(map(str, choices[:10]))})" if isinstance(choices, list) and choices else ""
    raise ToolError(
        f"{tool} of {config.name} needs {missing}{options} for the account of {name}, and nothing fills it",
        hint=f"Give it in the settings: [upstream.{config.name}.login] fixed = {{ {missing} = … }}, or say with "
        "name, secret and mapping which arguments those are.",
    )


def _typed(value: Any, schema: Any) -> Any:
    """Return a stored field in the type that the schema asks for."""
    is_number = isinstance(value, str) and value.lstrip("-").isdecimal()
    if is_number and isinstance(schema, Mapping) and schema.get("type") == "integer":
        return int(value)
    return value
