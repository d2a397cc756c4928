"""Finds secrets among arguments of calls by schema or name. Pure."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct

from zoea.text.control_characters import drop_hidden
from zoea.text.large_json import LARGE_DECODER
from zoea.text.lazy_pattern import compile_lazily
from zoea.text.redact import secret_patterns
from zoea.text.redact.secret_patterns import FOREIGN
from zoea.text.stepped_search import replace_in_steps, search_in_steps
from zoea.tools.secret_forms import find_forms

_NAMES = compile_lazily(
    rf"(?:{FOREIGN})$|(?:^|_)(?:pass|(?:user|db|auth|login|mail|my|root|admin)pass|t?otp(?:_seed|_code)?|psk|creds|credentials?"
    r"|(?:user|db|my|root|admin)?pw|pin_?code|mnemonic(?:_phrase)?"
    r"|[a-z]{0,20}(?:password|passwd|passphrase|passcode|passkey|pwd|apikey)s?|pass_(?:word|phrase|code|key)s?"
    r"|secrets?|token|(?:api|wifi|wpa|pre_?shared|private|secret|access|signing|encryption|ssh|auth)_?keys?"
    r"|(?:access|api|auth|bearer|refresh|session)_?tokens?|(?:seed|recovery|backup)_phrase|recovery_codes?)$|^tokens$"
)
"""Names of secrets, as words between underscores."""
_AFTER_A_NAME = compile_lazily(
    r"(?:_(?:confirm(?:ation|ed)?|again|repeat(?:ed)?|retyped?|verify|verification|check|value|plain|raw|new|old|current|field"
    r"|input|textbox|box))+$"
)
_WORD = compile_lazily(r"[^\W\d_]+")
_LONGEST_NAME = 400
_GROUPS = compile_lazily(r"(?:^|_)(?:creds|credentials?)$")
"""Names of objects whose own names tell which values are secret."""
_BESIDE = {
    "value": (
        "name",
        "key",
        "field",
        "label",
        "id",
        "element",
        "selector",
        "parameter",
        "param",
        "header",
        "variable",
        "type",
    ),
    "text": ("field", "element", "selector", "locator"),
}
"""Names of values, each with the names beside it that may say what it is."""
_PINS = compile_lazily(r"(?:^|_)(?:(?:card|door|sim|user)?pin|puk)(?:_(?:number|no))?$")
_DIGITS = re.compile(r"\d{4,12}")
"""What is a PIN under such a name; `A0` is one of a board."""
_LOGINS = compile_lazily(r"(?:^|_)(?:basic|auth|http_?auth|basic_?auth|proxy_?auth|user_?pwd)$")
"""Names of a user's name and password, as a list of two or with a colon between them."""
_PAIR = compile_lazily(r"(?P<before>(?![a-z]+://)[^\s:]{1,100}:)(?P<value>\S+)")
_HEADERS = compile_lazily(r"^(?:proxy_)?authorization$|^(?:set_)?cookie$")
_SCHEME = compile_lazily(r"(?i)(?:bearer|basic|token|digest)[ \t]{1,8}(?=\S)")
_NAMED = compile_lazily(r"(?:export[ \t]{1,8})?(?P<name>[^\W\d][\w.-]{0,60})(?:=|:[ \t]{1,8})(?P<value>\S.{0,4000})")
"""A header or a variable of an environment, alone in a text."""
_ELEMENT = compile_lazily(r"(?P<before><(?P<name>[A-Za-z][\w.-]{0,60})>)(?P<value>[^<>\s]{1,400})(?=</)")
_LOGIN = compile_lazily(
    r"(?P<before>\bcurl\b[^\n|;&]{0,400}?[ \t](?:-u|--user)[ \t=]{0,4}[\"']?[^\s:\"']{1,100}:)(?P<value>[^\s\"']+)"
)
_HARMLESS = compile_lazily(r"(?:page|next|continuation)_token$")
_NUMBERS_TOO = compile_lazily(r"(?:password|passwd|pass_?phrase|pass_?code|pwd|psk|secret|key)s?$")
_PASSWORDS = compile_lazily(rf"pass|pwd|pw$|psk|phrase|mnemonic|{FOREIGN}")
_CAMEL = compile_lazily(r"(?<=[a-z0-9])(?=[A-Z])")
_IN_TEXT = compile_lazily(r'("(?P<name>(?:[^"\\]|\\.){1,400})"\s*:\s*")(?P<value>(?:[^"\\]|\\.)+)')
_FLAG = compile_lazily(r"--?(?P<name>[A-Za-z][\w-]*)")
_FLAG_IN_TEXT = compile_lazily(
    r"(?<![\w-])(?P<flag>--(?P<name>[A-Za-z][\w-]*)(?:=|[ \t]{1,8}))"
    r"(?:\"(?P<double>[^\"]+)\"|'(?P<single>[^']+)'|(?P<bare>(?![-$\"'])[^\s\"']+))"
)
_MAKER = compile_lazily(
    r"(?:^|_)(?:register|registration|signup|sign_up|login|log_in|signin|sign_in|authenticate|authorize)(?:_|$)"
    r"|(?:^|_)(?:join|enrol|enroll|onboard|claim)(?:_|$)"
    r"|(?:create|new|make|add|open|start|begin|provision|issue|generate|rotate|reset|renew|refresh)_(?:\w+_)?"
    r"(?:account|user|player|character|game|password|secret|key|token|session|credentials?)(?:_|$)"
)
_MADE = compile_lazily(
    r"(?i)(?P<before>(?:(?<![a-z0-9])"
    r"(?:pass[ _-]?(?:word|phrase|code|key)|pwd|secret|api[ _-]?key|token|credential)s?(?![a-z0-9])"
    rf"|{FOREIGN})[\"'`*_]{{0,4}}(?:\s?[(（][^()（）\n]{{1,60}}[)）])?(?: \w{{1,20}}){{0,4}}?[\"'`*_]{{0,4}}"
    r"(?:\s{0,4}(?:[:=：|]|->|=>|→)|\s{1,4}(?:is|are|was|will be|ist|lautet|est|es)\b:?|\s?(?:是|为|為|は|는|은)[:：]?)"
    r"[\s\"'`*“「|]{0,8})"
    r"(?:(?P<phrase>(?-i:[a-z]{3,12}(?: [a-z]{3,12}){2,11}))(?=[\"'`*”」.]{0,3}\s{0,4}(?:[\n|]|$))"
    r"|(?P<value>[^\s\"'`*<>|“”「」‹›。，；]{1,400}))"
)
_PHRASE_WORD = compile_lazily(r"[a-z]{3,12}")
_IN_PHRASES_NO_WORD = compile_lazily(
    r"(?:must|should|may|can|will|has|have|had|was|were|your|please|enter|choose|least|with|and|or|for|from|user|account"
    r"|sent|email|mail|than|more|less|characters|letters|digits|numbers|generated|reset|created|updated|successfully"
    r"|accepted|rejected|verified|confirmed|below|above|following|check|see|click|does|did|match|are|any|all|you|the|not|too"
    r"|been|this|that|wrong|invalid|incorrect|expired|required|missing|empty|only|never|stored|shown|given|changed)"
)
_MAY_NAME = compile_lazily(
    rf"pass|pw|pin_?code|psk|secret|key|token|cred|otp|mnemonic|phrase|cookie|authorization|{FOREIGN}|\\\\u"
)
_ODD = compile_lazily(r"\d|[^\W_]_|[!#$%&+=?@^~/\\-]\w|[a-z][A-Z]")
"""What no word has that may stand behind `password:` in an answer."""
_NUMBER = compile_lazily(r"[\d.,:/%TZ+-]+")
_TABLE = compile_lazily(
    r"(?m)^(?P<head>[ \t]{0,8}\|[^\n]*+)(?P<line>\n[ \t]{0,8}\|[ \t:|-]++\n)"
    r"(?P<rows>(?>(?:[ \t]{0,8}\|[^\n]*+(?:\n|\Z))+))"
)
_SHORTEST_MADE = 6
_BEGIN = compile_lazily(r"(?:^[ \t]*(?:data:[ \t]*|\[content of type [^\]\n]{0,200}\] )?|\A\s*)(?=[{\[])", re.MULTILINE)
"""Where JSON may begin in an answer: it, a line of it, an event's data, or a part of a type that Zoea does not know."""
_GOES_ON = ("{", "[", ",", ":")
"""Ends of a line of JSON that has more lines."""
_MOST_TRIES = 50
"""Pieces of several lines that may turn out to be no JSON; each of them may be read to the end of the answer."""
_BRANCHES = ("anyOf", "oneOf", "allOf")

