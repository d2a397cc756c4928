"""Finds secrets in the arguments of calls: by the tool's schema, or by the argument's name. Pure."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from zoea.text.redact import secret_patterns
from zoea.text.redact.secret_patterns import FOREIGN

_NAMES = re.compile(
    rf"(?:{FOREIGN})$|(?:^|_)(?:pass|t?otp|passwords?|passwd|passphrases?|passcode|pwd|secrets?|api_?keys?|token"
    r"|(?:private|secret|access|signing|encryption|ssh|auth)_?keys?|(?:access|api|auth|bearer|refresh|session)_tokens)$"
    r"|^tokens$"
)
_HEADERS = re.compile(r"^(?:proxy_)?authorization$|^(?:set_)?cookie$")
_SCHEME = re.compile(r"(?i)(?:bearer|basic|token|digest)[ \t]{1,8}(?=\S)")
_NAMED = re.compile(r"(?:export[ \t]{1,8})?(?P<name>[^\W\d][\w.-]{0,60})(?:=|:[ \t]{1,8})(?P<value>\S.{0,4000})")
"""A header or a variable of an environment, alone in a text."""
_ELEMENT = re.compile(r"(?P<before><(?P<name>[A-Za-z][\w.-]{0,60})>)(?P<value>[^<>\s]{1,400})(?=</)")
_LOGIN = re.compile(
    r"(?P<before>\bcurl\b[^\n|;&]{0,400}?[ \t](?:-u|--user)[ \t=]{0,4}[\"']?[^\s:\"']{1,100}:)(?P<value>[^\s\"']+)"
)
_HARMLESS = re.compile(r"(?:page|next|continuation)_token$")
_NUMBERS_TOO = re.compile(r"(?:password|passwd|passphrase|passcode|pwd|secret|key)s?$")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_IN_TEXT = re.compile(r'("(?P<name>(?:[^"\\]|\\.){1,400})"\s*:\s*")(?P<value>(?:[^"\\]|\\.)+)')
_FLAG = re.compile(r"--?(?P<name>[A-Za-z][\w-]*)")
_FLAG_IN_TEXT = re.compile(
    r"(?<![\w-])(?P<flag>--(?P<name>[A-Za-z][\w-]*)(?:=|[ \t]{1,8}))"
    r"(?:\"(?P<double>[^\"]+)\"|'(?P<single>[^']+)'|(?P<bare>(?![-$\"'])[^\s\"']+))"
)
_MAKER = re.compile(
    r"(?:^|_)(?:register|registration|signup|sign_up|login|log_in|signin|sign_in|authenticate|authorize)(?:_|$)"
    r"|(?:create|new|make|add|issue|generate|rotate|reset|renew|refresh)_(?:\w+_)?"
    r"(?:account|user|player|password|secret|key|token|session|credentials?)(?:_|$)"
)
_MADE = re.compile(
    r"(?i)(?P<before>\b(?:password|passphrase|passcode|secret|api[ _-]?key|token)\b[\"'`*]{0,3}"
    r"(?:\s{0,4}[:=]|\s{1,4}is:?)\s{0,4}[\"'`*]{0,3})(?P<value>[^\s\"'`*,;<>]{1,400})"
)
_ODD = re.compile(r"\d|[^\W_]_|[!#$%&+=?@^~/\\-]\w|[a-z][A-Z]")
"""What no word has that may stand behind `password:` in an answer."""
_SHORTEST_MADE = 6
_BRANCHES = ("anyOf", "oneOf", "allOf")

Replace = Callable[[Any], str]
"""Returns what stands for a secret value."""


def is_secret_name(name: str) -> bool:
    """Return whether an argument of this name holds a secret: `password`, `userPassword`, `x-api-key`, `token`."""
    plain = plain_name(name)
    return bool(_NAMES.search(plain) or _HEADERS.search(plain)) and _HARMLESS.search(plain) is None


def replace_secrets(arguments: dict[str, Any], schema: Mapping[str, Any], replace: Replace) -> dict[str, Any]:
    """Return the arguments with each secret value replaced, at any depth, also in JSON inside of texts."""
    replaced = dict(arguments)
    waiting: deque[_Level] = deque([_Level(replaced, [schema], is_secret=False, numbers=False)])
    while waiting:  # not by recursion, because what is nested deeply is a secret too
        level = waiting.popleft()
        parts = [part for one in level.schemas for part in _parts(one, schema)]
        for key, value in list(level.items()):
            inner, is_secret, numbers = level.judge(key, parts, schema)
            if isinstance(value, dict | list):
                level.values[key] = copied = value.copy()
                waiting.append(_Level(copied, inner, is_secret=is_secret, numbers=numbers))
            elif is_secret:
                level.values[key] = _replace_leaf(value, replace, numbers=numbers)
            elif isinstance(value, str):
                level.values[key] = _replace_inside(value, replace)
    return replaced


def replace_in_text(text: str, replace: Replace) -> str:
    """Replace the values of secret names in a text that is no valid JSON."""

    def put(match: re.Match[str]) -> str:
        if not is_secret_name(_unescape(match["name"])):
            return match[0]
        return match[1] + replace(match["value"])

    return _replace_flags(_IN_TEXT.sub(put, text), replace)


def makes_secrets(tool: str) -> bool:
    """Return whether a tool of this name makes a password or token: `register`, `create_account`, `login`."""
    return _MAKER.search(plain_name(tool)) is not None


def replace_made_secrets(text: str, replace: Replace) -> str:
    """Replace the secrets that a server made in its answer: the values of secret names, and those that it tells."""
    inside = _replace_inside(text, replace)
    if inside != text or text.lstrip()[:1] in ("{", "["):
        return inside

    def put(match: re.Match[str]) -> str:
        value = match["value"].rstrip(".!?")
        if len(value) < _SHORTEST_MADE or _ODD.search(value) is None:
            return match[0]
        return f"{match['before']}{replace(value)}{match['value'][len(value) :]}"

    return _MADE.sub(put, text)


class _Level(Struct):
    """An object or list of arguments, with the schemas that describe it."""

    values: Any
    schemas: list[Any]
    is_secret: bool
    numbers: bool

    def items(self) -> Iterable[tuple[Any, Any]]:
        return self.values.items() if isinstance(self.values, dict) else enumerate(self.values)

    def judge(self, key: Any, parts: list[Mapping[str, Any]], root: Any) -> tuple[list[Any], bool, bool]:
        """Return the schemas of a value, whether it is secret, and whether a number would be."""
        if isinstance(self.values, list):
            items = [part["items"] for part in parts if "items" in part]
            before, value = self.values[key - 1] if key else "", self.values[key]
            flag = _FLAG.fullmatch(before) if isinstance(before, str) else None
            is_option = isinstance(value, str) and value.startswith("-")
            follows = flag is not None and is_secret_name(flag["name"]) and not is_option
            return items, self.is_secret or follows, self.numbers or follows
        inner = [schema for part in parts if (schema := _property(part, key)) is not None]
        by_schema = any(
            part.get("format") == "password" or part.get("writeOnly") is True
            for schema in inner
            for part in _parts(schema, root)
        )
        named = self.values.get("name", self.values.get("key")) if key == "value" else ""
        is_secret = self.is_secret or by_schema or is_secret_name(key)
        is_secret = is_secret or (isinstance(named, str) and is_secret_name(named))
        numbers = self.numbers or by_schema or _NUMBERS_TOO.search(plain_name(key)) is not None
        return inner, is_secret, numbers


def _replace_leaf(value: Any, replace: Replace, *, numbers: bool) -> Any:
    match value:
        case str() if value:
            scheme = _SCHEME.match(value)
            start = scheme.end() if scheme else 0
            return value[:start] + replace(value[start:])
        case bool():
            return value
        case int() | float() if numbers:
            return replace(value)
    return value


def _replace_inside(text: str, replace: Replace) -> str:
    """Replace the secrets of a text that is JSON itself, or holds the options of a command."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return replace_in_text(text, replace)
        replaced = replace_secrets({"": value}, {}, replace)[""]
        return text if replaced == value else json.dumps(replaced, ensure_ascii=False)
    if (named := _NAMED.fullmatch(text)) and is_secret_name(named["name"]):
        return f"{text[: named.start('value')]}{_replace_leaf(named['value'], replace, numbers=False)}"
    return _replace_flags(text, replace)


