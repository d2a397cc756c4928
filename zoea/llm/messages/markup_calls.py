"""Reads tool calls that a model writes in the markup of its chat template, because its server does not parse it.

Families, with public reports: Qwen3-Coder (QwenLM/qwen-code#176), Llama (ggml-org/llama.cpp#16932), GLM
(NousResearch/hermes-agent#83023), Claude, MiniMax and DeepSeek's DSML (anomalyco/opencode#24566,
Kuberwastaken/claurst#395, AppsGanin/ai-free-vscode#16, #17), Mistral (lablup/mlxcel#204), Kimi, DeepSeek V3, gpt-oss.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from zoea.llm.messages.argument_repair import repair
from zoea.model.request import AnswerCall

Schemas = Mapping[str, Mapping[str, Any]]

MARKS = re.compile(
    r"<function=|<invoke name=|<tool_call>|<function_calls>|\[TOOL_CALLS\]|<\|tool_call|<tool▁call"
    r"|<\|(?:start\|>assistant<\|)?channel\|>\w* ?to="
)
"""Where a call in markup may begin, after `plain`."""
LONGEST_TAGGED = 10_000
"""Characters of a call in tags of its own names; each of them is looked for to the end."""
_PREFIX = re.compile(r"<(/?)(?:antml:|minimax:|seed:|[｜|]+DSML[｜|]+ ?)")
_BARS = re.compile(r"[｜|](tool▁[a-z▁]+)[｜|]")
_TAGS = re.compile(
    r"(?:\s|[,;]|</?(?:tool_calls?|function_calls?|calls|tools)>|\[/?TOOL_CALLS\]"
    r"|<\|/?tool_calls?(?:_section)?(?:_(?:begin|end|start))?\|>(?!functions)|</?tool▁calls▁(?:begin|end)>"
    r"|<\|(?:end|call)\|>)*"
)
_NAME = r"([\w.\-/:]+?)"
_END = r"(?=<function=|<invoke name=|</?tool_call>|</function_calls>|\Z)"
_FUNCTION = re.compile(rf"<function={_NAME}>\s*(.*?)\s*(?:</function>|{_END})", re.DOTALL)
_INVOKE = re.compile(rf"<invoke name=\"{_NAME}\"\s*>\s*(.*?)\s*(?:</invoke>|{_END})", re.DOTALL)
_ARGUMENT = re.compile(
    r"<parameter(?:=([^>\s]+)| name=\"([^\"]+)\")(?:\s+string=\"(true|false)\")?\s*>"
    r"(.*?)(?:</parameter>|(?=<parameter[= ])|\Z)",
    re.DOTALL,
)
_KEYED = re.compile(rf"{_NAME}\s*(?=<arg_key>|</?tool_call>|\Z)")
_PAIR = re.compile(r"<arg_key>\s*([\w.\-]+)\s*</arg_key>\s*<arg_value>(.*?)</arg_value>\s*", re.DOTALL)
_END_OF_KEYED = re.compile(r"</?tool_call>|\Z")
_TAGGED = re.compile(r"<([\w.\-]+)>\s*(.*?)\s*(?:</\1>|(?=</?tool_call>|\Z))", re.DOTALL)
_CHILD = re.compile(r"<([\w.\-]+)>(.*?)</\1>", re.DOTALL)
_BEFORE_JSON = (
    re.compile(rf"<\|tool_call_begin\|>\s*(?:functions\.)?{_NAME}(?::\d+)?\s*<\|tool_call_argument_begin\|>\s*"),
    re.compile(rf"<tool▁call▁begin>(?:function<tool▁sep>)?{_NAME}\s*(?:<tool▁sep>)?\s*(?:json\s*)?(?=\{{)"),
    re.compile(
        rf"(?:<\|start\|>assistant)?<\|channel\|>\w* ?to=(?:functions\.)?{_NAME}\s*(?:<\|channel\|>\w+)?\s*"
        r"(?:<\|constrain\|>\w*)?\s*<\|message\|>\s*"
    ),
)
_BARE_NAME = re.compile(rf"{_NAME}\s*(?:\[CALL_ID\]\w+)?(?:\[ARGS\])?\s*(?=\{{)")
_AFTER_JSON = re.compile(r"\s*(?:```)?\s*(?:<\|tool_call_end\|>|<tool▁call▁end>|<\|call\|>|</function>)?")


def plain(text: str) -> str:
    """Return the text with the tags of all families in one form: without namespaces and DeepSeek's wide bars."""
    return _BARS.sub(r"\1", _PREFIX.sub(r"<\1", text))