Replace = Callable[[Any], str]
"""Returns what stands for a secret value."""


def is_secret_name(name: str) -> bool:
    """Return whether an argument of this name holds a secret: `password`, `newPassword2`, `x-api-key`, `wifi_psk`."""
    words = _join_words(name)
    return bool(_NAMES.search(words) or _HEADERS.search(words)) and _HARMLESS.search(words) is None


def replace_secrets(
    arguments: dict[str, Any], schema: Mapping[str, Any], replace: Replace, *, is_made: bool = False
) -> dict[str, Any]:
    """Return the arguments with secrets replaced, at any depth, also in JSON inside texts."""
    replaced = dict(arguments)
    waiting: deque[_Level] = deque([_Level(replaced, [schema], is_secret=False, numbers=False)])
    while waiting:  # not by recursion, because what is nested deeply is a secret too
        level = waiting.popleft()
        parts = [part for one in level.schemas for part in _parts(one, schema)]
        for key, value in list(level.items()):
            inner, is_secret, numbers = level.judge(key, parts, schema)
            if isinstance(value, dict | list):
                level.values[key] = copied = value.copy()
                if isinstance(key, str) and _GROUPS.search(_join_words(key)):
                    is_secret = isinstance(value, list) and not any(isinstance(one, dict | list) for one in value)
                is_two = isinstance(value, list) and len(value) == 2
                is_pair, is_login = is_two and isinstance(level.values, list), is_two and _is_named(key, _LOGINS)
                waiting.append(_Level(copied, inner, is_secret, numbers, is_pair, is_login))
            elif is_secret:
                level.values[key] = _replace_leaf(value, replace, numbers=numbers)
            elif isinstance(value, str) and _is_named(key, _LOGINS) and (pair := _PAIR.fullmatch(value)):
                level.values[key] = pair["before"] + replace(pair["value"])
            elif isinstance(value, str):
                level.values[key] = _replace_inside(value, replace, is_made=is_made)
    return replaced