def _replace_flags(text: str, replace: Replace) -> str:
    def put(match: re.Match[str]) -> str:
        if not is_secret_name(match["name"]):
            return match[0]
        value = match["double"] or match["single"] or match["bare"]
        start = match.end() - match.start() - len(value) - (match["bare"] is None)
        return f"{match[0][:start]}{replace(value)}{match[0][start + len(value) :]}"

    def put_named(match: re.Match[str]) -> str:
        is_secret = "name" not in match.re.groupindex or is_secret_name(match["name"])
        return f"{match['before']}{replace(match['value'])}" if is_secret else match[0]

    text = _LOGIN.sub(put_named, text) if "curl" in text else text
    text = _ELEMENT.sub(put_named, text) if "</" in text else text
    text = _FLAG_IN_TEXT.sub(put, text) if "--" in text else text
    return secret_patterns.replace_secrets(text, lambda kind, value: replace(value) if _is_odd(value) else value)


def _is_odd(value: str) -> bool:
    """Return whether a value cannot be a word, which would be taken for the secret wherever it stands."""
    return len(value) >= _SHORTEST_MADE and any(char.isdigit() for char in value)


def _unescape(name: str) -> str:
    try:
        return str(json.loads(f'"{name}"'))
    except ValueError:
        return name


def _property(schema: Mapping[str, Any], key: str) -> Any:
    properties = schema.get("properties")
    return properties.get(key) if isinstance(properties, Mapping) else None


def _parts(schema: Any, root: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield a schema and those it refers to or combines."""
    if not isinstance(schema, Mapping) or depth > 8:
        return
    yield schema
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        found: Any = root
        for step in reference[2:].split("/"):
            found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
        yield from _parts(found, root, depth + 1)
    for branch in _BRANCHES:
        ones = schema.get(branch)
        for one in ones if isinstance(ones, list) else ():
            yield from _parts(one, root, depth + 1)


def plain_name(name: str) -> str:
    """Return a name in lower case with underscores: `userName` and `User-Name` are `user_name`."""
    return _CAMEL.sub("_", unicodedata.normalize("NFKC", name)).lower().replace("-", "_")