def read_markup(text: str, schemas: Schemas) -> tuple[AnswerCall, ...] | None:
    """Return the calls that a text in the form of `plain` consists of; None if it holds anything else."""
    calls: list[AnswerCall] = []
    place = _skip(text, 0)
    while place < len(text):
        found = next((one for read in _READERS if (one := read(text, place, schemas)) is not None), None)
        if found is None:
            return None
        name, arguments, place = found
        mended, broken = repair(arguments)
        if name not in schemas or broken:
            return None
        calls.append(AnswerCall(name, mended))
        place = _skip(text, place)
    return tuple(calls) or None


_Found = tuple[str, str, int]
"""The name of a call, its arguments as JSON, and the place after it."""


def _skip(text: str, place: int) -> int:
    match = _TAGS.match(text, place)
    return place if match is None else match.end()


def _read_block(text: str, place: int, schemas: Schemas) -> _Found | None:
    """Read `<function=NAME>` or `<invoke name="NAME">` with parameters in tags, or with one JSON object."""
    match = _FUNCTION.match(text, place) or _INVOKE.match(text, place)
    if match is None:
        return None
    name, body = match.group(1), match.group(2)
    if body.startswith("{"):
        return name, body, match.end()
    if _ARGUMENT.sub("", body).strip():
        return None
    values = {
        (one.group(1) or one.group(2)): _value(
            one.group(4), schemas.get(name, {}), one.group(1) or one.group(2), one.group(3)
        )
        for one in _ARGUMENT.finditer(body)
    }
    if set(values) == {"arguments"} and isinstance(values["arguments"], dict):
        values = values["arguments"]
    return name, json.dumps(values, ensure_ascii=False), match.end()


def _read_keyed(text: str, place: int, schemas: Schemas) -> _Found | None:
    """Read GLM's name with pairs of keys and values."""
    match = _KEYED.match(text, place)
    if match is None or match.group(1) not in schemas:
        return None
    values, place = dict[str, Any](), match.end()
    while (pair := _PAIR.match(text, place)) is not None:
        values[pair.group(1)] = _value(pair.group(2), schemas[match.group(1)], pair.group(1))
        place = pair.end()
    if _END_OF_KEYED.match(text, place) is None:
        return None
    return match.group(1), json.dumps(values, ensure_ascii=False), place


def _read_tagged(text: str, place: int, schemas: Schemas) -> _Found | None:
    """Read a tag with the tool's name and one with each argument's in it."""
    match = _TAGGED.match(text, place, place + LONGEST_TAGGED)
    if match is None or match.group(1) not in schemas or _CHILD.sub("", match.group(2)).strip():
        return None
    schema = schemas[match.group(1)]
    values = {key: _value(value, schema, key) for key, value in _CHILD.findall(match.group(2))}
    return match.group(1), json.dumps(values, ensure_ascii=False), match.end()


def _read_before_json(text: str, place: int, schemas: Schemas) -> _Found | None:
    """Read a name in special tokens, or a bare one behind Mistral's token, and the object after it."""
    match = next((one for pattern in _BEFORE_JSON if (one := pattern.match(text, place)) is not None), None)
    if match is None and "[TOOL_CALLS]" in text[:place]:
        match = _BARE_NAME.match(text, place)
    if match is None:
        return None
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(text, match.end())
    except (ValueError, RecursionError):
        return None
    after = _AFTER_JSON.match(text, end)
    written = json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else "[]"
    return match.group(1), written, end if after is None else after.end()


_READERS: tuple[Callable[[str, int, Schemas], _Found | None], ...] = (
    _read_block,
    _read_before_json,
    _read_tagged,
    _read_keyed,
)


def _value(written: str, schema: Mapping[str, Any], key: str, is_text: str | None = None) -> Any:
    """Return the value of an argument, which markup gives no type: that of the tool's schema, else a text."""
    text = written.strip("\n") if written.strip() else ""
    properties = schema.get("properties")
    described = properties.get(key) if isinstance(properties, Mapping) else None
    kinds = described.get("type") if isinstance(described, Mapping) else None
    kinds = [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else []
    if is_text == "true" or (is_text is None and "string" in kinds):
        return text
    try:
        value = json.loads(text.strip().lower() if text.strip() in ("True", "False", "None") else text)
    except (ValueError, RecursionError):
        return text
    is_typed = is_text == "false" or bool(kinds) or isinstance(value, dict | list)
    return value if is_typed else text