def replace_in_text(text: str, replace: Replace) -> str:
    """Replace the values of secret names in a text that is no valid JSON."""

    def put(match: re.Match[str]) -> str:
        if not is_secret_name(_unescape(match["name"])):
            return match[0]
        return match[1] + replace(match["value"])

    return _replace_flags(replace_in_steps(_IN_TEXT, put, text), replace)


def makes_secrets(tool: str) -> bool:
    """Return whether a tool of this name makes a password or token: `register`, `create_account`, `login`."""
    return _MAKER.search(plain_name(tool)) is not None


def replace_made_secrets(text: str, replace: Replace) -> str:
    """Replace the secrets that a server made in its answer: the values of secret names, and those that it tells."""
    return _replace_inside(text, replace, is_made=True)


def replace_named_results(text: str, replace: Replace) -> str:
    """Replace values of secret names in each JSON of an answer. Words about a secret stay."""
    if not _may_name(text):
        return text
    parts, end, tries = list[str](), 0, 0
    while (begin := search_in_steps(_BEGIN, text, end)) is not None:
        start = begin.end()
        parts.append(text[end:start])
        line = text[start : (at if (at := text.find("\n", start)) >= 0 else len(text))]
        goes_on = tries < _MOST_TRIES and (len(parts) == 1 or line.rstrip().endswith(_GOES_ON))
        length, answer, has_changed = len(line), None, False
        if goes_on or _may_name(line):
            try:
                answer, length = LARGE_DECODER.raw_decode(text[start:] if goes_on else line)
                has_changed = _replace_named_values(answer, replace)
            except (ValueError, RecursionError):
                tries += goes_on
        end = start + length
        written = text[start:end]
        indent = 2 if "\n" in written else None
        parts.append(json.dumps(answer, ensure_ascii=False, indent=indent) if has_changed else written)
    return "".join((*parts, text[end:]))


