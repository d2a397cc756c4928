"""Fills the arguments of a server's tools for accounts from their schemas and `[upstream.NAME.login]`. Pure."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from typing import Any

from zoea.model.errors import ToolError
from zoea.tools.secret_arguments import is_secret_name, is_secret_property, plain_name
from zoea.tools.upstream.upstream_config import UpstreamConfig

NAME_KEYS = (
    *("username", "user_name", "user", "name", "account", "account_name", "player", "player_name"),
    *("handle", "nickname", "nick", "character", "character_name", "agent", "agent_name", "login", "email", "id"),
)
"""Arguments and fields that hold the name of an account, the likeliest first."""
_OBJECT_KEYS = ("id", "token", "key")
_NO_PASSWORD = ("token", "tokens", "key", "keys")
_SECRET_BYTES = 18
_LONGEST_SECRET = 1_024
MOST_FIELDS, LONGEST_FIELD = 100, 4_000
"""Fields of an account, and characters of one, because all are kept in the credentials file."""
_MAX_DEPTH = 4

Json = Mapping[str, Any]


def register_arguments(config: UpstreamConfig, schema: Json, name: str) -> dict[str, Any]:
    """Return the arguments that create an account; a required secret is made up.

    Raises:
        ToolError: Nothing fills a required argument.
    """
    login = config.login
    assert login is not None
    properties = _properties(schema)
    if not properties:
        return {login.name or "name": name, **login.fixed}
    given: dict[str, Any] = {key: value for key, value in login.fixed.items() if key in properties}
    key = _name_argument(properties, login.name)
    if key:
        given.setdefault(key, name)
    secret = _secret_argument(properties, login.secret)
    if secret:
        given.setdefault(secret, _new_secret(properties[secret]))
    _fill_constants(given, properties, schema)
    _check(config, login.register, schema, given, name)
    return given


def login_arguments(config: UpstreamConfig, schema: Json, fields: Mapping[str, str], name: str) -> dict[str, Any]:
    """Return the arguments that open a session with the fields of an account.

    Raises:
        ToolError: Nothing fills a required argument.
    """
    login = config.login
    assert login is not None
    given = _fill_login(config, schema, fields)
    _check(config, login.login, schema, given, name)
    return given


def _fill_login(config: UpstreamConfig, schema: Json, fields: Mapping[str, str]) -> dict[str, Any]:
    login = config.login
    assert login is not None
    properties = _properties(schema)
    if not properties:
        return {**fields, **login.fixed}
    given: dict[str, Any] = {key: value for key, value in login.fixed.items() if key in properties}
    known = {plain_name(key): value for key, value in fields.items()}
    for key, one in properties.items():
        if key not in given and plain_name(key) in known:
            given[key] = _typed(known[plain_name(key)], one)
    key = _name_argument(properties, login.name)
    if key and key not in given and (account := account_name(config, fields)):
        given[key] = account
    secret = _secret_argument(properties, login.secret)
    if secret and secret not in given and (value := _account_secret(config, fields)):
        given[secret] = value
    _fill_constants(given, properties, schema)
    return given


def holds_login(config: UpstreamConfig, schema: Json, fields: Mapping[str, str]) -> bool:
    """Return whether fields have a secret and all that a login needs."""
    if not _account_secret(config, fields):
        return False
    return _find_missing(schema, _fill_login(config, schema, fields)) is None


def find_login_secrets(config: UpstreamConfig, arguments: Mapping[str, Any]) -> list[str]:
    """Return the texts that must not be shown among the arguments that make an account or open a session."""
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


def value_of_object(name: str, value: Json) -> Any:
    """Return the field of an object that an argument means, as `session.id`; the object if no field is likely."""
    known = {plain_name(key): text for key, text in flatten(value)}
    likely = (name, *(f"{name}_{key}" for key in _OBJECT_KEYS), *_OBJECT_KEYS)
    only = next(iter(known.values())) if len(known) == 1 else value
    return next((known[plain_name(key)] for key in likely if plain_name(key) in known), only)


def account_name(config: UpstreamConfig, fields: Mapping[str, str]) -> str:
    """Return the name of an account; empty if no field looks like one."""
    keys = (config.login.name, *NAME_KEYS) if config.login is not None else NAME_KEYS
    known = {plain_name(key): value for key, value in fields.items()}
    return next((known[key] for key in map(plain_name, keys) if key in known), "")


def is_secret_field(config: UpstreamConfig, key: str, schema: Json) -> bool:
    """Return whether a field of an account must not be shown. `schema` is that of the login."""
    login = config.login
    if key in config.inject or is_secret_name(key) or (login is not None and key == login.secret):
        return True
    if plain_name(key) in NAME_KEYS or (login is not None and (key == login.name or key in login.fixed)):
        return False
    properties = _properties(schema)
    return not properties or key in properties


def _account_secret(config: UpstreamConfig, fields: Mapping[str, str]) -> str:
    login = config.login
    if login is not None and login.secret in fields:
        return fields[login.secret]
    found = [key for key in fields if is_secret_name(key) and key not in config.inject]
    passwords = [key for key in found if not plain_name(key).endswith(_NO_PASSWORD)]
    return next((fields[key] for key in (*passwords, *found)), "")


def _properties(schema: Json) -> Json:
    found = schema.get("properties")
    return found if isinstance(found, Mapping) else {}


def _name_argument(properties: Json, wanted: str) -> str:
    if wanted in properties:
        return wanted
    by_plain = {plain_name(key): key for key in reversed(tuple(properties))}
    guess = next((by_plain[key] for key in NAME_KEYS if key in by_plain), "")
    return guess or next((key for key in properties if plain_name(key).endswith("name")), "")


def _secret_argument(properties: Json, wanted: str) -> str:
    if wanted in properties:
        return wanted
    found = [key for key, one in properties.items() if is_secret_property(key, one)]
    return next((key for key in found if not plain_name(key).endswith(_NO_PASSWORD)), "")


def _new_secret(schema: Any) -> str:
    limits = schema if isinstance(schema, Mapping) else {}
    shortest, longest = limits.get("minLength"), limits.get("maxLength")
    size = min(max(_SECRET_BYTES, shortest if isinstance(shortest, int) else 0), _LONGEST_SECRET)
    made = secrets.token_urlsafe(size)
    return made[:longest] if isinstance(longest, int) and longest > 0 else made


def _fill_constants(given: dict[str, Any], properties: Json, schema: Json) -> None:
    """Fill required arguments that can have one value only, or that have a default."""
    for key in _required(schema):
        one = properties.get(key)
        if key in given or not isinstance(one, Mapping):
            continue
        choices = one.get("enum")
        if "const" in one:
            given[key] = one["const"]
        elif "default" in one:
            given[key] = one["default"]
        elif isinstance(choices, list) and len(choices) == 1:
            given[key] = choices[0]


def _required(schema: Json) -> tuple[str, ...]:
    found = schema.get("required")
    return tuple(key for key in found if isinstance(key, str)) if isinstance(found, list) else ()


def _find_missing(schema: Json, given: Mapping[str, Any]) -> str | None:
    return next((key for key in _required(schema) if key not in given), None)


def _check(config: UpstreamConfig, tool: str, schema: Json, given: Mapping[str, Any], name: str) -> None:
    missing = _find_missing(schema, given)
    if missing is None:
        return
    one = _properties(schema).get(missing)
    choices = one.get("enum") if isinstance(one, Mapping) else None
    said = f" (one of {', '.join(map(str, choices[:10]))})" if isinstance(choices, list) and choices else ""
    raise ToolError(
        f"{tool} of {config.name} needs {missing}{said} for the account of {name}, and nothing fills it",
        hint=f"Give it in the settings: [upstream.{config.name}.login] fixed = {{ {missing} = … }}, or say with name "
        "and secret which arguments those are.",
    )


def _typed(value: str, schema: Any) -> Any:
    """Return a stored field in the type that the schema asks for."""
    if isinstance(schema, Mapping) and schema.get("type") == "integer" and value.lstrip("-").isdecimal():
        return int(value)
    return value