def _may_name(text: str) -> bool:
    """Return whether a secret name may stand in a text; most answers hold none. Ignoring case is six times dearer."""
    return search_in_steps(_MAY_NAME, text.casefold()) is not None


def _replace_named_values(answer: Any, replace: Replace) -> bool:
    """Replace the values of secret names in decoded JSON; return whether there were any."""
    waiting, has_changed = [(answer, "")], False
    while waiting:
        values, name = waiting.pop()
        for key, value in list(values.items() if isinstance(values, dict) else enumerate(values)):
            names = [name] if isinstance(values, list) else [key, *(values.get(one) for one in _BESIDE.get(key, ()))]
            named = next((one for one in names if isinstance(one, str) and is_secret_name(one)), "")
            if isinstance(value, dict | list):
                is_list = isinstance(value, list) and _PASSWORDS.search(_join_words(named)) is not None
                waiting.append((value, named if is_list else ""))
                continue
            # A list below `password` often tells what is wrong with one: `too_short`.
            if named and _is_made(named, value) and (isinstance(key, str) or is_odd(str(value))):
                values[key] = _replace_leaf(value, replace, numbers=True)
            elif isinstance(value, str):
                values[key] = replace_named_results(value, replace)
            has_changed = has_changed or values[key] != value
    return has_changed


def _is_made(name: str, value: Any) -> bool:
    """Return whether a value of an answer is a secret, not a word like `required`."""
    if not isinstance(value, str | int) or isinstance(value, bool):
        return False
    plain = str(value)
    if _PASSWORDS.search(_join_words(name)) is None:
        return isinstance(value, str) and " " not in _SCHEME.sub("", plain, count=1) and is_odd(plain)
    if " " in plain:
        return _is_phrase(plain)
    return bool(find_forms(value)) and not secret_patterns.is_about_secrets(plain)


def _is_phrase(text: str) -> bool:
    """Return whether words are a pass phrase, and no sentence."""
    words = text.split(" ")
    is_sentence = any(map(_IN_PHRASES_NO_WORD.fullmatch, words))
    return len(words) > 2 and not is_sentence and all(map(_PHRASE_WORD.fullmatch, words))


def _replace_told(text: str, replace: Replace) -> str:
    """Replace the secrets that the text of a server tells."""

    def put(match: re.Match[str]) -> str:
        if phrase := match["phrase"]:
            return f"{match['before']}{replace(phrase)}" if _is_phrase(phrase) else match[0]
        value = match["value"].rstrip(".,;:!?)）")
        is_time = _NUMBER.fullmatch(value) and not (value.isdecimal() and _PASSWORDS.search(match["before"].lower()))
        if len(value) < _SHORTEST_MADE or _ODD.search(value) is None or is_time:
            return match[0]
        return f"{match['before']}{replace(value)}{match['value'][len(value) :]}"

    text = replace_in_steps(_MADE, put, text)
    return replace_in_steps(_TABLE, lambda match: _replace_columns(match, replace), text)


def _replace_columns(table: re.Match[str], replace: Replace) -> str:
    """Replace the cells below a head that names a secret."""
    heads, rows = table["head"].split("|"), [row.split("|") for row in table["rows"].split("\n")]
    for place, head in enumerate(heads):
        for row in rows if is_secret_name(head) else ():
            value = row[place].strip(" \t`*") if place < len(row) else ""
            if value and "‹" not in value and _is_made(head, value):
                row[place] = row[place].replace(value, replace(value))
    return table["head"] + table["line"] + "\n".join("|".join(row) for row in rows)


class _Level(Struct):
    """An object or list of arguments, with the schemas that describe it."""

    values: Any
    schemas: list[Any]
    is_secret: bool
    numbers: bool
    is_pair: bool = False
    is_login: bool = False

    def items(self) -> Iterable[tuple[Any, Any]]:
        return self.values.items() if isinstance(self.values, dict) else enumerate(self.values)

    def judge(self, key: Any, parts: list[Mapping[str, Any]], root: Any) -> tuple[list[Any], bool, bool]:
        """Return a value's schemas, whether it is secret, and whether a number would be."""
        if isinstance(self.values, list):
            items = [part["items"] for part in parts if "items" in part]
            before, value = self.values[key - 1] if key else "", self.values[key]
            flag = _FLAG.fullmatch(before) if isinstance(before, str) else None
            is_option = isinstance(value, str) and value.startswith("-")
            follows = flag is not None and is_secret_name(flag["name"]) and not is_option
            follows = follows or (key == 1 and self.is_pair and isinstance(before, str) and is_secret_name(before))
            follows = follows or (key == 1 and self.is_login and isinstance(before, str))
            follows = follows or (before in ("-b", "--cookie") and isinstance(value, str) and _is_cookie(value))
            return items, self.is_secret or follows, self.numbers or follows
        inner = [schema for part in parts if (schema := _property(part, key)) is not None]
        by_schema = any(
            part.get("format") == "password" or part.get("writeOnly") is True
            for schema in inner
            for part in _parts(schema, root)
        )
        beside = [self.values.get(name) for name in _BESIDE.get(key, ())]
        names = [key, *(name for name in beside if isinstance(name, str))]
        is_secret = self.is_secret or by_schema or any(map(is_secret_name, names))
        numbers = self.numbers or by_schema or any(_NUMBERS_TOO.search(_join_words(name)) for name in names)
        value = self.values[key]
        is_pin = any(_is_named(name, _PINS) for name in names) and isinstance(value, str | int)
        is_pin = is_pin and _DIGITS.fullmatch(str(value)) is not None
        return inner, is_secret or is_pin, numbers or is_pin


def _is_named(key: Any, names: re.Pattern[str]) -> bool:
    return isinstance(key, str) and names.search(_join_words(key)) is not None


def _is_cookie(value: str) -> bool:
    """Return whether the value of curl's option is a cookie, not a file name."""
    return "=" in value and is_odd(value)


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


def _replace_inside(text: str, replace: Replace, *, is_made: bool = False) -> str:
    """Replace the secrets of a text that is JSON, or holds options of a command."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return replace_in_text(text, replace)
        replaced = replace_secrets({"": value}, {}, replace, is_made=is_made)[""]
        return text if replaced == value else json.dumps(replaced, ensure_ascii=False)
    named = _NAMED.fullmatch(text)
    if named and is_secret_name(named["name"]) and not (is_made and not _is_made(named["name"], named["value"])):
        return f"{text[: named.start('value')]}{_replace_leaf(named['value'], replace, numbers=False)}"
    text = _replace_flags(text, replace)
    return _replace_told(text, replace) if is_made else text


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

    text = replace_in_steps(_LOGIN, put_named, text) if "curl" in text else text
    text = replace_in_steps(_ELEMENT, put_named, text) if "</" in text else text
    text = replace_in_steps(_FLAG_IN_TEXT, put, text) if "--" in text else text

    def put_odd(kind: str, value: str) -> str:
        return replace(value) if is_odd(value) else value

    return secret_patterns.replace_told(secret_patterns.replace_secrets(text, put_odd), put_odd)


def is_odd(value: str) -> bool:
    """Return whether a value cannot be a word. A word would be hidden wherever it stands."""
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
        node: Any = root
        for step in reference[2:].split("/"):
            node = node.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(node, Mapping) else None
        yield from _parts(node, root, depth + 1)
    for branch in _BRANCHES:
        ones = schema.get(branch)
        for one in ones if isinstance(ones, list) else ():
            yield from _parts(one, root, depth + 1)


@lru_cache(maxsize=4_096)
def _join_words(name: str) -> str:
    """Return the words of a name between underscores. Digits and what repeats or places a value are left out."""
    return _AFTER_A_NAME.sub("", "_".join(_WORD.findall(plain_name(name)))) if len(name) <= _LONGEST_NAME else ""


def plain_name(name: str) -> str:
    """Return a name in lower case with underscores: `userName` and `User-Name` are `user_name`."""
    return _CAMEL.sub("_", drop_hidden(unicodedata.normalize("NFKC", name))).lower().replace("-", "_")
